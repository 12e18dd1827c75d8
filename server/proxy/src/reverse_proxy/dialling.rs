//! Builds `sluice-net`'s `Dialling`, the options for connecting to upstreams, from the model's transport.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sluice_model::RawModule;
use sluice_model::proxy::{
    HttpTransport, Resolver as ResolverConfig, SocketBuffers as SocketBuffersConfig,
};
use sluice_net::tls::Connector;
use sluice_upstream::{
    Dialling, Fallback, Family, Lifetime, ProxyProtocol, ProxyTls, Resolver, SocketBuffers, Through,
};

use super::addresses::at_load;
use super::by_request::{depends, parse_local_address};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;

/// Parses the settings; `None` if all of them have defaults.
pub fn build(
    config: &HttpTransport,
    connector: impl FnOnce() -> Result<Arc<Connector>, Refusal>,
) -> Result<Option<Dialling>, Refusal> {
    let fallback = match config.dial_fallback_delay.0 {
        0 => Fallback::Usual,
        ..0 => Fallback::Never,
        nanos => Fallback::After(Duration::from_nanos(nanos.unsigned_abs())),
    };
    let tls = config.tls.as_ref();
    let dialling = Dialling {
        resolver: match &config.resolver {
            None => None,
            Some(config) => Some(resolver(Some(config), None)?),
        },
        local_address: local_address(&config.local_address)?,
        buffers: buffers(&config.socket_buffers),
        fallback,
        through: through(config, connector)?,
        handshake_timeout: tls.and_then(|tls| given(tls.handshake_timeout)),
        ..Dialling::default()
    };
    Ok((dialling != Dialling::default()).then_some(dialling))
}

/// Like [`build`], for FastCGI, SCGI and uwsgi, which have fewer options.
pub fn of_applications(
    local: &str,
    sizes: &SocketBuffersConfig,
) -> Result<Option<Arc<Dialling>>, Refusal> {
    let dialling = Dialling {
        local_address: local_address(local)?,
        buffers: buffers(sizes),
        ..Dialling::default()
    };
    Ok((dialling != Dialling::default()).then(|| Arc::new(dialling)))
}

fn buffers(config: &SocketBuffersConfig) -> SocketBuffers {
    let given = |bytes: u32| Some(bytes).filter(|bytes| *bytes > 0);
    SocketBuffers {
        receive: given(config.receive),
        send: given(config.send),
    }
}

/// The DNS servers in `config`; by default those of the system.
pub fn resolver(
    config: Option<&ResolverConfig>,
    timeout: Option<Duration>,
) -> Result<Resolver, Refusal> {
    let usual = ResolverConfig::default();
    let config = config.unwrap_or(&usual);
    let mut servers = Vec::new();
    for address in &config.addresses {
        servers.extend(self::servers(address)?);
    }
    let versions = config.versions.as_ref();
    let v4 = versions.and_then(|versions| versions.ipv4).unwrap_or(true);
    let v6 = versions.and_then(|versions| versions.ipv6).unwrap_or(true);
    Ok(Resolver {
        servers,
        timeout,
        total: given(config.timeout),
        family: match (v4, v6) {
            (true, true) => Family::Any,
            (true, false) => Family::V4,
            (false, true) => Family::V6,
            (false, false) => {
                return Err(Refusal::new("a resolver without any version of IP")
                    .with_help("leave `ipv4` or `ipv6` on"));
            }
        },
        lifetime: match (config.valid.and_then(given), config.heeds_lifetimes) {
            (Some(time), _) => Lifetime::For(time),
            (None, true) => Lifetime::Ttl,
            (None, false) => Lifetime::Usual,
        },
    })
}

/// The servers at an address, or at all addresses of a name. The system resolves the name once, when the configuration
/// is built, as in nginx and Go.
fn servers(text: &str) -> Result<Vec<SocketAddr>, Refusal> {
    let refused = match server(text) {
        Ok(server) => return Ok(vec![server]),
        Err(refused) => refused,
    };
    let Ok(parsed) = sluice_model::Address::parse(text) else {
        return Err(refused);
    };
    let is_label = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = !parsed.host.is_empty() && parsed.host.bytes().all(is_label);
    if !is_name || !matches!(parsed.network.as_str(), "" | "udp" | "tcp") {
        return Err(refused);
    }
    let port = parsed.ports.map_or(53, |ports| ports.first);
    let found = (parsed.host.as_str(), port).to_socket_addrs();
    let found: Vec<SocketAddr> = found.map_or_else(|_| Vec::new(), Iterator::collect);
    match found.is_empty() {
        false => Ok(found),
        true => Err(
            Refusal::new(format!("resolver `{text}`: the host has no address"))
                .with_help("write the IP address of a DNS server"),
        ),
    }
}

fn server(text: &str) -> Result<SocketAddr, Refusal> {
    let refuse = |why: &str| {
        Refusal::new(format!("resolver `{text}`: {why}"))
            .with_help("write an IP address, with a port where it is not 53")
    };
    let parsed = sluice_model::Address::parse(text).map_err(|error| refuse(&error.to_string()))?;
    if !matches!(parsed.network.as_str(), "" | "udp" | "tcp") {
        return Err(refuse("its network is `udp`"));
    }
    let ip: IpAddr = parsed
        .host
        .parse()
        .map_err(|_| refuse("it is not an IP address"))?;
    let port = parsed.ports.map_or(53, |ports| ports.first);
    Ok(SocketAddr::new(ip, port))
}

