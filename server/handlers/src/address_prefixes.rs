//! The prefixes of addresses that identify a client, for limits by client.

use std::net::IpAddr;

use sluice_pipeline::refusal::Refusal;

/// The lengths of these prefixes, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressPrefixes {
    v4: u8,
    v6: u8,
}

impl AddressPrefixes {
    /// The lengths in the configuration, where 0 is the default.
    ///
    /// # Errors
    ///
    /// Addresses have fewer bits.
    pub(crate) fn build(v4: i64, v6: i64, defaults: (u8, u8)) -> Result<AddressPrefixes, Refusal> {
        let prefix = |bits: i64, all: u8, default: u8| match bits {
            0 => Ok(default),
            _ => u8::try_from(bits)
                .ok()
                .filter(|bits| *bits <= all)
                .ok_or_else(|| {
                    Refusal::new(format!("a prefix of {bits} bits"))
                        .with_help(format!("such addresses have 1 to {all} bits"))
                }),
        };
        Ok(AddressPrefixes {
            v4: prefix(v4, 32, defaults.0)?,
            v6: prefix(v6, 128, defaults.1)?,
        })
    }

    /// Replaces a key that is an address by its prefix.
    pub(crate) fn shorten(self, key: &mut Vec<u8>) {
        if self.v4 < 32 || self.v6 < 128 {
            let text = std::str::from_utf8(key).ok();
            if let Some(ip) = text.and_then(|text| text.parse::<IpAddr>().ok()) {
                *key = self.of(ip).to_string().into_bytes();
            }
        }
    }

    /// The prefix of an address.
    pub(crate) fn of(self, ip: IpAddr) -> IpAddr {
        match ip.to_canonical() {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.v4)).unwrap_or(0);
                IpAddr::V4((u32::from(ip) & mask).into())
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.v6)).unwrap_or(0);
                IpAddr::V6((u128::from(ip) & mask).into())
            }
        }
    }
}
