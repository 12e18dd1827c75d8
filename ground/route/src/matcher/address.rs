//! Ranges of IP addresses. `sluice-serve` determines the client address.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use super::MatcherError;

/// One network: an address and how many of its leading bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpRange {
    network: IpAddr,
    bits: u8,
}

impl IpRange {
    /// Parses a network such as `10.0.0.0/8` or a single address such as `::1`. Bits beyond the prefix are ignored.
    pub fn parse(text: &str) -> Option<IpRange> {
        let (addr, bits) = match text.split_once('/') {
            Some((addr, bits)) => (addr, Some(bits)),
            None => (text, None),
        };
        let network: IpAddr = addr.parse().ok()?;
        let bits_max = if network.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            // Only plain digits without a leading zero: `+8` and `08` are mistakes.
            Some(bits) if bits.starts_with(|first: char| first.is_ascii_digit()) => {
                if bits.len() > 1 && bits.starts_with('0') {
                    return None;
                }
                bits.parse().ok()?
            }
            Some(_) => return None,
            None => bits_max,
        };
        (bits <= bits_max).then_some(IpRange { network, bits })
    }

    /// Whether `ip` is in the network. An IPv4 address written in IPv6 counts as IPv4.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.network, ip.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => {
                let differing = network.to_bits() ^ ip.to_bits();
                differing.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(network), IpAddr::V6(ip)) => {
                let differing = network.to_bits() ^ ip.to_bits();
                differing.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Addresses that follow each other, as numbers: a network, or from one address to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressSpan {
    /// Whether they are of IPv6.
    pub is_v6: bool,
    /// The first one.
    pub first: u128,
    /// The last one.
    pub last: u128,
}

impl AddressSpan {
    /// Those of a network, `10.0.0.0/8` or `::1`.
    pub fn of_network(text: &str) -> Option<AddressSpan> {
        let range = IpRange::parse(text)?;
        let (is_v6, number, all) = match range.network {
            IpAddr::V4(ip) => (false, u128::from(ip.to_bits()), 32),
            IpAddr::V6(ip) => (true, ip.to_bits(), 128),
        };
        // A shift by all bits is none that there is.
        let free = 1u128.checked_shl(all - u32::from(range.bits));
        let mask = free.map_or(u128::MAX, |free| free - 1);
        Some(AddressSpan {
            is_v6,
            first: number & !mask,
            last: number | mask,
        })
    }

    /// Those from one address of IPv4 to another, `10.0.0.1-10.0.0.9`.
    pub fn of_range(text: &str) -> Option<AddressSpan> {
        let (first, last) = text.split_once('-')?;
        let number = |text: &str| text.parse::<Ipv4Addr>().ok().map(|ip| ip.to_bits().into());
        let span = AddressSpan {
            is_v6: false,
            first: number(first)?,
            last: number(last)?,
        };
        (span.first <= span.last).then_some(span)
    }

    /// Where an address stands among all of its kind. One of IPv4 written in IPv6 counts as IPv4.
    pub fn number(ip: IpAddr) -> (bool, u128) {
        match ip.to_canonical() {
            IpAddr::V4(ip) => (false, ip.to_bits().into()),
            IpAddr::V6(ip) => (true, ip.to_bits()),
        }
    }
}

/// A list of networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpRanges {
    ranges: Vec<IpRange>,
}

impl IpRanges {
    /// Parses each of `ranges`.
    pub fn new<S: AsRef<str>>(ranges: &[S]) -> Result<IpRanges, MatcherError> {
        let parse = |text: &S| {
            IpRange::parse(text.as_ref()).ok_or_else(|| MatcherError::Range(text.as_ref().into()))
        };
        Ok(IpRanges {
            ranges: ranges.iter().map(parse).collect::<Result<_, _>>()?,
        })
    }

    /// Whether `ip` is in one of the networks.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read() {
        let v4 = |first, last| {
            Some(AddressSpan {
                is_v6: false,
                first,
                last,
            })
        };
        for (text, span) in [
            ("0.0.0.0/0", v4(0, 0xffff_ffff)),
            ("1.2.3.4/24", v4(0x0102_0300, 0x0102_03ff)),
            ("1.2.3.4", v4(0x0102_0304, 0x0102_0304)),
            ("1.2.3.4/33", None),
        ] {
            assert_eq!(AddressSpan::of_network(text), span, "{text}");
        }
        let all = AddressSpan::of_network("::/0").unwrap();
        assert_eq!((all.is_v6, all.first, all.last), (true, 0, u128::MAX));
        for (text, span) in [
            ("0.0.0.1-0.0.0.9", v4(1, 9)),
            ("0.0.0.1-0.0.0.1", v4(1, 1)),
            ("0.0.0.9-0.0.0.1", None),
            ("0.0.0.1", None),
            ("::1-::2", None),
        ] {
            assert_eq!(AddressSpan::of_range(text), span, "{text}");
        }
    }

    #[test]
    fn addresses_are_compared_by_their_leading_bits() {
        for (range, ip, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.1.2.3/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("0.0.0.0/0", "255.1.1.1", true),
            ("0.0.0.0/0", "::1", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("fd00::/8", "fdff::1", true),
            ("::/0", "fe80::1", true),
            ("::1/128", "::2", false),
        ] {
            let ranges = IpRanges::new(&[range]).unwrap();
            assert_eq!(
                ranges.contains(ip.parse().unwrap()),
                expected,
                "{range} {ip}"
            );
        }
    }

    #[test]
    fn invalid_networks_are_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "a",
            "1.2.3.4/",
            "1.2.3.4/+8",
            "1.2.3.4/08",
        ] {
            assert_eq!(
                IpRanges::new(&[text]),
                Err(MatcherError::Range(text.into()))
            );
        }
    }
}
