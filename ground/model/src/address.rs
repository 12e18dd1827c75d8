//! Network addresses with port ranges: `:8080`, `tcp/127.0.0.1:8080-8085`, `unix//run/app.sock`. Placeholders must be
//! replaced before parsing; host names are not resolved here.

use alloc::string::{String, ToString};
use core::fmt;

/// Where to listen or what to dial, as text has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The network, empty for the default (`tcp`).
    pub network: String,
    /// A host name, an IP address without brackets, a path for unix sockets, or empty for all.
    pub host: String,
    /// The ports; absent where none was given and for unix sockets.
    pub ports: Option<PortRange>,
}

/// An inclusive range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRange {
    /// The first port.
    pub first: u16,
    /// The last port, equal to the first for a single one.
    pub last: u16,
}

crate::walk::without_text!(PortRange);

impl PortRange {
    /// Reads `port[-port]`.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        parse_ports(text)
    }

    /// One port.
    pub const fn single(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }

    /// How many ports there are.
    pub const fn count(self) -> u32 {
        self.last as u32 - self.first as u32 + 1
    }
}

/// Why a text is not a valid address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// A port is not a number below 65,536; holds the text of the port.
    InvalidPort(String),
    /// The end of a port range lies before its start.
    ReversedRange(PortRange),
    /// More than one colon without brackets around the host.
    TooManyColons,
    /// A bracket is not closed, or something other than a port follows it.
    Brackets,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidPort(port) => write!(f, "invalid port `{port}`"),
            Self::ReversedRange(range) => {
                write!(
                    f,
                    "port range {}-{} ends before it starts",
                    range.first, range.last
                )
            }
            Self::TooManyColons => f.write_str("too many colons; write IPv6 addresses in brackets"),
            Self::Brackets => f.write_str("unbalanced brackets"),
        }
    }
}

impl core::error::Error for AddressError {}

impl Address {
    /// Reads `[network/][host][:port[-port]]`.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let (network, rest) = match text.split_once('/') {
            Some((network, rest)) => (network.trim().to_ascii_lowercase(), rest),
            None => (String::new(), text),
        };
        if !has_ports(&network) {
            return Ok(Self {
                network,
                host: rest.to_string(),
                ports: None,
            });
        }
        let (host, port) = split_host_port(rest)?;
        let ports = match port {
            None | Some("") => None,
            Some(port) => Some(parse_ports(port)?),
        };
        Ok(Self {
            network,
            host: host.to_string(),
            ports,
        })
    }

    /// Whether this is a unix socket, in the file system or in the abstract namespace.
    pub fn is_unix(&self) -> bool {
        !has_ports(&self.network) && !self.is_fd()
    }

    /// Whether this kind of address has a port.
    pub fn has_ports(&self) -> bool {
        has_ports(&self.network)
    }

    /// Whether this is an inherited file descriptor.
    pub fn is_fd(&self) -> bool {
        matches!(self.network.as_str(), "fd" | "fdgram")
    }
}

fn has_ports(network: &str) -> bool {
    !matches!(
        network,
        "unix" | "unixgram" | "unixpacket" | "unix+h2c" | "fd" | "fdgram"
    )
}

fn split_host_port(text: &str) -> Result<(&str, Option<&str>), AddressError> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or(AddressError::Brackets)?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err(AddressError::Brackets),
        };
    }
    match text.split_once(':') {
        None => Ok((text, None)),
        Some((_, port)) if port.contains(':') => {
            // A bare IPv6 address without a port is clear enough.
            if text.parse::<core::net::Ipv6Addr>().is_ok() {
                return Ok((text, None));
            }
            Err(AddressError::TooManyColons)
        }
        Some((host, port)) => Ok((host, Some(port))),
    }
}

fn parse_ports(text: &str) -> Result<PortRange, AddressError> {
    let port = |text: &str| {
        text.parse::<u16>()
            .map_err(|_| AddressError::InvalidPort(text.to_string()))
    };
    let range = match text.split_once('-') {
        Some((first, last)) => PortRange {
            first: port(first)?,
            last: port(last)?,
        },
        None => PortRange::single(port(text)?),
    };
    if range.last < range.first {
        return Err(AddressError::ReversedRange(range));
    }
    Ok(range)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.network.is_empty() && self.network != "tcp" {
            write!(f, "{}/", self.network)?;
        }
        if self.host.contains(':') && self.has_ports() {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        match self.ports {
            None => Ok(()),
            Some(range) if range.first == range.last => write!(f, ":{}", range.first),
            Some(range) => write!(f, ":{}-{}", range.first, range.last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_a_round_trip() {
        for text in [
            ":8080",
            "127.0.0.1:8080-8085",
            "[::1]:443",
            "localhost:80",
            "unix//run/a.sock",
            "unix/@abstract",
            "udp/:53",
            "localhost",
            "fd/3",
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Address::parse("tcp/:80").unwrap().to_string(), ":80");
        assert_eq!(Address::parse("::1").unwrap().host, "::1");
    }

    #[test]
    fn addresses_refuse_bad_ports() {
        assert_eq!(
            Address::parse(":x"),
            Err(AddressError::InvalidPort("x".into()))
        );
        assert_eq!(
            Address::parse(":70000"),
            Err(AddressError::InvalidPort("70000".into()))
        );
        assert_eq!(
            Address::parse(":9-8"),
            Err(AddressError::ReversedRange(PortRange { first: 9, last: 8 }))
        );
        assert_eq!(Address::parse("a:b:1"), Err(AddressError::TooManyColons));
        assert_eq!(Address::parse("[::1"), Err(AddressError::Brackets));
    }
}
