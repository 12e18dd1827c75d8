//! OCSP stapling (RFC 6066, section 8): responses of OCSP responders are sent with certificates, so that clients need
//! not request them. Responses are fetched in the background, verified, and stored; if that fails, only the staple is
//! missing.

pub(crate) mod ocsp_response;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;
use sluice_dns::fetch::{FetchOptions, Fetcher};
use ureq::http::Request;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::X509Certificate;

use crate::failure::Notice;
use crate::limits::{OCSP_PAUSE, OCSP_PAUSE_MIN, OCSP_TIMEOUT};
use crate::pair::Pair;
use crate::storage::Storage;
use crate::store::CertStore;
use ocsp_response::{Question, Said, Status};

/// `id-ad-ocsp` (RFC 5280, section 4.2.2.1).
const RESPONDER: &str = "1.3.6.1.5.5.7.48.1";

/// Returns the responder URL to use for a name, given the URL in the certificate.
pub type Responder = Arc<dyn Fn(&str, &str) -> Option<String> + Send + Sync>;

/// Options for stapling.
#[derive(Clone)]
pub struct Stapling {
    /// How often responses are checked.
    pub interval: Duration,
    /// Selects the responder of a certificate, given the one that it names; `None` disables stapling for it.
    pub responder: Responder,
}

impl Default for Stapling {
    fn default() -> Self {
        Stapling {
            interval: OCSP_PAUSE,
            responder: Arc::new(|_, url| Some(url.to_owned())),
        }
    }
}

/// The results of checking all certificates.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Notices to log.
    pub(crate) notices: Vec<Notice>,
    /// Certificates that were revoked by their CA.
    pub(crate) revoked: Vec<Arc<Pair>>,
}

/// Fetches and caches OCSP responses.
pub(crate) struct Stapler {
    storage: Storage,
    fetcher: Fetcher,
    known: Mutex<HashMap<Vec<u8>, Known>>,
}

/// A response, and when to request the next.
#[derive(Clone)]
struct Known {
    response: Option<(Vec<u8>, Said)>,
    ask_at: SystemTime,
}

impl Stapler {
    pub(crate) fn new(storage: Storage) -> Stapler {
        let fetcher = Fetcher::new(&FetchOptions {
            timeout: OCSP_TIMEOUT,
            ..FetchOptions::default()
        });
        Stapler {
            storage,
            fetcher,
            known: Mutex::default(),
        }
    }

