//! Certificates from ACME CAs (RFC 8555), using a library that implements the protocol. Each order blocks the thread of
//! its caller until it is done; `maintain` decides when to order.

mod account;
mod chains;
mod order;
mod order_lifetime;
mod transport;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use instant_acme::{CertificateIdentifier, ChallengeType, Error};
use pki_types::CertificateDer;

pub use account::ZEROSSL;
pub use chains::ChainChoice;
pub(crate) use order::csr;
use sluice_dns::DnsOptions;
use sluice_dns::fetch::{FetchOptions, Fetcher};
pub(crate) use transport::retry_at;

use crate::challenges::Challenges;
use crate::failure::{CertsError, Fault};
use crate::issuer::{Issued, Issuer, Request};
use crate::limits::{
    ADVICE_PAUSE_MAX, ADVICE_PAUSE_MIN, ORDER_TIMEOUT, RENEWAL_SHARE, STALE_NONCES_MAX,
};
use crate::pair::Pair;
use crate::renewal::Advice;
use crate::storage::Storage;
use crate::subject::Subject;
use account::safe;
use transport::Transport;

/// The directory of Let's Encrypt, the default CA.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The directory of the Let's Encrypt staging environment.
pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// Options for an ACME CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeOptions {
    /// The URL of its directory.
    pub directory: String,
    /// The directory of its staging CA, tried first after a failure; empty for none.
    pub test_directory: String,
    /// The email address of the account; empty for none.
    pub email: String,
    /// The account key as PEM; empty to create one.
    pub account_key: String,
    /// The external account that the CA requires, if any.
    pub eab: Option<ExternalAccount>,
    /// The certificate profile; empty for the CA's default.
    pub profile: String,
    /// The requested certificate lifetime; the CA's default if `None`. Few CAs accept a request.
    pub lifetime: Option<Duration>,
    /// Timeout of one order.
    pub timeout: Duration,
    /// The port for http-01 challenges; `None` disables them.
    pub http_port: Option<u16>,
    /// The port for tls-alpn-01 challenges; `None` disables them.
    pub alpn_port: Option<u16>,
    /// Options for dns-01 challenges, which then replace the other types; `None` disables them.
    pub dns: Option<DnsOptions>,
    /// The address to listen on for challenges if no server of ours does; all addresses if empty.
    pub bind_host: String,
    /// The root certificates trusted for connections to the CA; the system's if `None`.
    pub roots: Option<Vec<CertificateDer<'static>>>,
    /// The preferred chain.
    pub chains: ChainChoice,
}

/// An external account (RFC 8555, section 7.3.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalAccount {
    /// Its key ID.
    pub key_id: String,
    /// Its MAC key, base64url.
    pub mac_key: String,
}

impl Default for AcmeOptions {
    fn default() -> Self {
        AcmeOptions {
            directory: LETS_ENCRYPT.to_owned(),
            test_directory: String::new(),
            email: String::new(),
            account_key: String::new(),
            eab: None,
            profile: String::new(),
            lifetime: None,
            timeout: ORDER_TIMEOUT,
            http_port: Some(80),
            alpn_port: Some(443),
            dns: None,
            bind_host: String::new(),
            roots: None,
            chains: ChainChoice::default(),
        }
    }
}

/// An issuer that uses an ACME CA.
pub struct AcmeIssuer {
    options: AcmeOptions,
    storage: Storage,
    challenges: Arc<Challenges>,
    fetcher: Fetcher,
    authority: Authority,
    rehearsal: Option<Authority>,
    /// The index of the challenge type that succeeded last.
    preferred: AtomicUsize,
}

/// One ACME CA.
struct Authority {
    directory: String,
    /// Its name in storage.
    key: String,
    /// No requests before this time, because the CA has sent `Retry-After`.
    closed_until: Mutex<Option<SystemTime>>,
}

impl Authority {
    fn new(directory: &str) -> Authority {
        let bare = directory
            .split_once("://")
            .map_or(directory, |(_, rest)| rest);
        let bare = bare.split(['?', '#']).next().unwrap_or_default();
        Authority {
            directory: directory.to_owned(),
            key: safe(&bare.trim_end_matches('/').replace('/', "-")),
            closed_until: Mutex::default(),
        }
    }

