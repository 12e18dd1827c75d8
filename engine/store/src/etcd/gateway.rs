//! Requests to the JSON gateway: members one after the other, the token of the user, and errors by their kind.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use sluice_dns::fetch::{
    FetchError, FetchIdentity, FetchKind, FetchOptions, Fetcher, Sent, Verification,
};
use sluice_net::tls::certificates_from_pem;
use ureq::http::{HeaderValue, Request, Response, Uri};

use super::EtcdOptions;
use crate::calls::Attempt;
use crate::failure::{Fault, StoreError};
use crate::limits::RESPONSE_BYTES_MAX;
use crate::tls::TlsVerification;

/// The members of a cluster.
#[derive(Debug)]
pub(super) struct Gateway {
    place: String,
    /// URLs without a slash at the end.
    endpoints: Vec<String>,
    /// The endpoint that responded last.
    current: AtomicUsize,
    client: Client,
    login: Option<Login>,
    token: Mutex<Option<String>>,
    timeout: Duration,
}

/// The HTTP client.
struct Client {
    options: FetchOptions,
    current: Mutex<Fetcher>,
}

struct Login {
    user: String,
    password: String,
}

/// One attempt that failed.
struct Failed {
    fault: Fault,
    what: String,
    /// Whether another member may do better.
    is_member: bool,
    /// Whether it may have had its effect.
    may_be_done: bool,
    is_token: bool,
}

/// An error of the gateway.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorReply {
    error: String,
    message: String,
    /// A code of gRPC.
    code: i64,
}

#[derive(Deserialize)]
struct TokenReply {
    token: String,
}

impl Gateway {
    pub(super) fn new(options: &EtcdOptions) -> Result<Gateway, StoreError> {
        let endpoints = options.endpoints.iter();
        let endpoints: Vec<String> = endpoints
            .map(|url| url.trim_end_matches('/').to_owned())
            .collect();
        let place = place(&endpoints, &options.prefix);
        let unusable = |what: String| StoreError::new(Fault::Setting, &place, what);
        if endpoints.is_empty() {
            return Err(unusable("no endpoint is configured".to_owned()));
        }
        for url in &endpoints {
            check_endpoint(url).map_err(unusable)?;
        }
        let roots = options.ca.as_deref().map(certificates_from_pem).transpose();
        let roots = roots.map_err(|error| unusable(format!("the CA certificates: {error}")))?;
        let identity = options.identity.as_ref();
        let identity = identity.map(|(chain, key)| FetchIdentity::from_pem(chain, key));
        let identity = identity
            .transpose()
            .map_err(|error| unusable(format!("the client certificate: {error}")))?;
        let client = Client::new(FetchOptions {
            roots: roots.map(|roots| roots.into_iter().map(Into::into).collect()),
            timeout: options.timeout,
            redirects: 0,
            kind: FetchKind::Direct,
            identity,
            verification: match options.verification {
                TlsVerification::Full => Verification::Full,
                TlsVerification::None => Verification::None,
            },
            connect_timeout: Some(options.timeout),
            response_bytes_max: RESPONSE_BYTES_MAX,
            ..FetchOptions::default()
        });
        let login = options.login.clone();
        Ok(Gateway {
            endpoints,
            current: AtomicUsize::new(0),
            client,
            login: login.map(|(user, password)| Login { user, password }),
            token: Mutex::new(None),
            timeout: options.timeout,
            place,
        })
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Makes a call that has the same effect if it is made twice.
    pub(super) fn call<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Json,
    ) -> Result<T, StoreError> {
        Ok(self.call_tracked(path, body)?.0)
    }

