//! Lowers the tree to the model: what the directives of an nginx.conf mean. `modules` has a file for each nginx module.

mod charsets;
mod facts_of_places;
pub mod invocation;
pub mod level;
mod listen;
pub mod locations;
pub mod log_files;
mod logs;
pub mod lowering;
pub mod reached;
pub mod syslog;
pub mod text;
pub mod values;

use std::collections::HashSet;

use sluice_diag::{Diagnostic, Origins, Report};
use sluice_model::http::AutoHttps;
use sluice_model::nginx::{Nginx, VirtualServer};
use sluice_model::tls::{CertificateFiles, ConnectionPolicy};
use sluice_model::{Config, Handler, HttpApp, Route, Server};

use crate::fragment::parse_whole;
use crate::modules::{
    acme, cache, charset, core, health_checks, http_core, http2, map, rewrite, ssi, ssl, upstream,
};
use crate::parse::parse_with;
use crate::registry::Context;
use crate::tree::Directive;
use crate::{Loader, Parsed, check};
use facts_of_places::FactsOfPlaces;
pub use invocation::Invocation;
use level::Level;
use listen::{Address, Addresses};
use lowering::Lowering;
use text::Defined;

/// What [`adapt`] made of a text.
#[derive(Clone, Debug)]
pub struct Adapted {
    /// The model; there is none when the report holds an error.
    pub config: Option<Config>,
    /// The mistakes found, and the texts they point into.
    pub report: Report,
    /// Where the routes of the model were written in those texts.
    pub origins: Origins,
}

/// Reads an nginx.conf and lowers it. What it includes comes from `loader`.
pub fn adapt(name: &str, text: &str, loader: &dyn Loader) -> Adapted {
    adapt_as(name, text, &Invocation::default(), loader)
}

/// As [`adapt`], for a file that is run by nginx's command line.
pub fn adapt_as(name: &str, text: &str, invocation: &Invocation, loader: &dyn Loader) -> Adapted {
    let Parsed {
        mut directives,
        mut report,
        continued,
    } = match invocation.is_command_line() {
        // Programs that run nginx's command line expect it to refuse what nginx refuses.
        true => parse_with(name, text, &invocation.globals, loader),
        false => parse_whole(name, text, loader),
    };
    check::check(&mut directives, Context::Main, &mut report);
    let folder = name.rfind('/').map_or("", |slash| &name[..slash]);
    let mut defined = Defined::default();
    rewrite::defined(&directives, &mut defined);
    let mut cx = Lowering::new(&directives, defined, folder, invocation, &mut report);
    let config = cx.main(&directives);
    let origins = cx.origins;
    for directive in &continued {
        directive.explain(&mut report);
    }
    Adapted {
        config: Some(config).filter(|_| !report.has_errors()),
        report,
        origins,
    }
}

/// A `server` block.
struct Site {
    lowered: VirtualServer,
    certificates: Vec<CertificateFiles>,
    policy: Option<ConnectionPolicy>,
    /// What the connections of an address have whose default server it is.
    connections: Server,
    is_http2: bool,
}

