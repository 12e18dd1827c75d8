//! `sluice adapt nginx.conf --to caddyfile`: translates an nginx.conf to a Caddyfile as far as possible. What cannot be
//! expressed becomes a comment in its place, with the original line. `locations` translates locations, `content`
//! content handlers, `python` suggestions for Python applications, `text` texts with variables.

mod content;
mod locations;
mod place;
mod python;
mod text;

use std::collections::BTreeSet;

use sluice_diag::Report;

use crate::Loader;
use crate::lower::level::Level;
use crate::lower::text::has_variables;
use crate::modules::core;
use crate::registry::{self, Context, Verdict};
use crate::tree::Directive;
use place::Site;
use text::{Facts, word};

/// What [`translate`] made of a text.
#[derive(Clone, Debug)]
pub struct Translated {
    /// The Caddyfile; there is none where the nginx.conf is refused.
    pub caddyfile: Option<String>,
    /// What was found, and the texts it points into.
    pub report: Report,
}

/// What a line begins with that says what is missing.
pub const NOT_TRANSLATED: &str = "# not translated";

const HEAD: &str = "\
# Translated from an nginx.conf by `sluice adapt --to caddyfile`. Review each line that begins with \"# not translated\".
# Differences from nginx: error pages are empty, headers are added to error responses too, paths are compared without
# case, directories without an index give 404, media types are those of sluice, and upstreams receive
# X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host.
";

/// Reads an nginx.conf and writes a Caddyfile that says the same. What it includes comes from `loader`.
pub fn translate(name: &str, text: &str, loader: &dyn Loader) -> Translated {
    let report = crate::adapt(name, text, loader).report;
    if report.has_errors() {
        return Translated {
            caddyfile: None,
            report,
        };
    }
    let parsed = crate::fragment::parse_whole(name, text, loader);
    let main = Level::outermost(&parsed.directives);
    let mut writer = Writer {
        report: &parsed.report,
        text: HEAD.to_owned(),
        depth: 0,
        names: 0,
        route: String::new(),
        taken: BTreeSet::new(),
    };
    writer.line("{");
    writer.depth += 1;
    writer.line("auto_https off");
    writer.dashboard(&main);
    writer.depth -= 1;
    writer.line("}");
    for http in main.own("http") {
        let level = main.within(http.body());
        writer.leftovers(level.directives(), Context::Http, HTTP);
        let groups: Vec<&Directive> = level.own("upstream").collect();
        let (maps, others): (Vec<&Directive>, Vec<&Directive>) =
            level.own("map").partition(|map| has_words(map));
        for map in others {
            writer.not_translated(map);
        }
        let servers: Vec<&Directive> = level.own("server").collect();
        for server in &servers {
            let inner = level.within(server.body());
            let maps: Vec<&Directive> = maps
                .iter()
                .copied()
                .filter(|map| is_used(map, &maps, server))
                .collect();
            writer.server(server, &inner, &groups, &servers, &maps);
        }
    }
    // Lines that the formatter does not like are still better than none.
    let written = sluice_caddyfile::format("Caddyfile", &writer.text);
    Translated {
        caddyfile: Some(written.unwrap_or(writer.text)),
        report,
    }
}

/// What of an `http` block is read where it holds.
const HTTP: &[&str] = &["server", "upstream", "map"];