    /// Makes a call, and returns whether it may have been made twice.
    pub(super) fn call_tracked<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Json,
    ) -> Result<(T, Attempt), StoreError> {
        let body = body.to_string().into_bytes();
        let mut attempt = Attempt::First;
        let reply = self.each_endpoint(self.timeout, |endpoint, time| {
            let sent = self.authorized(endpoint, time, |token| {
                self.exchange(endpoint, path, &body, token, time)
            });
            if sent.as_ref().is_err_and(|failed| failed.may_be_done) {
                attempt = Attempt::Repeated;
            }
            sent
        })?;
        let parsed = serde_json::from_slice(&reply);
        let parsed = parsed.map_err(|error| {
            let what = format!("the response to {path} is not one of etcd: {error}");
            StoreError::new(Fault::Setting, &self.place, what)
        })?;
        Ok((parsed, attempt))
    }

    /// Makes a call whose response is read as it arrives, for up to `time`.
    pub(super) fn stream(
        &self,
        path: &str,
        body: &Json,
        time: Duration,
    ) -> Result<impl Read + Send + 'static, StoreError> {
        let body = body.to_string().into_bytes();
        let response = self.each_endpoint(self.timeout, |endpoint, left| {
            self.authorized(endpoint, left, |token| {
                let mut request = request(endpoint, path, &body, token);
                // A member without a leader ends the stream instead of staying silent.
                let required = HeaderValue::from_static("true");
                request
                    .headers_mut()
                    .insert("grpc-metadata-hasleader", required);
                // etcd confirms a watch at once; a dead connection must not take the time of the whole stream.
                let response = self.client.fetcher().stream(request, time, left);
                let response = response.map_err(|error| self.client.failed(error))?;
                if response.status().is_success() {
                    return Ok(response.into_body());
                }
                let (parts, rest) = response.into_parts();
                let mut text = Vec::new();
                // The text only improves a message.
                let _ = rest.take(4096).read_to_end(&mut text);
                Err(refused(&Response::from_parts(parts, text)))
            })
        })?;
        Ok(response)
    }

    /// Forgets the token of the user, and goes to the next member, after what a stream has reported.
    pub(super) fn stream_failed(&self, is_token: bool) {
        if is_token {
            *self.token() = None;
        } else {
            let next = self.current.load(Ordering::Relaxed) + 1;
            self.current
                .store(next % self.endpoints.len(), Ordering::Relaxed);
        }
    }

    /// Tries the endpoints, beginning with the one that responded last, each for its part of the time.
    fn each_endpoint<T>(
        &self,
        timeout: Duration,
        mut call: impl FnMut(&str, Duration) -> Result<T, Failed>,
    ) -> Result<T, StoreError> {
        let end = Instant::now() + timeout;
        let first = self.current.load(Ordering::Relaxed);
        let count = self.endpoints.len();
        let mut last = None;
        for step in 0..count {
            let at = (first + step) % count;
            let left = end.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(count - step).unwrap_or(u32::MAX);
            if share.is_zero() {
                break;
            }
            match call(&self.endpoints[at], share) {
                Ok(reply) => {
                    self.current.store(at, Ordering::Relaxed);
                    return Ok(reply);
                }
                Err(failed) if failed.is_member => last = Some(failed),
                Err(failed) => {
                    return Err(StoreError::new(failed.fault, &self.place, failed.what));
                }
            }
        }
        let (fault, what) = match last {
            Some(failed) => (failed.fault, failed.what),
            None => (Fault::Away, "no time is left".to_owned()),
        };
        Err(StoreError::new(fault, &self.place, what))
    }

    /// Makes a call with the token of the user, and once again with a new one if etcd has forgotten the token.
    fn authorized<T>(
        &self,
        endpoint: &str,
        time: Duration,
        call: impl Fn(Option<&str>) -> Result<T, Failed>,
    ) -> Result<T, Failed> {
        if self.login.is_none() {
            return call(None);
        }
        let known = self.token().clone();
        let token = match known {
            Some(token) => token,
            None => self.authenticate(endpoint, time)?,
        };
        match call(Some(&token)) {
            Err(failed) if failed.is_token => {
                *self.token() = None;
                call(Some(&self.authenticate(endpoint, time)?))
            }
            other => other,
        }
    }

    /// Obtains a token; an empty one if etcd does not know users.
    fn authenticate(&self, endpoint: &str, time: Duration) -> Result<String, Failed> {
        let Some(login) = &self.login else {
            return Ok(String::new());
        };
        let body = json!({"name": login.user, "password": login.password}).to_string();
        let reply = self.exchange(endpoint, "auth/authenticate", body.as_bytes(), None, time);
        let token = match reply {
            Ok(reply) => {
                let reply: TokenReply = serde_json::from_slice(&reply)
                    .map_err(|_| member(Fault::Away, "the response has no token".to_owned()))?;
                reply.token
            }
            Err(failed) if failed.what.contains("authentication is not enabled") => String::new(),
            // A login that failed has had no effect.
            Err(failed) => {
                return Err(Failed {
                    may_be_done: false,
                    ..failed
                });
            }
        };
        *self.token() = Some(token.clone());
        Ok(token)
    }

    fn token(&self) -> MutexGuard<'_, Option<String>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exchange(
        &self,
        endpoint: &str,
        path: &str,
        body: &[u8],
        token: Option<&str>,
        time: Duration,
    ) -> Result<Vec<u8>, Failed> {
        let request = request(endpoint, path, body, token);
        let response = self.client.fetcher().send_within(request, Some(time));
        let response = response.map_err(|error| self.client.failed(error))?;
        if response.status().is_success() {
            Ok(response.into_body())
        } else {
            Err(refused(&response))
        }
    }
}