    fn check_open(&self, now: SystemTime) -> Result<(), CertsError> {
        let closed = self
            .closed_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match *closed {
            Some(until) if now < until => Err(CertsError::Authority {
                issuer: self.key.clone(),
                fault: Fault::Busy,
                what: "it asked to retry later".to_owned(),
                retry_at: Some(until),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// The error for a failed request, with the details that the transport recorded.
    fn failed(&self, error: &Error, transport: &Transport) -> CertsError {
        let notes = transport.notes();
        let is_limit = match error {
            Error::Api(problem) => {
                problem.status == Some(429)
                    || problem.r#type.as_deref() == Some("urn:ietf:params:acme:error:rateLimited")
            }
            _ => false,
        };
        let fault = if is_limit {
            Fault::Busy
        } else if notes.unreachable {
            Fault::Unreachable
        } else {
            Fault::Refused
        };
        let retry_at = notes.retry_at.filter(|_| fault != Fault::Refused);
        if fault == Fault::Busy {
            let mut closed = self
                .closed_until
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *closed = retry_at;
        }
        CertsError::Authority {
            issuer: self.key.clone(),
            fault,
            what: error.to_string(),
            retry_at,
        }
    }
}

impl AcmeIssuer {
    /// Creates an issuer that stores its account in `storage`; our servers respond to `challenges`.
    pub fn new(options: AcmeOptions, storage: Storage, challenges: Arc<Challenges>) -> AcmeIssuer {
        let fetcher = Fetcher::new(&FetchOptions {
            roots: options.roots.clone(),
            ..FetchOptions::default()
        });
        let test = options.test_directory.as_str();
        AcmeIssuer {
            authority: Authority::new(&options.directory),
            rehearsal: (!test.is_empty()).then(|| Authority::new(test)),
            options,
            storage,
            challenges,
            fetcher,
            preferred: AtomicUsize::new(0),
        }
    }

    /// The challenge types to try for `subject`, in order of preference.
    fn kinds(&self, subject: &Subject) -> Vec<ChallengeType> {
        if self.options.dns.is_some() && subject.ip().is_none() {
            return vec![ChallengeType::Dns01];
        }
        if subject.is_wildcard() {
            return Vec::new();
        }
        let http = self.options.http_port.map(|_| ChallengeType::Http01);
        let alpn = self.options.alpn_port.map(|_| ChallengeType::TlsAlpn01);
        let mut kinds: Vec<ChallengeType> = [http, alpn].into_iter().flatten().collect();
        let preferred = self.preferred.load(Ordering::Relaxed);
        if preferred < kinds.len() {
            kinds.rotate_left(preferred);
        }
        kinds
    }

    /// Orders from one CA, trying the challenge types in turn.
    fn order_at(
        &self,
        authority: &Authority,
        request: &Request<'_>,
        now: SystemTime,
    ) -> Result<Issued, CertsError> {
        authority.check_open(now)?;
        let kinds = self.kinds(request.subject);
        let mut failed = CertsError::Setting {
            name: "challenges",
            what: format!(
                "no enabled challenge can prove control of `{}`{}",
                request.subject,
                if request.subject.is_wildcard() {
                    "; a wildcard needs the DNS challenge"
                } else {
                    ""
                }
            ),
        };
        for (index, kind) in kinds.iter().enumerate() {
            match self.order_by(authority, request, kind) {
                Ok(issued) => {
                    let turned = self.preferred.load(Ordering::Relaxed) + index;
                    self.preferred
                        .store(turned % kinds.len(), Ordering::Relaxed);
                    return Ok(issued);
                }
                Err(error) => failed = error,
            }
            let may_go_on = matches!(
                &failed,
                CertsError::Authority {
                    fault: Fault::Refused,
                    ..
                }
            );
            if !may_go_on {
                break;
            }
        }
        Err(failed)
    }

    fn order_by(
        &self,
        authority: &Authority,
        request: &Request<'_>,
        kind: &ChallengeType,
    ) -> Result<Issued, CertsError> {
        let transport = Transport::new(self.fetcher.clone());
        let mut retries = 0;
        loop {
            let error = match run(self.order(authority, &transport, request, kind))? {
                Ok(issued) => return Ok(issued),
                Err(error) => of_the_ca(error)?,
            };
            retries += 1;
            let problem = match &error {
                Error::Api(problem) => problem.r#type.as_deref(),
                _ => None,
            };
            match problem {
                Some("urn:ietf:params:acme:error:badNonce") if retries <= STALE_NONCES_MAX => {}
                Some("urn:ietf:params:acme:error:accountDoesNotExist") if retries == 1 => {
                    self.forget_account(authority)?;
                }
                Some(_) | None => return Err(authority.failed(&error, &transport)),
            }
        }
    }
}

impl Issuer for AcmeIssuer {
    fn id(&self) -> &str {
        &self.authority.key
    }

    fn issue(&self, request: &Request<'_>, now: SystemTime) -> Result<Issued, CertsError> {
        if let Some(rehearsal) = self.rehearsal.as_ref().filter(|_| request.failures > 0) {
            // CAs count failed attempts; failures on their staging CAs cost nothing.
            let rehearsed = Request {
                replaces: None,
                ..*request
            };
            self.order_at(rehearsal, &rehearsed, now)?;
        }
        self.order_at(&self.authority, request, now)
    }

    fn accepts(&self, _chain: &[CertificateDer<'_>]) -> bool {
        true
    }

    fn renewal_share(&self) -> f64 {
        RENEWAL_SHARE
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn advice(&self, pair: &Pair, now: SystemTime) -> Option<Result<Advice, CertsError>> {
        let leaf = pair.certified.cert.first()?;
        let id = CertificateIdentifier::try_from(leaf).ok()?;
        let transport = Transport::new(self.fetcher.clone());
        let asked = run(async {
            match self.stored_account(&self.authority, &transport).await? {
                Some(account) => account.renewal_info(&id).await.map(Some),
                None => Ok(None),
            }
        });
        match asked {
            Ok(Ok(Some((info, wait)))) => Some(Ok(Advice {
                start: info.suggested_window.start.into(),
                end: info.suggested_window.end.into(),
                ask_again: now + wait.clamp(ADVICE_PAUSE_MIN, ADVICE_PAUSE_MAX),
            })),
            Ok(Ok(None) | Err(Error::Unsupported(_))) => None,
            Ok(Err(error)) => Some(Err(self.authority.failed(&error, &transport))),
            Err(error) => Some(Err(error)),
        }
    }
}

/// The error, unless it is one of our storage, which the library returns as its own: the CA has refused nothing then.
fn of_the_ca(error: Error) -> Result<Error, CertsError> {
    let Error::Other(inner) = error else {
        return Ok(error);
    };
    match inner.downcast::<CertsError>() {
        Ok(own) if matches!(*own, CertsError::Store(_) | CertsError::Locked(_)) => Err(*own),
        Ok(own) => Ok(Error::Other(own)),
        Err(inner) => Ok(Error::Other(inner)),
    }
}

/// Runs the library on this thread, in a runtime with timers and, for DNS lookups, sockets.
pub fn run<T>(future: impl Future<Output = T>) -> Result<T, CertsError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            CertsError::Signing(format!(
                "cannot start a runtime for the ACME order: {error}"
            ))
        })?;
    Ok(runtime.block_on(future))
}

#[cfg(test)]
mod tests {
    use sluice_store::StoreError;

    use super::*;

    #[test]
    fn a_storage_that_is_away_is_not_a_refusal_of_the_ca() {
        let away = StoreError::new(sluice_store::Fault::Away, "etcd://a", "no response");
        let wrapped = Error::Other(Box::new(CertsError::Store(away)));
        assert!(matches!(of_the_ca(wrapped), Err(CertsError::Store(_))));
        let signing = CertsError::Signing("x".to_owned());
        assert!(of_the_ca(Error::Other(Box::new(signing))).is_ok());
        assert!(of_the_ca(Error::Other("refused".into())).is_ok());
        assert!(of_the_ca(Error::Str("x")).is_ok());
    }

    #[test]
    fn authorities_are_stored_as_caddy_does() {
        for (directory, key) in [
            (LETS_ENCRYPT, "acme-v02.api.letsencrypt.org-directory"),
            (ZEROSSL, "acme.zerossl.com-v2-dv90"),
            ("https://127.0.0.1:14000/dir", "127.0.0.1-14000-dir"),
            (
                "https://CA.test/acme/x/directory?a=b",
                "ca.test-acme-x-directory",
            ),
        ] {
            assert_eq!(Authority::new(directory).key, key);
        }
    }
}
