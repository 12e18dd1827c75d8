//! An ACME server (RFC 8555) in front of our own authority: other machines get certificates from it as they would from
//! a public one. Requests come in as values and answers go out as such; HTTP is left to `sluice-serve`.
//!
//! What it remembers are files (`records`), so a restart loses nothing; proofs are looked for on threads of their own.

mod accounts;
mod jws;
mod nonces;
mod orders;
mod problem;
mod records;
mod rules;
mod validate;

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use serde_json::{Value, json};

pub use problem::Problem;
pub use rules::{AcmeRules, ChallengeKind, Names};

use crate::limits::{ACME_ANSWERS_MAX, ACME_BODY_BYTES_MAX};
use crate::local_ca::LocalCa;
use crate::storage::Storage;
use jws::{Jwk, Jws, Signer};
use nonces::Nonces;
use records::{Account, AccountStatus, Records};

/// An authority of ours as ACME clients see it.
pub struct AcmeServer {
    ca: Arc<LocalCa>,
    desk: Arc<AcmeDesk>,
}

/// What one authority remembers of its clients. It outlives configurations.
pub struct AcmeDesk {
    state: Mutex<State>,
    /// Requests in flight.
    answering: AtomicUsize,
}

struct State {
    records: Records,
    nonces: Nonces,
    /// Proofs that are being looked for: the order and the place of the authorization in it.
    looking: HashSet<(String, usize)>,
}

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeRequest {
    /// Its method.
    pub method: AcmeMethod,
    /// The address of all resources of the authority, without a slash at its end:
    /// `https://ca.example.com/acme/local`.
    pub base: String,
    /// What follows it in the address asked for, such as `new-order`.
    pub resource: String,
    /// Whether its body says that it is `application/jose+json`.
    pub is_jose: bool,
    /// Its body; `None` for one above [`ACME_BODY_BYTES_MAX`].
    pub body: Option<Vec<u8>>,
}

/// The methods that mean something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeMethod {
    /// GET
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// Any other.
    Other,
}

/// An answer to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeAnswer {
    /// The status.
    pub status: u16,
    /// The type of the body; empty where there is none.
    pub media_type: &'static str,
    /// Where the resource is, for the field Location.
    pub location: Option<String>,
    /// Values of the field Link.
    pub links: Vec<String>,
    /// The next nonce, for the field Replay-Nonce.
    pub nonce: Option<String>,
    /// Seconds after which to ask again, for the field Retry-After.
    pub retry_after: Option<u32>,
    /// The body.
    pub body: Vec<u8>,
    /// What went wrong on our side, for the log.
    pub cause: Option<String>,
}