/// What of any block is read where it holds, or has no need of a word: Caddy does it, or each place says it anew.
const HELD: &[&str] = &[
    "access_log",
    "add_header",
    "alias",
    "allow",
    "autoindex",
    "client_max_body_size",
    "default_type",
    "deny",
    "expires",
    "fastcgi_index",
    "fastcgi_intercept_errors",
    "fastcgi_param",
    "fastcgi_pass",
    "fastcgi_hide_header",
    "fastcgi_keep_conn",
    "gzip",
    "gzip_comp_level",
    "gzip_disable",
    "gzip_min_length",
    "gzip_proxied",
    "gzip_types",
    "gzip_vary",
    "index",
    "keepalive_timeout",
    "listen",
    "location",
    "log_format",
    "proxy_connect_timeout",
    "proxy_hide_header",
    "proxy_http_version",
    "proxy_pass",
    "proxy_read_timeout",
    "proxy_redirect",
    "proxy_send_timeout",
    "proxy_set_header",
    "resolver",
    "return",
    "root",
    "server_name",
    "server_tokens",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_protocols",
    "try_files",
    "types",
    "etag",
    "uwsgi_hide_header",
    "uwsgi_modifier1",
    "uwsgi_modifier2",
    "uwsgi_param",
    "uwsgi_pass",
];

/// Writes lines, with tabs by depth.
struct Writer<'r> {
    report: &'r Report,
    text: String,
    depth: usize,
    /// How many matchers have a name so far.
    names: usize,
    /// The named route that holds the locations of the site.
    route: String,
    /// The addresses of sites so far, each with what it is bound to: of two servers with one name nginx takes the first.
    taken: BTreeSet<(String, String)>,
}

