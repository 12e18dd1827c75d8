//! `set_real_ip_from`: takes the client address from a trusted proxy.

use std::net::{IpAddr, SocketAddr};

use sluice_message::{Remote, head};
use sluice_model::nginx::RealIp as Config;
use sluice_route::matcher::IpRanges;

use crate::state::NginxContext;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;

/// The trusted proxies and the source of the address.
#[derive(Debug)]
pub struct RealIp {
    trusted: IpRanges,
    unix: Unix,
    source: AddressSource,
    search: Search,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unix {
    Trusted,
    Untrusted,
}

/// The source of the address (`real_ip_header`).
#[derive(Debug)]
enum AddressSource {
    Field(Box<[u8]>),
    /// The header of the PROXY protocol.
    Header,
}

/// Which address of a list is used (`real_ip_recursive`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// The last.
    Last,
    /// The last one that is not itself trusted.
    LastUntrusted,
}

/// Sets the address for a location with its own settings.
struct InPlace(RealIp);

/// Builds the handler.
pub fn build(config: &Config) -> Result<Box<dyn Handler>, Refusal> {
    Ok(Box::new(InPlace(RealIp::build(config)?)))
}

impl Handler for InPlace {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        // An address set at server level is not replaced, as in nginx.
        if exchange.context.nginx().real_port.is_none() {
            self.0.set(exchange);
        }
        Step::Next
    }
}

impl RealIp {
    /// Parses the directives.
    pub fn build(config: &Config) -> Result<RealIp, Refusal> {
        Ok(RealIp {
            trusted: IpRanges::new(&config.from)
                .map_err(|error| Refusal::new(format!("set_real_ip_from: {error}")))?,
            unix: match config.from_unix {
                true => Unix::Trusted,
                false => Unix::Untrusted,
            },
            source: match config.field.as_str() {
                "" => AddressSource::Header,
                field => AddressSource::Field(field.as_bytes().into()),
            },
            search: match config.recursive {
                true => Search::LastUntrusted,
                false => Search::Last,
            },
        })
    }

    /// Sets the client address, if the peer is trusted.
    pub fn set(&self, exchange: &mut Exchange) {
        let is_trusted = match exchange.conn.remote {
            Remote::Unix => self.unix == Unix::Trusted,
            Remote::Ip(addr) => self.trusted.contains(addr.ip()),
        };
        if !is_trusted {
            return;
        }
        // Also without an address of a client: its health checks have a priority and an ID as well.
        exchange.context.from_trusted_proxy = true;
        let found = match &self.source {
            AddressSource::Header => exchange.conn.facts.proxied.as_ref().map(|ends| ends.source),
            AddressSource::Field(name) => {
                let lines: Vec<&[u8]> = exchange.req.fields.find(name).collect();
                self.find(&lines)
            }
        };
        if let Some(client) = found {
            exchange.context.client_ip = Some(client.ip());
            exchange.context.nginx_mut().real_port = Some(client.port());
        }
    }

    /// The address reported by the proxy at `ip`, if it is trusted; else `ip`.
    pub fn behind(&self, exchange: &Exchange, ip: IpAddr) -> IpAddr {
        let AddressSource::Field(name) = &self.source else {
            return ip;
        };
        if !self.trusted.contains(ip) {
            return ip;
        }
        let lines: Vec<&[u8]> = exchange.req.fields.find(name).collect();
        self.find(&lines).map_or(ip, |client| client.ip())
    }

    /// Searches from the right. An invalid address ends the search: text to the left of it may be forged.
    fn find(&self, lines: &[&[u8]]) -> Option<SocketAddr> {
        let texts = lines.iter().rev().flat_map(|line| {
            line.rsplit(|byte| matches!(byte, b',' | b' '))
                .filter(|text| !text.is_empty())
        });
        let mut found = None;
        for text in texts {
            let Some(client) = address(text) else { break };
            found = Some(client);
            if self.search == Search::Last || !self.trusted.contains(client.ip()) {
                break;
            }
        }
        found
    }
}

/// Parses an address with an optional port (0 if absent).
fn address(text: &[u8]) -> Option<SocketAddr> {
    let parse = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<IpAddr>().ok();
    let (ip, port) = match parse(text) {
        Some(ip) => (ip, 0),
        None => match head::split_port(text) {
            (host, Some(port)) if port != 0 => (parse(host)?, port),
            (host, None) if text.ends_with(b"]") => (parse(host)?, 0),
            _ => return None,
        },
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(recursive: bool, lines: &[&str]) -> Option<String> {
        let config = Config {
            from: vec!["10.0.0.0/8".to_owned(), "2001:db8::/32".to_owned()],
            field: "X-Forwarded-For".to_owned(),
            recursive,
            ..Config::default()
        };
        let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        let real = RealIp::build(&config).expect("the networks are right");
        real.find(&lines).map(|client| client.ip().to_string())
    }

    #[test]
    fn the_last_address_counts_or_the_last_that_is_not_trusted() {
        for (lines, last, untrusted) in [
            (&["1.1.1.1"][..], Some("1.1.1.1"), Some("1.1.1.1")),
            (
                &["1.1.1.1, 2.2.2.2,10.0.0.1"],
                Some("10.0.0.1"),
                Some("2.2.2.2"),
            ),
            (
                &["1.1.1.1", "10.0.0.1 , 10.0.0.2"],
                Some("10.0.0.2"),
                Some("1.1.1.1"),
            ),
            (&["10.0.0.1, 10.0.0.2"], Some("10.0.0.2"), Some("10.0.0.1")),
            (
                &["1.1.1.1, junk, 10.0.0.1"],
                Some("10.0.0.1"),
                Some("10.0.0.1"),
            ),
            (&["1.1.1.1, junk"], None, None),
            (&[""], None, None),
            (&[], None, None),
            (
                &["9.9.9.9:81, [2001:db8::1]:82"],
                Some("2001:db8::1"),
                Some("9.9.9.9"),
            ),
            (&["9.9.9.9:x"], None, None),
            (&["9.9.9.9:0"], None, None),
            (&["9.9.9.9:65536"], None, None),
            (&["[2001:db9::1]"], Some("2001:db9::1"), Some("2001:db9::1")),
        ] {
            assert_eq!(found(false, lines).as_deref(), last, "{lines:?}");
            assert_eq!(found(true, lines).as_deref(), untrusted, "{lines:?}");
        }
    }
}
