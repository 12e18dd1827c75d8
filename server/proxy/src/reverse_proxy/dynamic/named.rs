//! Upstreams with placeholders in their addresses. Clients may be able to influence them, so the addresses are
//! validated before connecting and the number of remembered upstreams is limited. `sluice-net` resolves names and
//! refuses link-local addresses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sluice_message::Moment;
use sluice_model::proxy::Upstream as Config;
use sluice_route::Template;
use sluice_upstream::{Family, Reach};

use super::super::addresses::{Sockets, Way, at_load};
use super::super::making::Maker;
use super::super::upstream::Upstream;
use super::Set;
use crate::limits::{NAME_BYTES_MAX, NAMED_UPSTREAMS_MAX};
use sluice_pipeline::build::template;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::expanded;

/// Upstreams of which at least one has a placeholder in its address.
pub struct Named {
    list: Box<[One]>,
    maker: Arc<Maker>,
    sockets: Sockets,
    /// Upstreams used by requests, by address, and when they were last used.
    known: Mutex<HashMap<String, (Arc<Upstream>, Moment)>>,
}

enum One {
    Fixed(Arc<Upstream>),
    Named(Template),
}

impl Named {
    /// Parses the addresses; `None` if they do not depend on the request.
    pub fn build(
        config: &[Config],
        maker: &Arc<Maker>,
        sockets: Sockets,
    ) -> Result<Option<Named>, Refusal> {
        let mut list = Vec::new();
        for upstream in config {
            let text = at_load(&upstream.dial)?;
            let address = template(&text)?;
            list.push(if address.literal().is_none() {
                One::Named(address)
            } else {
                let fixed = Config {
                    dial: text,
                    ..upstream.clone()
                };
                let fixed = Arc::new(maker.fixed(&fixed)?);
                maker.show(&fixed);
                One::Fixed(fixed)
            });
        }
        let is_fixed = list.iter().all(|one| matches!(one, One::Fixed(_)));
        Ok((!is_fixed).then(|| Named {
            list: list.into(),
            maker: maker.clone(),
            sockets,
            known: Mutex::default(),
        }))
    }

    /// The upstreams for `exchange`, without invalid addresses.
    pub fn list(&self, exchange: &Exchange) -> Set {
        self.list
            .iter()
            .filter_map(|one| match one {
                One::Fixed(upstream) => Some(upstream.clone()),
                One::Named(template) => self.find(
                    &expanded(template, exchange),
                    exchange.worker.clock.coarse(),
                ),
            })
            .collect()
    }

    fn find(&self, text: &[u8], now: Moment) -> Option<Arc<Upstream>> {
        let text = std::str::from_utf8(text).ok()?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((upstream, used_at)) = known.get_mut(text) {
            *used_at = now;
            return Some(upstream.clone());
        }
        let upstream = match text.starts_with("unix//") {
            true if self.sockets == Sockets::Named => self.socket(text)?,
            _ => {
                let (host, port) = host_and_port(text)?;
                let way = Way {
                    family: Family::Any,
                    reach: Reach::Beyond,
                };
                self.maker.named(host, port, way)
            }
        };
        let upstream = Arc::new(upstream);
        if known.len() >= NAMED_UPSTREAMS_MAX {
            let oldest = known.iter().min_by_key(|(_, (_, used_at))| *used_at);
            let oldest = oldest.map(|(address, _)| address.clone());
            oldest.and_then(|address| known.remove(&address));
        }
        known.insert(text.to_owned(), (upstream.clone(), now));
        Some(upstream)
    }

    fn socket(&self, dial: &str) -> Option<Upstream> {
        let is_plain = !dial.contains(['\0', '{', '|']) && dial.len() <= NAME_BYTES_MAX;
        let config = Config {
            dial: dial.to_owned(),
            ..Config::default()
        };
        is_plain.then(|| self.maker.fixed(&config).ok()).flatten()
    }
}

/// The host, without brackets, and the port of an address that may come from a client. The port is required rather than
/// guessed.
fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let is_port = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| is_port && *port != 0)?;
    let inside = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host = match inside {
        Some(v6) => {
            v6.parse::<std::net::Ipv6Addr>().ok()?;
            v6
        }
        None => {
            let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            let is_name = !host.is_empty() && host.len() <= NAME_BYTES_MAX;
            Some(host).filter(|host| is_name && host.bytes().all(is_usual))?
        }
    };
    Some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_names_has_to_be_an_address() {
        let good = [
            ("a.example:80", ("a.example", 80)),
            ("10.0.0.1:8080", ("10.0.0.1", 8080)),
            ("[::1]:1", ("::1", 1)),
            ("my_host-1:65535", ("my_host-1", 65535)),
        ];
        for (text, expected) in good {
            assert_eq!(host_and_port(text), Some(expected), "{text}");
        }
        let bad = [
            "",
            ":80",
            "a",
            "a:",
            "a:0",
            "a:65536",
            "a:+80",
            "a:080000",
            "a:8 0",
            "a b:80",
            "a\r\nX: y:80",
            "a/b:80",
            "user@a:80",
            "unix//run/s",
            "unix//run/s:80",
            "::1:80",
            "[::1:80",
            "[a]:80",
            "a:80/x",
            "a?b:80",
            "a#b:80",
            "\u{e4}:80",
            "{header.X}:80",
        ];
        for text in bad {
            assert_eq!(host_and_port(text), None, "{text}");
        }
        assert_eq!(host_and_port(&format!("{}:80", "a".repeat(300))), None);
    }
}
