//! Converts a question into a request: finds the server it reaches and creates the exchange.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use sluice_message::head::split_port;
use sluice_message::name::is_token_byte;
use sluice_message::{ConnInfo, Remote, TlsInfo};
use sluice_model::{Address, Config, Matcher, Server};
use sluice_net::Worker;
use sluice_wire::h1::{self, Progress, RequestDecoder};

use super::Unexplained;
use super::report::Listener;
use sluice_observe::process_values;
use sluice_pipeline::context::Exchange;

/// A request to explain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The method.
    #[serde(default = "get")]
    pub method: String,
    /// `http` or `https`; empty to detect it.
    #[serde(default)]
    pub scheme: String,
    /// Host and port as in a URL; empty to detect them.
    #[serde(default)]
    pub authority: String,
    /// Path and query.
    #[serde(default = "slash")]
    pub target: String,
    /// Additional headers.
    #[serde(default)]
    pub fields: Vec<(String, String)>,
    /// The address of the peer; 127.0.0.1 by default.
    #[serde(default)]
    pub remote_ip: Option<IpAddr>,
}

fn get() -> String {
    "GET".to_owned()
}

fn slash() -> String {
    "/".to_owned()
}

/// The port of the peer, which questions cannot set.
const REMOTE_PORT: u16 = 50_000;

impl Question {
    /// Parses a URL or a part of one: `https://example.com/a?b`, `example.com/a`, `/a`.
    pub fn url(text: &str) -> Result<Question, Unexplained> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None => (String::new(), text),
        };
        if !matches!(scheme.as_str(), "" | "http" | "https") {
            let problem = format!("`{scheme}` is not an HTTP scheme");
            return Err(unexplained(problem, "write `http://` or `https://`"));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if !scheme.is_empty() && authority.is_empty() {
            return Err(unexplained(format!("`{text}` names no host"), ""));
        }
        let authority = authority.rsplit('@').next().unwrap_or_default();
        let target = match target.starts_with('/') {
            true => target.to_owned(),
            false => format!("/{target}"),
        };
        Ok(Question {
            method: get(),
            scheme,
            authority: authority.to_owned(),
            target,
            fields: Vec::new(),
            remote_ip: None,
        })
    }
}

fn unexplained(problem: impl Into<String>, help: impl Into<String>) -> Unexplained {
    Unexplained::Invalid {
        problem: problem.into(),
        help: help.into(),
    }
}

/// The server and URL that a question leads to.
pub(super) struct Found<'m> {
    pub(super) server: &'m Server,
    pub(super) listener: Listener,
    /// The complete URL.
    pub(super) url: String,
    authority: String,
    host: String,
    local: SocketAddr,
}

/// One listen address of one server.
#[derive(Clone)]
struct Door<'m> {
    name: &'m str,
    server: &'m Server,
    host: String,
    /// The port in the question, or the first one of the address.
    port: u16,
}

impl Door<'_> {
    fn speaks_tls(&self) -> bool {
        !self.server.tls_connection_policies.is_empty()
    }

    fn scheme(&self) -> &'static str {
        match self.speaks_tls() {
            true => "https",
            false => "http",
        }
    }

    fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// How well the address matches a client that connects to `host`; higher is better.
    fn fit(&self, host: &str) -> u8 {
        match self.ip() {
            Some(ip) if host.parse() == Ok(ip) => 3,
            None if self.host.is_empty() => 2,
            Some(ip) if ip.is_unspecified() => 2,
            Some(ip) if ip.is_loopback() => 1,
            Some(_) | None => 0,
        }
    }

    /// Whether one of its routes matches this host by name.
    fn names(&self, host: &str) -> bool {
        self.hosts().any(|known| known.eq_ignore_ascii_case(host))
    }

    /// The hosts in the matchers of its routes.
    fn hosts(&self) -> impl Iterator<Item = &str> {
        let sets = self.server.routes.iter().flat_map(|route| &route.r#match);
        let hosts = sets.flat_map(|set| &set.0).filter_map(|m| match m {
            Matcher::Host(hosts) => Some(hosts),
            _ => None,
        });
        hosts.flatten().map(String::as_str)
    }
}