/// `None` if there is none, or if it depends on the request.
fn local_address(text: &str) -> Result<Option<SocketAddr>, Refusal> {
    if text.is_empty() || depends(text)?.is_some() {
        return Ok(None);
    }
    match parse_local_address(&at_load(text)?) {
        Some(address) => Ok(Some(address)),
        None => Err(Refusal::new(format!("local_address `{text}`"))
            .with_help("write an IP address of this machine, and perhaps a port")),
    }
}

/// Whether there is a proxy in front of upstreams.
pub fn is_through(config: &HttpTransport) -> bool {
    let from = |module: &RawModule| {
        let value = module.get("from").and_then(serde_json::Value::as_str);
        value != Some("none")
    };
    let is_named = config.network_proxy.as_ref().map(from);
    is_named.unwrap_or(!config.forward_proxy_url.is_empty())
}

fn through(
    config: &HttpTransport,
    connector: impl FnOnce() -> Result<Arc<Connector>, Refusal>,
) -> Result<Option<Through>, Refusal> {
    let text = |module: &RawModule, key: &str| {
        let value = module.get(key).and_then(serde_json::Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let url = match &config.network_proxy {
        Some(module) => match text(module, "from").as_str() {
            "none" => return Ok(None),
            "url" => text(module, "url"),
            other => {
                return Err(Refusal::new(format!("unknown network proxy `{other}`"))
                    .with_help("the network proxies are `url` and `none`"));
            }
        },
        None if !config.forward_proxy_url.is_empty() => config.forward_proxy_url.clone(),
        None => return Ok(None),
    };
    proxy(&at_load(&url)?, connector).map(Some)
}

/// The proxy at `url`.
fn proxy(
    url: &str,
    connector: impl FnOnce() -> Result<Arc<Connector>, Refusal>,
) -> Result<Through, Refusal> {
    let refuse = |why: &str| {
        Refusal::new(format!("network_proxy: {why}")).with_help(
            "write `http://[user:password@]host:port`, `https://…`, `socks5://…` or `socks5h://…`",
        )
    };
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| refuse("the URL has no scheme"))?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (user, address) = match rest.rsplit_once('@') {
        Some((user, address)) => (Some(user), address),
        None => (None, rest),
    };
    let credentials = user.map(|user| {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        (unescaped(name), unescaped(password))
    });
    let (protocol, usual) = match scheme {
        "http" | "https" => {
            let authorization = credentials
                .map(|(user, password)| STANDARD.encode(format!("{user}:{password}")))
                .map(|encoded| format!("Basic {encoded}"));
            let usual = if scheme == "https" { 443 } else { 80 };
            (ProxyProtocol::Connect { authorization }, usual)
        }
        "socks5" | "socks5h" => {
            let is_short = |text: &str| (1..=255).contains(&text.len());
            if credentials
                .as_ref()
                .is_some_and(|(user, password)| !is_short(user) || !is_short(password))
            {
                return Err(refuse(
                    "name and password of SOCKS have 1 to 255 bytes each",
                ));
            }
            // As in Go, both leave name resolution to the proxy.
            (ProxyProtocol::Socks5 { credentials }, 1080)
        }
        _ => return Err(refuse("its scheme is unknown")),
    };
    let parsed = sluice_model::Address::parse(address).map_err(|_| refuse("bad host or port"))?;
    if parsed.host.is_empty() {
        return Err(refuse("the URL has no host"));
    }
    Ok(Through {
        protocol,
        host: parsed.host,
        port: parsed.ports.map_or(usual, |ports| ports.first),
        tls: match scheme {
            "https" => Some(ProxyTls(connector()?)),
            _ => None,
        },
    })
}

/// Decodes percent-encoding in a part of a URL.
fn unescaped(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use sluice_net::tls::{ConnectorOptions, ServerTrust};

    use super::*;

    #[test]
    fn urls_of_proxies_are_read() {
        let connector = || {
            let options = ConnectorOptions {
                trust: ServerTrust::Anyone,
                ..ConnectorOptions::default()
            };
            Ok(Arc::new(Connector::new(options).unwrap()))
        };
        let proxy = |url| proxy(url, connector);
        let made = proxy("http://us%40er:p%3ass@proxy.example:3128/").unwrap();
        assert_eq!((&*made.host, made.port), ("proxy.example", 3128));
        let authorization = Some("Basic dXNAZXI6cDpzcw==".to_owned());
        assert_eq!(made.protocol, ProxyProtocol::Connect { authorization });
        let made = proxy("socks5://[::1]").unwrap();
        assert_eq!((&*made.host, made.port), ("::1", 1080));
        assert_eq!(made.tls, None);
        let made = proxy("https://proxy.example").unwrap();
        assert_eq!((&*made.host, made.port), ("proxy.example", 443));
        assert!(made.tls.is_some());
        for bad in ["proxy:80", "ftp://p", "http://", "socks5://:x@p:1"] {
            assert!(proxy(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn resolvers_are_addresses() {
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1:53"),
            ("udp/192.0.2.1:5353", "192.0.2.1:5353"),
            ("[2001:db8::1]:54", "[2001:db8::1]:54"),
        ] {
            assert_eq!(server(text).unwrap().to_string(), expected);
        }
        assert!(server("dns.example").is_err());
        assert!(server("unix//run/dns").is_err());
    }
}
