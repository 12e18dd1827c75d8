//! Builds the options of `sluice-net` from the model's transport. `build` determines the upstreams.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluice_certs::pair::key_from_pem;
use sluice_certs::{CertsError, Passwords, PrivateKeyDer, Subject};
use sluice_model::proxy::{
    CgiTransport, FastCgiTransport, HttpTransport, KeepAlive as KeepAliveConfig,
    MemcachedTransport, SocketBuffers, Transport as Config, UpstreamTls,
};
use sluice_net::Probes;
use sluice_net::tls::{self, ClientIdentity, Connector, ConnectorOptions, Identity, ServerTrust};
use sluice_upstream::{Family, KeepAlive, Options, Protocol, Reach, Timeouts, Wear, limits};
use sluice_wire::h1::{self, Leniency};
use sluice_wire::h2;
use sluice_wire::uwsgi::Modifiers;

use super::addresses::Way;
use super::by_request::{ByRequest, depends};
use super::dialling;
use super::fastcgi::FastCgi;
use super::group::Shared;
use super::memcached::Memcached;
use super::params::Dialect;
use super::upstream::ProxyHeader;
use crate::limits::READ_BUFFER_BYTES;
use sluice_observe::log::Log;
use sluice_pipeline::keys::Keys;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_tls::trust_pool;

/// The transport of all upstreams of a directive.
#[derive(Clone)]
pub struct Transport {
    options: Options,
    proxy_header: ProxyHeader,
    fastcgi: Option<Arc<FastCgi>>,
    memcached: Option<Arc<Memcached>>,
    /// Ports without TLS.
    plain_ports: Vec<u16>,
    versions: Versions,
    verification: Verification,
    by_request: Option<Arc<ByRequest>>,
}

/// Whether the certificates of upstreams are verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verification {
    /// Verified, if there are any.
    On,
    /// Not verified: anyone can impersonate the upstream.
    Off,
}

/// The HTTP versions to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Versions {
    /// HTTP/1.1, and HTTP/2 where that is possible.
    OverTcp {
        /// HTTP/2 over TLS, if negotiated with ALPN.
        secured: bool,
        /// HTTP/2 without TLS, with prior knowledge.
        plain: bool,
    },
    /// HTTP/3.
    OverQuic,
}

impl Default for Versions {
    fn default() -> Self {
        Versions::OverTcp {
            secured: false,
            plain: false,
        }
    }
}

impl Versions {
    /// Parses a list like Caddy: HTTP/1.1 over TLS is enabled even if it is not listed, HTTP/2 without TLS only if `h2c` is
    /// listed, and HTTP/3 only if nothing else is.
    fn read(names: &[String]) -> Result<Versions, Refusal> {
        let has = |name: &str| names.iter().any(|known| known == name);
        let known = ["1.1", "2", "h2c", "3"];
        if let Some(other) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(Refusal::new(format!("`{other}` in `versions`"))
                .with_help("the versions are `1.1`, `2`, `h2c` and `3`"));
        }
        if has("3") {
            return match names.len() {
                1 => Ok(Versions::OverQuic),
                _ => Err(Refusal::new("`versions` with `3` and others")
                    .with_help("HTTP/3 to upstreams excludes other versions: write `versions 3`")),
            };
        }
        Ok(Versions::OverTcp {
            secured: names.is_empty() || has("2") || has("h2c"),
            plain: has("h2c"),
        })
    }

    fn protocol(self, has_tls: bool) -> Protocol {
        match (self, has_tls) {
            (Versions::OverQuic, _) => Protocol::Http3,
            (Versions::OverTcp { secured: true, .. }, true) => Protocol::Negotiated,
            (Versions::OverTcp { plain: true, .. }, false) => Protocol::Http2,
            (Versions::OverTcp { .. }, true | false) => Protocol::Http1,
        }
    }

    /// The protocols that a TLS handshake offers, in order of preference.
    fn offer(self) -> &'static [&'static [u8]] {
        match self {
            Versions::OverTcp { secured: true, .. } => &[b"h2", b"http/1.1"],
            Versions::OverTcp { secured: false, .. } => &[b"http/1.1"],
            Versions::OverQuic => &[b"h3"],
        }
    }

    /// Refuses settings that HTTP/3 has no place for.
    fn check(self, config: &HttpTransport) -> Result<(), Refusal> {
        if self != Versions::OverQuic {
            return Ok(());
        }
        let refused = |what: &str, help: &str| {
            Err(Refusal::new(format!("{what} with `versions 3`")).with_help(help))
        };
        let Some(tls) = &config.tls else {
            let help = "HTTP/3 requires TLS: write `https://` before the address, or `tls`";
            return refused("an upstream without TLS", help);
        };
        if !tls.except_ports.is_empty() {
            return refused("`tls_except_ports`", "HTTP/3 requires TLS on all ports");
        }
        if tls.protocol_max == "tls1.2" {
            return refused("TLS 1.2", "HTTP/3 requires TLS 1.3");
        }
        let suites = &tls.modern_suites;
        if !suites.is_empty() && !suites.iter().any(|suite| suite == INITIAL_SUITE) {
            let help = format!("add `{INITIAL_SUITE}`, which protects the first packets of QUIC");
            return refused("these cipher suites", &help);
        }
        if !config.proxy_protocol.is_empty() {
            return refused("`proxy_protocol`", "QUIC has no place for its header");
        }
        if dialling::is_through(config) {
            return refused(
                "`network_proxy`",
                "proxies pass TCP only; remove one of the two",
            );
        }
        Ok(())
    }
}