/// Finds the server that a question leads to.
pub(super) fn find<'m>(config: &'m Config, question: &Question) -> Result<Found<'m>, Unexplained> {
    let (host, port) = split_port(question.authority.as_bytes());
    let host = String::from_utf8_lossy(host).into_owned();
    let port = port.or(match question.scheme.as_str() {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    });
    let doors = doors(config, port);
    let mut assumed = Vec::new();
    let door = choose(&doors, &question.scheme, &host, port)
        .ok_or_else(|| nobody(config, port, &host, &question.scheme))?;
    if question.scheme.is_empty() {
        assumed.push(format!("the scheme is `{}`", door.scheme()));
    }
    let host = match host.is_empty() {
        false => host,
        true => {
            let plain = |host: &&str| !host.contains(['*', '{']);
            let host = door.hosts().find(plain).unwrap_or("localhost").to_owned();
            assumed.push(format!("the host is `{host}`"));
            host
        }
    };
    let scheme = door.scheme();
    let usual = if door.speaks_tls() { 443 } else { 80 };
    let bracketed = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.clone(),
    };
    let authority = match door.port == usual {
        true => bracketed,
        false => format!("{bracketed}:{}", door.port),
    };
    let local = door.ip().filter(|ip| !ip.is_unspecified());
    Ok(Found {
        server: door.server,
        listener: Listener {
            server: door.name.to_owned(),
            address: listen_text(&door),
            tls: door.speaks_tls(),
            assumed,
        },
        url: format!("{scheme}://{authority}{}", question.target),
        authority,
        host,
        local: (local.unwrap_or(Ipv4Addr::LOCALHOST.into()), door.port).into(),
    })
}

fn listen_text(door: &Door<'_>) -> String {
    match door.host.contains(':') {
        true => format!("[{}]:{}", door.host, door.port),
        false => format!("{}:{}", door.host, door.port),
    }
}

/// All listen addresses with this port; without a port all of them, with their first port.
fn doors(config: &Config, port: Option<u16>) -> Vec<Door<'_>> {
    let mut doors = Vec::new();
    for (name, server) in config.servers() {
        for text in &server.listen {
            let text = process_values::expand(text);
            let Some(address) = text.ok().and_then(|text| Address::parse(&text).ok()) else {
                continue;
            };
            let Some(ports) = address.ports else { continue };
            let range = ports.first..=ports.last;
            if port.is_some_and(|port| !range.contains(&port)) {
                continue;
            }
            doors.push(Door {
                name,
                server,
                host: address.host,
                port: port.unwrap_or(ports.first),
            });
        }
    }
    doors
}

fn choose<'m>(doors: &[Door<'m>], scheme: &str, host: &str, port: Option<u16>) -> Option<Door<'m>> {
    let fits = |door: &&Door<'_>| scheme.is_empty() || door.scheme() == scheme;
    let rank = |door: &&Door<'_>| {
        let named = port.is_none() && !host.is_empty() && door.names(host);
        // Without a port browsers try TLS first, and explaining a server that only redirects is of little use.
        (named, port.is_none() && door.speaks_tls(), door.fit(host))
    };
    let best = doors.iter().filter(fits).map(|door| rank(&door)).max()?;
    doors
        .iter()
        .filter(fits)
        .find(|door| rank(door) == best)
        .cloned()
}

