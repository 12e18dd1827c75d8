//! Resolves the listen addresses of a configuration.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use sluice_model::{Address, Config};
use sluice_net::ListenAddr;

use sluice_observe::process_values;
use sluice_pipeline::refusal::Refusal;

/// The configuration with placeholders in its listen addresses expanded, as Caddy does when loading a configuration.
pub(crate) fn expanded<'a>(config: &'a Config, refusals: &mut Vec<Refusal>) -> Cow<'a, Config> {
    let mut texts = config.servers().flat_map(|(_, server)| &server.listen);
    if texts.all(|text| process_values::is_plain(text)) {
        return Cow::Borrowed(config);
    }
    let mut config = config.clone();
    let servers = config
        .apps
        .http
        .iter_mut()
        .flat_map(|http| &mut http.servers);
    for (name, server) in servers {
        for (index, text) in server.listen.iter_mut().enumerate() {
            match process_values::expand(text) {
                Ok(expanded) => *text = expanded,
                Err(problem) => refusals.push(Refusal {
                    place: format!("apps.http.servers.{name}.listen[{index}]"),
                    ..Refusal::new(problem)
                }),
            }
        }
    }
    Cow::Owned(config)
}

/// The addresses of one `listen` entry; a port range yields several.
pub(crate) fn addresses(text: &str) -> Result<Vec<ListenAddr>, Refusal> {
    let address = Address::parse(text)
        .map_err(|error| Refusal::new(format!("listen address `{text}`: {error}")))?;
    if address.is_unix() {
        return unix(&address).map(|addr| vec![addr]);
    }
    if address.network == "fd" {
        return inherited(&address.host).map(|addr| vec![addr]);
    }
    if !matches!(address.network.as_str(), "" | "tcp" | "tcp4" | "tcp6") {
        let what = format!("listening on network `{}`", address.network);
        return Err(Refusal::not_yet(&what, "use a TCP address or `unix//path`"));
    }
    let Some(ports) = address.ports else {
        return Err(Refusal::new(format!("listen address `{text}` has no port")));
    };
    let mut found = Vec::new();
    for port in ports.first..=ports.last {
        if address.host.is_empty() {
            found.push(match address.network.as_str() {
                "tcp4" => ListenAddr::Tcp(SocketAddr::from(([0, 0, 0, 0], port))),
                "tcp6" => ListenAddr::AnyTcp6(port),
                _ => ListenAddr::AnyTcp(port),
            });
        } else {
            found.extend(ips(&address.host, text)?.map(|ip| ListenAddr::Tcp((ip, port).into())));
        }
    }
    Ok(found)
}

fn inherited(number: &str) -> Result<ListenAddr, Refusal> {
    // The first three are stdin, stdout and stderr.
    match number.parse() {
        Ok(number @ 3..) => Ok(ListenAddr::Inherited(number)),
        Ok(_) | Err(_) => Err(Refusal::new(format!(
            "`{number}` is not a file descriptor to listen on"
        ))
        .with_help(
            "write the number under which the socket is inherited, from 3 on, such as `fd/3`",
        )),
    }
}

fn unix(address: &Address) -> Result<ListenAddr, Refusal> {
    let (path, mode) = match address.host.split_once('|') {
        None => (address.host.as_str(), None),
        Some((path, mode)) => {
            let bits = u32::from_str_radix(mode, 8).map_err(|_| {
                Refusal::new(format!("`{mode}` is not a valid Unix socket mode"))
                    .with_help("write octal permission bits such as `0222`")
            })?;
            (path, Some(bits))
        }
    };
    Ok(ListenAddr::Unix {
        path: path.into(),
        mode,
    })
}

/// Resolves a host name to all its addresses. This happens once, when the configuration is built.
fn ips(host: &str, text: &str) -> Result<impl Iterator<Item = IpAddr>, Refusal> {
    let mut ips: Vec<IpAddr> = match host.parse() {
        Ok(ip) => vec![ip],
        Err(_) => (host, 0)
            .to_socket_addrs()
            .map_err(|error| Refusal::new(format!("listen address `{text}`: {error}")))?
            .map(|addr| addr.ip())
            .collect(),
    };
    ips.sort_unstable();
    ips.dedup();
    Ok(ips.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        assert_eq!(addresses(":80").unwrap(), [ListenAddr::AnyTcp(80)]);
        assert_eq!(addresses("tcp6/:80").unwrap(), [ListenAddr::AnyTcp6(80)]);
        let both = ["127.0.0.1:80", "127.0.0.1:81"].map(|a| ListenAddr::Tcp(a.parse().unwrap()));
        assert_eq!(addresses("127.0.0.1:80-81").unwrap(), both);
        let socket = ListenAddr::Unix {
            path: "/run/x.sock".into(),
            mode: Some(0o222),
        };
        assert_eq!(addresses("unix//run/x.sock|0222").unwrap(), [socket]);
        assert_eq!(addresses("fd/3").unwrap(), [ListenAddr::Inherited(3)]);
        for text in ["fd/2", "fd/-1", "fd/x", "fd/", "fdgram/3"] {
            assert!(addresses(text).is_err(), "{text}");
        }
        assert!(addresses("udp/:80").is_err());
        assert!(addresses("localhost").is_err());
    }
}