impl Client {
    fn new(options: FetchOptions) -> Client {
        Client {
            current: Mutex::new(Fetcher::new(&options)),
            options,
        }
    }

    /// The client with its idle connections.
    fn fetcher(&self) -> Fetcher {
        self.current().clone()
    }

    fn current(&self) -> MutexGuard<'_, Fetcher> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A member that does not respond. If it was connected, the link may be dead: other idle connections are as well then,
    /// and each would cost a call its time limit.
    fn failed(&self, error: FetchError) -> Failed {
        if error.sent == Sent::Maybe {
            *self.current() = Fetcher::new(&self.options);
        }
        Failed {
            may_be_done: error.sent == Sent::Maybe,
            ..member(Fault::Away, error.what)
        }
    }
}

/// The endpoints and the prefix, as messages have them.
fn place(endpoints: &[String], prefix: &str) -> String {
    let hosts = endpoints.iter().map(|url| {
        let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        // A password has no place in a URL, and does not belong in messages.
        rest.rsplit_once('@').map_or(rest, |(_, host)| host)
    });
    let hosts: Vec<&str> = hosts.collect();
    format!(
        "etcd://{}/{}",
        hosts.join(","),
        prefix.trim_start_matches('/')
    )
}

fn check_endpoint(url: &str) -> Result<(), String> {
    let parsed: Result<Uri, _> = url.parse();
    let is_plain = parsed.as_ref().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri
                .authority()
                .is_some_and(|part| !part.as_str().contains('@'))
            && matches!(uri.path(), "" | "/")
            && uri.query().is_none()
    });
    match is_plain {
        true => Ok(()),
        false => {
            let shown = url.rsplit_once('@').map_or(url, |(_, rest)| rest);
            Err(format!(
                "the endpoint `{shown}` is not a URL such as `https://10.0.0.5:2379`"
            ))
        }
    }
}

fn request(endpoint: &str, path: &str, body: &[u8], token: Option<&str>) -> Request<Vec<u8>> {
    let mut request =
        Request::post(format!("{endpoint}/v3/{path}")).header("Content-Type", "application/json");
    if let Some(token) = token.filter(|token| !token.is_empty()) {
        request = request.header("Authorization", token);
    }
    let request = request.body(body.to_vec());
    request.expect("the endpoint was checked, and etcd's tokens are visible ASCII")
}

fn member(fault: Fault, what: String) -> Failed {
    Failed {
        fault,
        what,
        is_member: true,
        may_be_done: false,
        is_token: false,
    }
}

