//! Addresses of upstreams in a configuration.

use sluice_route::{Found, Key, Unknown, Values};
use sluice_upstream::{Address, Family, Reach};

use sluice_pipeline::build::template;
use sluice_pipeline::refusal::Refusal;

/// Parses `dial`: the address, its representation in `Host`, and its port.
pub(super) fn address_of(dial: &str) -> Result<(Address, String, Option<u16>), Refusal> {
    let refuse = |why: &str| Refusal::new(format!("upstream `{dial}`: {why}"));
    if dial.contains('{') {
        return Err(refuse("no placeholder may stand in this address"));
    }
    let parsed = sluice_model::Address::parse(dial).map_err(|error| refuse(&error.to_string()))?;
    match (parsed.network.as_str(), parsed.ports) {
        ("unix", None) if !parsed.host.is_empty() => {
            Ok((Address::unix(&parsed.host), "localhost".to_owned(), None))
        }
        ("" | "tcp" | "tcp4" | "tcp6", Some(ports)) if ports.count() == 1 => {
            let host = if parsed.host.is_empty() {
                "localhost"
            } else {
                &parsed.host
            };
            Ok(tcp(host, ports.first))
        }
        ("" | "tcp" | "tcp4" | "tcp6", None) => Err(refuse("it needs a port")),
        _ => Err(refuse("expected `host:port` or `unix//path`")),
    }
}

/// Like [`address_of`], for a host without brackets and a port.
pub(super) fn tcp(host: &str, port: u16) -> (Address, String, Option<u16>) {
    let authority = if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    (Address::tcp(host, port), authority, Some(port))
}

/// Expands the placeholders of `dial` that are known when the configuration is loaded.
pub fn at_load(dial: &str) -> Result<String, Refusal> {
    let mut text = Vec::new();
    template(dial)?.expand(&AtLoad, Unknown::Keep, &mut text);
    String::from_utf8(text).map_err(|_| Refusal::new(format!("upstream `{dial}` is not UTF-8")))
}

/// Placeholders known when the configuration is loaded.
struct AtLoad;

impl Values for AtLoad {
    fn value(&self, key: &Key, out: &mut Vec<u8>) -> Found {
        match key {
            Key::Env(name) => {
                let value = std::env::var(&**name).unwrap_or_default();
                out.extend_from_slice(value.as_bytes());
                Found::Known
            }
            _ => Found::Unknown,
        }
    }
}

/// Whether a placeholder may give the path of a Unix domain socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// It may.
    Named,
    /// It may not.
    Refused,
}

/// How to connect to upstreams that are not in the configuration.
#[derive(Clone, Copy)]
pub struct Way {
    /// The IP version.
    pub family: Family,
    /// Which addresses are allowed.
    pub reach: Reach,
}
