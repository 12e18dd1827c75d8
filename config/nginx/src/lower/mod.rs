//! Lowers the tree to the model: what the directives of an nginx.conf mean. `modules` has a file for each nginx module.

pub mod level;
mod listen;
pub mod locations;
mod logs;
pub mod syslog;
pub mod text;
pub mod values;

use std::collections::{BTreeMap, HashMap, HashSet};

use sluice_diag::{Diagnostic, Origin, OriginId, Origins, Report, Span};
use sluice_model::cache::CacheStore;
use sluice_model::http::{AutoHttps, RouteOrigin};
use sluice_model::nginx::{
    ClientLimits, MediaTypes, Nginx, TableRow, VariableTable, VirtualServer,
};
use sluice_model::tls::{CertificateFiles, ConnectionPolicy};
use sluice_model::{Config, Handler, HttpApp, Route, Server};
use sluice_route::pcre::{Case, Pattern, Wrong};

use crate::modules::charset::Charsets;
use crate::modules::upstream::{self, Group};
use crate::modules::{acme, cache, charset, core, http_core, http2, map, rewrite, ssi, ssl};
use crate::parse::parse_with;
use crate::registry::Context;
use crate::tree::{Directive, Word};
use crate::{Loader, Parsed, check};
use level::Level;
use listen::{Address, Addresses};
use text::{Defined, Facts};

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

/// What nginx's command line adds to a file. Nothing of it holds where a file is run in another way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// Directives of the main context, read before the file (`-g`).
    pub globals: String,
    /// The folder that paths are relative to, those of includes and certificates excepted, which begin beside the file
    /// (`-p`). `None` is the folder of the file.
    pub prefix: Option<String>,
    /// The error log if no directive sets one (`-e`); nothing is added when empty.
    pub error_log: String,
    /// Where requests are logged if no directive says so; nowhere where it is empty.
    pub access_log: String,
    /// The PID file if no directive sets one; none when empty.
    pub pid_file: String,
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
    } = parse_with(name, text, &invocation.globals, loader);
    check::check(&mut directives, Context::Main, &mut report);
    let folder = name.rfind('/').map_or("", |slash| &name[..slash]);
    let mut defined = Defined::default();
    rewrite::defined(&directives, &mut defined);
    let mut groups = BTreeMap::new();
    for http in directives.iter().filter(|d| d.name() == "http") {
        let found = http.body().iter().filter(|d| d.name() == "upstream");
        groups.extend(found.filter_map(|group| Some((group.arg(0)?, group))));
    }
    let http = directives.iter().find(|d| d.name() == "http");
    let mut cx = Lowering {
        report: &mut report,
        folder,
        invocation,
        defined,
        groups,
        http: http.map_or(&[], Directive::body),
        types: Vec::new(),
        access_logs: logs::AccessLogs::default(),
        groups_used: HashSet::new(),
        names_log_files: false,
        client_limits: Vec::new(),
        error_logs: Vec::new(),
        tables: Vec::new(),
        scripts: Vec::new(),
        stores: cache::Stores::new(),
        derived: Vec::new(),
        derived_known: HashMap::new(),
        charsets: Charsets::default(),
        has_pages: false,
        keeps_offers: false,
        origins: Origins::default(),
    };
    cx.charsets.note(&directives);
    let config = cx.main(&directives);
    let origins = cx.origins;
    Adapted {
        config: Some(config).filter(|_| !report.has_errors()),
        report,
        origins,
    }
}

/// The state of one lowering.
pub struct Lowering<'r> {
    /// What was noticed.
    pub report: &'r mut Report,
    /// The folder that paths are relative to.
    folder: &'r str,
    /// What the command line adds.
    pub invocation: &'r Invocation,
    defined: Defined,
    groups: BTreeMap<&'r str, &'r Directive>,
    /// The directives of `http`.
    http: &'r [Directive],
    types: Vec<MediaTypes>,
    /// The files of access logs; the logger of each has its number.
    access_logs: logs::AccessLogs,
    /// The names of the groups of upstreams that somebody asks.
    groups_used: HashSet<String>,
    /// Whether there are files of access logs that each line names anew.
    pub names_log_files: bool,
    /// What holds for clients in different places.
    client_limits: Vec<ClientLimits>,
    /// What `error_log` says in different places; first that of the process.
    error_logs: Vec<logs::ErrorLogs>,
    tables: Vec<VariableTable>,
    /// The ways in which paths of scripts are split.
    scripts: Vec<Script>,
    /// The cache directories.
    stores: cache::Stores,
    /// Tables that follow from places, and whether a variable asks for them.
    derived: Vec<(VariableTable, bool)>,
    /// Where each of them is.
    derived_known: HashMap<String, usize>,
    /// The encodings of texts.
    pub charsets: Charsets,
    /// Whether any place has pages with commands.
    pub has_pages: bool,
    /// Whether a variable asks for what clients offer in their handshakes.
    keeps_offers: bool,
    /// Where the parts of the model were written.
    origins: Origins,
}

