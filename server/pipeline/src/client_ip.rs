//! The client address behind trusted proxies. Without trusted proxies it is the address of the peer, whatever headers
//! the peer sends.

use std::net::IpAddr;

use sluice_message::{ConnInfo, FieldName, Fields, Remote, forwarded};
use sluice_model::Server;
use sluice_model::http::IpSource;
use sluice_route::matcher::IpRanges;

use crate::refusal::Refusal;
use crate::values::remote_ip;

/// The proxies that may set the client address, and the headers they use.
pub struct TrustedProxies {
    ranges: IpRanges,
    fields: Vec<FieldName>,
    order: Order,
    unix: Unix,
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// The client is the leftmost address.
    Leftmost,
    /// The client is the rightmost address that does not belong to a trusted proxy.
    RightmostUntrusted,
}

#[derive(Clone, Copy, PartialEq)]
enum Unix {
    Trusted,
    Untrusted,
}

impl TrustedProxies {
    /// Parses the settings of a server; `None` if it does not trust any proxy.
    pub fn build(server: &Server) -> Result<Option<TrustedProxies>, Refusal> {
        let ranges: &[String] = match &server.trusted_proxies {
            Some(IpSource::Static(ranges)) => &ranges.ranges,
            Some(source @ IpSource::Other(_)) => {
                let name = source.module();
                return Err(
                    Refusal::new(format!("unknown source of trusted proxies `{name}`"))
                        .with_help("list the addresses with `trusted_proxies static …`"),
                );
            }
            None => &[],
        };
        if ranges.is_empty() && !server.trusted_proxies_unix {
            return Ok(None);
        }
        let names: Vec<&str> = match server.client_ip_headers.as_slice() {
            [] => vec!["X-Forwarded-For"],
            names => names.iter().map(String::as_str).collect(),
        };
        let name = |text: &&str| {
            FieldName::new(text)
                .ok_or_else(|| Refusal::new(format!("`{text}` is not a valid header name")))
        };
        let strict = server.trusted_proxies_strict != 0;
        Ok(Some(TrustedProxies {
            ranges: IpRanges::new(ranges).map_err(|error| Refusal::new(error.to_string()))?,
            fields: names.iter().map(name).collect::<Result<_, _>>()?,
            order: if strict {
                Order::RightmostUntrusted
            } else {
                Order::Leftmost
            },
            unix: if server.trusted_proxies_unix {
                Unix::Trusted
            } else {
                Unix::Untrusted
            },
        }))
    }

    /// Whether the peer is a trusted proxy.
    pub fn trusts(&self, conn: &ConnInfo) -> bool {
        match conn.remote {
            Remote::Unix => self.unix == Unix::Trusted,
            Remote::Ip(addr) => self.ranges.contains(addr.ip()),
        }
    }

    /// The client address; `None` if it is the address of the peer.
    pub fn client_ip(&self, conn: &ConnInfo, fields: &Fields) -> Option<IpAddr> {
        if !self.trusts(conn) {
            return None;
        }
        let found = self.fields.iter().find_map(|name| {
            let lines = fields.find(name.as_str().as_bytes());
            match name.as_str().eq_ignore_ascii_case("forwarded") {
                true => self.pick(lines.flat_map(forwarded::clients)),
                false => self.pick(lines.flat_map(addresses)),
            }
        });
        found.or_else(|| remote_ip(conn))
    }

    fn pick(&self, mut named: impl Iterator<Item = Option<IpAddr>>) -> Option<IpAddr> {
        match self.order {
            Order::Leftmost => named.find_map(|ip| ip),
            Order::RightmostUntrusted => self.rightmost(named.collect()),
        }
    }

    /// The rightmost address that does not belong to a trusted proxy, if any. An invalid element ends the search:
    /// everything to its left may be forged.
    fn rightmost(&self, named: Vec<Option<IpAddr>>) -> Option<IpAddr> {
        let from_right = named.into_iter().rev().map_while(|ip| ip);
        from_right.into_iter().find(|ip| !self.ranges.contains(*ip))
    }
}

