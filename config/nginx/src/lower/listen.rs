//! `listen`: the addresses of servers, and which servers share an address.

use std::collections::BTreeMap;

use sluice_diag::{Diagnostic, Span};
use sluice_model::{Duration, RawModule, Server};

use super::level::Level;
use super::lowering::Lowering;
use super::values;
use crate::limits::LISTEN_PORTS_MAX;
use crate::modules::http2;
use crate::tree::{Directive, Word};

/// An address, or several with the same servers.
#[derive(Clone, Debug)]
pub struct Address {
    /// The addresses, as the model writes them.
    pub listen: Vec<String>,
    /// Its servers, by number.
    pub sites: Vec<usize>,
    /// The one that gets the requests that name none of them.
    pub default: usize,
    /// Whether TLS is spoken.
    pub is_ssl: bool,
    /// Whether a `listen` asks for HTTP/2.
    pub is_http2: bool,
    /// Whether it is an address of UDP, for HTTP/3: TCP at the same address is another one.
    pub is_quic: bool,
    /// Whether connections begin with the header of the PROXY protocol.
    pub has_proxy_header: bool,
    /// What its sockets are set to.
    pub socket: Socket,
    /// The first `listen`.
    pub span: Span,
    /// Whether a server asked to be the default one.
    has_default: Option<Span>,
    /// The `listen` that says what its socket is like, and the server of that.
    options: Option<(usize, Span)>,
}

/// What the sockets of an address are set to; what the system has where nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Socket {
    /// What is said of the sockets themselves, by the names of the model.
    set: BTreeMap<&'static str, u64>,
    /// How quiet connections are probed.
    probes: Option<Probes>,
}

/// How quiet connections are probed: `so_keepalive`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Probes {
    Off,
    /// After how long, how far apart and how many; the program's own where nothing is said.
    On(Option<Duration>, Option<Duration>, Option<i64>),
}

impl Socket {
    /// Says how connections are probed.
    pub fn probe(&self, server: &mut Server) {
        match &self.probes {
            None => {}
            Some(Probes::Off) => server.keepalive_interval = Duration(-1),
            Some(Probes::On(idle, interval, count)) => {
                server.keepalive_idle = idle.unwrap_or_default();
                server.keepalive_interval = interval.unwrap_or_default();
                server.keepalive_count = count.unwrap_or_default();
            }
        }
    }
}

impl Address {
    /// What its connections begin with: who sends the header stays who it is, and what it tells is noted.
    pub fn wrappers(&self) -> Vec<RawModule> {
        if self.is_quic {
            return Vec::new();
        }
        let named = |name: &str| RawModule::from_iter([("wrapper".to_owned(), name.into())]);
        let mut wrappers = Vec::new();
        if !self.socket.set.is_empty() {
            let mut socket = named("socket");
            let set = self.socket.set.iter();
            socket.extend(set.map(|(name, number)| ((*name).to_owned(), (*number).into())));
            wrappers.push(socket);
        }
        if self.has_proxy_header {
            let mut header = named("proxy_protocol");
            header.insert("note".to_owned(), true.into());
            wrappers.push(header);
        }
        if self.is_ssl {
            // Plain HTTP gets an error that may have a page.
            wrappers.push(named("plain_http"));
        }
        if !wrappers.is_empty() {
            wrappers.push(named("tls"));
        }
        wrappers
    }
}

/// All addresses, in the order in which they are written.
#[derive(Clone, Debug, Default)]
pub struct Addresses(Vec<Address>);

impl Addresses {
    /// Adds the addresses of the server with this number.
    pub fn add(
        &mut self,
        cx: &mut Lowering<'_>,
        site: usize,
        server: &Directive,
        level: &Level<'_>,
    ) {
        let mut lines = level.own("listen").peekable();
        if lines.peek().is_none() {
            self.entry("tcp4/:80".to_owned(), false, site, server.name.span);
            return;
        }
        let is_ssl = is_all_ssl(cx, level);
        for line in lines {
            let is_quic = line.args.iter().skip(1).any(|word| word.text == "quic");
            match is_quic && !http2::speaks_http3(level) {
                // As in nginx, no client finds a protocol there.
                true => no_protocol(cx, line),
                false => self.listen(cx, site, line, is_ssl || is_quic, is_quic),
            }
        }
    }

