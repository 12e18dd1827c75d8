//! Connection settings that depend on the request: the local address, the name in TLS, the client certificate. Each
//! combination has its own endpoint, so that no pooled connection or TLS session serves a request with other settings.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use sluice_certs::named::{DATA, text_of};
use sluice_certs::pair::key_from_pem;
use sluice_certs::{CertsError, Passwords};
use sluice_message::Moment;
use sluice_model::proxy::UpstreamTls;
use sluice_net::tls::{ClientIdentity, Connector};
use sluice_net::{Failure, FailureKind, Side};
use sluice_route::Template;
use sluice_upstream::{Endpoint, Options};

use super::addresses::at_load;
use crate::limits::ENDPOINTS_BY_REQUEST_MAX;
use sluice_observe::log::Log;
use sluice_pipeline::build::template;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::{expand_path, expanded};

/// The settings of a transport that have placeholders.
pub struct ByRequest {
    local_address: Option<Template>,
    server_name: Option<Template>,
    certificate: Option<Certificate>,
    log: Option<Log>,
}

/// A client certificate whose files the request names.
struct Certificate {
    chain: Template,
    key: Template,
    password_file: String,
}

impl ByRequest {
    /// Parses the settings; `None` if none of them depends on the request.
    pub fn build(
        local_address: &str,
        tls: Option<&UpstreamTls>,
        log: Option<&Log>,
    ) -> Result<Option<ByRequest>, Refusal> {
        let usual = UpstreamTls::default();
        let tls = tls.unwrap_or(&usual);
        let chain = depends(&tls.client_certificate_file)?;
        let key = depends(&tls.client_certificate_key_file)?;
        let certificate = match chain.is_some() || key.is_some() {
            false => None,
            true => Some(Certificate {
                chain: template(&tls.client_certificate_file)?,
                key: template(&tls.client_certificate_key_file)?,
                password_file: tls.client_certificate_password_file.clone(),
            }),
        };
        let found = ByRequest {
            local_address: depends(local_address)?,
            server_name: depends(&tls.server_name)?,
            certificate,
            log: log.cloned(),
        };
        let is_any = found.local_address.is_some()
            || found.server_name.is_some()
            || found.certificate.is_some();
        Ok(is_any.then_some(found))
    }
}

/// The template of a setting, if its value is known only with a request.
pub fn depends(text: &str) -> Result<Option<Template>, Refusal> {
    if !text.contains('{') {
        return Ok(None);
    }
    let found = template(&at_load(text)?)?;
    Ok(found.literal().is_none().then_some(found))
}

/// The endpoints of one upstream, by the settings of requests.
pub struct Endpoints {
    settings: Arc<ByRequest>,
    known: Mutex<HashMap<Values, (Arc<Endpoint>, Moment)>>,
}

/// The settings of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Values {
    local_address: Option<SocketAddr>,
    server_name: String,
    chain: Vec<u8>,
    key: Vec<u8>,
    /// A certificate that was replaced is another one.
    changed: [Option<(SystemTime, u64)>; 2],
    /// Whether the endpoint is that for upgrade requests.
    is_switching: bool,
}

impl Endpoints {
    /// Without any endpoint yet.
    pub fn new(settings: &Arc<ByRequest>) -> Endpoints {
        Endpoints {
            settings: settings.clone(),
            known: Mutex::default(),
        }
    }

    /// The endpoint for a request, derived from `usual`.
    ///
    /// # Errors
    /// The name is not a server name, or the certificate cannot be used.
    pub fn of(
        &self,
        exchange: &Exchange,
        usual: &Arc<Endpoint>,
        is_switching: bool,
    ) -> Result<Arc<Endpoint>, Failure> {
        let values = Values {
            is_switching,
            ..self.settings.values(exchange)?
        };
        let unset = Values {
            is_switching,
            ..Values::default()
        };
        if values == unset {
            return Ok(usual.clone());
        }
        let now = exchange.worker.clock.coarse();
        if let Some((endpoint, used_at)) = self.known().get_mut(&values) {
            *used_at = now;
            return Ok(endpoint.clone());
        }
        // Reads files, while other workers find their endpoints.
        let endpoint = Arc::new(usual.with(self.settings.options(&values, usual.options())?));
        let mut known = self.known();
        // Another worker may have been faster.
        if let Some((endpoint, _)) = known.get(&values) {
            return Ok(endpoint.clone());
        }
        if known.len() >= ENDPOINTS_BY_REQUEST_MAX {
            let oldest = known.iter().min_by_key(|(_, (_, used_at))| *used_at);
            let oldest = oldest.map(|(values, _)| values.clone());
            oldest.and_then(|values| known.remove(&values));
        }
        known.insert(values, (endpoint.clone(), now));
        Ok(endpoint)
    }

    /// The map is consistent after every single change.
    fn known(&self) -> MutexGuard<'_, HashMap<Values, (Arc<Endpoint>, Moment)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ByRequest {
    fn values(&self, exchange: &Exchange) -> Result<Values, Failure> {
        let text = |template: &Option<Template>| match template {
            Some(template) => String::from_utf8_lossy(&expanded(template, exchange)).into_owned(),
            None => String::new(),
        };
        let mut values = Values {
            local_address: self.bound(&text(&self.local_address)),
            server_name: without_port(&text(&self.server_name)).to_owned(),
            ..Values::default()
        };
        if let Some(certificate) = &self.certificate {
            values.chain = named(&certificate.chain, exchange)?;
            values.key = named(&certificate.key, exchange)?;
            // As in nginx, no certificate is presented if the name is empty.
            match values.chain.is_empty() {
                true => values.key.clear(),
                false => values.changed = [changed(&values.chain), changed(&values.key)],
            }
        }
        Ok(values)
    }

