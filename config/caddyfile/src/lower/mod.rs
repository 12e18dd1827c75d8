//! Lowers the tree to the model: what the words of a Caddyfile mean.
//!
//! The behaviour is that of `caddy adapt`: the JSON of the model is the JSON that Caddy would run. `server/serve/build`
//! checks whether a named file exists, a pattern compiles, or this server supports a module.

mod address;
mod args;
mod client_auth;
pub(crate) mod definition;
pub(crate) mod directives;
mod issuers;
mod listen;
mod log_formats;
mod logs;
pub(crate) mod matchers;
mod no_effect;
pub(crate) mod options;
mod origins;
mod outcome;
mod pki;
mod routes;
mod scope;
mod servers;
mod shorthand;
mod size;
mod tls_app;
mod tls_dns;
mod tls_policies;
mod trust_pool;

use std::collections::BTreeMap;

use sluice_diag::{Diagnostic, ImportId, Origins, Report, Span};
use sluice_model::{Config, HttpApp, Route};

use crate::Loader;
use crate::tree::File;

pub(crate) use size::parse_size;

use definition::{NO_OPTIONS, OptionTable};
use options::GlobalOptions;
use routes::DirectiveOrder;
use scope::Scopes;

/// What [`adapt`](crate::adapt()) made of a text.
#[derive(Clone, Debug)]
pub struct Adapted {
    /// The model; there is none when the report holds an error.
    pub config: Option<Config>,
    /// The mistakes found, and the texts they point into.
    pub report: Report,
    /// Where the routes of the model were written in those texts.
    pub origins: Origins,
    /// The expressions of matchers, for those who can evaluate them to look for mistakes.
    pub expressions: Vec<WrittenExpression>,
}

/// An expression and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenExpression {
    /// Its text, as the model has it.
    pub text: String,
    /// Its words, quotes included.
    pub span: Span,
    /// The innermost import that brought it in.
    pub import: Option<ImportId>,
}

/// Lowers a parsed file. There is no model when the report holds an error.
pub(crate) fn lower(file: &File, mut report: Report, loader: &dyn Loader) -> Adapted {
    let mut lowering = Lowering::new(&mut report, loader);
    let config = lowering.file(file);
    let origins = std::mem::take(&mut lowering.origins);
    let expressions = std::mem::take(&mut lowering.expressions);
    let config = config.filter(|_| !report.has_errors());
    if config.is_some() {
        no_effect::warn(file, &mut report);
    }
    Adapted {
        config,
        report,
        origins,
        expressions,
    }
}

/// A named route.
#[derive(Clone, Debug)]
struct Named {
    route: Route,
    /// The named routes that it invokes.
    invoked: Vec<String>,
}

/// The state of one lowering: what was reported, what is in force, and what is numbered.
struct Lowering<'r> {
    report: &'r mut Report,
    /// Reads the few files that become a part of the model.
    loader: &'r dyn Loader,
    options: GlobalOptions,
    order: DirectiveOrder,
    /// Named matchers in force, innermost block last.
    scopes: Scopes,
    /// Named routes that exist; the route is absent until it is lowered.
    named_routes: BTreeMap<String, Option<Named>>,
    /// The number of the next route group.
    next_group: u32,
    /// The number of the next access log without a name.
    next_log: u32,
    /// The directive or option whose lines are being read.
    place: &'static dyn OptionTable,
    /// The name of the line that is being read; messages about its words give it.
    subject: String,
    /// Named routes that the site or the named route being lowered invokes.
    invoked: Vec<String>,
    /// The files that the site being lowered was written in.
    site_files: Vec<String>,
    /// Where routes were written.
    origins: Origins,
    /// The expressions found so far.
    expressions: Vec<WrittenExpression>,
}

impl<'r> Lowering<'r> {
    fn new(report: &'r mut Report, loader: &'r dyn Loader) -> Self {
        Self {
            report,
            loader,
            options: GlobalOptions::default(),
            order: DirectiveOrder::of(directives::IN_ORDER),
            scopes: Scopes::default(),
            named_routes: BTreeMap::new(),
            next_group: 0,
            next_log: 0,
            place: &NO_OPTIONS,
            subject: String::new(),
            invoked: Vec::new(),
            site_files: Vec::new(),
            origins: Origins::default(),
            expressions: Vec::new(),
        }
    }

    /// Reports a diagnostic; the `None` lets callers give up in one expression.
    fn refuse<T>(&mut self, diagnostic: Diagnostic) -> Option<T> {
        self.report.push(diagnostic);
        None
    }

    fn file(&mut self, file: &File) -> Option<Config> {
        if let Some(global) = &file.global {
            self.global_options(&global.body);
        }
        self.declare_named_routes(&file.named_routes);
        self.lower_named_routes(&file.named_routes);
        let sites: Vec<listen::Site> = file
            .sites
            .iter()
            .filter_map(|site| self.site(site))
            .collect();
        let mut pairings = self.pairings(sites);
        self.sort_sites(&mut pairings);
        let (servers, logs) = self.servers(&pairings);

        let http = HttpApp {
            http_port: self.options.http_port.unwrap_or(0),
            https_port: self.options.https_port.unwrap_or(0),
            grace_period: self.options.grace_period,
            shutdown_delay: self.options.shutdown_delay,
            metrics: self.options.metrics.clone(),
            memory_limit: self.options.memory_limit,
            servers,
        };
        let http = self.with_server_options(http);
        let tls = self.tls_app(&pairings);
        let pki = self.pki_app();
        let mut config = Config::default();
        config.apps.http = (!http.servers.is_empty()).then_some(http);
        config.apps.tls = tls;
        config.apps.pki = pki;
        config.apps.cache = self.options.cache.take().map(Box::new);
        config.apps.events = self.options.events.take();
        config.apps.filesystems = self.options.filesystems.take();
        config.admin = self.admin();
        config.storage = self.options.storage.clone();
        config.logging = self.logging(logs);
        Some(config)
    }

    /// The next group name. Caddy draws one for every block, used or not; the numbers are visible.
    fn draw_group(&mut self) -> String {
        let name = format!("group{}", self.next_group);
        self.next_group += 1;
        name
    }
}
