//! Options for dialling an upstream: other resolvers, a fixed local address, a proxy in between. `dial` applies them.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::resolver::{Family, Resolver};
use sluice_net::tls::Connector;

/// Options for dialling. Upstreams without any of them store only a null pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dialling {
    /// The resolver for host names; the system's if `None`.
    pub resolver: Option<Resolver>,
    /// The IP versions to use.
    pub family: Family,
    /// The local address to bind to; the system chooses the port if it is 0.
    pub local_address: Option<SocketAddr>,
    /// The kernel's socket buffer sizes.
    pub buffers: SocketBuffers,
    /// How long addresses of the other IP version wait for the first ones.
    pub fallback: Fallback,
    /// The proxy to use.
    pub through: Option<Through>,
    /// Which addresses may be dialled.
    pub reach: Reach,
    /// Timeout of the TLS handshake, within the dial timeout.
    pub handshake_timeout: Option<Duration>,
}

/// The kernel's socket buffer sizes in bytes; its defaults if `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketBuffers {
    /// Receive buffer.
    pub receive: Option<u32>,
    /// Send buffer.
    pub send: Option<u32>,
}

/// When to try addresses of the other IP version in parallel (RFC 8305).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// After [`crate::limits::FALLBACK_DELAY`].
    #[default]
    Usual,
    /// After this delay.
    After(Duration),
    /// Only when the first ones have failed.
    Never,
}

/// Which addresses may be dialled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// All: the configuration names the upstream.
    #[default]
    Anywhere,
    /// No link-local, multicast, broadcast or unspecified addresses: a request names the upstream, and the metadata
    /// services of cloud providers use such addresses.
    Beyond,
}

impl Reach {
    /// Whether `ip` may be dialled.
    pub fn allows(self, ip: IpAddr) -> bool {
        match self {
            Reach::Anywhere => true,
            Reach::Beyond => !is_special(ip.to_canonical()),
        }
    }
}

fn is_special(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            ip.is_link_local()
                || ip.is_unspecified()
                || ip.is_broadcast()
                || ip.is_multicast()
                // RFC 6890: "this network".
                || ip.octets()[0] == 0
        }
        IpAddr::V6(ip) => {
            ip.is_unicast_link_local()
                || ip.is_unspecified()
                || ip.is_multicast()
                || ip == METADATA_V6
        }
    }
}

/// The metadata service of a large cloud provider, whose address is not link-local.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// A proxy in front of the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Through {
    /// The protocol to use with it.
    pub protocol: ProxyProtocol,
    /// Its host, a name or an IP address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// TLS for the connection to the proxy itself; `None` for plaintext.
    pub tls: Option<ProxyTls>,
}

/// TLS towards a proxy.
#[derive(Clone)]
pub struct ProxyTls(pub Arc<Connector>);

impl fmt::Debug for ProxyTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxyTls")
    }
}

impl PartialEq for ProxyTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ProxyTls {}

/// The protocol of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// HTTP's CONNECT (RFC 9110, section 9.3.6).
    Connect {
        /// The value of the `Proxy-Authorization` header.
        authorization: Option<String>,
    },
    /// SOCKS 5 (RFC 1928). The proxy resolves host names.
    Socks5 {
        /// User name and password, of at most 255 bytes each (RFC 1929).
        credentials: Option<(String, String)>,
    },
}

/// Addresses in the order of dialling: those of the IP version of the first one, and the others.
pub(crate) fn split(addresses: &[SocketAddr]) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
    let first_is_v4 = addresses.first().is_none_or(SocketAddr::is_ipv4);
    addresses
        .iter()
        .partition(|address| address.is_ipv4() == first_is_v4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_lead_to_no_special_address() {
        for special in [
            "169.254.169.254",
            "0.0.0.0",
            "0.1.2.3",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "fe80::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:169.254.169.254",
        ] {
            let ip = special.parse().unwrap();
            assert!(!Reach::Beyond.allows(ip), "{special}");
            assert!(Reach::Anywhere.allows(ip), "{special}");
        }
        for usual in ["127.0.0.1", "10.0.0.1", "192.0.2.1", "::1", "2001:db8::1"] {
            assert!(Reach::Beyond.allows(usual.parse().unwrap()), "{usual}");
        }
    }
}
