//! Site addresses: `[scheme://][host][:port][/path]`.

use sluice_diag::Diagnostic;

use super::Lowering;
use crate::tree::Token;

/// One address of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SiteAddress {
    /// The word as it was written.
    pub(super) word: Token,
    /// `http`, `https` or empty.
    pub(super) scheme: String,
    /// Lower case and without brackets; empty for any host.
    pub(super) host: String,
    /// Empty for the default.
    pub(super) port: String,
    /// Empty for any path.
    pub(super) path: String,
}

impl Lowering<'_> {
    /// Reads a site address.
    pub(super) fn site_address(&mut self, word: &Token) -> Option<SiteAddress> {
        match parse(word) {
            Ok(address) => {
                self.remark_on(&address);
                Some(address)
            }
            Err(diagnostic) => self.refuse(*diagnostic),
        }
    }

    /// Warns about addresses that are legal and rarely meant.
    fn remark_on(&mut self, address: &SiteAddress) {
        if !address.path.is_empty() {
            self.report.push(
                address
                    .word
                    .warning(
                        "path-in-site-address",
                        format!("site address `{}` has a path", address.word.text),
                        "deprecated",
                    )
                    .help(format!(
                        "put the directives into `handle {} {{ … }}`",
                        address.path
                    )),
            );
        }
        if address.host == "0.0.0.0" || address.host == "::" {
            self.report.push(
                address
                    .word
                    .warning(
                        "unspecified-site-address",
                        format!("site `{}` matches that Host only", address.word.text),
                        "not the same as every address",
                    )
                    .help("to listen on an address, use `bind`; to match every host, write only the port"),
            );
        }
    }
}

fn refusal(word: &Token, label: &str) -> Box<Diagnostic> {
    Box::new(word.error(
        "invalid-address",
        format!("invalid site address `{}`", word.text),
        label,
    ))
}

fn parse(word: &Token) -> Result<SiteAddress, Box<Diagnostic>> {
    let text = word.text.as_str();
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
        None => (String::new(), text),
    };
    match scheme.as_str() {
        "" | "http" | "https" => {}
        "ws" | "wss" => {
            return Err(Box::new(refusal(word, "a WebSocket scheme").help(
                "WebSocket needs no scheme of its own: use `http://` or `https://`",
            )));
        }
        _ => {
            let diagnostic = refusal(word, "unknown scheme");
            return Err(Box::new(
                diagnostic.help("a site has `http://`, `https://` or no scheme"),
            ));
        }
    }
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let (host, port) = split_port(authority).ok_or_else(|| refusal(word, "unbalanced brackets"))?;
    if !port.is_empty() && port.parse::<u16>().is_err() {
        let diagnostic = refusal(word, "the port is not a number from 0 to 65535");
        return Err(Box::new(
            diagnostic.help("a site address has one port: `example.com:8443`"),
        ));
    }
    let host = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(address) => address,
        None => host,
    };
    // The names of placeholders keep their case.
    let host = if host.contains('{') {
        host.to_string()
    } else {
        host.to_lowercase()
    };
    Ok(SiteAddress {
        word: word.clone(),
        scheme,
        host,
        port: port.to_string(),
        path: path.to_string(),
    })
}

/// Splits `host:port`; a bare IPv6 address has no port.
fn split_port(text: &str) -> Option<(&str, &str)> {
    if text.starts_with('[') {
        let (host, after) = text.split_at(text.find(']')? + 1);
        return match after.strip_prefix(':') {
            Some(port) => Some((host, port)),
            None => after.is_empty().then_some((host, "")),
        };
    }
    match text.rsplit_once(':') {
        Some((host, _)) if host.contains(':') && !text.contains('{') => Some((text, "")),
        Some((host, port)) => Some((host, port)),
        None => Some((text, "")),
    }
}

impl SiteAddress {
    /// The host with its port where the port is not a default one.
    pub(super) fn host_for_log(&self, http_port: &str, https_port: &str) -> String {
        if self.port.is_empty() || self.port == http_port || self.port == https_port {
            return self.host.clone();
        }
        if self.host.contains(':') {
            return format!("[{}]:{}", self.host, self.port);
        }
        format!("{}:{}", self.host, self.port)
    }
}

/// How much of a host or path is fixed: its length without wildcards and placeholders.
pub(super) fn specificity(text: &str) -> usize {
    let mut fixed = text.len() - text.matches('*').count();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let Some(length) = rest[start..].find('}') else {
            break;
        };
        fixed = fixed.saturating_sub(length + 1);
        rest = &rest[start + length + 1..];
    }
    fixed
}