/// The cipher suite of Initial packets (RFC 9001, section 5.2).
const INITIAL_SUITE: &str = "TLS13_AES_128_GCM_SHA256";

impl Transport {
    /// Parses the settings. `leniency` is for the responses of HTTP/1 upstreams.
    pub fn build(
        config: Option<&Config>,
        log: Option<&Log>,
        keys: Option<&Keys<'_>>,
        leniency: Leniency,
        shared: &Shared,
    ) -> Result<Transport, Refusal> {
        match config {
            None => Transport::http(&HttpTransport::default(), log, keys, leniency, shared),
            Some(Config::Http(config)) => Transport::http(config, log, keys, leniency, shared),
            Some(Config::FastCgi(config)) => Transport::of_fastcgi(config, log),
            Some(Config::Scgi(config)) => {
                if config.modifier1 != 0 || config.modifier2 != 0 {
                    return Err(Refusal::new("modifiers in `transport scgi`")
                        .with_help("remove them; only packets of uwsgi have such"));
                }
                Transport::of_cgi(config, Dialect::Scgi, (log, keys), shared)
            }
            Some(Config::Uwsgi(config)) => {
                let modifiers = Modifiers {
                    first: config.modifier1,
                    second: config.modifier2,
                };
                Transport::of_cgi(config, Dialect::Uwsgi(modifiers), (log, keys), shared)
            }
            Some(Config::Memcached(config)) => Transport::of_memcached(config, log),
            Some(other @ Config::Other(_)) => {
                let name = other.module();
                Err(
                    Refusal::new(format!("unknown transport `{name}`")).with_help(
                        "the transports are `http`, `fastcgi`, `scgi`, `uwsgi` and `memcached`",
                    ),
                )
            }
        }
    }

