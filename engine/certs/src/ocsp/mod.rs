//! Stapling (RFC 6066, section 8): what the responders of authorities say of certificates is shown with them, so that
//! clients need not ask. Answers are asked for in the background, verified, and kept in storage; one that cannot be had
//! costs nothing but the staple.

mod answer;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;
use ureq::http::Request;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::X509Certificate;

use crate::failure::Notice;
use crate::fetch::{FetchOptions, Fetcher};
use crate::limits::{OCSP_PAUSE, OCSP_PAUSE_MIN, OCSP_TIMEOUT};
use crate::pair::Pair;
use crate::storage::Storage;
use crate::store::CertStore;
use answer::{Question, Said, Status};

/// `id-ad-ocsp` (RFC 5280, section 4.2.2.1).
const RESPONDER: &str = "1.3.6.1.5.5.7.48.1";

/// Gives for a name and the address of a responder the address that is asked.
pub type Responder = Arc<dyn Fn(&str, &str) -> Option<String> + Send + Sync>;

/// What the configuration says of stapling.
#[derive(Clone)]
pub struct Stapling {
    /// How often answers are looked at.
    pub interval: Duration,
    /// Who is asked of a certificate for a name, in place of the responder that it names; nobody where `None`.
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

/// What was learned of a round over all certificates.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// What happened.
    pub(crate) notices: Vec<Notice>,
    /// Certificates that their authority has revoked.
    pub(crate) revoked: Vec<Arc<Pair>>,
}

/// Asks responders and remembers what they say.
pub(crate) struct Stapler {
    storage: Storage,
    fetcher: Fetcher,
    known: Mutex<HashMap<Vec<u8>, Known>>,
}

/// An answer at hand, and when to ask for the next.
#[derive(Clone)]
struct Known {
    answer: Option<(Vec<u8>, Said)>,
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

    /// Looks at all certificates of `store` and staples what there is to staple. Takes as long as the responders take.
    pub(crate) fn round(&self, store: &CertStore, how: &Stapling, now: SystemTime) -> Round {
        let mut round = Round::default();
        let mut seen = Vec::new();
        for pair in store.pairs() {
            if pair.certified.ocsp.is_some() {
                // It has what somebody else keeps up to date.
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
        // Entries are replaced whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a certificate after asking, where it is time to ask.
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
        match self.ask(one, now) {
            Ok((bytes, said)) => {
                // What cannot be kept is asked for again after a restart.
                let _ = self.storage.write(&one.place, &bytes);
                let ask_at = half_way(&said).max(now + OCSP_PAUSE_MIN);
                Known {
                    answer: Some((bytes, said)),
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

    /// The answer that an earlier process has kept.
    fn stored(&self, one: &One<'_>, now: SystemTime) -> Known {
        let bytes = self.storage.read(&one.place).ok().flatten();
        let answer = bytes.and_then(|bytes| {
            let said = one.question.read(&bytes, now)?;
            said.holds(now).then_some((bytes, said))
        });
        let ask_at = answer.as_ref().map_or(now, |(_, said)| half_way(said));
        Known { answer, ask_at }
    }

    fn ask(&self, one: &One<'_>, now: SystemTime) -> Result<(Vec<u8>, Said), String> {
        let One { question, url, .. } = one;
        let request = Request::post(url)
            .header("Content-Type", "application/ocsp-request")
            .body(question.encode())
            .map_err(|error| error.to_string())?;
        let answer = self.fetcher.send(request)?;
        if answer.status() != 200 {
            return Err(format!("`{url}` responded with status {}", answer.status()));
        }
        let bytes = answer.into_body();
        let said = question.read(&bytes, now);
        match said.filter(|said| said.holds(now)) {
            Some(said) => Ok((bytes, said)),
            None => Err(format!(
                "the response of `{url}` is not a valid OCSP response for this certificate"
            )),
        }
    }
}

/// A certificate that somebody can be asked about.
struct One<'a> {
    pair: &'a Pair,
    question: Question<'a>,
    /// Who is asked.
    url: String,
    /// Where the answer is kept.
    place: String,
}

fn show(store: &CertStore, pair: &Arc<Pair>, known: &Known, now: SystemTime, round: &mut Round) {
    let answer = known.answer.as_ref().filter(|(_, said)| said.holds(now));
    let good = answer.filter(|(_, said)| said.status == Status::Good);
    store.staple(pair, good.map(|(bytes, _)| bytes.as_slice()));
    if answer.is_some_and(|(_, said)| said.status == Status::Revoked) {
        round.notices.push(Notice::Revoked {
            origin: pair.origin.clone(),
        });
        round.revoked.push(pair.clone());
    }
}

/// Where an answer is kept, as in Caddy: beside each other, by name and certificate.
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

/// Whether bytes are an answer of a responder that says something, whatever it is (RFC 6960, section 4.2.1).
pub(crate) fn is_answer(bytes: &[u8]) -> bool {
    answer::is_answer(bytes)
}

/// Answers are renewed in the middle of their time, so that a responder may be away for as long again.
fn half_way(said: &Said) -> SystemTime {
    let length = said.until.duration_since(said.from).unwrap_or_default();
    said.from + length / 2
}

/// The address of the responder that a certificate names.
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
