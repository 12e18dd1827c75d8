//! Pending ACME challenges, and how our own servers respond to them: http-01 (RFC 8555, section 8.3) and the validation
//! files of ZeroSSL's own API before routing, tls-alpn-01 (RFC 8737) in the handshake. Orders are in `acme`; `gate`
//! listens on ports that no server uses.

pub(crate) mod shared;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::sync::Notify;

use crate::failure::CertsError;
use crate::keys::KeyType;
use crate::limits::CHALLENGES_MAX;
use crate::local_ca::alternative_name;
use crate::subject::Subject;

pub use shared::is_passing;

/// The path prefix of http-01 challenges.
pub const HTTP_PREFIX: &str = "/.well-known/acme-challenge/";

/// The path prefix of file-based validation, as used by ZeroSSL (CA/Browser Forum Baseline Requirements, 3.2.2.4.18).
pub const FILE_PREFIX: &str = "/.well-known/pki-validation/";

/// The ALPN protocol of tls-alpn-01 challenges.
pub const ALPN: &[u8] = b"acme-tls/1";

/// The challenges that are currently active. One instance per process.
#[derive(Default)]
pub struct Challenges {
    /// The number of all entries; read for every request, therefore not behind the lock.
    count: AtomicUsize,
    table: RwLock<Table>,
    /// Notified when a challenge in the storage has come or gone.
    others_changed: Notify,
}

#[derive(Default)]
struct Table {
    /// By token.
    http: HashMap<String, String>,
    /// By file name.
    files: HashMap<String, String>,
    /// By server name (SNI).
    alpn: HashMap<String, Arc<ServerConfig>>,
    /// Those of other nodes.
    others: HashMap<shared::OtherName, shared::Other>,
}

impl Challenges {
    /// Whether there are no challenges, which is nearly always the case.
    pub fn is_idle(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// The response body for a request for `path`, if it is an active http-01 challenge or validation file.
    pub fn http_response(&self, path: &[u8]) -> Option<String> {
        let path = std::str::from_utf8(path).ok()?;
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        match path.strip_prefix(HTTP_PREFIX) {
            Some(token) => {
                let own = table.http.get(token).cloned();
                own.or_else(|| table.others.values().find_map(|other| other.http(token)))
            }
            None => table.files.get(path.strip_prefix(FILE_PREFIX)?).cloned(),
        }
    }

    /// The TLS configuration for a tls-alpn-01 handshake.
    pub(crate) fn alpn_config(&self, server_name: &str) -> Option<Arc<ServerConfig>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let name = server_name.to_ascii_lowercase();
        let own = table.alpn.get(&name).cloned();
        own.or_else(|| table.others.values().find_map(|other| other.alpn(&name)))
    }

    /// Responds to the http-01 challenge `token` with `text` until the result is dropped.
    pub(crate) fn show_http(
        self: &Arc<Self>,
        token: &str,
        text: &str,
    ) -> Result<Shown, CertsError> {
        // A malformed token (RFC 8555, section 8.3) could refer to another path.
        let is_token = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        if token.is_empty() || !token.bytes().all(is_token) {
            return Err(CertsError::Signing(
                "the challenge token is malformed".to_owned(),
            ));
        }
        self.show(|table| {
            table.http.insert(token.to_owned(), text.to_owned());
        })?;
        Ok(Shown {
            challenges: self.clone(),
            what: What::Http(token.to_owned()),
        })
    }

    /// Serves the file `name` below [`FILE_PREFIX`] with `text` until the result is dropped.
    pub(crate) fn show_file(self: &Arc<Self>, name: &str, text: &str) -> Result<Shown, CertsError> {
        // Any other name could refer to another path.
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_plain) {
            let what = format!("`{name}` is not a valid file name for a challenge");
            return Err(CertsError::Signing(what));
        }
        self.show(|table| {
            table.files.insert(name.to_owned(), text.to_owned());
        })?;
        Ok(Shown {
            challenges: self.clone(),
            what: What::File(name.to_owned()),
        })
    }

    /// Responds to the tls-alpn-01 challenge for `subject` with `digest` until the result is dropped.
    pub(crate) fn show_alpn(
        self: &Arc<Self>,
        subject: &Subject,
        digest: &[u8],
    ) -> Result<Shown, CertsError> {
        let config = alpn_config(subject, digest)?;
        let name = subject.handshake_name();
        self.show(|table| {
            table.alpn.insert(name.clone(), config);
        })?;
        Ok(Shown {
            challenges: self.clone(),
            what: What::Alpn(name),
        })
    }

    fn show(&self, add: impl FnOnce(&mut Table)) -> Result<(), CertsError> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if table.len() >= CHALLENGES_MAX {
            return Err(CertsError::Signing(
                "too many challenges at once".to_owned(),
            ));
        }
        add(&mut table);
        self.count.store(table.len(), Ordering::Relaxed);
        Ok(())
    }
}