    fn http(
        config: &HttpTransport,
        log: Option<&Log>,
        keys: Option<&Keys<'_>>,
        leniency: Leniency,
        shared: &Shared,
    ) -> Result<Transport, Refusal> {
        let versions = Versions::read(&config.versions)?;
        versions.check(config)?;
        let proxy_header = proxy_header(&config.proxy_protocol)?;
        let mut plain_ports = Vec::new();
        let mut tls = None;
        if let Some(config) = &config.tls {
            let offer = versions.offer();
            let make = || connector(config, keys, offer);
            tls = Some(shared.connector(config, offer, make)?);
            for port in &config.except_ports {
                plain_ports.push(
                    port.parse()
                        .map_err(|_| Refusal::new(format!("`{port}` is not a port")))?,
                );
            }
        }
        let keep_alive = match proxy_header {
            // A connection that starts with one client's address must not serve others.
            ProxyHeader::V1 | ProxyHeader::V2 => KeepAlive::Off,
            ProxyHeader::Off => keep_alive(config.keep_alive.as_ref()),
        };
        let (h1, h2) = codec_limits(config, leniency);
        let busy_max = usize::try_from(config.max_conns_per_host)
            .ok()
            .filter(|max| *max > 0);
        let timeouts = timeouts(config);
        let tls_config = config.tls.as_ref();
        let options = Options {
            protocol: versions.protocol(tls.is_some()),
            tls,
            dialling: dialling::build(config, || for_proxy(config, keys))?.map(Arc::new),
            keep_alive,
            wear: wear(config.keep_alive.as_ref()),
            probes: probes(config.keep_alive.as_ref()),
            timeouts,
            busy_max,
            h1,
            h2,
            read_bytes: read_bytes(config.read_buffer_size)?,
        };
        Ok(Transport {
            options,
            proxy_header,
            fastcgi: None,
            memcached: None,
            plain_ports,
            versions,
            by_request: ByRequest::build(&config.local_address, tls_config, log)?.map(Arc::new),
            verification: match tls_config.is_some_and(|tls| tls.insecure_skip_verify) {
                true => Verification::Off,
                false => Verification::On,
            },
        })
    }

    fn of_fastcgi(config: &FastCgiTransport, log: Option<&Log>) -> Result<Transport, Refusal> {
        let options = Options {
            protocol: Protocol::FastCgi,
            dialling: dialling::of_applications(&config.local_address, &config.socket_buffers)?,
            keep_alive: match &config.keep_alive {
                Some(config) => keep_alive(Some(config)),
                None => KeepAlive::Briefly(limits::KEPT_BRIEFLY),
            },
            wear: wear(config.keep_alive.as_ref()),
            timeouts: all_have(
                config.dial_timeout,
                config.read_timeout,
                config.write_timeout,
            ),
            ..Options::default()
        };
        Ok(Transport {
            by_request: ByRequest::build(&config.local_address, None, log)?.map(Arc::new),
            ..Transport::of_applications(options, FastCgi::build(config, log)?)
        })
    }