/// A way in which paths of scripts are split: `fastcgi_index` and `fastcgi_split_path_info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// What is added to a path that ends with a slash.
    pub index: String,
    /// The pattern with two groups, if there is any.
    pub split: String,
    /// Whether a variable asks for it.
    pub is_used: bool,
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

impl<'r> Lowering<'r> {
    /// Notes that a part of the model was written as this directive.
    pub fn origin(&mut self, directive: &Directive) -> RouteOrigin {
        RouteOrigin(vec![self.origin_id(directive)])
    }

    /// As [`Self::origin`], by its number.
    pub fn origin_id(&mut self, directive: &Directive) -> OriginId {
        self.origins.add(Origin {
            name: directive.name().to_owned(),
            place: directive.place(),
            conditions: Vec::new(),
        })
    }

    /// A text with its variables as placeholders.
    pub fn text(&mut self, word: &Word, facts: &Facts) -> String {
        let text = text::lower(word, facts, &self.defined, self.report);
        self.note_use(&text, facts);
        text
    }

    /// Notes what a text asks for.
    pub fn note_use(&mut self, text: &str, facts: &Facts) {
        if let Some(number) = facts.script
            && text.contains("{nginx.table.fastcgi_")
        {
            self.scripts[number].is_used = true;
        }
        self.note_tables(text);
    }

    /// Notes which tables a text asks for: the others are left out.
    fn note_tables(&mut self, text: &str) {
        let of_offer = [
            "{nginx.tls.ciphers}",
            "{nginx.tls.curves}",
            "{nginx.tls.id}",
        ];
        self.keeps_offers |= of_offer.iter().any(|name| text.contains(name));
        for (at, start) in text.match_indices("{nginx.table.derived:") {
            let digits = text[at + start.len()..].split('}').next();
            if let Some(number) = digits.and_then(|digits| digits.parse::<usize>().ok())
                && let Some((_, is_used)) = self.derived.get_mut(number)
            {
                *is_used = true;
            }
        }
        for (at, start) in text.match_indices("{nginx.table.connections:") {
            let what = text[at + start.len()..].split('}').next();
            let what = what.unwrap_or_default().to_owned();
            let number = self.derived_number(VariableTable {
                variable: format!("connections:{what}"),
                kind: "connections".to_owned(),
                rows: vec![TableRow {
                    key: what,
                    value: String::new(),
                }],
                ..VariableTable::default()
            });
            self.derived[number].1 = true;
        }
    }

    /// The number of a table that follows from a place. It is named by it unless it has a name.
    pub fn derived_number(&mut self, table: VariableTable) -> usize {
        let key = format!("{table:?}");
        if let Some(number) = self.derived_known.get(&key) {
            return *number;
        }
        let number = self.derived.len();
        let variable = match table.variable.as_str() {
            "" => text::derived_table(number),
            named => named.to_owned(),
        };
        self.derived
            .push((VariableTable { variable, ..table }, false));
        self.derived_known.insert(key, number);
        number
    }

    /// Checks a pattern.
    pub fn pattern(&mut self, pattern: &str, word: &Word) -> String {
        if let Err(error) = Pattern::new(pattern, Case::Kept) {
            let span = self.inside(word, pattern, error.at);
            let bare = pattern.strip_prefix("(?i)").unwrap_or(pattern);
            let (title, help) = match &error.what {
                Wrong::Malformed(_) => (
                    format!("`{bare}` is not a valid pattern"),
                    "patterns are those of PCRE; quote one that has `{`, `}`, `;` or spaces in it",
                ),
                Wrong::Unsupported(what) => (
                    format!("`{bare}`: {what} is not supported in patterns"),
                    "look arounds, references to groups, atomic groups and possessive repetitions are taken",
                ),
            };
            self.report.push(
                Diagnostic::error("invalid-pattern", title)
                    .at(span, error.to_string())
                    .imported(word.import)
                    .help(help),
            );
        }
        pattern.to_owned()
    }

    /// Where the byte `at` of `text` stands, which is the end of a word or all of it; the word where its escapes hide that.
    fn inside(&self, word: &Word, text: &str, at: usize) -> Span {
        let bare = text.strip_prefix("(?i)").unwrap_or(text);
        let added = text.len() - bare.len();
        let written = self.report.sources.text(word.span);
        let found = written.rfind(bare).and_then(|start| {
            let before = start + at.checked_sub(added)?;
            let rest = written.get(before..)?;
            Some((
                before,
                rest.chars()
                    .next()
                    .map_or(0, |letter| letter.len_utf8() as u32),
            ))
        });
        match found {
            Some((before, width)) => {
                let start = word.span.start + u32::try_from(before).unwrap_or_default();
                Span::new(word.span.source, start, start + width)
            }
            None => word.span,
        }
    }

    /// A path of the configuration: relative ones begin in the folder of the main file.
    pub fn path(&self, path: &str) -> String {
        match path.starts_with(['/', '$']) || self.folder.is_empty() {
            true => path.to_owned(),
            false => format!("{}/{path}", self.folder),
        }
    }

