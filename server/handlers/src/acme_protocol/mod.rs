//! An ACME server (RFC 8555) for the local CA: other machines obtain certificates from it as from a public CA. Requests
//! and responses are plain values; `acme_server` handles HTTP.
//!
//! All state is stored in files (`records`), so a restart loses nothing; challenges are validated on separate threads.

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

use crate::limits::{ACME_BODY_BYTES_MAX, ACME_RESPONSES_MAX};
use jws::{Jwk, Jws, Signer};
use nonces::Nonces;
use records::{Account, AccountStatus, Records};
use sluice_certs::local_ca::LocalCa;
use sluice_certs::storage::Storage;

/// A local CA with its ACME interface.
pub struct AcmeServer {
    ca: Arc<LocalCa>,
    desk: Arc<AcmeDesk>,
}

/// The ACME state of one CA. It survives configuration reloads.
pub struct AcmeDesk {
    state: Mutex<State>,
    /// Number of requests in progress.
    responding: AtomicUsize,
}

struct State {
    records: Records,
    nonces: Nonces,
    /// Validations in progress: the order and the index of the authorization in it.
    looking: HashSet<(String, usize)>,
}

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeRequest {
    /// Its method.
    pub method: AcmeMethod,
    /// The common prefix of all URLs of the CA, without a trailing slash: `https://ca.example.com/acme/local`.
    pub base: String,
    /// The part of the requested URL after the prefix, such as `new-order`.
    pub resource: String,
    /// Whether its `Content-Type` is `application/jose+json`.
    pub is_jose: bool,
    /// Its body; `None` if it exceeds [`ACME_BODY_BYTES_MAX`].
    pub body: Option<Vec<u8>>,
}

/// The methods of ACME requests.
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

/// A response to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeResponse {
    /// The status.
    pub status: u16,
    /// The media type of the body; empty if there is no body.
    pub media_type: &'static str,
    /// The value of the `Location` header.
    pub location: Option<String>,
    /// Values of `Link` headers.
    pub links: Vec<String>,
    /// The next nonce, for the `Replay-Nonce` header.
    pub nonce: Option<String>,
    /// The value of the `Retry-After` header, in seconds.
    pub retry_after: Option<u32>,
    /// The body.
    pub body: Vec<u8>,
    /// The internal error, for the log.
    pub cause: Option<String>,
}

