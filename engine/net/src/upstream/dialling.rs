//! How connections to an upstream are made where the plain way will not do: other resolvers, a fixed address of our
//! own, a proxy in between. Making them is left to `dial`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::tls::Connector;
use crate::upstream::resolver::{Family, Resolver};

/// How connections are made. Upstreams that are dialled plainly have none of it, at the price of one empty pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dialling {
    /// Who is asked for the addresses of names; the system where there is none.
    pub resolver: Option<Resolver>,
    /// The versions of IP that are dialled.
    pub family: Family,
    /// The address dialled from.
    pub local_address: Option<IpAddr>,
    /// How much the system keeps of what comes on a connection, and of what goes.
    pub buffers: SocketBuffers,
    /// How long addresses of the other version of IP wait for the first ones.
    pub fallback: Fallback,
    /// The proxy to go through.
    pub through: Option<Through>,
    /// Which addresses may be dialled.
    pub reach: Reach,
    /// How long the TLS handshake may take, within the time for dialling.
    pub handshake_timeout: Option<Duration>,
}

/// How much the system keeps of what comes on a connection, and of what goes, in bytes; its own choice where nothing is
/// said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketBuffers {
    /// Of what comes.
    pub receive: Option<u32>,
    /// Of what goes.
    pub send: Option<u32>,
}

/// When the addresses of the other version of IP are tried beside the first (RFC 8305).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// After [`crate::upstream::limits::FALLBACK_DELAY`].
    #[default]
    Usual,
    /// After this long.
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
    /// None that only mean something on this link, no group and none without a host: a request names the upstream,
    /// and the addresses of a cloud's metadata service are among these.
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

/// The metadata service of a large cloud, which is not on the link.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// A proxy between us and the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Through {
    /// What it speaks.
    pub protocol: ProxyProtocol,
    /// Its host, a name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection to the proxy itself is encrypted; it is not where `None`.
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

/// What a proxy speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// HTTP's CONNECT (RFC 9110, section 9.3.6).
    Connect {
        /// The value of Proxy-Authorization.
        authorization: Option<String>,
    },
    /// SOCKS 5 (RFC 1928). It is the proxy that looks names up.
    Socks5 {
        /// Who we are to it: name and password, of 255 bytes at most each (RFC 1929).
        credentials: Option<(String, String)>,
    },
}

/// Addresses in the order to dial them: those of one version of IP, and the others.
pub(super) fn split(addresses: &[SocketAddr]) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
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
