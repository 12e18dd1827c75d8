//! Translates content handlers: upstreams, applications, files.

use super::Writer;
use super::place::Place;
use super::text::{Facts, expanded, word};
use crate::lower::level::Level;
use crate::lower::locations::modifier_and_word;
use crate::lower::values;
use crate::modules::upstream::dial;
use crate::modules::upstream_url::Url;
use crate::tree::Directive;

/// Parameters that applications get by default.
const USUAL_PARAMS: &[&str] = &[
    "QUERY_STRING",
    "REQUEST_METHOD",
    "CONTENT_TYPE",
    "CONTENT_LENGTH",
    "SCRIPT_NAME",
    "SCRIPT_FILENAME",
    "REQUEST_URI",
    "DOCUMENT_URI",
    "DOCUMENT_ROOT",
    "SERVER_PROTOCOL",
    "REQUEST_SCHEME",
    "HTTPS",
    "GATEWAY_INTERFACE",
    "SERVER_SOFTWARE",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "SERVER_ADDR",
    "SERVER_PORT",
    "SERVER_NAME",
    "PATH_INFO",
    "PATH_TRANSLATED",
];

impl Writer<'_> {
    /// The headers that are added to responses.
    pub(super) fn fields(&mut self, level: &Level<'_>, facts: &Facts, groups: Option<&str>) {
        if let Some(line) = level.find("expires") {
            let time = line.arg(0).unwrap_or_default();
            match (time, values::time(time.trim_start_matches('+'))) {
                ("off", _) => {}
                ("max", _) => self.line("header Cache-Control max-age=315360000"),
                ("epoch", _) => self.line("header Cache-Control no-cache"),
                (_, Some(length)) if line.args.len() == 1 => {
                    self.line(format!(
                        "header Cache-Control max-age={}",
                        length.0 / 1_000_000_000
                    ));
                }
                (early, None) if early.starts_with('-') => {
                    self.line("header Cache-Control no-cache")
                }
                _ => self.not_translated(line),
            }
        }
        for line in level.nearest(&["add_header"]) {
            match (
                line.arg(0),
                line.arg(1).and_then(|value| expanded(value, facts, groups)),
            ) {
                (Some(name), Some(value)) if name.bytes().all(is_name_byte) => {
                    self.line(format!("header +{name} {}", word(&value)))
                }
                _ => self.not_translated(line),
            }
        }
        if level.is_on("gzip", false) {
            self.open("encode");
            self.line("gzip");
            let least = level.size("gzip_min_length").unwrap_or(20).max(1);
            self.line(format!("minimum_length {least}"));
            self.close();
        }
    }

    /// `try_files`, and the content handler after it.
    pub(super) fn tried(&mut self, place: &Place<'_, '_>, named: &[&Directive]) {
        let own = match place.of {
            Some(_) => place.level.own("try_files").next(),
            None => place.level.find("try_files"),
        };
        let Some(line) = own else {
            return self.content(place);
        };
        let Some((last, files)) = line.args.split_last() else {
            return;
        };
        let folder = place.folder().filter(|(_, cut)| cut.is_none());
        let texts: Option<Vec<String>> = files.iter().map(|file| place.text(&file.text)).collect();
        let (Some((root, _)), Some(texts)) = (folder, texts) else {
            self.not_translated(line);
            return self.content(place);
        };
        if texts.iter().any(|text| text == "{path}/") {
            let name = self.name();
            self.open(format!("@{name}"));
            self.line("not path */");
            self.open("file");
            self.line(format!("root {}", word(&root)));
            self.line("try_files {path}/");
            self.close();
            self.close();
            self.line(format!("redir @{name} {{path}}/{{?query}} 301"));
        }
        let name = self.name();
        let words: Vec<String> = texts.iter().map(|text| word(text)).collect();
        self.open(format!("@{name} file"));
        self.line(format!("root {}", word(&root)));
        self.line(format!("try_files {}", words.join(" ")));
        self.close();
        self.open(format!("route @{name}"));
        self.line("rewrite * {http.matchers.file.relative}");
        self.content(place);
        self.close();
        self.open("route");
        self.fallback(line, &last.text, place, named);
        self.close();
    }

    fn fallback(
        &mut self,
        line: &Directive,
        last: &str,
        place: &Place<'_, '_>,
        named: &[&Directive],
    ) {
        if let Some(status) = last.strip_prefix('=') {
            return self.line(format!("error * {status}"));
        }
        if last.starts_with('@') {
            let found = named.iter().find(|block| block.arg(0) == Some(last));
            return match (found, place.level.around()) {
                (Some(block), Some(around)) => {
                    let inner = around.within(block.body());
                    self.location(&inner, place.site, Some(("@", last)), &[]);
                }
                _ => self.not_translated(line),
            };
        }
        match place.text(last) {
            // A path that is not there would be looked for without end.
            Some(target) if !target.split('?').next().unwrap_or_default().contains('{') => {
                let target = target.replace("{?query}", "?{query}");
                let path = target.split('?').next().unwrap_or_default();
                let path = match path.starts_with('/') {
                    true => path.to_owned(),
                    false => format!("/{path}"),
                };
                let name = self.name();
                self.line(format!("@{name} not path {}", word(&path)));
                self.open(format!("route @{name}"));
                self.line(format!("rewrite * {}", word(&target)));
                self.line(format!("invoke {}", self.route));
                self.close();
                self.line("error * 500");
            }
            Some(_) => self.not_translated(line),
            None => self.not_translated(line),
        }
    }

    /// The content handler.
    fn content(&mut self, place: &Place<'_, '_>) {
        let own = place
            .level
            .directives()
            .iter()
            .rfind(|line| matches!(line.name(), "proxy_pass" | "fastcgi_pass" | "uwsgi_pass"));
        match own {
            Some(line) if line.name() == "proxy_pass" => {
                self.body_limit(place);
                self.proxy(line, place);
            }
            Some(line) if line.name() == "uwsgi_pass" => {
                self.body_limit(place);
                self.uwsgi(line, place);
            }
            Some(line) => {
                self.body_limit(place);
                self.fastcgi(line, place);
            }
            None => self.files(place),
        }
    }

    fn body_limit(&mut self, place: &Place<'_, '_>) {
        let max = place.level.size("client_max_body_size").unwrap_or(1 << 20);
        if max > 0 {
            self.open("request_body");
            self.line(format!("max_size {max}"));
            self.close();
        }
    }

    fn proxy(&mut self, line: &Directive, place: &Place<'_, '_>) {
        let address = line.arg(0).unwrap_or_default();
        let url = Url::parse(address).filter(|_| !address.contains('$'));
        let Some(url) = url.filter(|url| !url.path.is_some_and(|path| path.contains('?'))) else {
            self.not_translated(line);
            return self.line("error * 502");
        };
        if let Some(path) = url.path {
            match (place.of, place.prefix()) {
                (Some(("=", _)), _) => self.line(format!("rewrite * {}", word(path))),
                (_, Some(prefix)) if path == "/" && prefix.ends_with('/') => {
                    let prefix = prefix.trim_end_matches('/');
                    if !prefix.is_empty() {
                        self.line(format!("uri strip_prefix {}", word(prefix)));
                    }
                }
                (_, Some(prefix)) => {
                    let pattern = format!("^{}", escaped(prefix));
                    self.line(format!("uri path_regexp {} {}", word(&pattern), word(path)));
                }
                (_, None) => self.not_translated(line),
            }
        }
        let scheme = if url.is_tls { "https://" } else { "" };
        if !url.is_tls {
            let group = named_group(place, url.host);
            let addresses = group.map_or(vec![url.host], |group| servers(group).collect());
            self.suggest_python(line, &addresses, group);
        }
        self.open_proxy(scheme, url.host, url.port(), place);
        self.up(place, url.host);
        self.hide(place, "proxy_hide_header");
        match place.level.find("proxy_redirect") {
            None => {}
            Some(line) if matches!(line.arg(0), Some("off" | "default")) => {}
            Some(line) => self.not_translated(line),
        }
        self.transport(place, url.is_tls);
        self.close();
    }

    fn transport(&mut self, place: &Place<'_, '_>, is_tls: bool) {
        let times = [
            ("proxy_connect_timeout", "dial_timeout"),
            ("proxy_read_timeout", "response_header_timeout"),
        ];
        let found = times
            .iter()
            .filter_map(|(name, ours)| Some((place.level.time(name)?, *ours)));
        let found: Vec<_> = found.collect();
        if found.is_empty() && !is_tls {
            return;
        }
        self.open("transport http");
        if is_tls && !place.level.is_on("proxy_ssl_verify", false) {
            self.line("# nginx verifies certificates only with `proxy_ssl_verify on`.");
            self.line("tls_insecure_skip_verify");
        }
        for (time, ours) in found {
            self.line(format!("{ours} {}ms", time.0 / 1_000_000));
        }
        self.close();
    }

    /// The headers that upstreams get.
    fn up(&mut self, place: &Place<'_, '_>, host: &str) {
        let lines = place.level.nearest(&["proxy_set_header"]);
        if !lines.iter().any(|line| {
            line.arg(0)
                .is_some_and(|name| name.eq_ignore_ascii_case("host"))
        }) {
            let host = if host.starts_with("unix:") {
                "localhost"
            } else {
                host
            };
            self.line(format!("header_up Host {}", word(host)));
        }
        for line in lines {
            let (Some(name), Some(value)) = (line.arg(0), line.arg(1)) else {
                continue;
            };
            match (&*name.to_ascii_lowercase(), value) {
                // A proxy says these by itself.
                ("connection" | "upgrade", _)
                | ("x-forwarded-for", "$proxy_add_x_forwarded_for")
                | ("x-forwarded-proto", "$scheme")
                | ("x-forwarded-host", "$host" | "$http_host") => {}
                // In front of a name, `+` and `-` say what is done with the header.
                (name, _) if !name.bytes().all(is_name_byte) || name.starts_with('-') => {
                    self.not_translated(line);
                }
                (_, "") => self.line(format!("header_up -{name}")),
                ("host", "$proxy_host") => self.line(format!("header_up Host {}", word(host))),
                (_, value) => match place.text(value) {
                    Some(value) => self.line(format!("header_up {name} {}", word(&value))),
                    None => self.not_translated(line),
                },
            }
        }
    }

    fn group(&mut self, group: &Directive) {
        let has = |name: &str| group.body().iter().any(|line| line.name() == name);
        let count = servers(group).count();
        let weights: Vec<&str> = lines_of(group)
            .map(|line| parameter(line, "weight=").unwrap_or("1"))
            .collect();
        if has("least_conn") {
            self.line("lb_policy least_conn");
        } else if has("ip_hash") {
            self.line("lb_policy client_ip_hash");
        } else if weights.iter().any(|weight| *weight != "1") {
            self.line(format!(
                "lb_policy weighted_round_robin {}",
                weights.join(" ")
            ));
        } else if count > 1 {
            self.line("lb_policy round_robin");
        }
        if count > 1 {
            self.line(format!("lb_retries {}", count - 1));
            self.line("fail_duration 10s");
        }
        for line in lines_of(group) {
            let known = ["weight=", "max_fails=", "fail_timeout="];
            if line
                .args
                .iter()
                .skip(1)
                .any(|word| !known.iter().any(|name| word.text.starts_with(name)))
            {
                self.not_translated(line);
            }
        }
        for line in group.body() {
            if matches!(
                line.name(),
                "hash" | "random" | "sticky" | "least_time" | "queue"
            ) {
                self.not_translated(line);
            }
        }
    }

    /// Opens `reverse_proxy` for an address, or for the group of that name; `port` is the default.
    fn open_proxy(&mut self, scheme: &str, address: &str, port: u16, place: &Place<'_, '_>) {
        let group = named_group(place, address);
        let upstream = |server| format!("{scheme}{}", dial(server, port));
        let upstreams: Vec<String> = match group {
            Some(group) => servers(group).map(upstream).collect(),
            None => vec![upstream(address)],
        };
        self.open(format!("reverse_proxy {}", upstreams.join(" ")));
        if let Some(group) = group {
            self.group(group);
        }
    }

    fn fastcgi(&mut self, line: &Directive, place: &Place<'_, '_>) {
        let address = line.arg(0).unwrap_or_default();
        if address.contains('$') {
            self.not_translated(line);
            return self.line("error * 502");
        }
        self.open_proxy("", address, 9000, place);
        self.open("transport fastcgi");
        if let Some(root) = place.level.word("root").and_then(|root| place.text(root)) {
            self.line(format!("root {}", word(&root)));
        }
        self.line("split .php");
        self.params(place, "fastcgi_param");
        self.close();
        self.hide(place, "fastcgi_hide_header");
        self.close();
    }

    fn uwsgi(&mut self, line: &Directive, place: &Place<'_, '_>) {
        let address = line.arg(0).unwrap_or_default();
        let plain = address.strip_prefix("uwsgi://").unwrap_or(address);
        if plain.contains('$') || plain.contains("://") {
            self.not_translated(line);
            return self.line("error * 502");
        }
        self.suggest_python_for_uwsgi();
        self.open_proxy("", plain, 80, place);
        let before = self.text.len();
        self.open("transport uwsgi");
        let opened = self.text.len();
        self.params(place, "uwsgi_param");
        for name in ["modifier1", "modifier2"] {
            let found = place.level.find(&format!("uwsgi_{name}"));
            if let Some(number) = found.and_then(|line| line.arg(0)) {
                self.line(format!("{name} {number}"));
            }
        }
        let is_empty = self.text.len() == opened;
        self.close();
        if is_empty {
            self.text.truncate(before);
            self.line("transport uwsgi");
        }
        self.hide(place, "uwsgi_hide_header");
        self.close();
    }

    /// The variables of an application that it does not get by default.
    fn params(&mut self, place: &Place<'_, '_>, directive: &str) {
        for line in place.level.nearest(&[directive]) {
            let (Some(name), Some(value)) = (line.arg(0), line.arg(1)) else {
                continue;
            };
            match place.text(value) {
                _ if USUAL_PARAMS.contains(&name) || name == "REDIRECT_STATUS" => {}
                Some(value) => self.line(format!("env {} {}", word(name), word(&value))),
                None => self.not_translated(line),
            }
        }
    }

    /// The headers of the upstream that clients do not get.
    fn hide(&mut self, place: &Place<'_, '_>, directive: &str) {
        for line in place.level.nearest(&[directive]) {
            match line.arg(0) {
                Some(name) if name.bytes().all(is_name_byte) => {
                    self.line(format!("header_down -{name}"));
                }
                _ => self.not_translated(line),
            }
        }
    }

    fn files(&mut self, place: &Place<'_, '_>) {
        let Some((root, cut)) = place.folder() else {
            for line in place.level.own("alias").chain(place.level.own("root")) {
                self.not_translated(line);
            }
            return self.line("error * 404");
        };
        if let Some(prefix) = cut {
            // A location for one file has the whole path in its alias.
            if matches!(place.of, Some(("=", _))) {
                let (folder, file) = root.rsplit_once('/').unwrap_or(("", &root));
                self.line(format!(
                    "root * {}",
                    word(if folder.is_empty() { "/" } else { folder })
                ));
                self.line(format!("rewrite * {}", word(&format!("/{file}"))));
                return self.line("file_server");
            }
            self.line(format!(
                "uri strip_prefix {}",
                word(prefix.trim_end_matches('/'))
            ));
        }
        self.line(format!("root * {}", word(&root)));
        let names: Vec<&str> = match place.level.find("index") {
            Some(line) => line.args.iter().map(|word| word.text.as_str()).collect(),
            None => vec!["index.html"],
        };
        if names.iter().any(|name| name.ends_with(".php")) && cut.is_none() {
            let name = self.name();
            let tried: Vec<String> = names
                .iter()
                .filter(|name| !name.starts_with('/'))
                .map(|name| format!("{{path}}{name}"))
                .collect();
            self.open(format!("@{name}"));
            self.line("path */");
            self.open("file");
            self.line(format!("root {}", word(&root)));
            self.line(format!("try_files {}", tried.join(" ")));
            self.close();
            self.close();
            self.open(format!("route @{name}"));
            self.line("rewrite * {http.matchers.file.relative}");
            self.line(format!("invoke {}", self.route));
            self.close();
        }
        let browse = if place.level.is_on("autoindex", false) {
            " browse"
        } else {
            ""
        };
        match names.as_slice() {
            ["index.html"] => self.line(format!("file_server{browse}")),
            names => {
                self.open(format!("file_server{browse}"));
                self.line(format!("index {}", names.join(" ")));
                self.close();
            }
        }
    }
}