    fn listen(
        &mut self,
        cx: &mut Lowering<'_>,
        site: usize,
        line: &Directive,
        is_ssl: bool,
        is_quic: bool,
    ) {
        let Some(address) = line.args.first() else {
            return;
        };
        let is_both = line.args.iter().any(|param| param.text == "ipv6only=off");
        let own = |listen: String| match listen.strip_prefix("[::]:") {
            // The other family has its own line.
            Some(port) if !is_both => format!("tcp6/:{port}"),
            _ => listen,
        };
        let found = addresses_of(&address.text);
        let Some(listens) = found.map(|found| found.into_iter().map(own)) else {
            let _: Option<()> = cx.invalid(
                address,
                "listen",
                "`80`, `127.0.0.1:80`, `[::]:80`, `*:80`, `8000-8010` or `unix:/path`",
            );
            return;
        };
        for listen in listens {
            self.listen_at(cx, site, line, (listen, is_ssl, is_quic));
        }
    }

    fn listen_at(
        &mut self,
        cx: &mut Lowering<'_>,
        site: usize,
        line: &Directive,
        (listen, is_ssl, is_quic): (String, bool, bool),
    ) {
        let Some((address, params)) = line.args.split_first() else {
            return;
        };
        let entry = self.entry(listen, is_quic, site, line.span());
        if entry.sites.iter().filter(|known| **known == site).count() > 1 {
            entry.sites.pop();
            cx.report.push(
                Diagnostic::error(
                    "duplicate-listen",
                    format!("`listen {}` twice in one server", address.text),
                )
                .at(line.span(), "it may stand there once")
                .imported(line.name.import),
            );
        }
        entry.is_ssl |= is_ssl;
        for param in params {
            parameter(cx, entry, site, param);
        }
        if params.iter().any(is_of_socket) {
            options_once(cx, entry, site, line);
        }
    }

    fn entry(&mut self, listen: String, is_quic: bool, site: usize, span: Span) -> &mut Address {
        let known = self
            .0
            .iter()
            .position(|address| address.listen[0] == listen && address.is_quic == is_quic);
        let at = known.unwrap_or_else(|| {
            self.0.push(Address {
                listen: vec![listen],
                sites: Vec::new(),
                default: site,
                is_ssl: false,
                is_http2: false,
                is_quic,
                has_proxy_header: false,
                socket: Socket::default(),
                span,
                has_default: None,
                options: None,
            });
            self.0.len() - 1
        });
        let entry = &mut self.0[at];
        entry.sites.push(site);
        entry
    }

    /// Each address with its servers.
    pub fn each(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.0
            .iter()
            .map(|address| (address.listen[0].as_str(), &*address.sites))
    }

    /// The addresses, those with the same servers together.
    pub fn together(&self) -> Vec<Address> {
        let mut found: Vec<Address> = Vec::new();
        for address in &self.0 {
            let same = found.iter_mut().find(|known| {
                known.sites == address.sites
                    && known.default == address.default
                    && known.is_ssl == address.is_ssl
                    && known.is_http2 == address.is_http2
                    && known.is_quic == address.is_quic
                    && known.has_proxy_header == address.has_proxy_header
                    && known.socket == address.socket
            });
            match same {
                Some(known) => known.listen.extend(address.listen.iter().cloned()),
                None => found.push(address.clone()),
            }
        }
        found
    }
}

/// `ssl on;`, as it was until nginx 1.25.
fn is_all_ssl(cx: &mut Lowering<'_>, level: &Level<'_>) -> bool {
    let Some(line) = level.find("ssl").filter(|line| line.arg(0) == Some("on")) else {
        return false;
    };
    cx.report.push(
        Diagnostic::warning("old-ssl", "`ssl on` is gone from nginx 1.25")
            .at(line.span(), "TLS is spoken at all addresses of the server")
            .imported(line.name.import)
            .help("write `listen 443 ssl;`, and remove it"),
    );
    true
}

/// An address for HTTP/3 without HTTP/3.
fn no_protocol(cx: &mut Lowering<'_>, line: &Directive) {
    cx.report.push(
        Diagnostic::warning(
            "no-effect",
            "`listen … quic` has no effect with `http3 off`",
        )
        .at(line.span(), "read and ignored")
        .imported(line.name.import)
        .help("write `http3 on;`, or remove this `listen`"),
    );
}