    /// In these protocols the end of the connection marks the end of a response, so connections cannot be reused.
    fn of_cgi(
        config: &CgiTransport,
        dialect: Dialect,
        (log, keys): (Option<&Log>, Option<&Keys<'_>>),
        shared: &Shared,
    ) -> Result<Transport, Refusal> {
        let tls = config.tls.as_ref();
        let connector = tls.map(|tls| shared.connector(tls, &[], || connector(tls, keys, &[])));
        let options = Options {
            protocol: Protocol::Cgi,
            tls: connector.transpose()?,
            dialling: dialling::of_applications(&config.local_address, &config.socket_buffers)?,
            keep_alive: KeepAlive::Off,
            timeouts: all_have(
                config.dial_timeout,
                config.read_timeout,
                config.write_timeout,
            ),
            ..Options::default()
        };
        let fastcgi = FastCgi::build_bare(dialect, config)?;
        Ok(Transport {
            verification: match tls.is_some_and(|tls| tls.insecure_skip_verify) {
                true => Verification::Off,
                false => Verification::On,
            },
            by_request: ByRequest::build(&config.local_address, tls, log)?.map(Arc::new),
            ..Transport::of_applications(options, fastcgi)
        })
    }

    /// A transport for FastCGI, SCGI or uwsgi, without HTTP settings.
    fn of_applications(options: Options, fastcgi: FastCgi) -> Transport {
        Transport {
            options,
            proxy_header: ProxyHeader::Off,
            fastcgi: Some(Arc::new(fastcgi)),
            memcached: None,
            plain_ports: Vec::new(),
            versions: Versions::default(),
            verification: Verification::On,
            by_request: None,
        }
    }

    fn of_memcached(config: &MemcachedTransport, log: Option<&Log>) -> Result<Transport, Refusal> {
        let gzip_flag = config.gzip_flag;
        let options = Options {
            protocol: Protocol::Memcached { gzip_flag },
            dialling: dialling::of_applications(&config.local_address, &SocketBuffers::default())?,
            keep_alive: keep_alive(config.keep_alive.as_ref()),
            wear: wear(config.keep_alive.as_ref()),
            probes: probes(config.keep_alive.as_ref()),
            timeouts: all_have(
                config.dial_timeout,
                config.read_timeout,
                config.write_timeout,
            ),
            ..Options::default()
        };
        Ok(Transport {
            options,
            proxy_header: ProxyHeader::Off,
            fastcgi: None,
            memcached: Some(Arc::new(Memcached::build(&config.key)?)),
            plain_ports: Vec::new(),
            versions: Versions::default(),
            verification: Verification::On,
            by_request: ByRequest::build(&config.local_address, None, log)?.map(Arc::new),
        })
    }

    /// The memcached command, if upstreams use memcached.
    pub fn memcached(&self) -> Option<&Arc<Memcached>> {
        self.memcached.as_ref()
    }

    /// The settings of FastCGI, SCGI or uwsgi, if upstreams use one of them.
    pub fn fastcgi(&self) -> Option<&Arc<FastCgi>> {
        self.fastcgi.as_ref()
    }

    /// Logs a warning if upstreams are not authenticated.
    pub fn warn(&self, log: &Log, upstreams: &str) {
        if self.verification == Verification::Off {
            let logger = "http.reverse_proxy.transport.http";
            let message = "the certificates of upstreams are not verified";
            log.warn(logger, message)
                .text("upstreams", upstreams)
                .text("instead", "tls_trust_pool with the CA that signed them")
                .send();
        }
    }

    /// The options for an upstream on `port`.
    pub fn options(&self, port: Option<u16>) -> Options {
        let mut options = self.options.clone();
        if port.is_some_and(|port| self.plain_ports.contains(&port)) {
            options.tls = None;
            options.protocol = self.versions.protocol(false);
        }
        options
    }

    /// Like [`Transport::options`], with the constraints of `way`.
    pub fn options_by(&self, port: Option<u16>, way: Way) -> Options {
        let mut options = self.options(port);
        if way.family != Family::Any || way.reach != Reach::Anywhere {
            let mut dialling = options.dialling.as_deref().cloned().unwrap_or_default();
            dialling.family = way.family;
            dialling.reach = way.reach;
            options.dialling = Some(Arc::new(dialling));
        }
        options
    }

    /// The settings that depend on requests, if there are any.
    pub fn by_request(&self) -> Option<&Arc<ByRequest>> {
        self.by_request.as_ref()
    }

    /// Which PROXY protocol header connections start with.
    pub fn proxy_header(&self) -> ProxyHeader {
        self.proxy_header
    }
}

fn proxy_header(name: &str) -> Result<ProxyHeader, Refusal> {
    match name {
        "" => Ok(ProxyHeader::Off),
        "v1" => Ok(ProxyHeader::V1),
        "v2" => Ok(ProxyHeader::V2),
        other => Err(Refusal::new(format!(
            "proxy_protocol `{other}`; it is `v1` or `v2`"
        ))),
    }
}

/// The configured buffer size for reading responses.
fn read_bytes(size: i64) -> Result<Option<usize>, Refusal> {
    if size <= 0 {
        return Ok(None);
    }
    let bytes = usize::try_from(size).ok();
    match bytes.filter(|bytes| READ_BUFFER_BYTES.contains(bytes)) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(
            Refusal::new(format!("`read_buffer` of {size} bytes")).with_help(format!(
                "give a size from {} to {} bytes",
                READ_BUFFER_BYTES.start(),
                READ_BUFFER_BYTES.end()
            )),
        ),
    }
}