    /// The folder of the file, where paths of certificates begin; empty for the current one.
    pub fn folder(&self) -> &'r str {
        self.folder
    }

    /// A path of files that are served or written: relative ones begin in the prefix of the command line.
    pub fn prefixed(&self, path: &str) -> String {
        match &self.invocation.prefix {
            Some(prefix) if !path.starts_with(['/', '$']) => {
                format!("{}/{path}", prefix.trim_end_matches('/'))
            }
            _ => self.path(path),
        }
    }

    /// Refuses a word.
    pub fn invalid<T>(&mut self, word: &Word, of: &str, wanted: &str) -> Option<T> {
        let title = format!("`{}` is not a valid value for `{of}`", word.text);
        self.report.push(
            Diagnostic::error("invalid-value", title)
                .at(word.span, "not understood")
                .imported(word.import)
                .help(format!("it takes {wanted}")),
        );
        None
    }

    /// The upstreams that an address names: those of the group of this name, or the one at this address.
    pub fn group(&mut self, name: &str, port: u16) -> Group {
        match self.groups.get(name).copied() {
            Some(group) => upstream::lower(self, group),
            None => Group::at(name, port),
        }
    }

    /// What is said directly in `http`.
    pub fn of_http(&self, name: &str) -> Option<&'r Directive> {
        self.http.iter().find(|line| line.name() == name)
    }

    /// Whether an address of the kinds without a usual port has one, or names a group.
    pub fn has_port(&mut self, name: &str, word: &Word, of: &str) -> Option<()> {
        let after_brackets = name.rfind(']').map_or(name, |at| &name[at..]);
        if after_brackets.contains(':') || self.groups.contains_key(name) {
            return Some(());
        }
        self.invalid(
            word,
            of,
            "`host:port`, `unix:/path` or the name of an `upstream`",
        )
    }

    /// Whether anything in the configuration sets this variable.
    pub fn is_set(&self, name: &str) -> bool {
        self.defined.has(name)
    }

    /// The names of all groups of upstreams.
    pub fn group_names(&self) -> Vec<String> {
        self.groups.keys().map(|name| (*name).to_owned()).collect()
    }

    /// The number of a way in which paths of scripts are split.
    pub fn script_number(&mut self, script: Script) -> usize {
        let is_same = |known: &Script| known.index == script.index && known.split == script.split;
        let known = self.scripts.iter().position(is_same);
        known.unwrap_or_else(|| {
            self.scripts.push(script);
            self.scripts.len() - 1
        })
    }

    /// The cache directory of a module's zone.
    pub fn store(&self, module: &'static str, zone: &str) -> Option<CacheStore> {
        self.stores.get(&(module, zone.to_owned())).cloned()
    }

    /// All variables that are looked up.
    fn all_tables(&self) -> Vec<VariableTable> {
        let mut tables = self.tables.clone();
        let derived = self.derived.iter().filter(|(_, is_used)| *is_used);
        tables.extend(derived.map(|(table, _)| table.clone()));
        for (number, script) in self.scripts.iter().enumerate() {
            let table = |variable: String, kind: &str| VariableTable {
                variable,
                source: "{http.request.uri.path}".to_owned(),
                kind: kind.to_owned(),
                rows: vec![TableRow {
                    key: script.split.clone(),
                    value: text::literal(&script.index),
                }],
                ..VariableTable::default()
            };
            if script.is_used {
                tables.push(table(text::script_table(number), "script"));
                tables.push(table(text::info_table(number), "path_info"));
            }
        }
        tables
    }

    /// The number of these media types.
    pub fn types_number(&mut self, types: MediaTypes) -> u32 {
        let known = self.types.iter().position(|known| *known == types);
        let index = known.unwrap_or_else(|| {
            self.types.push(types);
            self.types.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// The number of what holds for clients; 0 for what nginx has by default.
    pub fn client_limits_number(&mut self, limits: ClientLimits) -> u32 {
        if limits == ClientLimits::default() {
            return 0;
        }
        let known = self.client_limits.iter().position(|known| *known == limits);
        let index = known.unwrap_or_else(|| {
            self.client_limits.push(limits);
            self.client_limits.len() - 1
        });
        u32::try_from(index + 1).unwrap_or(u32::MAX)
    }

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
        self.tables = map::lower(self, level);
        charset::lower_maps(self, level);
        self.stores = cache::stores(self, level);
        let mut addresses = Addresses::default();
        let mut sites = Vec::new();
        for directive in level.own("server") {
            let inner = level.within(directive.body());
            addresses.add(self, sites.len(), directive, &inner);
            let site = self.site(&inner, sites.len());
            sites.push(site);
        }
        self.warn_of_shadowed_names(level, &addresses, &sites);
        self.unused_groups();
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

    /// Groups that nobody asks may hold mistakes as well.
    fn unused_groups(&mut self) {
        let groups: Vec<&Directive> = self
            .groups
            .iter()
            .filter(|(name, _)| !self.groups_used.contains(**name))
            .map(|(_, group)| *group)
            .collect();
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
        let mut protocols = vec!["h1".to_owned()];
        // A handshake names its server, and so what is spoken; other connections have yet to name one.
        let is_any = order.iter().any(|site| site.is_http2 && address.is_ssl);
        if address.is_http2 || default.is_http2 || is_any {
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