impl Writer<'_> {
    fn line(&mut self, line: impl AsRef<str>) {
        if !line.as_ref().is_empty() {
            self.text.extend(std::iter::repeat_n('\t', self.depth));
        }
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    fn open(&mut self, line: impl AsRef<str>) {
        self.line(format!("{} {{", line.as_ref()));
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    /// `dashboard_actions`.
    fn dashboard(&mut self, main: &Level<'_>) {
        let Some(dashboard) = core::dashboard(main) else {
            return;
        };
        let names: Vec<&str> = dashboard
            .actions
            .iter()
            .map(|action| action.name())
            .collect();
        self.open("admin");
        self.open("dashboard");
        self.line(format!("actions {}", names.join(" ")));
        self.close();
        self.close();
    }

    /// A new name for a matcher.
    fn name(&mut self) -> String {
        self.names += 1;
        format!("m{}", self.names)
    }

    /// Says that a directive is missing.
    fn not_translated(&mut self, directive: &Directive) {
        let place = self.report.sources.place(directive.span());
        let place = place.rsplit_once(':').map_or(&*place, |(line, _)| line);
        let words: Vec<String> = std::iter::once(&directive.name)
            .chain(&directive.args)
            .map(|word| word.text.replace(['\n', '\r'], " "))
            .collect();
        let end = if directive.block.is_some() {
            " { … }"
        } else {
            ";"
        };
        self.line(format!(
            "{NOT_TRANSLATED} ({place}): {}{end}",
            words.join(" ")
        ));
    }

    /// Says of each directive of a block that it is missing, but for those that are read elsewhere and those that have
    /// no effect of their own.
    fn leftovers(&mut self, directives: &[Directive], context: Context, elsewhere: &[&str]) {
        for directive in directives {
            let name = directive.name();
            if elsewhere.contains(&name) || HELD.contains(&name) {
                continue;
            }
            let entry = registry::entries(name).find(|entry| entry.may_stand_in(context));
            let verdict = entry.map(registry::Entry::verdict);
            if !matches!(verdict, Some(Verdict::Always(_) | Verdict::Idle(_)))
                && !is_usual(directive)
            {
                self.not_translated(directive);
            }
        }
    }

    fn server(
        &mut self,
        server: &Directive,
        level: &Level<'_>,
        groups: &[&Directive],
        servers: &[&Directive],
        maps: &[&Directive],
    ) {
        self.line("");
        let addresses = self.addresses(server, level, servers);
        if addresses.is_empty() {
            return self.not_translated(server);
        }
        let first = level.own("server_name").next().and_then(|line| line.arg(0));
        let facts = Facts {
            server_name: first.unwrap_or_default().to_owned(),
            root: None,
            tables: maps
                .iter()
                .filter_map(|map| map.arg(1))
                .map(|name| name[1..].to_ascii_lowercase())
                .collect(),
        };
        let site = Site { groups, facts };
        let inherits_index = level
            .find("index")
            .is_some_and(|line| content::goes_round(std::slice::from_ref(line)));
        // One that is served with TLS and without says it once for both.
        let is_both = addresses.iter().any(|a| a.starts_with("http:"))
            && addresses.iter().any(|a| a.starts_with("https:"));
        let goes_round = is_both || inherits_index || content::goes_round(level.directives());
        if goes_round {
            let number = servers
                .iter()
                .position(|other| std::ptr::eq(*other, server));
            self.route = format!("site{}", number.unwrap_or_default());
            self.open(format!("&({})", self.route));
            self.site(level, &site);
            self.close();
            self.line("");
        }
        let (plain, over_tls): (Vec<String>, Vec<String>) = addresses
            .into_iter()
            .partition(|address| address.starts_with("http:"));
        let route = self.route.clone();
        for (addresses, is_tls) in [(plain, false), (over_tls, true)] {
            if addresses.is_empty() {
                continue;
            }
            self.open(addresses.join(", "));
            self.connections(level, is_tls);
            for map in maps {
                self.map(map, &site.facts);
            }
            self.pages(level);
            match goes_round {
                true => self.line(format!("invoke {route}")),
                false => self.site(level, &site),
            }
            self.close();
        }
    }

    /// What a site says of its addresses: hosts, certificates, its log.
    fn connections(&mut self, level: &Level<'_>, is_tls: bool) {
        let hosts = bound_hosts(level);
        if !hosts.is_empty() {
            self.line(format!("bind {hosts}"));
        }
        let files = |name: &str| level.find(name).and_then(|line| line.arg(0));
        let pair = (files("ssl_certificate"), files("ssl_certificate_key"));
        let is_named = |file: &str| has_variables(file) || file.starts_with("data:");
        if [pair.0, pair.1].into_iter().flatten().any(is_named) {
            for name in ["ssl_certificate", "ssl_certificate_key"] {
                let lines = level.nearest(&[name]);
                lines.into_iter().for_each(|line| self.not_translated(line));
            }
        } else if let (Some(certificate), Some(key), true) = (pair.0, pair.1, is_tls) {
            self.line(
                "# Without this line, and `auto_https off` above, a certificate is obtained and renewed by itself.",
            );
            self.line(format!("tls {} {}", word(certificate), word(key)));
        }
        match level.find("access_log").and_then(|line| line.arg(0)) {
            None | Some("off") => {}
            // Caddy's logs go to one file each, and to syslog by another name.
            Some(path) if has_variables(path) || path.starts_with("syslog:") => {
                level
                    .own("access_log")
                    .for_each(|line| self.not_translated(line));
            }
            Some(path) => {
                self.open("log");
                self.line(format!("output file {}", word(path)));
                self.close();
            }
        }
    }

    /// A table of values. Its variable is a placeholder of the same name.
    fn map(&mut self, map: &Directive, facts: &Facts) {
        let (Some(source), Some(name)) = (map.arg(0), map.arg(1)) else {
            return;
        };
        let Some(source) = text::expanded(source, facts, None) else {
            return self.not_translated(map);
        };
        self.open(format!(
            "map {source} {{{}}}",
            name[1..].to_ascii_lowercase()
        ));
        // Texts come before patterns, wherever they stand.
        let (patterns, texts): (Vec<_>, Vec<_>) = map
            .body()
            .iter()
            .partition(|row| row.name().starts_with('~'));
        for row in texts.into_iter().chain(patterns) {
            let value = row.arg(0).unwrap_or_default();
            // Groups have their numbers here as well, but in braces.
            let groups = row.name().starts_with('~').then_some("x");
            let value = text::expanded(value, facts, groups).unwrap_or_default();
            let value = value.replace("{re.x.", "${");
            let key = match row.name() {
                "default" => "default".to_owned(),
                key => match key.strip_prefix("~*") {
                    Some(pattern) => word(&format!("~(?i){pattern}")),
                    None if key.starts_with('~') => word(key),
                    // nginx compares texts without case.
                    None if key.is_empty() => "\"\"".to_owned(),
                    None => word(&format!("~(?i)^{}$", content::escaped(key))),
                },
            };
            self.line(format!("{key} {}", word(&value)));
        }
        self.close();
    }

    /// The addresses of a site: each name at each port.
    fn addresses(
        &mut self,
        server: &Directive,
        level: &Level<'_>,
        servers: &[&Directive],
    ) -> Vec<String> {
        let mut found = Vec::new();
        let listens: Vec<(&str, Option<&Directive>)> = level
            .own("listen")
            .filter(|line| !is_quic(line))
            .filter_map(|line| Some((line.arg(0)?, Some(line))))
            .collect();
        let listens = if level.own("listen").next().is_none() {
            vec![("80", None)]
        } else {
            listens
        };
        for (listen, line) in listens {
            let is_ssl = is_with_tls(listen, servers);
            let port = match (port(listen), line) {
                (Some(port), line) => match line.filter(|_| port == other_port(is_ssl)) {
                    None => port,
                    // A Caddyfile has no site without TLS on the port of HTTPS, and the other way round.
                    Some(line) => {
                        self.not_translated(line);
                        continue;
                    }
                },
                (None, _) => {
                    self.not_translated(server);
                    continue;
                }
            };
            let scheme = if is_ssl { "https" } else { "http" };
            for name in level.own("server_name").flat_map(|line| &line.args) {
                match name.text.as_str() {
                    "_" | "" => {}
                    name if name.starts_with('~') || name.ends_with(".*") || name.contains('$') => {
                        let line = format!("{NOT_TRANSLATED}: the name {name} of the next server");
                        if !self.text.trim_end().ends_with(&line) {
                            self.line(line);
                        }
                    }
                    name => match name.strip_prefix('.') {
                        Some(rest) => {
                            found.push(format!("{scheme}://{rest}:{port}"));
                            found.push(format!("{scheme}://*.{rest}:{port}"));
                        }
                        None => found.push(format!("{scheme}://{name}:{port}")),
                    },
                }
            }
            if is_default(server, listen, servers) {
                found.push(format!("{scheme}://:{port}"));
            }
        }
        let hosts = bound_hosts(level);
        found.retain(|address| self.taken.insert((hosts.clone(), address.clone())));
        found
    }
}

/// Whether a `map` has only what that of Caddy has as well.
fn has_words(map: &Directive) -> bool {
    let facts = Facts::default();
    let is_known = |row: &Directive| {
        let value = row.arg(0).unwrap_or_default();
        let groups = row.name().starts_with('~');
        let is_text = text::expanded(value, &facts, groups.then_some("x")).is_some();
        row.args.len() == 1
            && is_text
            && row.name().strip_prefix('~').is_none_or(|pattern| {
                locations::is_in_both(pattern.strip_prefix('*').unwrap_or(pattern))
            })
            && !matches!(row.name(), "hostnames" | "volatile" | "include")
            && !row.name().starts_with('\\')
    };
    let source = map
        .arg(0)
        .and_then(|source| text::expanded(source, &facts, None));
    source.is_some_and(|source| source.starts_with('{') && source.matches('{').count() == 1)
        && map.arg(1).is_some_and(|name| name.starts_with('$'))
        && map.body().iter().all(is_known)
}

/// Whether a server, or a `map` that it uses, asks for a `map`.
fn is_used(map: &Directive, maps: &[&Directive], server: &Directive) -> bool {
    let name = map.arg(1).unwrap_or_default();
    let is_in = |block: &Directive| names(block, name);
    is_in(server)
        || maps
            .iter()
            .any(|other| !std::ptr::eq(*other, map) && is_in(other))
}

/// Whether a variable stands anywhere in a directive.
fn names(directive: &Directive, variable: &str) -> bool {
    let bare = variable.trim_start_matches('$');
    directive
        .args
        .iter()
        .any(|word| word.text.contains(variable) || word.text.contains(&format!("${{{bare}}}")))
        || directive.body().iter().any(|line| names(line, variable))
}

/// Whether a directive says what Caddy does anyway.
fn is_usual(directive: &Directive) -> bool {
    matches!(
        (directive.name(), directive.arg(0)),
        (
            "absolute_redirect"
                | "autoindex_exact_size"
                | "autoindex_localtime"
                | "fastcgi_split_path_info"
                | "port_in_redirect"
                | "log_not_found"
                | "server_name_in_redirect",
            _
        ) | (
            "merge_slashes" | "if_modified_since" | "ignore_invalid_headers",
            Some("on")
        ) | ("charset", Some("utf-8"))
    )
}

/// Whether a `listen` is for HTTP/3. Caddy offers HTTP/3 beside HTTP/2 without being asked.
fn is_quic(listen: &Directive) -> bool {
    listen.args.iter().any(|word| word.text == "quic")
}

/// The port of a `listen`; none where it is a socket.
fn port(listen: &str) -> Option<u16> {
    if listen.starts_with("unix:") {
        return None;
    }
    let last = listen.rsplit(':').next().unwrap_or(listen);
    Some(last.parse().unwrap_or(80))
}

/// The host of a `listen` that names one.
fn bound(listen: &str) -> Option<&str> {
    let (host, _) = listen.rsplit_once(':')?;
    (!matches!(host, "*" | "0.0.0.0" | "[::]" | "unix") && !host.starts_with("unix:"))
        .then(|| host.trim_start_matches('[').trim_end_matches(']'))
}

/// The hosts that the `listen` lines of a server name.
fn bound_hosts(level: &Level<'_>) -> String {
    let hosts = level.own("listen").filter_map(|line| bound(line.arg(0)?));
    let hosts: BTreeSet<&str> = hosts.collect();
    hosts.into_iter().collect::<Vec<_>>().join(" ")
}

/// The port that a site with TLS (`is_ssl`) or without may not have.
fn other_port(is_ssl: bool) -> u16 {
    if is_ssl { 80 } else { 443 }
}

/// Whether two `listen` name the same socket.
fn is_same_address(one: &str, other: &str) -> bool {
    port(one) == port(other) && bound(one) == bound(other)
}

/// Whether connections to an address have TLS, which one server says for all that listen there.
fn is_with_tls(listen: &str, servers: &[&Directive]) -> bool {
    let lines = servers.iter().flat_map(|server| server.body());
    let mut lines = lines.filter(|line| line.name() == "listen" && !is_quic(line));
    lines.any(|line| {
        line.arg(0)
            .is_some_and(|other| is_same_address(other, listen))
            && line.args.iter().any(|word| word.text == "ssl")
    })
}

/// Whether a server gets what names no other one at this address.
fn is_default(server: &Directive, listen: &str, servers: &[&Directive]) -> bool {
    let at = |other: &&&Directive| {
        let mut lines = other
            .body()
            .iter()
            .filter(|line| line.name() == "listen" && !is_quic(line))
            .peekable();
        match lines.peek() {
            None => listen == "80",
            Some(_) => lines.any(|line| line.arg(0).is_some_and(|at| is_same_address(at, listen))),
        }
    };
    let says = |other: &&&Directive| {
        let mut lines = other
            .body()
            .iter()
            .filter(|line| line.name() == "listen" && !is_quic(line));
        lines.any(|line| {
            line.arg(0) == Some(listen)
                && line
                    .args
                    .iter()
                    .any(|word| matches!(&*word.text, "default_server" | "default"))
        })
    };
    let mut same = servers.iter().filter(at);
    let chosen = servers.iter().find(says).or_else(|| same.next());
    chosen.is_some_and(|chosen| std::ptr::eq(*chosen, server))
}