/// Too many requests are being answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl AcmeDesk {
    /// What the authority `id` remembers, in `storage`.
    pub fn new(storage: Storage, id: &str) -> AcmeDesk {
        AcmeDesk {
            state: Mutex::new(State {
                records: Records::new(storage, id),
                nonces: Nonces::default(),
                looking: HashSet::new(),
            }),
            answering: AtomicUsize::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a panic left half done is a file that was written or was not.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AcmeServer {
    /// Signs with `ca` and remembers what `desk` does.
    pub fn new(ca: Arc<LocalCa>, desk: Arc<AcmeDesk>) -> AcmeServer {
        AcmeServer { ca, desk }
    }

    /// Answers on a thread of its own: storage and signatures take longer than a worker may wait.
    ///
    /// # Errors
    /// [`Busy`] where [`ACME_ANSWERS_MAX`] requests are being answered already.
    pub fn answer_aside(
        self: &Arc<Self>,
        rules: &Arc<AcmeRules>,
        request: AcmeRequest,
    ) -> Result<Answering, Busy> {
        let place = Place::take(&self.desk).ok_or(Busy)?;
        let shared = Arc::new(Mutex::new(Coming::default()));
        let (server, rules) = (self.clone(), rules.clone());
        let promise = Promise(shared.clone());
        std::thread::Builder::new()
            .name("acme-server".to_owned())
            .spawn(move || {
                let answer = server.answer(&rules, &request, SystemTime::now());
                promise.keep(answer);
                drop(place);
            })
            .map_err(|_| Busy)?;
        Ok(Answering(shared))
    }

    /// Answers a request.
    pub fn answer(
        &self,
        rules: &Arc<AcmeRules>,
        request: &AcmeRequest,
        now: SystemTime,
    ) -> AcmeAnswer {
        let mut visit = Visit {
            server: self,
            state: self.desk.state(),
            rules,
            request,
            now,
        };
        let answered = visit.route();
        let mut answer = match answered {
            Ok(answer) => answer,
            Err(problem) => refusal(&problem),
        };
        answer
            .links
            .push(format!("<{}/directory>;rel=\"index\"", request.base));
        if request.method == AcmeMethod::Post || request.resource == "new-nonce" {
            answer.nonce = visit.state.nonces.make();
        }
        answer
    }
}

/// One request being answered, with the authority's memory in hand.
struct Visit<'a> {
    server: &'a AcmeServer,
    state: MutexGuard<'a, State>,
    rules: &'a Arc<AcmeRules>,
    request: &'a AcmeRequest,
    now: SystemTime,
}

type Answered = Result<AcmeAnswer, Problem>;

impl Visit<'_> {
    fn route(&mut self) -> Answered {
        use AcmeMethod::{Get, Head, Post};
        let resource = self.request.resource.as_str();
        match (self.request.method, resource) {
            (Get | Head, "directory") => Ok(self.directory()),
            (Get, "new-nonce") => Ok(AcmeAnswer::of(204, Value::Null)),
            (Head, "new-nonce") => Ok(AcmeAnswer::of(200, Value::Null)),
            (Post, _) => self.post(resource),
            _ => Err(Problem::of(
                "malformed",
                405,
                "requests are signed and sent by POST",
            )),
        }
    }

    fn directory(&self) -> AcmeAnswer {
        let at = |resource: &str| format!("{}/{resource}", self.request.base);
        let body = json!({
            "newNonce": at("new-nonce"),
            "newAccount": at("new-account"),
            "newOrder": at("new-order"),
            "revokeCert": at("revoke-cert"),
            "keyChange": at("key-change"),
        });
        AcmeAnswer::of(200, body)
    }

    fn post(&mut self, resource: &str) -> Answered {
        if !self.request.is_jose {
            let detail = "the body has to be `application/jose+json`";
            return Err(Problem::of("malformed", 415, detail));
        }
        let Some(body) = &self.request.body else {
            let detail = format!("the body is larger than {ACME_BODY_BYTES_MAX} bytes");
            return Err(Problem::of("malformed", 413, detail));
        };
        let jws = Jws::parse(body)?;
        if jws.url != self.url(resource) {
            let detail = format!(
                "signed for `{}` and sent to `{}`",
                jws.url,
                self.url(resource)
            );
            return Err(Problem::unauthorized(detail));
        }
        let nonce = jws.nonce.as_deref().unwrap_or_default();
        if !self.state.nonces.take(nonce) {
            return Err(Problem::of(
                "badNonce",
                400,
                "the nonce is unknown or was used",
            ));
        }
        match resource {
            "new-account" => return self.new_account(&jws),
            "revoke-cert" => return self.revoke(&jws),
            _ => {}
        }
        let (account, _) = self.signer(&jws)?;
        let parts: Vec<&str> = resource.split('/').collect();
        match parts.as_slice() {
            ["new-order"] => self.new_order(account, &jws),
            ["key-change"] => self.change_key(account, &jws),
            ["account", id] if *id == account.id => self.update_account(account, &jws),
            ["account", id, "orders"] if *id == account.id => Ok(self.list_orders(&account)),
            ["account", ..] => Err(Problem::unauthorized("that is another account")),
            ["order", id] => self.show_order(&account, id),
            ["order", id, "finalize"] => self.finalize(&account, id, &jws),
            ["authz", id, place] => self.authorization(&account, id, place, &jws),
            ["challenge", id, place, kind] => self.challenge(&account, id, place, kind, &jws),
            ["certificate", id] => self.certificate(&account, id),
            _ => Err(Problem::not_found("resource")),
        }
    }

    /// The account that signed, with its key.
    fn signer(&self, jws: &Jws) -> Result<(Account, Jwk), Problem> {
        let unknown = || Problem::of("accountDoesNotExist", 400, "there is no such account");
        let Signer::Account(kid) = &jws.signer else {
            return Err(Problem::malformed("`kid` has to name the account"));
        };
        let id = kid
            .strip_prefix(&self.url("account/"))
            .ok_or_else(unknown)?;
        let account = self.state.records.account(id)?.ok_or_else(unknown)?;
        let key = Jwk::parse(&account.key)?;
        jws.verify(&key)?;
        if account.status != AccountStatus::Valid {
            return Err(Problem::unauthorized("the account is deactivated"));
        }
        Ok((account, key))
    }

    fn url(&self, resource: &str) -> String {
        format!("{}/{resource}", self.request.base)
    }
}

impl AcmeAnswer {
    fn of(status: u16, body: Value) -> AcmeAnswer {
        let is_empty = body.is_null();
        AcmeAnswer {
            status,
            media_type: if is_empty { "" } else { "application/json" },
            location: None,
            links: Vec::new(),
            nonce: None,
            retry_after: None,
            body: if is_empty {
                Vec::new()
            } else {
                body.to_string().into_bytes()
            },
            cause: None,
        }
    }

    /// What is told when too many requests come at once.
    pub fn busy() -> AcmeAnswer {
        let mut problem = Problem::full("requests");
        problem.status = 503;
        refusal(&problem)
    }
}

fn refusal(problem: &Problem) -> AcmeAnswer {
    AcmeAnswer {
        media_type: "application/problem+json",
        retry_after: matches!(problem.status, 429 | 503).then_some(5),
        cause: problem.cause.clone(),
        ..AcmeAnswer::of(problem.status, problem.to_json())
    }
}

/// A place among the requests being answered, given back when it is dropped.
struct Place(Arc<AcmeDesk>);

impl Place {
    fn take(desk: &Arc<AcmeDesk>) -> Option<Place> {
        let place = Place(desk.clone());
        let before = desk.answering.fetch_add(1, Ordering::Relaxed);
        (before < ACME_ANSWERS_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An answer that comes.
pub struct Answering(Arc<Mutex<Coming>>);

#[derive(Default)]
struct Coming {
    answer: Option<AcmeAnswer>,
    waiting: Option<Waker>,
}

/// Whoever holds it gives an answer, even by a panic.
struct Promise(Arc<Mutex<Coming>>);

impl Promise {
    fn keep(&self, answer: AcmeAnswer) {
        let mut coming = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        coming.answer.get_or_insert(answer);
        if let Some(waiting) = coming.waiting.take() {
            waiting.wake();
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.keep(refusal(&Problem::of("serverInternal", 500, "no response")));
    }
}

impl Future for Answering {
    type Output = AcmeAnswer;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<AcmeAnswer> {
        let mut coming = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match coming.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                coming.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests;