/// Whether a word says what a socket is like.
fn is_of_socket(param: &Word) -> bool {
    let name = param.text.split('=').next();
    let names = [
        "bind",
        "backlog",
        "rcvbuf",
        "sndbuf",
        "deferred",
        "ipv6only",
        "so_keepalive",
        "reuseport",
        "fastopen",
        "setfib",
        "accept_filter",
    ];
    name.is_some_and(|name| names.contains(&name))
}

/// A socket is described once, however many servers it has.
fn options_once(cx: &mut Lowering<'_>, entry: &mut Address, site: usize, line: &Directive) {
    let before = *entry.options.get_or_insert((site, line.span()));
    if before.0 == site {
        return;
    }
    cx.report.push(
        Diagnostic::error("duplicate-listen", "options of one address in two servers")
            .at(line.span(), "its socket is described elsewhere")
            .imported(line.name.import)
            .also(before.1, "the first one")
            .help("keep the socket options (`backlog=`, `bind`, `reuseport`) in one of them"),
    );
}

fn parameter(cx: &mut Lowering<'_>, entry: &mut Address, site: usize, param: &Word) {
    let (name, value) = param.text.split_once('=').unwrap_or((&param.text, ""));
    match name {
        "default_server" | "default" => {
            if let Some(first) = entry.has_default.filter(|_| entry.default != site) {
                cx.report.push(
                    Diagnostic::error(
                        "duplicate-default",
                        "a second default server for one address",
                    )
                    .at(param.span, "another server is the default one")
                    .imported(param.import)
                    .also(first, "the first one"),
                );
                return;
            }
            entry.default = site;
            entry.has_default = Some(param.span);
        }
        "ssl" => entry.is_ssl = true,
        "http2" => entry.is_http2 = true,
        // Each worker has a socket of its own anyway.
        "reuseport" | "bind" | "quic" => {}
        "deferred" | "backlog" | "fastopen" | "rcvbuf" | "sndbuf" => {
            set(cx, &mut entry.socket, param, name, value);
        }
        "so_keepalive" => match probes(value) {
            Some(probes) => entry.socket.probes = Some(probes),
            None => {
                let wanted = "`on`, `off` or `idle:interval:count`, each of them optional";
                let _: Option<()> = cx.invalid(param, "listen", wanted);
            }
        },
        "ipv6only" if matches!(value, "on" | "off") => {}
        "setfib" | "accept_filter" | "multipath" => {
            let why = match name {
                "multipath" => "connections go one way",
                _ => "only FreeBSD has it",
            };
            cx.report.push(
                Diagnostic::warning("no-effect", format!("`{name}` of `listen` has no effect"))
                    .at(param.span, "read and ignored")
                    .imported(param.import)
                    .note(why),
            );
        }
        "proxy_protocol" => entry.has_proxy_header = true,
        "spdy" => {
            cx.report.push(
                Diagnostic::error(
                    "unsupported-directive",
                    "`spdy` of `listen` is not supported",
                )
                .at(param.span, "nginx 1.9.5 had it last")
                .imported(param.import)
                .help("write `http2 on;` in the server"),
            );
        }
        _ => {
            let _: Option<()> = cx.invalid(
                param,
                "listen",
                "`default_server`, `ssl`, `http2`, `reuseport` and others",
            );
        }
    }
}

/// The addresses of a `listen`: one, or those of each port of a range.
fn addresses_of(text: &str) -> Option<Vec<String>> {
    let start = text.rfind(':').map_or(0, |colon| colon + 1);
    let (host, ports) = text.split_at(start);
    let range = ports.split_once('-').filter(|_| !text.starts_with("unix:"));
    let Some((first, last)) = range else {
        return address_of(text).map(|one| vec![one]);
    };
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let ports = port(first)
        .zip(port(last))
        .map(|(first, last)| first..=last);
    let ports = ports.filter(|ports| (1..=LISTEN_PORTS_MAX).contains(&ports.len()))?;
    ports
        .map(|port| address_of(&format!("{host}{port}")))
        .collect()
}