/// Whether a site has to send requests through its locations anew.
pub fn goes_round(directives: &[Directive]) -> bool {
    directives.iter().any(|line| match line.name() {
        "try_files" => line
            .args
            .last()
            .is_some_and(|last| !last.text.starts_with(['=', '@'])),
        "index" => line.args.iter().any(|name| name.text.ends_with(".php")),
        "location" => modifier_and_word(line).is_some() && goes_round(line.body()),
        _ => false,
    })
}

fn lines_of(group: &Directive) -> impl Iterator<Item = &Directive> {
    let all = group.body().iter().filter(|line| line.name() == "server");
    all.filter(|line| !line.args.iter().any(|word| word.text == "down"))
}

/// The `upstream` block of this name.
fn named_group<'p>(place: &Place<'p, '_>, name: &str) -> Option<&'p Directive> {
    let mut groups = place.site.groups.iter();
    groups.find(|group| group.arg(0) == Some(name)).copied()
}

fn servers(group: &Directive) -> impl Iterator<Item = &str> {
    lines_of(group).filter_map(|line| line.arg(0))
}

fn parameter<'t>(line: &'t Directive, name: &str) -> Option<&'t str> {
    line.args
        .iter()
        .find_map(|word| word.text.strip_prefix(name))
}

/// Whether a header name with this byte means the same in a Caddyfile: around names, `+`, `-`, `?`, `>` and `*` say what
/// is done with headers.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// A path as a pattern.
pub fn escaped(path: &str) -> String {
    let mut out = String::new();
    for letter in path.chars() {
        if !letter.is_alphanumeric() && !matches!(letter, '/' | '-' | '_') {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}
