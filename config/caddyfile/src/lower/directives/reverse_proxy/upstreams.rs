//! The upstream addresses of `reverse_proxy`.

use sluice_model::proxy::{ReverseProxy, Transport, Upstream, UpstreamTls};
use sluice_model::{Address, PortRange};

use crate::lower::Lowering;
use crate::tree::{Directive, Token};

/// How upstreams of one proxy are spoken to, as their addresses say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    None,
    Http,
    Https,
    H2c,
}

impl Scheme {
    fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Http => "http://",
            Self::Https => "https://",
            Self::H2c => "h2c://",
        }
    }
}

/// A port range longer than this is a mistake: each port is an upstream.
const UPSTREAMS_PER_RANGE_MAX: u32 = 1024;

impl Lowering<'_> {
    /// Reads upstream addresses and fits the transport to their scheme.
    pub(super) fn upstreams(
        &mut self,
        line: &Directive,
        words: &[&Token],
        proxy: &mut ReverseProxy,
    ) -> Option<()> {
        let mut common: Option<Scheme> = None;
        let mut whole = true;
        for word in words {
            let Some((scheme, dials)) = self.upstream(word) else {
                whole = false;
                continue;
            };
            let dials = dials.into_iter().map(|dial| Upstream {
                dial,
                ..Upstream::default()
            });
            proxy.upstreams.extend(dials);
            match common {
                Some(first) if first != scheme && first != Scheme::None => {
                    let title = "the upstreams of a proxy have different schemes";
                    let label = match scheme {
                        Scheme::None => format!("no scheme after `{}`", first.text()),
                        Scheme::Http | Scheme::Https | Scheme::H2c => {
                            format!("`{}` after `{}`", scheme.text(), first.text())
                        }
                    };
                    let diagnostic = word.error("conflicting-schemes", title, label);
                    self.report
                        .push(diagnostic.help("use one `reverse_proxy` for each scheme"));
                    whole = false;
                }
                _ => common = Some(scheme),
            }
        }
        self.fit_transport(line, common.unwrap_or(Scheme::None), proxy)?;
        if proxy.transport == Some(Transport::Http(Box::default())) {
            proxy.transport = None;
        }
        whole.then_some(())
    }

    fn fit_transport(
        &mut self,
        line: &Directive,
        scheme: Scheme,
        proxy: &mut ReverseProxy,
    ) -> Option<()> {
        if matches!(scheme, Scheme::Https | Scheme::H2c) && proxy.transport.is_none() {
            proxy.transport = Some(Transport::Http(Box::default()));
        }
        let conflict = match (&mut proxy.transport, scheme) {
            (Some(Transport::Http(http)), Scheme::Https) => {
                http.tls.get_or_insert_with(UpstreamTls::default);
                return Some(());
            }
            (Some(Transport::Http(http)), Scheme::H2c) => {
                http.versions = vec!["h2c".into(), "2".into()];
                return Some(());
            }
            (Some(Transport::Http(http)), Scheme::Http) if http.tls.is_some() => {
                "the upstreams are `http://` and the transport has TLS"
            }
            (Some(Transport::FastCgi(_)), Scheme::Https) => {
                "the upstreams are `https://` and FastCGI has no TLS"
            }
            (Some(Transport::Scgi(_) | Transport::Uwsgi(_)), Scheme::Https | Scheme::H2c) => {
                "the upstreams use HTTP, and the transport does not"
            }
            _ => return Some(()),
        };
        let label = "scheme and transport disagree";
        let diagnostic = line.name.error("conflicting-schemes", conflict, label);
        self.refuse(diagnostic.help("change the scheme of the upstreams, or the transport"))
    }

    /// Reads one address; a range of ports gives several upstreams.
    fn upstream(&mut self, word: &Token) -> Option<(Scheme, Vec<String>)> {
        let text = word.text.as_str();
        if text.contains("://") {
            let (scheme, dials) = self.upstream_url(word)?;
            return Some((scheme, dials));
        }
        if let Some(path) = text.strip_prefix("unix+h2c/") {
            return Some((Scheme::H2c, vec![format!("unix/{path}")]));
        }
        if let Some((host, ports)) = placeholder_range(text) {
            let range = match PortRange::parse(ports) {
                Ok(range) => range,
                Err(error) => {
                    return self.bad_upstream(word, error.to_string(), "write `{…}:8001-8002`");
                }
            };
            let address = Address {
                network: String::new(),
                host: host.to_owned(),
                ports: Some(range),
            };
            let dials = self.ports_of(word, &address, range)?;
            return Some((Scheme::None, dials));
        }
        if text.contains('{') || is_socket(text) {
            return Some((Scheme::None, vec![text.to_string()]));
        }
        let address = match Address::parse(text) {
            Ok(address) => address,
            Err(error) => return self.bad_upstream(word, error.to_string(), "write `host:port`"),
        };
        let known = matches!(
            address.network.as_str(),
            "" | "tcp" | "tcp4" | "tcp6" | "udp"
        );
        if !known {
            return self.bad_upstream(
                word,
                format!("`{}/` is not a valid network", address.network),
                "an upstream has no path; use `rewrite` or `uri` to change the request",
            );
        }
        let range = address.ports.unwrap_or(PortRange::single(80));
        self.ports_of(word, &address, range)
            .map(|dials| (Scheme::None, dials))
    }

    fn ports_of(
        &mut self,
        word: &Token,
        address: &Address,
        range: PortRange,
    ) -> Option<Vec<String>> {
        if range.count() > UPSTREAMS_PER_RANGE_MAX {
            let help = format!("a range may have {UPSTREAMS_PER_RANGE_MAX} ports");
            return self.bad_upstream(word, format!("a range of {} ports", range.count()), &help);
        }
        let host = match address.host.contains(':') && !address.host.contains('{') {
            true => format!("[{}]", address.host),
            false => address.host.clone(),
        };
        let network = match address.network.as_str() {
            "" => String::new(),
            network => format!("{network}/"),
        };
        Some(
            (range.first..=range.last)
                .map(|port| format!("{network}{host}:{port}"))
                .collect(),
        )
    }

    fn upstream_url(&mut self, word: &Token) -> Option<(Scheme, Vec<String>)> {
        let (scheme, rest) = word.text.split_once("://").unwrap_or_default();
        let (scheme, default_port) = match scheme {
            "http" => (Scheme::Http, 80),
            "https" => (Scheme::Https, 443),
            "h2c" => (Scheme::H2c, 80),
            "ws" | "wss" => {
                let help = "write `http://` or `https://`; WebSocket passes through either";
                return self.bad_upstream(word, "a WebSocket scheme".into(), help);
            }
            _ => {
                let help = "write `http://`, `https://`, `h2c://` or no scheme";
                return self.bad_upstream(word, format!("unknown scheme `{scheme}://`"), help);
            }
        };
        if rest.contains('{') {
            let help = "leave out the scheme; for HTTPS add `transport http { tls }`";
            return self.bad_upstream(word, "a placeholder after a scheme".into(), help);
        }
        if rest.contains(['/', '?', '#']) {
            let help = "leave out the path; use `rewrite` or `uri` to change the request";
            return self.bad_upstream(word, "a path after the address".into(), help);
        }
        let address = match Address::parse(rest) {
            Ok(address) => address,
            Err(error) => return self.bad_upstream(word, error.to_string(), "write `host:port`"),
        };
        let range = address.ports.unwrap_or(PortRange::single(default_port));
        let against = match scheme {
            Scheme::Https => 80,
            Scheme::Http | Scheme::H2c | Scheme::None => 443,
        };
        if range == PortRange::single(against) {
            let label = format!("`{}` on port {against}", scheme.text());
            return self.bad_upstream(word, label, "change the scheme or the port");
        }
        self.ports_of(word, &address, range)
            .map(|dials| (scheme, dials))
    }

    fn bad_upstream<T>(&mut self, word: &Token, label: String, help: &str) -> Option<T> {
        let title = format!("invalid upstream address `{}`", word.text);
        self.refuse(word.error("invalid-upstream", title, label).help(help))
    }
}

/// The parts of an address whose host has placeholders and whose ports are a range: `{host}:8001-8002`.
fn placeholder_range(text: &str) -> Option<(&str, &str)> {
    let (host, ports) = text.rsplit_once(':')?;
    let is_range = ports.contains('-') && !ports.contains(['{', '}']);
    (host.contains('{') && is_range).then_some((host, ports))
}

/// Whether an address is a socket without ports.
fn is_socket(text: &str) -> bool {
    ["unix/", "unixgram/", "unixpacket/", "fd/", "fdgram/"]
        .iter()
        .any(|net| text.starts_with(net))
}