/// The addresses in a list; `None` for an invalid element.
fn addresses(value: &[u8]) -> impl Iterator<Item = Option<IpAddr>> {
    // Ignore empty list elements (RFC 9110, section 5.6.1.2).
    let parts = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    parts.filter(|part| !part.is_empty()).map(|part| {
        let text = std::str::from_utf8(part).ok()?;
        // An IPv6 zone ID is meaningful only on the proxy's host.
        let text = text.split('%').next().unwrap_or_default();
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Some(ip.to_canonical());
        }
        let (host, _) = sluice_message::head::split_port(text.as_bytes());
        std::str::from_utf8(host)
            .ok()?
            .parse::<IpAddr>()
            .ok()
            .map(|ip| ip.to_canonical())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(strict: i64) -> TrustedProxies {
        let ranges = sluice_model::matcher::IpRanges {
            ranges: vec!["10.0.0.0/8".to_owned()],
        };
        let server = Server {
            trusted_proxies: Some(IpSource::Static(ranges)),
            trusted_proxies_strict: strict,
            ..Server::default()
        };
        TrustedProxies::build(&server).unwrap().unwrap()
    }

    fn client(strict: i64, peer: &str, forwarded: &str) -> Option<String> {
        let remote = Remote::Ip(format!("{peer}:1").parse().unwrap());
        let conn = ConnInfo {
            remote,
            local: None.into(),
            tls: None,
            facts: Default::default(),
        };
        let mut fields = Fields::new();
        fields.push(sluice_message::FieldId::XForwardedFor, forwarded.as_bytes());
        proxies(strict)
            .client_ip(&conn, &fields)
            .map(|ip| ip.to_string())
    }

    #[test]
    fn forwarded_is_read_where_it_is_named() {
        let ranges = sluice_model::matcher::IpRanges {
            ranges: vec!["10.0.0.0/8".to_owned()],
        };
        for (strict, value, expected) in [
            (0, "for=9.9.9.9;proto=https, for=8.8.8.8", "9.9.9.9"),
            (
                1,
                "for=9.9.9.9, for=\"[2001:db8::1]:1\", for=10.0.0.2",
                "2001:db8::1",
            ),
            (1, "for=9.9.9.9, for=unknown, for=10.0.0.2", "7.7.7.7"),
        ] {
            let server = Server {
                trusted_proxies: Some(IpSource::Static(ranges.clone())),
                trusted_proxies_strict: strict,
                client_ip_headers: vec!["Forwarded".to_owned(), "X-Forwarded-For".to_owned()],
                ..Server::default()
            };
            let proxies = TrustedProxies::build(&server).unwrap().unwrap();
            let conn = ConnInfo {
                remote: Remote::Ip("10.0.0.1:1".parse().unwrap()),
                local: None.into(),
                tls: None,
                facts: Default::default(),
            };
            let mut fields = Fields::new();
            fields.push(sluice_message::FieldId::Forwarded, value.as_bytes());
            fields.push(sluice_message::FieldId::XForwardedFor, b"7.7.7.7");
            let found = proxies.client_ip(&conn, &fields).unwrap().to_string();
            assert_eq!(found, expected, "{value}");
        }
    }

    #[test]
    fn only_trusted_peers_are_believed() {
        assert_eq!(client(0, "1.2.3.4", "9.9.9.9"), None);
        assert_eq!(
            client(0, "10.0.0.1", "9.9.9.9, 8.8.8.8").as_deref(),
            Some("9.9.9.9")
        );
    }

    #[test]
    fn strictly_the_first_untrusted_from_the_right_is_the_client() {
        assert_eq!(
            client(1, "10.0.0.1", "9.9.9.9, 8.8.8.8, 10.0.0.2").as_deref(),
            Some("8.8.8.8")
        );
        // Elements to the left of the junk may be forged, and there is no other candidate, so the peer is the client.
        assert_eq!(
            client(1, "10.0.0.1", "9.9.9.9, junk, 10.0.0.2").as_deref(),
            Some("10.0.0.1")
        );
        assert_eq!(
            client(1, "10.0.0.1", "10.1.1.1, 10.1.1.2").as_deref(),
            Some("10.0.0.1")
        );
        assert_eq!(
            client(1, "10.0.0.1", ", 9.9.9.9 ,").as_deref(),
            Some("9.9.9.9")
        );
        assert_eq!(client(1, "10.0.0.1", "").as_deref(), Some("10.0.0.1"));
    }
}