/// Notes what a word says of sockets.
fn set(cx: &mut Lowering<'_>, socket: &mut Socket, param: &Word, name: &str, value: &str) {
    let count = || value.parse::<u64>().ok();
    let (name, number, wanted) = match name {
        // nginx waits as long as for a head; what comes at all comes within seconds.
        "deferred" => (
            "deferred_seconds",
            value.is_empty().then_some(60),
            "`deferred`",
        ),
        "backlog" => ("backlog", count(), "`backlog=` and a number"),
        "fastopen" => ("fast_open", count(), "`fastopen=` and a number"),
        "rcvbuf" => ("receive_bytes", values::size(value), "`rcvbuf=` and a size"),
        _ => ("send_bytes", values::size(value), "`sndbuf=` and a size"),
    };
    match number {
        Some(number) => {
            socket.set.insert(name, number);
        }
        None => {
            let _: Option<()> = cx.invalid(param, "listen", wanted);
        }
    }
}

/// Reads `so_keepalive`.
fn probes(value: &str) -> Option<Probes> {
    match value {
        "on" => return Some(Probes::On(None, None, None)),
        "off" => return Some(Probes::Off),
        _ => {}
    }
    let parts: Vec<&str> = value.split(':').collect();
    let [idle, interval, count] = parts.as_slice() else {
        return None;
    };
    let time = |text: &str| match text {
        "" => Some(None),
        text => values::time(text).map(Some),
    };
    let count = match *count {
        "" => None,
        text => Some(text.parse().ok().filter(|count| *count > 0)?),
    };
    let (idle, interval) = (time(idle)?, time(interval)?);
    // All left out is nothing said, which nginx refuses.
    let is_said = idle.is_some() || interval.is_some() || count.is_some();
    is_said.then_some(Probes::On(idle, interval, count))
}

/// An address as the model writes it.
fn address_of(text: &str) -> Option<String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return path.starts_with('/').then(|| format!("unix/{path}"));
    }
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    if let Some(port) = port(text) {
        return Some(format!("tcp4/:{port}"));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        let port = match rest.strip_prefix(':') {
            Some(number) => port(number)?,
            None if rest.is_empty() => 80,
            None => return None,
        };
        return Some(format!("[{host}]:{port}"));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, number)) => (host, port(number)?),
        None => (text, 80),
    };
    match host {
        "" => None,
        number if number.bytes().all(|byte| byte.is_ascii_digit()) => None,
        "*" | "0.0.0.0" => Some(format!("tcp4/:{port}")),
        host => Some(format!("{host}:{port}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{address_of, addresses_of};

    #[test]
    fn ranges_of_ports_are_addresses_each() {
        let found = addresses_of("127.0.0.1:80-82").expect("it is a range");
        assert_eq!(found, ["127.0.0.1:80", "127.0.0.1:81", "127.0.0.1:82"]);
        assert_eq!(addresses_of("8000-8000").expect("one"), ["tcp4/:8000"]);
        assert_eq!(addresses_of("[::1]:1-2").expect("two").len(), 2);
        for wrong in ["82-80", "0-1", "1-1025", "a-b:80", "1-65536", "80-"] {
            let found = addresses_of(wrong);
            assert!(found.is_none_or(|found| found == ["a-b:80"]), "{wrong}");
        }
        assert_eq!(
            addresses_of("unix:/a:1-2").expect("a path"),
            ["unix//a:1-2"]
        );
    }

    #[test]
    fn addresses_are_read() {
        for (text, expected) in [
            ("80", "tcp4/:80"),
            ("*:81", "tcp4/:81"),
            ("0.0.0.0:8080", "tcp4/:8080"),
            ("127.0.0.1", "127.0.0.1:80"),
            ("localhost:82", "localhost:82"),
            ("[::]:443", "[::]:443"),
            ("[::1]", "[::1]:80"),
            ("unix:/run/x.sock", "unix//run/x.sock"),
        ] {
            assert_eq!(address_of(text).as_deref(), Some(expected), "{text}");
        }
        for wrong in [
            "0", "65536", "a:b", ":80", "[::", "[x]:80", "unix:x", "[::1]x",
        ] {
            assert_eq!(address_of(wrong), None, "{wrong}");
        }
    }
}
