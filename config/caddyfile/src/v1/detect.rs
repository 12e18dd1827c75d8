//! Detects whether a file is written in Caddy 1's language.
//!
//! It is if the first word unknown to Caddy 2 is a directive of Caddy 1, and nothing in the file is known to Caddy 2
//! only. A file that is valid in both languages is Caddy 2's.

use crate::registry;
use crate::tree::{Directive, File, Token};

/// The directives of Caddy 0.8 to 1.0 in the order in which they see a request.
pub(super) const ORDER: &[&str] = &[
    "root",
    "index",
    "bind",
    "limits",
    "timeouts",
    "tls",
    "startup",
    "shutdown",
    "on",
    "request_id",
    "log",
    "rewrite",
    "ext",
    "gzip",
    "header",
    "errors",
    "basicauth",
    "redir",
    "status",
    "mime",
    "internal",
    "pprof",
    "expvar",
    "push",
    "templates",
    "proxy",
    "fastcgi",
    "websocket",
    "markdown",
    "browse",
];

/// Directives of plugins for Caddy 1. They do not identify the language: Caddy 2 has plugins of the same names.
const PLUGINS: &[&str] = &[
    "authz",
    "awslambda",
    "cache",
    "cgi",
    "cors",
    "datadog",
    "dyndns",
    "expires",
    "filebrowser",
    "filemanager",
    "filter",
    "forwardproxy",
    "geoip",
    "git",
    "grpc",
    "gopkg",
    "hugo",
    "ipfilter",
    "jekyll",
    "jsonp",
    "jwt",
    "locale",
    "login",
    "mailout",
    "minify",
    "multipass",
    "nobots",
    "permission",
    "prometheus",
    "proxyprotocol",
    "ratelimit",
    "realip",
    "reauth",
    "s3browser",
    "search",
    "supervisor",
    "upload",
    "webdav",
];

/// Whether Caddy 1 had a directive of this name that came with a plug-in.
pub(super) fn is_plugin(name: &str) -> bool {
    PLUGINS.contains(&name)
}

/// The first word that shows that a file is in the old language; `None` if it is in the new one.
pub(crate) fn first_old_word(file: &File) -> Option<&Token> {
    if file.global.is_some() || !file.named_routes.is_empty() {
        return None;
    }
    let lines = || file.sites.iter().flat_map(|site| &site.body);
    if lines().any(is_new_only) {
        return None;
    }
    let first = lines().find(|line| !is_new(line) && !is_plugin(&line.name.text))?;
    is_old(first).then_some(&first.name)
}

/// A line that the old language does not know.
fn is_new_only(line: &Directive) -> bool {
    let name = line.name.text.as_str();
    name.starts_with('@') || (registry::directive(name).is_some() && !ORDER.contains(&name))
}

fn is_old(line: &Directive) -> bool {
    ORDER.contains(&line.name.text.as_str()) && !is_new(line)
}

/// Whether the new language understands a line, as far as names and forms go.
fn is_new(line: &Directive) -> bool {
    let name = line.name.text.as_str();
    if registry::directive(name).is_none() {
        return false;
    }
    let args: Vec<&str> = line.args.iter().map(Token::as_str).collect();
    let has_line = |names: &[&str]| {
        line.lines()
            .iter()
            .any(|inner| names.contains(&inner.name.text.as_str()))
    };
    match name {
        "basicauth" => !has_plain_password(&args),
        "redir" => line.block.is_none() && args.last() != Some(&"meta"),
        "rewrite" => line.block.is_none() && args.first() != Some(&"not"),
        "log" => {
            let rotates = ["rotate", "rotate_size", "rotate_age", "rotate_keep"];
            let has_path = args.len() > 1 && args[0].starts_with('/');
            !has_path && !has_line(&rotates) && !has_line(&["rotate_compress", "except"])
        }
        "tls" => {
            !matches!(args[..], ["off" | "self_signed"])
                && !has_line(&["max_certs", "clients", "ask", "wildcard", "must_staple"])
        }
        "timeouts" => args
            .first()
            .is_none_or(|first| first.starts_with(['/', '*', '@'])),
        "templates" => args.len() < 2 && !has_line(&["path", "ext"]),
        _ => true,
    }
}

/// `basicauth [<path>] <user> <password>`: where Caddy 2 has the name of a hash.
fn has_plain_password(args: &[&str]) -> bool {
    let words = match args {
        [matcher, rest @ ..] if matcher.starts_with(['/', '*', '@']) => rest,
        all => all,
    };
    !matches!(words, [] | ["bcrypt" | "argon2id" | "scrypt", ..])
}