    /// The local address. As in nginx, a value that is not an address is logged, and the system chooses one.
    fn bound(&self, text: &str) -> Option<SocketAddr> {
        let found = parse_local_address(text);
        if found.is_none()
            && !text.is_empty()
            && let Some(log) = &self.log
        {
            let message = "the local address is not an IP address";
            log.error("http.reverse_proxy", message)
                .text("local_address", text)
                .send();
        }
        found
    }

    /// The options of the endpoint for these values.
    fn options(&self, values: &Values, usual: &Options) -> Result<Options, Failure> {
        let mut options = usual.clone();
        if values.local_address.is_some() {
            let mut dialling = options.dialling.as_deref().cloned().unwrap_or_default();
            dialling.local_address = values.local_address;
            options.dialling = Some(Arc::new(dialling));
        }
        let Some(tls) = &usual.tls else {
            return Ok(options);
        };
        let mut connector = Connector::clone(tls);
        if !values.server_name.is_empty() {
            connector = connector
                .named(values.server_name.clone())
                .map_err(|error| unusable(&format!("TLS to the upstream: {error}")))?;
        }
        if let Some(certificate) = self
            .certificate
            .as_ref()
            .filter(|_| !values.chain.is_empty())
        {
            let identity = certificate.read(values).map_err(|why| unusable(&why))?;
            connector = connector
                .presenting(identity)
                .map_err(|error| unusable(&format!("TLS to the upstream: {error}")))?;
        }
        options.tls = Some(Arc::new(connector));
        Ok(options)
    }
}

impl Certificate {
    /// Reads the files that the values name.
    fn read(&self, values: &Values) -> Result<ClientIdentity, String> {
        let said = |error: CertsError| error.to_string();
        let (_, chain) = text_of(&values.chain).map_err(said)?;
        let (path, key) = text_of(&values.key).map_err(said)?;
        let passwords = match self.password_file.as_str() {
            "" => Passwords::default(),
            file => Passwords::read(Path::new(file)).map_err(said)?,
        };
        let key = key_from_pem(&key, &path, &passwords).map_err(said)?;
        ClientIdentity::with_key(&chain, key).map_err(|error| error.to_string())
    }
}

/// When a file was changed, and its size.
fn changed(value: &[u8]) -> Option<(SystemTime, u64)> {
    if value.starts_with(DATA) {
        return None;
    }
    let found = std::fs::metadata(OsStr::from_bytes(value)).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// An IP address, and a port or 0.
pub fn parse_local_address(text: &str) -> Option<SocketAddr> {
    let ip = text.parse::<IpAddr>().ok();
    let ip = ip.map(|ip| SocketAddr::new(ip, 0));
    ip.or_else(|| text.parse().ok())
}

/// A host without its port and brackets: `$http_host` and `$proxy_host` may have a port.
fn without_port(text: &str) -> &str {
    if let Some(rest) = text.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => host,
        Some(_) | None => text,
    }
}

/// PEM text after [`DATA`], or the path of a file, into which values of the request have to fit; may be empty.
fn named(template: &Template, exchange: &Exchange) -> Result<Vec<u8>, Failure> {
    let plain = expanded(template, exchange);
    if plain.is_empty() || plain.starts_with(DATA) {
        return Ok(plain);
    }
    let mut path = Vec::new();
    match expand_path(template, exchange, &mut path) {
        Ok(()) => Ok(path),
        Err(_) => Err(unusable(
            "a value of the request does not fit into the path of the client certificate",
        )),
    }
}

/// As in nginx, the response is 500.
fn unusable(why: &str) -> Failure {
    Failure::new(Side::Internal, FailureKind::Tls).because(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_ports() {
        for (text, host) in [
            ("a.example", "a.example"),
            ("a.example:8443", "a.example"),
            ("[::1]:443", "::1"),
            ("::1", "::1"),
            ("", ""),
        ] {
            assert_eq!(without_port(text), host, "{text}");
        }
    }

    #[test]
    fn local_addresses_may_have_ports() {
        for (text, expected) in [
            ("127.0.0.5", Some("127.0.0.5:0")),
            ("127.0.0.5:99", Some("127.0.0.5:99")),
            ("::1", Some("[::1]:0")),
            ("[::1]:99", Some("[::1]:99")),
            ("off", None),
            ("localhost", None),
        ] {
            let expected = expected.map(|text| text.parse().expect("an address"));
            assert_eq!(parse_local_address(text), expected, "{text}");
        }
    }

    #[test]
    fn only_placeholders_depend_on_requests() {
        assert!(ByRequest::build("127.0.0.1", None, None).is_ok_and(|found| found.is_none()));
        let found = ByRequest::build("{http.request.uri.query.a}", None, None);
        assert!(found.is_ok_and(|found| found.is_some_and(|found| found.certificate.is_none())));
        let tls = UpstreamTls {
            client_certificate_file: "/a/{http.request.host}.pem".to_owned(),
            client_certificate_key_file: "/a/key.pem".to_owned(),
            ..UpstreamTls::default()
        };
        let found = ByRequest::build("", Some(&tls), None);
        assert!(found.is_ok_and(|found| found.is_some_and(|found| found.certificate.is_some())));
    }
}
