//! Masks IP addresses, so that a line shows the network rather than the person.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Deserialize;

/// The number of leading bits to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpMask {
    ipv4: u32,
    ipv6: u32,
}

/// The settings; missing ones mean zero bits.
#[derive(Deserialize)]
pub struct RawMask {
    #[serde(default)]
    ipv4_cidr: u32,
    #[serde(default)]
    ipv6_cidr: u32,
}

impl IpMask {
    /// Validates the numbers of bits.
    pub fn build(raw: RawMask) -> Result<IpMask, String> {
        for (bits, max) in [(raw.ipv4_cidr, 32), (raw.ipv6_cidr, 128)] {
            if bits > max {
                return Err(format!("{bits} is not a number of bits up to {max}"));
            }
        }
        Ok(IpMask {
            ipv4: raw.ipv4_cidr,
            ipv6: raw.ipv6_cidr,
        })
    }

    /// Masks each address in a comma-separated list; anything else remains.
    pub fn apply(self, text: &str) -> String {
        let parts: Vec<String> = text.split(',').map(|part| self.one(part.trim())).collect();
        parts.join(", ")
    }

    fn one(self, text: &str) -> String {
        if let Ok(ip) = text.parse() {
            return self.masked(ip).to_string();
        }
        // With a port: `10.0.0.1:80`, `[2001:db8::1]:80`.
        let bare = |host: &str| {
            let inner = host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'));
            inner.unwrap_or(host).parse().ok()
        };
        match text.rsplit_once(':').map(|(host, port)| (bare(host), port)) {
            Some((Some(ip @ IpAddr::V4(_)), port)) => format!("{}:{port}", self.masked(ip)),
            Some((Some(ip @ IpAddr::V6(_)), port)) => format!("[{}]:{port}", self.masked(ip)),
            Some((None, _)) | None => text.to_owned(),
        }
    }

    fn masked(self, ip: IpAddr) -> IpAddr {
        match ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - self.ipv4).unwrap_or(0);
                Ipv4Addr::from_bits(ip.to_bits() & mask).into()
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - self.ipv6).unwrap_or(0);
                Ipv6Addr::from_bits(ip.to_bits() & mask).into()
            }
        }
    }
}