/// A response may take arbitrarily long, so an upstream that vanished has to be detected; Caddy's default.
const PROBE_INTERVAL: Duration = Duration::from_secs(30);

/// A negative interval disables probes.
fn probes(config: Option<&KeepAliveConfig>) -> Option<Probes> {
    let interval = config.map_or(0, |config| config.probe_interval.0);
    let given = u64::try_from(interval).ok()?;
    Some(Probes::every(match given {
        0 => PROBE_INTERVAL,
        nanos => Duration::from_nanos(nanos),
    }))
}

fn timeouts(config: &HttpTransport) -> Timeouts {
    let common = all_have(
        config.dial_timeout,
        config.read_timeout,
        config.write_timeout,
    );
    Timeouts {
        response: given(config.response_header_timeout),
        expect_continue: given(config.expect_continue_timeout).unwrap_or(common.expect_continue),
        ..common
    }
}

/// The timeouts common to all transports.
fn all_have(
    dial: sluice_model::Duration,
    read: sluice_model::Duration,
    write: sluice_model::Duration,
) -> Timeouts {
    let defaults = Timeouts::default();
    Timeouts {
        dial: given(dial).unwrap_or(defaults.dial),
        read: given(read),
        write: given(write),
        ..defaults
    }
}

fn keep_alive(config: Option<&KeepAliveConfig>) -> KeepAlive {
    let Some(config) = config else {
        return KeepAlive::default();
    };
    if config.enabled == Some(false) {
        return KeepAlive::Off;
    }
    let limit = |value: i64| usize::try_from(value).ok().filter(|max| *max > 0);
    let idle_max = limit(config.max_idle_conns_per_host)
        .into_iter()
        .chain(limit(config.max_idle_conns))
        .fold(limits::IDLE_MAX, usize::min);
    let idle_timeout = given(config.idle_timeout).unwrap_or(limits::IDLE_TIMEOUT);
    KeepAlive::Keep {
        idle_timeout,
        idle_max,
    }
}

/// How long or how often a connection may be used.
fn wear(config: Option<&KeepAliveConfig>) -> Wear {
    Wear {
        requests_max: config
            .and_then(|config| u32::try_from(config.max_requests).ok())
            .filter(|max| *max > 0),
        age_max: config.and_then(|config| given(config.max_age)),
    }
}

/// TLS for a network proxy. As in Go, the TLS settings for upstreams apply to it too.
fn for_proxy(config: &HttpTransport, keys: Option<&Keys<'_>>) -> Result<Arc<Connector>, Refusal> {
    let usual = UpstreamTls::default();
    connector(config.tls.as_ref().unwrap_or(&usual), keys, &[b"http/1.1"]).map(Arc::new)
}

/// Builds the TLS connector; `offer` has the ALPN protocols in order of preference.
fn connector(
    config: &UpstreamTls,
    keys: Option<&Keys<'_>>,
    offer: &[&[u8]],
) -> Result<Connector, Refusal> {
    if !matches!(config.renegotiation.as_str(), "" | "never") {
        return Err(Refusal::not_yet("`tls_renegotiation`", "remove it"));
    }
    let versions = match (config.protocol_min.as_str(), config.protocol_max.as_str()) {
        ("" | "tls1.2", "" | "tls1.3") => tls::Versions::Both,
        ("" | "tls1.2", "tls1.2") => tls::Versions::Tls12,
        ("tls1.3", "" | "tls1.3") => tls::Versions::Tls13,
        (min, max) => {
            let what = format!("no versions of TLS from `{min}` to `{max}`");
            return Err(Refusal::new(what).with_help("there are tls1.2 and tls1.3"));
        }
    };
    let mut revoked = Vec::new();
    for file in &config.revoked_files {
        revoked.extend(trust_pool::revoked_from_file(Path::new(file))?);
    }
    let options = ConnectorOptions {
        cipher_suites: config.cipher_suites.clone(),
        modern_suites: config.modern_suites.clone(),
        versions,
        revoked,
        name: match config.hides_name {
            true => tls::SendsName::No,
            false => tls::SendsName::Yes,
        },
        sessions: match config.no_resumption {
            true => tls::Resumes::No,
            false => tls::Resumes::Yes,
        },
        trust: trust(config, keys)?,
        names: match config.common_name {
            true => tls::NameRule::OrCommonName,
            false => tls::NameRule::Alternative,
        },
        identity: identity(config, keys)?,
        server_name: match depends(&config.server_name)? {
            None => Some(config.server_name.clone()).filter(|name| !name.is_empty()),
            Some(_) => None,
        },
        curves: config.curves.clone(),
        alpn: offer.iter().map(|name| name.to_vec()).collect(),
    };
    Connector::new(options).map_err(|error| Refusal::new(format!("TLS to upstreams: {error}")))
}