/// Too many requests are in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl AcmeDesk {
    /// The state of the CA `id` in `storage`.
    pub fn new(storage: Storage, id: &str) -> AcmeDesk {
        AcmeDesk {
            state: Mutex::new(State {
                records: Records::new(storage, id),
                nonces: Nonces::default(),
                looking: HashSet::new(),
            }),
            responding: AtomicUsize::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave the state inconsistent: a file was either written or not.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AcmeServer {
    /// Signs with `ca` and keeps its state in `desk`.
    pub fn new(ca: Arc<LocalCa>, desk: Arc<AcmeDesk>) -> AcmeServer {
        AcmeServer { ca, desk }
    }

    /// Processes a request on a separate thread: storage and signatures would block a worker for too long.
    ///
    /// # Errors
    /// [`Busy`] if [`ACME_RESPONSES_MAX`] requests are in progress already.
    pub fn response_aside(
        self: &Arc<Self>,
        rules: &Arc<AcmeRules>,
        request: AcmeRequest,
    ) -> Result<Responding, Busy> {
        let place = Place::take(&self.desk).ok_or(Busy)?;
        let shared = Arc::new(Mutex::new(Coming::default()));
        let (server, rules) = (self.clone(), rules.clone());
        let promise = Promise(shared.clone());
        std::thread::Builder::new()
            .name("acme-server".to_owned())
            .spawn(move || {
                let response = server.response(&rules, &request, SystemTime::now());
                promise.keep(response);
                drop(place);
            })
            .map_err(|_| Busy)?;
        Ok(Responding(shared))
    }

    /// Processes a request.
    pub fn response(
        &self,
        rules: &Arc<AcmeRules>,
        request: &AcmeRequest,
        now: SystemTime,
    ) -> AcmeResponse {
        let mut visit = Visit {
            server: self,
            state: self.desk.state(),
            rules,
            request,
            now,
        };
        let responded = visit.route();
        let mut response = match responded {
            Ok(response) => response,
            Err(problem) => refusal(&problem),
        };
        response
            .links
            .push(format!("<{}/directory>;rel=\"index\"", request.base));
        if request.method == AcmeMethod::Post || request.resource == "new-nonce" {
            response.nonce = visit.state.nonces.make();
        }
        response
    }
}

/// One request being processed, with the CA's state locked.
struct Visit<'a> {
    server: &'a AcmeServer,
    state: MutexGuard<'a, State>,
    rules: &'a Arc<AcmeRules>,
    request: &'a AcmeRequest,
    now: SystemTime,
}

type AcmeResult = Result<AcmeResponse, Problem>;

impl Visit<'_> {
    fn route(&mut self) -> AcmeResult {
        use AcmeMethod::{Get, Head, Post};
        let resource = self.request.resource.as_str();
        match (self.request.method, resource) {
            (Get | Head, "directory") => Ok(self.directory()),
            (Get, "new-nonce") => Ok(AcmeResponse::of(204, Value::Null)),
            (Head, "new-nonce") => Ok(AcmeResponse::of(200, Value::Null)),
            (Post, _) => self.post(resource),
            _ => Err(Problem::of(
                "malformed",
                405,
                "requests are signed and sent by POST",
            )),
        }
    }

    fn directory(&self) -> AcmeResponse {
        let at = |resource: &str| format!("{}/{resource}", self.request.base);
        let body = json!({
            "newNonce": at("new-nonce"),
            "newAccount": at("new-account"),
            "newOrder": at("new-order"),
            "revokeCert": at("revoke-cert"),
            "keyChange": at("key-change"),
        });
        AcmeResponse::of(200, body)
    }

    fn post(&mut self, resource: &str) -> AcmeResult {
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

    /// The account that signed the request, with its key.
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

impl AcmeResponse {
    fn of(status: u16, body: Value) -> AcmeResponse {
        let is_empty = body.is_null();
        AcmeResponse {
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

    /// The response if too many requests arrive at once.
    pub fn busy() -> AcmeResponse {
        let mut problem = Problem::full("requests");
        problem.status = 503;
        refusal(&problem)
    }
}

fn refusal(problem: &Problem) -> AcmeResponse {
    AcmeResponse {
        media_type: "application/problem+json",
        retry_after: matches!(problem.status, 429 | 503).then_some(5),
        cause: problem.cause.clone(),
        ..AcmeResponse::of(problem.status, problem.to_json())
    }
}

/// Counts a request in progress until it is dropped.
struct Place(Arc<AcmeDesk>);

impl Place {
    fn take(desk: &Arc<AcmeDesk>) -> Option<Place> {
        let place = Place(desk.clone());
        let before = desk.responding.fetch_add(1, Ordering::Relaxed);
        (before < ACME_RESPONSES_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.responding.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A pending response.
pub struct Responding(Arc<Mutex<Coming>>);

#[derive(Default)]
struct Coming {
    response: Option<AcmeResponse>,
    waiting: Option<Waker>,
}

/// Guarantees a response: if it is dropped without one, as by a panic, it sends an error.
struct Promise(Arc<Mutex<Coming>>);

impl Promise {
    fn keep(&self, response: AcmeResponse) {
        let mut coming = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        coming.response.get_or_insert(response);
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

impl Future for Responding {
    type Output = AcmeResponse;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<AcmeResponse> {
        let mut coming = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match coming.response.take() {
            Some(response) => Poll::Ready(response),
            None => {
                coming.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests;
