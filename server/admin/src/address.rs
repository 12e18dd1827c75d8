//! Addresses of the admin API.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use sluice_model::Admin;
use sluice_net::ListenAddr;

/// A listen address of the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A host (empty for all addresses) and a port.
    Tcp { host: String, port: u16 },
    /// A Unix domain socket, by default accessible to its owner only.
    Unix { path: String, mode: u32 },
    /// A socket inherited from the parent process.
    Inherited { number: i32 },
}

/// The error for a text that is not a valid admin address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "admin address `{}`: {}", self.text, self.problem)
    }
}

impl std::error::Error for AddressError {}

impl Address {
    /// The default address, the same as Caddy's.
    pub const DEFAULT: &'static str = "localhost:2019";

    /// The default address of the remote admin API, the same as Caddy's.
    pub const REMOTE_DEFAULT: &'static str = ":2021";

    /// Permissions of a Unix domain socket if the address does not give any.
    const SOCKET_MODE: u32 = 0o600;

    /// Parses `localhost:2019`, `:2019`, `unix//run/x.sock` or `unix//run/x.sock|0660`.
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        let wrong = |problem: &str| AddressError {
            text: text.into(),
            problem: problem.into(),
        };
        let address =
            sluice_model::Address::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if address.is_unix() {
            let (path, mode) = address.host.split_once('|').unwrap_or((&address.host, ""));
            let mode = match mode {
                "" => Address::SOCKET_MODE,
                digits => u32::from_str_radix(digits, 8)
                    .map_err(|_| wrong("the mode of a unix socket is octal, such as 0660"))?,
            };
            return Ok(Address {
                text: text.into(),
                place: Place::Unix {
                    path: path.into(),
                    mode,
                },
            });
        }
        if address.network == "fd" {
            return match address.host.parse() {
                Ok(number @ 3..) => Ok(Address {
                    text: text.into(),
                    place: Place::Inherited { number },
                }),
                Ok(_) | Err(_) => Err(wrong("descriptors are numbers from 3 on")),
            };
        }
        if !matches!(address.network.as_str(), "" | "tcp") {
            return Err(wrong("use a TCP address or `unix//path`"));
        }
        match address.ports {
            Some(ports) if ports.first == ports.last => {
                let place = Place::Tcp {
                    host: address.host.to_ascii_lowercase(),
                    port: ports.first,
                };
                Ok(Address {
                    text: text.into(),
                    place,
                })
            }
            Some(_) => Err(wrong("one port is enough")),
            None => Err(wrong("a port is missing")),
        }
    }

    /// The address in a configuration, or `default` if it does not give one; `None` if the configuration disables the
    /// admin API.
    pub fn of(admin: Option<&Admin>, default: &str) -> Result<Option<Address>, AddressError> {
        match admin {
            Some(admin) if admin.disabled => Ok(None),
            Some(admin) if !admin.listen.is_empty() => Address::parse(&admin.listen).map(Some),
            Some(_) | None => Address::parse(default).map(Some),
        }
    }

    /// Whether the address stands for all addresses of the machine.
    pub fn is_wildcard(&self) -> bool {
        match &self.place {
            Place::Tcp { host, .. } => {
                host.is_empty() || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
            }
            Place::Unix { .. } | Place::Inherited { .. } => false,
        }
    }

    /// The `Host` values that clients may use for this address.
    pub(crate) fn names(&self) -> Vec<String> {
        match &self.place {
            // A Unix domain socket does not have a name: some clients send an empty Host, some send `localhost`.
            Place::Unix { .. } | Place::Inherited { .. } => ["", "localhost", "127.0.0.1", "[::1]"]
                .map(String::from)
                .to_vec(),
            Place::Tcp { port, .. } if self.is_loopback() => ["localhost", "127.0.0.1", "[::1]"]
                .map(|host| format!("{host}:{port}"))
                .to_vec(),
            Place::Tcp { host, port } => vec![match host.parse::<Ipv6Addr>() {
                Ok(ip) => format!("[{ip}]:{port}"),
                Err(_) => format!("{host}:{port}"),
            }],
        }
    }

    fn is_loopback(&self) -> bool {
        match &self.place {
            Place::Tcp { host, .. } => {
                host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
            Place::Unix { .. } | Place::Inherited { .. } => false,
        }
    }

    pub(crate) fn sockets(&self) -> io::Result<Vec<ListenAddr>> {
        Ok(match &self.place {
            Place::Unix { path, mode } => {
                vec![ListenAddr::Unix {
                    path: path.into(),
                    mode: Some(*mode),
                }]
            }
            Place::Inherited { number } => vec![ListenAddr::Inherited(*number)],
            Place::Tcp { host, port } if host.is_empty() => vec![ListenAddr::AnyTcp(*port)],
            // Bind IPv4 loopback explicitly: resolvers differ, and other programs on the machine connect to 127.0.0.1.
            Place::Tcp { host, port } if host == "localhost" => {
                vec![ListenAddr::Tcp((Ipv4Addr::LOCALHOST, *port).into())]
            }
            Place::Tcp { host, port } => {
                let mut found: Vec<SocketAddr> =
                    (host.as_str(), *port).to_socket_addrs()?.collect();
                found.dedup();
                found.into_iter().map(ListenAddr::Tcp).collect()
            }
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        assert!(
            Address::parse("localhost:2019").is_ok_and(|a| a.is_loopback() && !a.is_wildcard())
        );
        assert!(Address::parse(":2019").is_ok_and(|a| a.is_wildcard()));
        assert!(Address::parse("0.0.0.0:2019").is_ok_and(|a| a.is_wildcard()));
        assert_eq!(
            Address::parse("[fd00::1]:1").map(|a| a.names()),
            Ok(vec!["[fd00::1]:1".into()])
        );
        let socket = Address::parse("unix//run/x.sock|0660").map(|a| a.place);
        assert_eq!(
            socket,
            Ok(Place::Unix {
                path: "/run/x.sock".into(),
                mode: 0o660
            })
        );
        for text in ["localhost", "localhost:1-3", "udp/localhost:1", "unix//x|9"] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_configuration_names_it_or_switches_it_off() {
        let off = Admin {
            disabled: true,
            ..Admin::default()
        };
        let named = Admin {
            listen: "localhost:2020".into(),
            ..Admin::default()
        };
        let text = |admin: Option<&Admin>| {
            Address::of(admin, "localhost:1")
                .expect("they are right")
                .map(|a| a.to_string())
        };
        assert_eq!(text(None), Some("localhost:1".into()));
        assert_eq!(text(Some(&off)), None);
        assert_eq!(text(Some(&named)), Some("localhost:2020".into()));
    }
}