fn trust(config: &UpstreamTls, keys: Option<&Keys<'_>>) -> Result<ServerTrust, Refusal> {
    if config.insecure_skip_verify {
        return Ok(ServerTrust::Anyone);
    }
    let mut pool = trust_pool::decoded(&config.root_ca_pool)?;
    for file in &config.root_ca_pem_files {
        pool.extend(trust_pool::from_file(file)?);
    }
    if let Some(config) = &config.ca {
        match trust_pool::certificates(config, keys)? {
            Some(found) => pool.extend(found),
            // The configuration is only validated, so nothing connects.
            None => return Ok(ServerTrust::Anyone),
        }
    }
    match pool.is_empty() && config.ca.is_none() {
        true => Ok(ServerTrust::System),
        false => Ok(ServerTrust::Pool(pool)),
    }
}

fn identity(config: &UpstreamTls, keys: Option<&Keys<'_>>) -> Result<Identity, Refusal> {
    if !config.client_certificate_automate.is_empty() {
        let subject = Subject::parse(&config.client_certificate_automate)
            .map_err(|error| Refusal::new(error.to_string()))?;
        return Ok(keys.map_or(Identity::None, |keys| {
            Identity::Chosen(keys.store.shown(subject))
        }));
    }
    let is_known = depends(&config.client_certificate_file)?.is_none()
        && depends(&config.client_certificate_key_file)?.is_none();
    if config.client_certificate_file.is_empty() || !is_known {
        return Ok(Identity::None);
    }
    let written = config.origin.route();
    let refused = |refusal| Refusal { written, ..refusal };
    let chain = read(&config.client_certificate_file).map_err(refused)?;
    let key = key(config).map_err(refused)?;
    let identity = ClientIdentity::with_key(&chain, key).map_err(|error| {
        let file = &config.client_certificate_file;
        let what = format!("certificate in `{file}` for TLS to upstreams: {error}");
        refused(Refusal::new(what))
    })?;
    Ok(Identity::Fixed(identity))
}

/// The private key of the client certificate.
fn key(config: &UpstreamTls) -> Result<PrivateKeyDer<'static>, Refusal> {
    let refused = |error: CertsError| Refusal::new(format!("TLS to upstreams: {error}"));
    let passwords = match config.client_certificate_password_file.as_str() {
        "" => Passwords::default(),
        file => Passwords::read(Path::new(file)).map_err(refused)?,
    };
    let file = &config.client_certificate_key_file;
    key_from_pem(&read(file)?, Path::new(file), &passwords).map_err(refused)
}

fn read(path: &str) -> Result<Vec<u8>, Refusal> {
    std::fs::read(path).map_err(|error| Refusal::new(format!("cannot read `{path}`: {error}")))
}

