//! Parses the settings of network outputs. `super::super::net` sends lines.

use std::time::Duration;

use sluice_model::Address;
use sluice_model::logging::NetWriter;

use super::super::limits::LOG_DIAL_DEFAULT;
use super::{Place, PlanError};

/// A network output.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NetOptions {
    /// The transport.
    pub network: Network,
    /// Host and port, or the path of a socket.
    pub address: String,
    /// Connection timeout.
    pub dial_timeout: Duration,
    /// Whether a peer that is unavailable at startup is not an error.
    pub soft_start: bool,
}

/// The transport of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// A TCP stream of lines, over one address family or any.
    Tcp(Family),
    /// One UDP datagram per line.
    Udp(Family),
    /// A stream of lines over a Unix domain socket.
    Unix,
    /// One datagram per line over a Unix domain socket.
    UnixDatagram,
}

/// The address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Any.
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

pub(super) fn output(net: &NetWriter, at: &Place) -> Result<NetOptions, PlanError> {
    let wrong = |problem: String| at.wrong("writer.address", problem);
    let address = Address::parse(&net.address).map_err(|error| wrong(error.to_string()))?;
    let network = match address.network.as_str() {
        "" | "tcp" => Network::Tcp(Family::Any),
        "tcp4" => Network::Tcp(Family::V4),
        "tcp6" => Network::Tcp(Family::V6),
        "udp" => Network::Udp(Family::Any),
        "udp4" => Network::Udp(Family::V4),
        "udp6" => Network::Udp(Family::V6),
        "unix" => Network::Unix,
        "unixgram" => Network::UnixDatagram,
        other => {
            let problem = format!("`{other}` is none of tcp, udp, unix, unixgram");
            return Err(wrong(problem));
        }
    };
    let address = match network {
        Network::Unix | Network::UnixDatagram => address.host,
        Network::Tcp(_) | Network::Udp(_) => {
            let port = address.ports.filter(|ports| ports.count() == 1);
            let Some(port) = port else {
                let problem = format!("`{}` does not name one port", net.address);
                return Err(wrong(problem));
            };
            let host = match address.host.as_str() {
                "" => "localhost",
                host => host,
            };
            let brackets = host.contains(':') && !host.starts_with('[');
            let host = if brackets {
                format!("[{host}]")
            } else {
                host.to_owned()
            };
            format!("{host}:{}", port.first)
        }
    };
    let dial_timeout = net
        .dial_timeout
        .to_std()
        .filter(|timeout| !timeout.is_zero());
    Ok(NetOptions {
        network,
        address,
        dial_timeout: dial_timeout.unwrap_or(LOG_DIAL_DEFAULT),
        soft_start: net.soft_start,
    })
}
