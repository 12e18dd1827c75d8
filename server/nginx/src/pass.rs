//! `nginx_pass`: proxying to an address that contains variables. If the configuration has an upstream group of that
//! name, the group is used; other addresses are dialed directly by a reverse proxy.

use std::net::IpAddr;

use sluice_message::Status;
use sluice_message::hex::push_escape;
use sluice_model::nginx::PassByVariable as Config;
use sluice_route::Template;

use super::state::Pass as Passed;
use crate::state::NginxContext;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::expanded;

struct Pass {
    address: Template,
    /// Route lists by scheme prefix and group name.
    lists: Vec<(Box<str>, usize)>,
    form: Form,
    names: Names,
}

/// The syntax of an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `http://host:port/path` or `https://…`.
    Url,
    /// `grpc://host:port`, `grpcs://…`, or without a scheme, which means the former.
    Grpc,
    /// `host:port`, optionally with `uwsgi://`; holds the default port.
    Plain(u16),
}

/// How names that are not an upstream group are handled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    LookedUp,
    Refused,
}

/// Builds the handler.
pub fn build<'m>(
    config: &'m Config,
    builder: &mut Builder<'m>,
) -> Result<Box<dyn Handler>, Refusal> {
    let mut lists = Vec::new();
    for (key, routes) in &config.to {
        let list = builder.within(&format!(".to[{key}]"), |builder| builder.add_list(routes));
        lists.push((key.as_str().into(), list));
    }
    let has = |scheme: &str| config.to.keys().any(|key| key.starts_with(scheme));
    let port = if config.port == 0 { 9000 } else { config.port };
    Ok(Box::new(Pass {
        address: builder.template(&config.address)?,
        lists,
        form: match () {
            () if has("grpc://") => Form::Grpc,
            () if has("http://") || has("https://") => Form::Url,
            () => Form::Plain(port),
        },
        names: match config.looks_up {
            true => Names::LookedUp,
            false => Names::Refused,
        },
    }))
}

impl Handler for Pass {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let text = expanded(&self.address, exchange);
        let shown = || sluice_diag::shown(&String::from_utf8_lossy(&text)).to_string();
        let parsed = match self.form {
            Form::Url => Address::of_url(&text),
            Form::Grpc => Address::of_grpc(&text),
            Form::Plain(port) => {
                let bare = text.strip_prefix(b"uwsgi://").unwrap_or(&text);
                Address::of_host(bare, "", port)
            }
        };
        let Some(address) = parsed else {
            let why = format!("`{}` is not an address to proxy to", shown());
            return Step::Fail(Fault::new(Status::INTERNAL_SERVER_ERROR, why));
        };
        let group = address.group_name();
        let group = group.and_then(|name| self.list(address.scheme, &name));
        if let Some(list) = group {
            exchange.context.occasional_mut().pass = address.passed(Vec::new());
            return Step::Enter(list);
        }
        if !address.is_literal() && self.names == Names::Refused {
            let why = format!(
                "`{}` is the name of no `upstream`, and without a `resolver` names are not looked up",
                shown()
            );
            return Step::Fail(Fault::new(Status::BAD_GATEWAY, why));
        }
        match self.list(address.scheme, "") {
            Some(list) => {
                exchange.context.occasional_mut().pass = address.passed(address.dial());
                Step::Enter(list)
            }
            None => {
                let why = format!("`{}`: nothing here speaks this scheme", shown());
                Step::Fail(Fault::new(Status::INTERNAL_SERVER_ERROR, why))
            }
        }
    }
}

impl Pass {
    fn list(&self, scheme: &str, name: &str) -> Option<usize> {
        let is_it = |key: &str| key.strip_prefix(scheme) == Some(name);
        let mut lists = self.lists.iter();
        lists.find(|(key, _)| is_it(key)).map(|(_, list)| *list)
    }
}

/// A parsed address.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address<'t> {
    scheme: &'static str,
    /// The host name or address, IPv6 in brackets, or the path of a socket after `unix:`.
    host: &'t str,
    /// The explicit port.
    port: Option<u16>,
    usual_port: u16,
    uri: &'t [u8],
}

impl<'t> Address<'t> {
    fn of_url(text: &'t [u8]) -> Option<Address<'t>> {
        let of = |scheme, port| Address::of_host(after(text, scheme)?, scheme, port);
        of("http://", 80).or_else(|| of("https://", 443))
    }

    fn of_grpc(text: &'t [u8]) -> Option<Address<'t>> {
        let (scheme, port, rest) = match (after(text, "grpc://"), after(text, "grpcs://")) {
            (Some(rest), _) => ("grpc://", 80, rest),
            (None, Some(rest)) => ("grpcs://", 443, rest),
            (None, None) => ("grpc://", 80, text),
        };
        // gRPC always uses the path of the call.
        Address::of_host(rest, scheme, port).filter(|address| address.uri.is_empty())
    }

    fn of_host(text: &'t [u8], scheme: &'static str, usual_port: u16) -> Option<Address<'t>> {
        let address = |host: &'t [u8], port, uri| {
            Some(Address {
                scheme,
                host: std::str::from_utf8(host)
                    .ok()
                    .filter(|host| !host.is_empty())?,
                port,
                usual_port,
                uri,
            })
        };
        if text.starts_with(b"unix:") {
            // The URI follows the second colon.
            let end = memchr::memchr(b':', &text[5..]).map_or(text.len(), |at| 5 + at);
            let uri = text.get(end + 1..).unwrap_or_default();
            return address(&text[..end], None, uri);
        }
        let end = memchr::memchr2(b'/', b'?', text).unwrap_or(text.len());
        let (authority, uri) = text.split_at(end);
        let colon = match authority.first() {
            Some(b'[') => {
                let close = memchr::memchr(b']', authority)?;
                (close + 1 < authority.len()).then_some(close + 1)
            }
            _ => memchr::memchr(b':', authority),
        };
        match colon {
            None => address(authority, None, uri),
            Some(colon) => {
                let digits = authority[colon..].strip_prefix(b":")?;
                let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
                let port = std::str::from_utf8(digits).ok()?.parse().ok();
                let port = port.filter(|port| is_number && *port > 0)?;
                address(&authority[..colon], Some(port), uri)
            }
        }
    }