/// The reason why no server receives a request.
fn nobody(config: &Config, port: Option<u16>, host: &str, scheme: &str) -> Unexplained {
    let Some(port) = port else {
        return unexplained("this configuration has no server on a TCP port", "");
    };
    if let Some(door) = doors(config, Some(port)).first() {
        let host = if host.is_empty() { "localhost" } else { host };
        let (problem, other) = match door.speaks_tls() {
            true => ("speaks TLS, so it does not respond to plain HTTP", "https"),
            false => ("speaks plain HTTP, so it does not respond to TLS", "http"),
        };
        let usual = if other == "https" { 443 } else { 80 };
        let port_text = match port == usual {
            true => String::new(),
            false => format!(":{port}"),
        };
        return unexplained(
            format!("{} {problem}", listen_text(door)),
            format!("ask for `{other}://{host}{port_text}/`"),
        );
    }
    let mut listens: Vec<&str> = config
        .servers()
        .flat_map(|(_, server)| server.listen.iter().map(String::as_str))
        .collect();
    listens.sort_unstable();
    listens.dedup();
    let why = match scheme {
        "" => String::new(),
        scheme => format!(", which `{scheme}://` means here"),
    };
    unexplained(
        format!("nobody listens on port {port}{why}"),
        format!("this configuration listens on {}", listens.join(", ")),
    )
}

/// Creates the exchange of a request.
pub(super) fn exchange(found: &Found<'_>, question: &Question) -> Result<Exchange, Unexplained> {
    let mut exchange = Exchange::new(Rc::new(conn(found, question)), Worker::new(0, 1));
    let head = head(found, question)?;
    // The same decoder as for connections decides whether the request is valid.
    let mut decoder = RequestDecoder::new();
    match decoder.decode(&h1::Limits::DEFAULT, &head, &mut exchange.req) {
        Ok(Progress::Complete { .. }) => Ok(exchange),
        Ok(Progress::Incomplete) => Err(unexplained("this is not a valid request", "")),
        Err(error) => Err(unexplained(
            format!("a server refuses this request: {error}"),
            format!(
                "the response is {} {}",
                error.status().code(),
                error.status().reason()
            ),
        )),
    }
}

fn head(found: &Found<'_>, question: &Question) -> Result<Vec<u8>, Unexplained> {
    let is_visible = |byte: u8| byte > b' ' && byte != 0x7f;
    if !question.target.bytes().all(is_visible) {
        let problem = format!("`{}` holds a space or control character", question.target);
        return Err(unexplained(
            problem,
            "percent-encode it, for example `%20` for a space",
        ));
    }
    let mut head = format!("{} {} HTTP/1.1\r\n", question.method, question.target);
    let named = |(name, _): &(String, String)| name.eq_ignore_ascii_case("host");
    if !question.fields.iter().any(named) {
        head.push_str(&format!("Host: {}\r\n", found.authority));
    }
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(is_token_byte);
    if !is_token(&question.method) {
        return Err(unexplained(
            format!("`{}` is not a valid method", question.method),
            "",
        ));
    }
    for (name, value) in &question.fields {
        // A line break in the value would start another header.
        if !is_token(name) || value.contains(['\r', '\n', '\0']) {
            return Err(unexplained(
                format!("`{name}: {value}` is not a valid header"),
                "write it as `Name: value`",
            ));
        }
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    Ok(head.into_bytes())
}

fn conn(found: &Found<'_>, question: &Question) -> ConnInfo {
    let remote = question.remote_ip.unwrap_or(Ipv4Addr::LOCALHOST.into());
    let tls = found.listener.tls.then(|| {
        // SNI does not contain IP addresses (RFC 6066, section 3).
        let is_name = found.host.parse::<IpAddr>().is_err();
        let name = if is_name { found.host.as_str() } else { "" };
        Box::new(TlsInfo {
            version: "tls1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            server_name: name.to_ascii_lowercase(),
            alpn: b"http/1.1".to_vec(),
            ..TlsInfo::default()
        })
    });
    ConnInfo {
        remote: Remote::Ip((remote, REMOTE_PORT).into()),
        local: Some(found.local).into(),
        tls,
        facts: Default::default(),
    }
}