/// An error response by its kind. The codes are those of gRPC; where etcd uses one for several kinds, its messages
/// tell them apart.
fn refused(response: &Response<Vec<u8>>) -> Failed {
    let Ok(reply) = serde_json::from_slice::<ErrorReply>(response.body()) else {
        let status = response.status().as_u16();
        // A proxy in front of members reports its own failures in this way.
        let fault = match status {
            500.. => Fault::Away,
            _ => Fault::Setting,
        };
        return member(fault, format!("status {status}, without an error of etcd"));
    };
    let text = match reply.message.as_str() {
        "" => reply.error,
        message => message.to_owned(),
    };
    by_code(reply.code, text)
}

fn by_code(code: i64, text: String) -> Failed {
    let has = |part: &str| text.contains(part);
    let (fault, is_member) = match code {
        16 | 7 => (Fault::Credentials, false),
        3 if has("auth") || has("user name") => (Fault::Credentials, false),
        3 if has("too large") || has("too many") => (Fault::Limit, false),
        3 => (Fault::Setting, false),
        8 if has("space exceeded") => (Fault::ReadOnly, false),
        8 if has("larger than max") => (Fault::Limit, false),
        // A lease that has ended.
        5 => (Fault::Refused, false),
        _ => (Fault::Away, true),
    };
    Failed {
        is_token: has("invalid auth token") || has("auth store is old"),
        // What waited for a quorum may still be agreed on.
        may_be_done: fault == Fault::Away && code != 8,
        fault,
        is_member,
        what: text,
    }
}

/// The error in a stream, and whether it is about the token.
pub(super) fn stream_error(place: &str, code: i64, text: &str) -> (StoreError, bool) {
    let failed = by_code(code, text.to_owned());
    (
        StoreError::new(failed.fault, place, failed.what),
        failed.is_token,
    )
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Login({})", self.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(endpoints: &[&str]) -> EtcdOptions {
        EtcdOptions {
            endpoints: endpoints.iter().map(|&url| url.to_owned()).collect(),
            login: Some(("root".to_owned(), "secret".to_owned())),
            ..EtcdOptions::default()
        }
    }

    #[test]
    fn endpoints_are_checked_and_shown_without_secrets() {
        let gateway = Gateway::new(&with(&["https://a.test:2379/", "http://[::1]:1"])).unwrap();
        assert_eq!(gateway.place(), "etcd://a.test:2379,[::1]:1/sluice");
        for bad in [
            "a.test:2379",
            "https://",
            "https://a.test/v3",
            "ftp://a.test",
        ] {
            let error = Gateway::new(&with(&[bad])).unwrap_err();
            assert_eq!(error.fault, Fault::Setting, "{bad}");
            assert!(error.what.contains(bad), "{error}");
        }
        let error = Gateway::new(&with(&["http://root:secret@a.test:1"])).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert_eq!(Gateway::new(&with(&[])).unwrap_err().fault, Fault::Setting);
        let options = format!("{:?}", with(&["http://a.test:1"]));
        assert!(!options.contains("secret"), "{options}");
    }

    #[test]
    fn errors_of_etcd_have_the_kind_that_callers_decide_by() {
        let faults = [
            (
                3,
                "etcdserver: authentication failed, invalid user ID or password",
                Fault::Credentials,
            ),
            (7, "etcdserver: permission denied", Fault::Credentials),
            (3, "etcdserver: user name is empty", Fault::Credentials),
            (3, "etcdserver: request is too large", Fault::Limit),
            (
                8,
                "etcdserver: mvcc: database space exceeded",
                Fault::ReadOnly,
            ),
            (
                8,
                "grpc: received message larger than max (3 vs. 2)",
                Fault::Limit,
            ),
            (14, "etcdserver: request timed out", Fault::Away),
            (8, "etcdserver: too many requests", Fault::Away),
        ];
        for (code, text, fault) in faults {
            assert_eq!(by_code(code, text.to_owned()).fault, fault, "{text}");
        }
        assert!(by_code(16, "etcdserver: invalid auth token".to_owned()).is_token);
        // A write that timed out may still be made; one that was not let in was not.
        assert!(by_code(14, "etcdserver: request timed out".to_owned()).may_be_done);
        assert!(!by_code(8, "etcdserver: too many requests".to_owned()).may_be_done);
    }
}