impl Lowering<'_> {
    fn main(&mut self, directives: &[Directive]) -> Config {
        let mut config = Config::default();
        let main = Level::outermost(directives);
        if main.own("events").next().is_none() {
            self.report.push(
                Diagnostic::error("missing-events", "there is no `events` block")
                    .note("nginx refuses a file without one")
                    .help("add `events {}`"),
            );
        }
        self.process_log(&main);
        for http in main.own("http") {
            let level = main.within(http.body());
            self.http(&level, &mut config);
        }
        core::lower(self, &main, &mut config);
        config.logging = self.logging();
        config
    }

    fn http(&mut self, level: &Level<'_>, config: &mut Config) {
        // nginx reads formats where they stand, also those that no log has.
        for format in level.own("log_format") {
            for word in &format.args[1..] {
                text::check_names(word, &self.defined, self.report);
            }
        }
        self.facts_of_places = FactsOfPlaces::of(level.directives());
        self.tables = map::lower(self, level);
        charset::lower_maps(self, level);
        self.stores = cache::stores(self, level);
        self.response_tests = health_checks::all_tests(self, level);
        let mut addresses = Addresses::default();
        let mut sites = Vec::new();
        for directive in level.own("server") {
            let inner = level.within(directive.body());
            addresses.add(self, sites.len(), directive, &inner);
            let site = self.site(&inner, sites.len());
            sites.push(site);
        }
        self.warn_of_shadowed_names(level, &addresses, &sites);
        self.check_groups();
        if self.keeps_offers {
            let policies = sites.iter_mut().filter_map(|site| site.policy.as_mut());
            policies.for_each(|policy| policy.keep_offers = true);
        }
        let mut http = HttpApp::default();
        for (number, together) in addresses.together().iter().enumerate() {
            let server = self.server(together, &sites);
            http.servers.insert(format!("srv{number}"), server);
        }
        let certificates = sites.into_iter().flat_map(|site| site.certificates);
        let load_files: Vec<CertificateFiles> = certificates.collect();
        if !load_files.is_empty() {
            let tls = config.apps.tls.get_or_insert_default();
            tls.certificates.load_files = load_files;
        }
        let together = addresses.together();
        let listened = together.iter().flat_map(|address| {
            let listen = address.listen.iter();
            listen.map(|one| (one.as_str(), address.is_ssl))
        });
        acme::lower(self, level, acme::ports(listened), config);
        config.apps.http = (!http.servers.is_empty()).then_some(http);
    }

    /// Lowers all groups, as those that nobody asks may hold mistakes as well.
    fn check_groups(&mut self) {
        let groups: Vec<&Directive> = self.groups.values().copied().collect();
        for group in groups {
            upstream::lower(self, group);
        }
    }

    fn site(&mut self, level: &Level<'_>, number: usize) -> Site {
        let mut names: Vec<String> = Vec::new();
        for word in level.own("server_name").flat_map(|line| &line.args) {
            let lower = match word.text.strip_prefix('~') {
                Some(pattern) => format!("~{}", self.pattern(pattern, word)),
                None => word.text.to_ascii_lowercase(),
            };
            if lower.contains('$') && !lower.starts_with('~') && lower != "$hostname"
                || lower.contains('/') && !lower.starts_with('~')
            {
                self.report.push(
                    http_core::bad_name(&word.text)
                        .at(word.span, "not understood")
                        .imported(word.import),
                );
            } else if !names.contains(&lower) {
                names.push(lower);
            }
        }
        let first = names.first().cloned().unwrap_or_default();
        let tag = format!("server{number}");
        let tls = ssl::lower(self, level, &tag);
        let (certificates, policy) = match tls {
            Some((certificates, policy)) => (certificates, Some(policy)),
            None => (Vec::new(), None),
        };
        let mut connections = Server::default();
        http_core::connections(level, &mut connections);
        connections.http3 = http2::http3(self, level);
        let mut lowered = self.virtual_server(level, &first);
        lowered.names = names;
        lowered.clients = ssl::clients(self, level);
        Site {
            lowered,
            certificates,
            policy,
            connections,
            is_http2: http2::is_on(level),
        }
    }

    /// The server of the model for some addresses that have the same virtual servers.
    fn server(&mut self, address: &Address, sites: &[Site]) -> Server {
        let default = &sites[address.default];
        let others = address
            .sites
            .iter()
            .filter(|index| **index != address.default);
        let order: Vec<&Site> = std::iter::once(default)
            .chain(others.map(|index| &sites[*index]))
            .collect();
        let (variables, families) = match self.has_pages {
            true => ssi::variables(),
            false => Default::default(),
        };
        let nginx = Nginx {
            types: self.types.clone(),
            tables: self.all_tables(),
            charsets: self.charsets.names.iter().cloned().collect(),
            charset_maps: self.charsets.maps.clone(),
            variables,
            families,
            servers: order.iter().map(|site| site.lowered.clone()).collect(),
            secure: address.is_ssl,
            client_limits: self.client_limits.clone(),
        };
        let mut connections = default.connections.clone();
        address.socket.probe(&mut connections);
        let mut protocols = vec![if address.is_quic { "h3" } else { "h1" }.to_owned()];
        // A handshake names its server, and so what is spoken; other connections have yet to name one.
        let is_any = order.iter().any(|site| site.is_http2 && address.is_ssl);
        if !address.is_quic && (address.is_http2 || default.is_http2 || is_any) {
            protocols.push("h2".to_owned());
            if !address.is_ssl {
                protocols.push("h2c".to_owned());
            }
        }
        Server {
            listen: address.listen.clone(),
            routes: vec![Route {
                handle: vec![Handler::Nginx(Box::new(nginx))],
                ..Route::default()
            }],
            tls_connection_policies: match address.is_ssl {
                true => self.policies(address, &order),
                false => Vec::new(),
            },
            // A request for a different server than in the TLS handshake is rejected only if that server requires
            // client certificates.
            strict_sni_host: address.is_ssl.then_some(false),
            automatic_https: Some(AutoHttps {
                disable: true,
                ..AutoHttps::default()
            }),
            protocols,
            listener_wrappers: address.wrappers(),
            logs: self.server_logs(),
            ..connections
        }
    }

    /// A policy for the names of each server, and that of the default server for all other names.
    fn policies(&mut self, address: &Address, order: &[&Site]) -> Vec<ConnectionPolicy> {
        let mut policies = Vec::new();
        for site in order {
            let names = site.lowered.names.iter().filter(|name| !name.is_empty());
            let names: Vec<String> = names.cloned().collect();
            if let Some(policy) = site.policy.as_ref().filter(|_| !names.is_empty()) {
                let mut policy = policy.clone();
                policy.r#match.server_names = names;
                policy.alpn = alpn(address, order, site);
                policies.push(policy);
            }
        }
        let usual = order.first();
        match usual.and_then(|site| Some((site, site.policy.clone()?))) {
            Some((site, policy)) => policies.push(ConnectionPolicy {
                alpn: alpn(address, order, site),
                ..policy
            }),
            None => {
                self.report.push(
                    Diagnostic::error("missing-certificate", "`ssl` without a certificate")
                        .at(
                            address.span,
                            "the default server of this address has no `ssl_certificate`",
                        )
                        .help("add `ssl_certificate` and `ssl_certificate_key`"),
                );
            }
        }
        policies
    }

    /// Two servers of one name at one address: the second never gets a request.
    fn warn_of_shadowed_names(&mut self, level: &Level<'_>, addresses: &Addresses, sites: &[Site]) {
        let directives: Vec<&Directive> = level.own("server").collect();
        let unnamed = [String::new()];
        for (address, indexes) in addresses.each() {
            let mut seen: HashSet<&str> = HashSet::new();
            for index in indexes {
                let site: &Site = &sites[*index];
                let names = match site.lowered.names.as_slice() {
                    [] => &unnamed[..],
                    names => names,
                };
                for name in names {
                    if !seen.insert(name) {
                        let place = &directives[*index].name;
                        let title = format!("conflicting server name `{name}` on {address}");
                        self.report.push(
                            Diagnostic::warning("conflicting-name", title)
                                .at(place.span, "an earlier server has this name there")
                                .imported(place.import),
                        );
                    }
                }
            }
        }
    }
}

/// What handshakes for a server offer; nothing where that is what all servers of the address speak.
fn alpn(address: &Address, order: &[&Site], site: &Site) -> Vec<String> {
    let is_any = order.iter().any(|site| site.is_http2);
    match address.is_http2 || site.is_http2 || !is_any {
        true => Vec::new(),
        false => vec!["http/1.1".to_owned()],
    }
}