/// The limits of responses over either version of HTTP.
fn codec_limits(config: &HttpTransport, leniency: Leniency) -> (h1::Limits, h2::Limits) {
    let mut h2 = h2::Limits::default();
    let mut h1 = h1::Limits {
        leniency,
        ..h1::Limits::default()
    };
    if let Ok(bytes @ 1..) = usize::try_from(config.max_response_header_size) {
        h1.head_bytes_max = bytes;
        h2.header_list_bytes_max = u32::try_from(bytes).unwrap_or(u32::MAX);
        h2.block_bytes_max = h2.header_list_bytes_max;
    }
    (h1, h2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protocols(versions: &str) -> [Protocol; 2] {
        let names: Vec<String> = versions.split_whitespace().map(str::to_owned).collect();
        let versions = Versions::read(&names).map_err(|refusal| refusal.to_string());
        [true, false].map(|has_tls| versions.clone().unwrap().protocol(has_tls))
    }

    /// With and without TLS, as in Caddy 2.11.
    #[test]
    fn versions_say_what_is_spoken_with_and_without_tls() {
        use Protocol::{Http1, Http2, Http3, Negotiated};
        for (versions, expected) in [
            ("3", [Http3, Http3]),
            ("", [Negotiated, Http1]),
            ("1.1 2", [Negotiated, Http1]),
            ("1.1", [Http1, Http1]),
            ("2", [Negotiated, Http1]),
            ("h2c", [Negotiated, Http2]),
            ("h2c 2", [Negotiated, Http2]),
            ("1.1 h2c", [Negotiated, Http2]),
        ] {
            assert_eq!(protocols(versions), expected, "{versions}");
        }
    }

    fn refusal(config: &HttpTransport) -> Option<String> {
        let built = Transport::http(config, None, None, Leniency::default(), &Shared::default());
        built.err().map(|refusal| refusal.to_string())
    }

    #[test]
    fn http3_is_alone_and_has_tls_and_no_proxy() {
        let secured = HttpTransport {
            versions: vec!["3".to_owned()],
            tls: Some(UpstreamTls {
                insecure_skip_verify: true,
                ..UpstreamTls::default()
            }),
            ..HttpTransport::default()
        };
        assert_eq!(refusal(&secured), None);
        let tls = |change: fn(&mut UpstreamTls)| {
            let mut tls = secured.tls.clone().unwrap();
            change(&mut tls);
            HttpTransport {
                tls: Some(tls),
                ..secured.clone()
            }
        };
        for (config, expected) in [
            (
                HttpTransport {
                    tls: None,
                    ..secured.clone()
                },
                "an upstream without TLS with `versions 3`",
            ),
            (
                HttpTransport {
                    versions: vec!["2".to_owned(), "3".to_owned()],
                    ..secured.clone()
                },
                "`versions` with `3` and others",
            ),
            (
                HttpTransport {
                    proxy_protocol: "v2".to_owned(),
                    ..secured.clone()
                },
                "`proxy_protocol` with `versions 3`",
            ),
            (
                HttpTransport {
                    forward_proxy_url: "http://proxy:3128".to_owned(),
                    ..secured.clone()
                },
                "`network_proxy` with `versions 3`",
            ),
            (
                tls(|tls| tls.except_ports.push("80".to_owned())),
                "`tls_except_ports` with `versions 3`",
            ),
            (
                tls(|tls| tls.protocol_max = "tls1.2".to_owned()),
                "TLS 1.2 with `versions 3`",
            ),
            (
                tls(|tls| {
                    tls.modern_suites
                        .push("TLS13_AES_256_GCM_SHA384".to_owned())
                }),
                "these cipher suites with `versions 3`",
            ),
        ] {
            let refused = refusal(&config).unwrap();
            assert!(refused.starts_with(expected), "{refused}");
        }
    }

    #[test]
    fn ports_without_tls_speak_what_is_spoken_there() {
        let config = HttpTransport {
            versions: vec!["h2c".to_owned()],
            tls: Some(UpstreamTls {
                insecure_skip_verify: true,
                except_ports: vec!["80".to_owned()],
                ..UpstreamTls::default()
            }),
            ..HttpTransport::default()
        };
        let transport =
            Transport::http(&config, None, None, Leniency::default(), &Shared::default());
        let transport = transport.map_err(|refusal| refusal.to_string()).unwrap();
        let spoken = [Some(443), Some(80)].map(|port| transport.options(port).protocol);
        assert_eq!(spoken, [Protocol::Negotiated, Protocol::Http2]);
    }
}