impl Table {
    fn len(&self) -> usize {
        self.http.len() + self.files.len() + self.alpn.len() + self.others.len()
    }
}

/// A challenge that is active until this is dropped.
pub(crate) struct Shown {
    challenges: Arc<Challenges>,
    what: What,
}

enum What {
    Http(String),
    File(String),
    Alpn(String),
}

impl Drop for Shown {
    fn drop(&mut self) {
        let table = &self.challenges.table;
        let mut table = table.write().unwrap_or_else(PoisonError::into_inner);
        match &self.what {
            What::Http(token) => _ = table.http.remove(token),
            What::File(name) => _ = table.files.remove(name),
            What::Alpn(name) => _ = table.alpn.remove(name),
        }
        self.challenges.count.store(table.len(), Ordering::Relaxed);
    }
}

/// A configuration with the certificate and protocol that RFC 8737, section 3 requires.
fn alpn_config(subject: &Subject, digest: &[u8]) -> Result<Arc<ServerConfig>, CertsError> {
    let signing = |error: rcgen::Error| CertsError::Signing(error.to_string());
    let refused = |error: rustls::Error| CertsError::Signing(error.to_string());
    let key = KeyType::P256.generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.subject_alt_names = vec![alternative_name(subject)?];
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let cert = params.self_signed(&key).map_err(signing)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = aws_lc_rs::sign::any_supported_type(&key).map_err(refused)?;
    let shown = CertifiedKey::new(vec![cert.der().clone()], key);
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    // Its sessions must never be resumed elsewhere.
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_gets_its_response_until_it_is_dropped() {
        let challenges = Arc::new(Challenges::default());
        assert!(challenges.is_idle());
        let shown = challenges.show_http("tok-en_1", "tok-en_1.thumb").unwrap();
        let path = format!("{HTTP_PREFIX}tok-en_1");
        assert_eq!(
            challenges.http_response(path.as_bytes()).as_deref(),
            Some("tok-en_1.thumb")
        );
        assert_eq!(challenges.http_response(b"/tok-en_1"), None);
        assert_eq!(
            challenges.http_response(format!("{path}/x").as_bytes()),
            None
        );
        drop(shown);
        assert!(challenges.is_idle() && challenges.http_response(path.as_bytes()).is_none());
        for bad in ["", "a/b", "../x", "a.b", "a b"] {
            assert!(challenges.show_http(bad, "x").is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_file_is_served_until_it_is_dropped() {
        let challenges = Arc::new(Challenges::default());
        let shown = challenges.show_file("AB12.txt", "one\ntwo").unwrap();
        let response = |path: &str| challenges.http_response(path.as_bytes());
        let path = format!("{FILE_PREFIX}AB12.txt");
        assert_eq!(response(&path).as_deref(), Some("one\ntwo"));
        assert_eq!(response(&format!("{HTTP_PREFIX}AB12.txt")), None);
        assert_eq!(response(&format!("{FILE_PREFIX}other.txt")), None);
        drop(shown);
        assert!(challenges.is_idle() && response(&path).is_none());
        for bad in ["", "a/b", "..", ".x", "a b", "a?b"] {
            assert!(challenges.show_file(bad, "x").is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_handshake_for_an_address_asks_by_its_reverse_name() {
        let challenges = Arc::new(Challenges::default());
        let name = Subject::parse("A.test").unwrap();
        let address = Subject::parse("127.0.0.1").unwrap();
        let _both = [&name, &address].map(|s| challenges.show_alpn(s, &[7; 32]).unwrap());
        assert!(challenges.alpn_config("a.TEST").is_some());
        assert!(challenges.alpn_config("1.0.0.127.in-addr.arpa").is_some());
        assert!(challenges.alpn_config("b.test").is_none());
    }

    #[test]
    fn there_are_never_too_many() {
        let challenges = Arc::new(Challenges::default());
        let show = |n: usize| challenges.show_http(&n.to_string(), "x");
        let shown: Vec<_> = (0..CHALLENGES_MAX).map(|n| show(n).unwrap()).collect();
        assert!(show(CHALLENGES_MAX).is_err());
        drop(shown);
        assert!(show(0).is_ok());
    }
}