    /// Whether the address needs no DNS lookup.
    fn is_literal(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        self.host.starts_with("unix:") || bare.parse::<IpAddr>().is_ok()
    }

    /// The upstream group that this address may name.
    fn group_name(&self) -> Option<String> {
        let is_name = self.port.is_none() && !self.host.starts_with(['[']);
        is_name.then(|| self.host.to_ascii_lowercase())
    }

    fn dial(&self) -> Vec<u8> {
        match self.host.strip_prefix("unix:") {
            Some(path) => format!("unix/{path}"),
            None => format!("{}:{}", self.host, self.port.unwrap_or(self.usual_port)),
        }
        .into_bytes()
    }

    fn passed(&self, dial: Vec<u8>) -> Passed {
        let port = self.port.unwrap_or(self.usual_port);
        let host = match self.host.starts_with("unix:") {
            true => "localhost".to_owned(),
            false if port == self.usual_port => self.host.to_owned(),
            false => format!("{}:{port}", self.host),
        };
        Passed {
            dial,
            host: host.into_bytes(),
            port,
            uri: request_target(self.uri),
        }
    }
}

/// Strips a scheme, ignoring case.
fn after<'t>(text: &'t [u8], scheme: &str) -> Option<&'t [u8]> {
    let start = text.get(..scheme.len())?;
    let is_it = start.eq_ignore_ascii_case(scheme.as_bytes());
    is_it.then(|| &text[scheme.len()..])
}

/// The request target for a path and query: unchanged, except that bytes that would end the request line are
/// escaped. nginx does not escape them, so `$uri` here lets clients inject requests.
fn request_target(uri: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(uri.len() + 1);
    if uri.starts_with(b"?") {
        out.push(b'/');
    }
    for byte in uri {
        match byte {
            0..=0x20 | 0x7f => push_escape(&mut out, *byte),
            _ => out.push(*byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        for (text, host, port, uri, dial, shown) in [
            ("http://a", "a", None, "", "a:80", "a"),
            (
                "HTTPS://a.example/x?y",
                "a.example",
                None,
                "/x?y",
                "a.example:443",
                "a.example",
            ),
            ("http://a:81?q", "a", Some(81), "?q", "a:81", "a:81"),
            ("http://a:80/", "a", Some(80), "/", "a:80", "a"),
            (
                "https://[::1]:8443/b",
                "[::1]",
                Some(8443),
                "/b",
                "[::1]:8443",
                "[::1]:8443",
            ),
            ("http://[::1]", "[::1]", None, "", "[::1]:80", "[::1]"),
            (
                "http://unix:/run/a.sock",
                "unix:/run/a.sock",
                None,
                "",
                "unix//run/a.sock",
                "localhost",
            ),
            (
                "http://unix:/run/a.sock:/b",
                "unix:/run/a.sock",
                None,
                "/b",
                "unix//run/a.sock",
                "localhost",
            ),
        ] {
            let address = Address::of_url(text.as_bytes()).expect(text);
            assert_eq!(
                (address.host, address.port, address.uri),
                (host, port, uri.as_bytes()),
                "{text}"
            );
            assert_eq!(address.dial(), dial.as_bytes(), "{text}");
            assert_eq!(address.passed(Vec::new()).host, shown.as_bytes(), "{text}");
        }
        for wrong in [
            "",
            "a",
            "ftp://a",
            "http://",
            "http://:80",
            "http://a:",
            "http://a:x",
            "http://a:0",
            "http://[::1",
            "http://[::1]x",
        ] {
            assert_eq!(Address::of_url(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn calls_have_a_scheme_or_none() {
        for (text, scheme, dial) in [
            ("a", "grpc://", "a:80"),
            ("grpc://a:50051", "grpc://", "a:50051"),
            ("grpcs://a", "grpcs://", "a:443"),
            ("unix:/run/x", "grpc://", "unix//run/x"),
        ] {
            let address = Address::of_grpc(text.as_bytes()).expect(text);
            assert_eq!(address.scheme, scheme, "{text}");
            assert_eq!(address.dial(), dial.as_bytes(), "{text}");
        }
        assert_eq!(Address::of_grpc(b"grpc://a/path"), None);
        assert_eq!(Address::of_grpc(b"http://a"), None);
    }

    #[test]
    fn no_byte_ends_the_line_of_a_request() {
        assert_eq!(
            request_target(b"/a b\r\nX: y%20?z"),
            b"/a%20b%0D%0AX:%20y%20?z"
        );
        assert_eq!(request_target(b"?q"), b"/?q");
        assert_eq!(request_target(b""), b"");
    }
}