    /// Checks all certificates of `store` and staples the responses. Blocks until the responders have replied.
    pub(crate) fn round(&self, store: &CertStore, how: &Stapling, now: SystemTime) -> Round {
        let mut round = Round::default();
        let mut seen = Vec::new();
        for pair in store.pairs() {
            if pair.certified.ocsp.is_some() {
                // Its staple is maintained externally.
                continue;
            }
            let chain = &pair.certified.cert;
            let Some(question) = Question::new(chain).filter(|_| !pair.lifetime.has_ended(now))
            else {
                continue;
            };
            let name = pair
                .subjects
                .first()
                .map(ToString::to_string)
                .unwrap_or_default();
            let url = match pair.responder.as_str() {
                "" => responder(question.leaf()).and_then(|url| (how.responder)(&name, &url)),
                url => Some(url.to_owned()),
            };
            let Some(url) = url.filter(|url| !url.is_empty()) else {
                continue;
            };
            let hash = digest::digest(&digest::SHA256, &chain[0]).as_ref().to_vec();
            let one = One {
                pair: &pair,
                question,
                url,
                place: place(&pair, &hash),
            };
            let before = self.lock().get(&hash).cloned();
            let before = before.unwrap_or_else(|| self.stored(&one, now));
            let known = self.renewed(&one, before, how, now, &mut round);
            show(store, &pair, &known, now, &mut round);
            self.lock().insert(hash.clone(), known);
            seen.push(hash);
        }
        self.lock().retain(|hash, _| seen.contains(hash));
        round
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Vec<u8>, Known>> {
        // Entries are replaced as a whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The response for a certificate, fetching a new one if due.
    fn renewed(
        &self,
        one: &One<'_>,
        before: Known,
        how: &Stapling,
        now: SystemTime,
        round: &mut Round,
    ) -> Known {
        if now < before.ask_at {
            return before;
        }
        // Another node with this storage may have asked.
        let stored = self.stored(one, now);
        if stored.response.is_some() && stored.ask_at > now {
            return stored;
        }
        match self.ask(one, now) {
            Ok((bytes, said)) => {
                // If it cannot be stored, it is requested again after a restart.
                let _ = self.storage.write(&one.place, &bytes);
                let ask_at = half_way(&said).max(now + OCSP_PAUSE_MIN);
                Known {
                    response: Some((bytes, said)),
                    ask_at,
                }
            }
            Err(why) => {
                round.notices.push(Notice::NotStapled {
                    origin: one.pair.origin.clone(),
                    why,
                });
                Known {
                    ask_at: now + how.interval.max(OCSP_PAUSE_MIN),
                    ..before
                }
            }
        }
    }

    /// The response stored by an earlier process.
    fn stored(&self, one: &One<'_>, now: SystemTime) -> Known {
        let bytes = self.storage.read(&one.place).ok().flatten();
        let response = bytes.and_then(|bytes| {
            let said = one.question.read(&bytes, now)?;
            said.holds(now).then_some((bytes, said))
        });
        let ask_at = response.as_ref().map_or(now, |(_, said)| half_way(said));
        Known { response, ask_at }
    }

    fn ask(&self, one: &One<'_>, now: SystemTime) -> Result<(Vec<u8>, Said), String> {
        let One { question, url, .. } = one;
        let request = Request::post(url)
            .header("Content-Type", "application/ocsp-request")
            .body(question.encode())
            .map_err(|error| error.to_string())?;
        let response = self.fetcher.send(request)?;
        if response.status() != 200 {
            return Err(format!(
                "`{url}` responded with status {}",
                response.status()
            ));
        }
        let bytes = response.into_body();
        let said = question.read(&bytes, now);
        match said.filter(|said| said.holds(now)) {
            Some(said) => Ok((bytes, said)),
            None => Err(format!(
                "the response of `{url}` is not a valid OCSP response for this certificate"
            )),
        }
    }
}

/// A certificate with a responder.
struct One<'a> {
    pair: &'a Pair,
    question: Question<'a>,
    /// The URL of the responder.
    url: String,
    /// The storage name of the response.
    place: String,
}

fn show(store: &CertStore, pair: &Arc<Pair>, known: &Known, now: SystemTime, round: &mut Round) {
    let response = known.response.as_ref().filter(|(_, said)| said.holds(now));
    let good = response.filter(|(_, said)| said.status == Status::Good);
    store.staple(pair, good.map(|(bytes, _)| bytes.as_slice()));
    if response.is_some_and(|(_, said)| said.status == Status::Revoked) {
        round.notices.push(Notice::Revoked {
            origin: pair.origin.clone(),
        });
        round.revoked.push(pair.clone());
    }
}

/// The storage name of a response, as in Caddy: in one directory, by name and certificate.
fn place(pair: &Pair, hash: &[u8]) -> String {
    let name = pair
        .subjects
        .first()
        .map_or_else(|| "unnamed".to_owned(), |s| s.file_name());
    let hash: String = hash
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let place: PathBuf = ["ocsp", &format!("{name}-{hash}")].iter().collect();
    place.display().to_string()
}

/// Responses are renewed in the middle of their validity, so that the responder may be unavailable for as long again.
fn half_way(said: &Said) -> SystemTime {
    let length = said.until.duration_since(said.from).unwrap_or_default();
    said.from + length / 2
}

/// The responder URL in a certificate.
fn responder(cert: &X509Certificate<'_>) -> Option<String> {
    cert.extensions().iter().find_map(|extension| {
        let ParsedExtension::AuthorityInfoAccess(access) = extension.parsed_extension() else {
            return None;
        };
        access
            .accessdescs
            .iter()
            .find_map(|one| match &one.access_location {
                GeneralName::URI(url) if one.access_method.to_id_string() == RESPONDER => {
                    Some((*url).to_owned())
                }
                _ => None,
            })
    })
}

#[cfg(test)]
mod tests;
