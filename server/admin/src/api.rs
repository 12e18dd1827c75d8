//! Responses of the admin API. This module knows neither sockets nor the running server: it turns a request and its
//! body into a response or an order.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sluice_caddyfile::{Adapted, DiskLoader, MemoryLoader, adapt};
use sluice_diag::{Report, Written};
use sluice_message::{FieldId, Method, RequestHead, Status};
use sluice_model::{Config, Duration as Given, Idle, idle_settings};

use crate::denied::Denied;
use crate::document::{self, Change, Condition, Document, Manner};
use crate::orders::{
    ChangeOrder, Current, LoadOrder, Order, Orders, Purge, Replier, UpgradeOrder, Waiter, reply,
};

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: Status,
    /// The body; may be empty.
    pub body: Vec<u8>,
    /// The value of the `Allow` header; empty to omit it.
    pub allow: &'static str,
    /// The media type of the body.
    pub media_type: &'static str,
    /// The entity tag; empty to omit it.
    pub tag: String,
}

impl Reply {
    /// A response without a body.
    pub fn done() -> Reply {
        Reply {
            status: Status::OK,
            body: Vec::new(),
            allow: "",
            media_type: "application/json",
            tag: String::new(),
        }
    }

    /// A JSON response.
    pub fn json(value: &Value) -> Reply {
        let mut body = value.to_string().into_bytes();
        body.push(b'\n');
        Reply {
            body,
            ..Reply::done()
        }
    }

    /// An error response with its reason.
    pub fn error(status: Status, reason: impl Into<String>) -> Reply {
        let reason: String = reason.into();
        Reply {
            status,
            ..Reply::json(&json!({ "error": reason }))
        }
    }

    /// The response for an order that was not carried out: `error` as in Caddy, and `diagnostics` beside it.
    pub fn denied(denied: Denied) -> Reply {
        let Denied {
            status,
            why,
            diagnostics,
        } = denied;
        let mut body = json!({ "error": why });
        if !diagnostics.is_empty() {
            body["diagnostics"] = diagnostics.into();
        }
        Reply {
            status,
            ..Reply::json(&body)
        }
    }
}

/// The result of a request.
#[derive(Debug)]
pub enum Next {
    /// The response is ready.
    Response(Reply),
    /// An order was sent; its outcome determines the response, which is this one if it was carried out.
    Await(Waiter, Reply),
}

/// The operation that a request head asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Load the configuration in the body.
    Load,
    /// Convert the configuration in the body to JSON.
    Adapt,
    /// Stop the process.
    Stop,
    /// Replace the process by a new one.
    Upgrade,
    /// Show the running configuration, or a part of it.
    ShowConfig,
    /// Change a part of the running configuration.
    Change(Manner),
    /// Explain how the request in the body would be handled.
    Explain,
    /// Show metrics.
    ShowMetrics,
    /// Show the state of the upstreams.
    ShowUpstreams,
    /// Direct an upstream.
    DirectUpstream,
    /// Show Python applications and their processes.
    ShowPython,
    /// Show the names and certificates of a local CA.
    ShowAuthority,
    /// Show the keys of cached responses.
    ShowCached,
    /// Remove cached responses.
    PurgeCached,
}

/// What the paths of single upstreams begin with.
const UPSTREAMS: &str = "/reverse_proxy/upstreams/";

/// What the paths of local CAs begin with.
const AUTHORITIES: &str = "/pki/ca/";

/// The keys of cached responses, where the Caddy plugin `cache-handler` has them: GET lists them, and PURGE removes responses.
const CACHED: &str = "/souin-api/souin";

/// What the paths of single keys begin with.
const CACHED_KEYS: &str = "/souin-api/souin/";

/// The path that stands for all keys.
const FLUSH: &[u8] = b"flush";

impl Task {
    /// Finds the operation for `head`; the error is the response that rejects the request.
    pub fn of(head: &RequestHead) -> Result<Task, Reply> {
        const READ: &str = "GET, HEAD";
        const ACT: &str = "POST";
        const DIRECT: &str = "PATCH";
        const REMOVE: &str = "PURGE";
        const LIST: &str = "GET, HEAD, PURGE";
        const ALL: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
        let path = head.uri.path();
        let (task, allow) = match path {
            b"/load" => (Task::Load, ACT),
            b"/adapt" => (Task::Adapt, ACT),
            b"/stop" => (Task::Stop, ACT),
            b"/upgrade" => (Task::Upgrade, ACT),
            b"/explain" => (Task::Explain, ACT),
            b"/metrics" => (Task::ShowMetrics, READ),
            b"/reverse_proxy/upstreams" => (Task::ShowUpstreams, READ),
            _ if path.starts_with(UPSTREAMS.as_bytes()) => (Task::DirectUpstream, DIRECT),
            b"/python/applications" => (Task::ShowPython, READ),
            _ if path.starts_with(AUTHORITIES.as_bytes()) => (Task::ShowAuthority, READ),
            _ if path == CACHED.as_bytes() => (Task::ShowCached, LIST),
            _ if path.starts_with(CACHED_KEYS.as_bytes()) => (Task::PurgeCached, REMOVE),
            b"/config" | b"/id" => (Task::ShowConfig, ALL),
            _ if path.starts_with(b"/config/") || path.starts_with(b"/id/") => {
                (Task::ShowConfig, ALL)
            }
            _ if path.starts_with(b"/debug/") => return Err(no_profiles()),
            _ => {
                return Err(Reply::error(
                    Status::NOT_FOUND,
                    "there is nothing at this path",
                ));
            }
        };
        match (&head.method, allow) {
            (Method::Get | Method::Head, READ | LIST | ALL) | (Method::Post, ACT) => Ok(task),
            (Method::Patch, DIRECT) => Ok(task),
            (method, REMOVE | LIST) if method.as_str() == REMOVE => Ok(Task::PurgeCached),
            (Method::Post, ALL) => Ok(Task::Change(Manner::Post)),
            (Method::Put, ALL) => Ok(Task::Change(Manner::Put)),
            (Method::Patch, ALL) => Ok(Task::Change(Manner::Patch)),
            (Method::Delete, ALL) => Ok(Task::Change(Manner::Delete)),
            _ => {
                let why = format!("method not allowed: {}", head.method.as_str());
                Err(Reply {
                    allow,
                    ..Reply::error(Status::METHOD_NOT_ALLOWED, why)
                })
            }
        }
    }

    /// Whether the operation needs the request body.
    pub fn wants_body(self) -> bool {
        match self {
            Task::Load | Task::Adapt | Task::Upgrade | Task::Explain | Task::DirectUpstream => true,
            Task::Change(manner) => manner != Manner::Delete,
            Task::Stop
            | Task::ShowConfig
            | Task::ShowMetrics
            | Task::ShowUpstreams
            | Task::ShowPython
            | Task::ShowAuthority
            | Task::ShowCached
            | Task::PurgeCached => false,
        }
    }
}

/// Performs an operation.
pub fn perform(
    task: Task,
    head: &RequestHead,
    body: &[u8],
    orders: &Orders,
    current: &Current,
) -> Next {
    match task {
        Task::ShowConfig => Next::Response(show(head.uri.path(), current)),
        Task::Change(manner) => match change(head, manner, body) {
            Ok(change) => {
                let forced = is_forced(head);
                let order = |reply| {
                    let order = ChangeOrder {
                        change,
                        forced,
                        reply,
                    };
                    Order::Change(Box::new(order))
                };
                sent(orders, order, Reply::done())
            }
            Err(denied) => Next::Response(Reply::denied(denied)),
        },
        Task::ShowAuthority => Next::Response(authority(head.uri.path(), current)),
        Task::ShowMetrics => Next::Response(metrics(head, current)),
        Task::ShowUpstreams => Next::Response(match current.counts() {
            Some(counts) => Reply::json(&counts.upstreams()),
            None => nothing_counted(),
        }),
        Task::DirectUpstream => Next::Response(direct(head, body, current)),
        Task::ShowCached => Next::Response(list_cached(current)),
        Task::PurgeCached => Next::Response(purge_cached(head, current)),
        Task::ShowPython => Next::Response(match current.counts() {
            Some(counts) => Reply::json(&counts.python_applications()),
            None => nothing_counted(),
        }),
        Task::Adapt => Next::Response(match decode(head, body) {
            Ok(decoded) => {
                let result = decoded.document.value(&decoded.config);
                Reply::json(&with_warnings(
                    &decoded.warnings,
                    json!({ "result": result }),
                ))
            }
            Err(denied) => Reply::denied(denied),
        }),
        Task::Load => match decode(head, body) {
            Ok(decoded) => load(orders, decoded, is_forced(head)),
            Err(denied) => Next::Response(Reply::denied(denied)),
        },
        Task::Explain => Next::Response(explain(body, current)),
        Task::Stop => sent(orders, Order::Stop, Reply::done()),
        Task::Upgrade => match upgrade_order(body) {
            Ok(order) => sent(orders, order, Reply::done()),
            Err(reply) => Next::Response(reply),
        },
    }
}

fn load(orders: &Orders, decoded: Decoded, forced: bool) -> Next {
    let Decoded {
        config,
        document,
        written,
        warnings,
    } = decoded;
    let done = match warnings.is_empty() {
        true => Reply::done(),
        false => Reply::json(&with_warnings(&warnings, json!({}))),
    };
    let order = |reply| {
        let order = LoadOrder {
            config,
            document,
            written,
            forced,
            reply,
        };
        Order::Load(Box::new(order))
    };
    sent(orders, order, done)
}

/// Adds warnings, if there are any, to the body of a response.
fn with_warnings(warnings: &[Value], mut body: Value) -> Value {
    if !warnings.is_empty() {
        body["warnings"] = warnings.into();
    }
    body
}

/// The change that a request asks for. Its head says where, and its body what.
fn change(head: &RequestHead, manner: Manner, body: &[u8]) -> Result<Change, Denied> {
    let value = match manner {
        Manner::Delete => Value::Null,
        Manner::Post | Manner::Put | Manner::Patch => json_body(head, body)?,
    };
    let condition = match head.fields.first(FieldId::IfMatch) {
        Some(value) => Condition::parse(value)?,
        None => None,
    };
    Ok(Change {
        path: head.uri.path().to_vec(),
        manner,
        value,
        condition,
    })
}

/// The media type of the request body without parameters; JSON if there is none.
fn media_type(head: &RequestHead) -> &[u8] {
    let given = head.fields.first(FieldId::ContentType);
    let mut parts = given
        .unwrap_or(b"application/json")
        .split(|byte| *byte == b';');
    parts.next().unwrap_or_default().trim_ascii()
}

fn is_json(media_type: &[u8]) -> bool {
    media_type.is_empty() || media_type.to_ascii_lowercase().ends_with(b"/json")
}

fn nothing_served() -> Reply {
    Reply::error(Status::SERVICE_UNAVAILABLE, "nothing is served yet")
}

/// `/pki/ca/ID` and `/pki/ca/ID/certificates`.
fn authority(path: &[u8], current: &Current) -> Reply {
    let Some(insight) = current.insight() else {
        return nothing_served();
    };
    let path = String::from_utf8_lossy(path);
    let below = path.strip_prefix(AUTHORITIES).unwrap_or_default();
    let (id, wants_chain) = match below.strip_suffix("/certificates") {
        Some(id) => (id, true),
        None => (below.trim_end_matches('/'), false),
    };
    if id.is_empty() || id.contains('/') {
        return Reply::error(Status::NOT_FOUND, format!("resource not found: {path}"));
    }
    match insight.authority(id) {
        Ok(Some(authority)) if wants_chain => Reply {
            body: [authority.certificates.1, authority.certificates.0]
                .concat()
                .into_bytes(),
            media_type: "application/pem-certificate-chain",
            ..Reply::done()
        },
        Ok(Some(authority)) => Reply::json(&json!({
            "id": authority.id,
            "name": authority.name,
            "root_common_name": authority.common_names.0,
            "intermediate_common_name": authority.common_names.1,
            "root_certificate": authority.certificates.0,
            "intermediate_certificate": authority.certificates.1,
        })),
        Ok(None) => {
            let why = format!("no certificate authority configured with id: {id}");
            Reply::error(Status::NOT_FOUND, why)
        }
        Err(why) => Reply::error(Status::INTERNAL_SERVER_ERROR, why),
    }
}

/// `/debug/pprof` and `/debug/vars` of Caddy are those of Go's runtime.
fn no_profiles() -> Reply {
    let why = "profiles of Go's runtime do not exist here: use `perf record -g -p PID` for CPU, \
               and the process metrics at /metrics for memory";
    Reply::error(Status::NOT_IMPLEMENTED, why)
}

/// Directs the upstream that the path names, as the body says.
fn direct(head: &RequestHead, body: &[u8], current: &Current) -> Reply {
    let directed = direction(head, body)
        .and_then(|(address, direction)| direct_upstream(&address, direction, current));
    directed.map_or_else(Reply::denied, |state| Reply::json(&state))
}

/// Directs the upstreams with an address; returns their new state.
pub fn direct_upstream(
    address: &str,
    direction: Value,
    current: &Current,
) -> Result<Value, Denied> {
    let counts = current.counts().ok_or_else(not_counting)?;
    let found = counts.direct_upstream(address, direction);
    found.map_err(Denied::bad)?.ok_or_else(|| {
        let why = format!("no upstream in use has the address {address}");
        Denied::new(Status::NOT_FOUND, why)
    })
}

/// An address and what is directed for it.
fn direction(head: &RequestHead, body: &[u8]) -> Result<(String, Value), Denied> {
    let address = head.uri.path().strip_prefix(UPSTREAMS.as_bytes());
    let address = address.and_then(|path| str::from_utf8(path).ok());
    let address = address.and_then(document::decoded);
    let address = address.ok_or_else(|| Denied::bad("the path does not name an address"))?;
    Ok((address, json_body(head, body)?))
}

/// The JSON value that a request carries.
fn json_body(head: &RequestHead, body: &[u8]) -> Result<Value, Denied> {
    require_json(head)?;
    decoded_json(body)
}

/// Refuses a request that does not say that its body is JSON. Browsers ask us first (a CORS preflight) before a page of another
/// site may send that, and we do not allow it.
pub fn require_json(head: &RequestHead) -> Result<(), Denied> {
    if !head.fields.has(FieldId::ContentType) || !is_json(media_type(head)) {
        let why = "unacceptable content-type: 'application/json' required";
        return Err(Denied::new(Status::UNSUPPORTED_MEDIA_TYPE, why));
    }
    Ok(())
}

/// The value that a body of JSON stands for.
pub fn decoded_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Denied> {
    serde_json::from_slice(body)
        .map_err(|error| Denied::bad(format!("decoding request body: {error}")))
}

fn explain(question: &[u8], current: &Current) -> Reply {
    let Some(insight) = current.insight() else {
        return nothing_served();
    };
    match insight.explain(question) {
        Ok(explanation) => Reply::json(&explanation),
        Err(why) => Reply::error(Status::BAD_REQUEST, why),
    }
}

/// The body of a request to upgrade; it may be empty.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UpgradeRequest {
    binary: Option<String>,
    ready_timeout: Option<Given>,
    grace_period: Option<Given>,
}

/// A duration of a request, which must not be negative.
fn duration(given: Option<Given>) -> Result<Option<Duration>, Reply> {
    let nanos = given.map(|Given(nanos)| u64::try_from(nanos)).transpose();
    nanos
        .map(|nanos| nanos.map(Duration::from_nanos))
        .map_err(|_| Reply::error(Status::BAD_REQUEST, "a duration must not be negative"))
}

fn upgrade_order(body: &[u8]) -> Result<impl FnOnce(Replier) -> Order, Reply> {
    let request: UpgradeRequest = match body.trim_ascii() {
        b"" => UpgradeRequest::default(),
        body => serde_json::from_slice(body)
            .map_err(|error| Reply::error(Status::BAD_REQUEST, error.to_string()))?,
    };
    let (ready_timeout, grace_period) = (
        duration(request.ready_timeout)?,
        duration(request.grace_period)?,
    );
    Ok(move |reply| {
        Order::Upgrade(Box::new(UpgradeOrder {
            binary: request.binary.map(PathBuf::from),
            ready_timeout,
            grace_period,
            reply,
        }))
    })
}

/// Sends an order; `done` is the response once it has been carried out.
fn sent(orders: &Orders, order: impl FnOnce(Replier) -> Order, done: Reply) -> Next {
    let (replier, waiter) = reply();
    match orders.send(order(replier)) {
        Ok(()) => Next::Await(waiter, done),
        Err(why) => Next::Response(Reply::error(Status::SERVICE_UNAVAILABLE, why)),
    }
}

fn is_forced(head: &RequestHead) -> bool {
    let controls = head.fields.first(FieldId::CacheControl).unwrap_or_default();
    controls
        .split(|b| *b == b',')
        .any(|c| c.trim_ascii().eq_ignore_ascii_case(b"must-revalidate"))
}

/// A configuration that a request carries.
#[derive(Debug)]
struct Decoded {
    config: Config,
    /// What clients see of it.
    document: Document,
    /// Its source texts.
    written: Option<Arc<Written>>,
    /// Warnings in Caddy's form: `file`, `line` and `message`, with the whole diagnostic beside.
    warnings: Vec<Value>,
}

/// Parses a configuration in the format given by `Content-Type`.
fn decode(head: &RequestHead, body: &[u8]) -> Result<Decoded, Denied> {
    let text = str::from_utf8(body).map_err(|_| Denied::bad("the body is not UTF-8"))?;
    let media_type = media_type(head).to_ascii_lowercase();
    match media_type.as_slice() {
        kind if is_json(kind) => {
            let (config, document) = document::read(text)?;
            let warnings = idle_settings(&config)
                .into_iter()
                .map(idle_warning)
                .collect();
            Ok(Decoded {
                config,
                document,
                written: None,
                warnings,
            })
        }
        kind if kind == WITH_TEXTS.as_bytes() => with_texts(text),
        b"text/caddyfile" => {
            let Adapted {
                config,
                report,
                origins,
                ..
            } = adapt("Caddyfile", text, &DiskLoader);
            let Some(config) = config else {
                return Err(Denied {
                    diagnostics: diagnostics(&report),
                    ..Denied::bad(report.short().trim_end())
                });
            };
            let warnings = diagnostics(&report).into_iter().map(warning).collect();
            let sources = report.sources;
            Ok(Decoded {
                config,
                document: Document::Derived,
                written: Some(Arc::new(Written { sources, origins })),
                warnings,
            })
        }
        _ => Err(Denied::new(
            Status::UNSUPPORTED_MEDIA_TYPE,
            "send application/json or text/caddyfile",
        )),
    }
}

/// The diagnostics of a report as objects.
fn diagnostics(report: &Report) -> Vec<Value> {
    let lines = report.json();
    let objects = lines.lines().map(serde_json::from_str);
    objects.map(Result::unwrap_or_default).collect()
}

/// A diagnostic as one of Caddy's warnings.
fn warning(diagnostic: Value) -> Value {
    json!({
        "file": diagnostic["place"]["file"],
        "line": diagnostic["place"]["line"],
        "message": diagnostic["title"],
        "diagnostic": diagnostic,
    })
}

fn idle_warning(idle: Idle) -> Value {
    let Idle {
        place,
        name,
        instead,
    } = idle;
    json!({ "message": format!("{name} has no effect; {instead} (at {place})") })
}

/// Media type of a configuration together with its source texts: `config` is the JSON, `caddyfile` the Caddyfile with
/// its name, its text, the files it imports and the environment variables it uses.
pub const WITH_TEXTS: &str = "application/vnd.sluice.caddyfile+json";

/// Parses [`WITH_TEXTS`]. `config` takes effect; the texts serve only for source positions, and only if they yield the
/// same configuration.
fn with_texts(text: &str) -> Result<Decoded, Denied> {
    let mut whole: Value =
        serde_json::from_str(text).map_err(|error| Denied::bad(error.to_string()))?;
    let config = whole.get_mut("config").map(Value::take);
    let config = config.ok_or_else(|| Denied::bad("`config` is missing"))?;
    let config = Config::from_value(config).map_err(Denied::from_config)?;
    let part = |key: &str| whole.get("caddyfile").and_then(|texts| texts.get(key));
    let word = |key: &str| part(key).and_then(Value::as_str).unwrap_or_default();
    let pairs = |key: &str| {
        let map = part(key).and_then(Value::as_object).into_iter().flatten();
        map.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
    };
    let loader = MemoryLoader {
        files: pairs("files")
            .map(|(path, text)| (path, text.into_bytes()))
            .collect(),
        variables: pairs("variables").collect(),
    };
    let Adapted {
        config: read,
        report,
        origins,
        ..
    } = adapt(word("name"), word("text"), &loader);
    let decoded = |config, written| Decoded {
        config,
        document: Document::Derived,
        written,
        warnings: Vec::new(),
    };
    // They are equal except for the origin IDs, which `eq` ignores.
    Ok(match read.filter(|read| *read == config) {
        Some(read) => {
            let sources = report.sources;
            let written = Written { sources, origins };
            decoded(read, Some(Arc::new(written)))
        }
        None => decoded(config, None),
    })
}

fn nothing_counted() -> Reply {
    Reply::denied(not_counting())
}

/// The server does not run yet.
pub fn not_counting() -> Denied {
    Denied::new(Status::SERVICE_UNAVAILABLE, "nothing is counted yet")
}

/// The keys of all cached responses.
fn list_cached(current: &Current) -> Reply {
    match current.counts() {
        Some(counts) => Reply::json(&json!(counts.cached_keys())),
        None => nothing_counted(),
    }
}

/// Removes the responses that the path names, from all caches.
fn purge_cached(head: &RequestHead, current: &Current) -> Reply {
    let purged = purge_of(head).and_then(|which| {
        let counts = current.counts().ok_or_else(not_counting)?;
        counts.purge_all(&which);
        Ok(Reply {
            status: Status::NO_CONTENT,
            ..Reply::done()
        })
    });
    purged.unwrap_or_else(Reply::denied)
}

/// `flush`, a key, or a beginning of keys with an asterisk behind it. The query of the request is a part of the key. Without
/// one, the header `Surrogate-Key` has names of groups of responses.
fn purge_of(head: &RequestHead) -> Result<Purge, Denied> {
    if head.uri.path() == CACHED.as_bytes() {
        let lists: Vec<&[u8]> = head.fields.find(b"Surrogate-Key").collect();
        return match lists.iter().any(|list| !list.is_empty()) {
            true => Ok(Purge::Tagged(lists.join(&b' '))),
            false => Err(Denied::bad(
                "nothing says what to remove: name a key in the path, or surrogate keys in the header `Surrogate-Key`",
            )),
        };
    }
    let name = head.uri.as_bytes().strip_prefix(CACHED_KEYS.as_bytes());
    let name = name.unwrap_or_default();
    if name == FLUSH {
        return Ok(Purge::Beginning(String::new()));
    }
    let name = str::from_utf8(name).ok().and_then(document::decoded);
    match name {
        Some(name) if !name.is_empty() => Ok(match name.strip_suffix('*') {
            Some(beginning) => Purge::Beginning(beginning.to_owned()),
            None => Purge::Key(name),
        }),
        _ => Err(Denied::bad(
            "the path does not name a key: write `/souin-api/souin/KEY`, or `flush` for all",
        )),
    }
}

fn metrics(head: &RequestHead, current: &Current) -> Reply {
    let Some(counts) = current.counts() else {
        return nothing_counted();
    };
    let accept = head.fields.first(FieldId::Accept).unwrap_or_default();
    let (media_type, body) = counts.page(accept);
    Reply {
        body,
        media_type,
        ..Reply::done()
    }
}

/// The part of the configuration at the path.
fn show(path: &[u8], current: &Current) -> Reply {
    let (config, document) = current.document();
    let root = document.value(&config);
    let shown = document::place(&root, path).and_then(|place| {
        let part = document::part(&root, &place)?;
        Ok(Reply {
            tag: document::tag(&place, part),
            ..Reply::json(part)
        })
    });
    shown.unwrap_or_else(Reply::denied)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Orders that are recorded in a list.
    fn orders() -> (Orders, Arc<Mutex<Vec<Order>>>) {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let list = sent.clone();
        let push = move |order| {
            list.lock().expect("no test panics in here").push(order);
            Ok(())
        };
        (Orders::new(push), sent)
    }

    fn head(method: Method, path: &str, kind: &str) -> RequestHead {
        let mut head = RequestHead {
            method,
            ..RequestHead::default()
        };
        head.uri.set(path.as_bytes());
        if !kind.is_empty() {
            head.fields.push(FieldId::ContentType, kind.as_bytes());
        }
        head
    }

    fn response(next: Next) -> (u16, Value) {
        let Next::Response(reply) = next else {
            panic!("no order was to be sent")
        };
        (
            reply.status.code(),
            serde_json::from_slice(&reply.body).expect("JSON"),
        )
    }

    #[test]
    fn paths_name_cached_responses() {
        let named = |path: &str| {
            let mut head = RequestHead::default();
            head.uri.set(path.as_bytes());
            purge_of(&head).ok()
        };
        assert_eq!(
            named("/souin-api/souin/flush"),
            Some(Purge::Beginning(String::new()))
        );
        assert_eq!(
            named("/souin-api/souin/GET-http:80-a-/b?c=%20d"),
            Some(Purge::Key("GET-http:80-a-/b?c= d".to_owned()))
        );
        assert_eq!(
            named("/souin-api/souin/GET-http:80-a-/b/*"),
            Some(Purge::Beginning("GET-http:80-a-/b/".to_owned()))
        );
        assert_eq!(named("/souin-api/souin"), None);
        let mut head = RequestHead::default();
        head.uri.set(CACHED.as_bytes());
        let name = b"Surrogate-Key";
        for list in ["news, home", "shop"] {
            head.fields
                .push_raw(FieldId::of(name), name, list.as_bytes());
        }
        assert_eq!(
            purge_of(&head).ok(),
            Some(Purge::Tagged(b"news, home shop".to_vec()))
        );
        assert_eq!(named("/souin-api/souin/"), None);
        assert_eq!(named("/souin-api/souin/%zz"), None);
    }

    #[test]
    fn paths_and_methods_choose_the_task() {
        let purge = Method::from_token(b"PURGE").expect("a token");
        for (method, path, expected) in [
            (Method::Post, "/load", Ok(Task::Load)),
            (Method::Get, "/load", Err(405)),
            (Method::Get, "/config/apps/http", Ok(Task::ShowConfig)),
            (
                Method::Delete,
                "/config/apps",
                Ok(Task::Change(Manner::Delete)),
            ),
            (Method::Options, "/config/apps", Err(405)),
            (Method::Put, "/id/a", Ok(Task::Change(Manner::Put))),
            (Method::Get, "/debug/pprof/", Err(501)),
            (Method::Post, "/stop", Ok(Task::Stop)),
            (Method::Get, "/stop", Err(405)),
            (Method::Get, "/configs", Err(404)),
            (Method::Get, "/souin-api/souin", Ok(Task::ShowCached)),
            (
                purge.clone(),
                "/souin-api/souin/flush",
                Ok(Task::PurgeCached),
            ),
            (Method::Delete, "/souin-api/souin/flush", Err(405)),
            (purge.clone(), "/souin-api/souin", Ok(Task::PurgeCached)),
            (Method::Post, "/souin-api/souin", Err(405)),
            (purge, "/config/", Err(405)),
        ] {
            let found = Task::of(&head(method, path, "")).map_err(|reply| reply.status.code());
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn texts_that_yield_the_configuration_give_source_positions() {
        let text = "import sites/*\n";
        let (file, name) = (":80 {\n\trespond {$WORD}\n}\n", "/x/sites/a");
        let loader = MemoryLoader {
            files: [(name.to_owned(), file.as_bytes().to_vec())].into(),
            variables: [("WORD".to_owned(), "hello".to_owned())].into(),
        };
        let config = adapt("/x/Caddyfile", text, &loader)
            .config
            .expect("it is one");
        let body = |word: &str| {
            json!({
                "config": config,
                "caddyfile": {
                    "name": "/x/Caddyfile",
                    "text": text,
                    "files": { name: file },
                    "variables": { "WORD": word },
                }
            })
            .to_string()
        };
        let decoded = |body: &str| {
            let head = head(Method::Post, "/load", WITH_TEXTS);
            let decoded = decode(&head, body.as_bytes()).expect("it is one");
            (decoded.config, decoded.written)
        };
        let (found, written) = decoded(&body("hello"));
        assert_eq!(found, config);
        let written = written.expect("the texts give it");
        let route = &found.servers().next().expect("a server").1.routes[0];
        let origin = route.origin.route().expect("it was written");
        assert!(written.origins.find(origin).is_some());
        // Texts that yield another configuration are ignored.
        let (found, written) = decoded(&body("bye"));
        assert_eq!(found, config);
        assert!(written.is_none());
        let bad = head(Method::Post, "/load", WITH_TEXTS);
        for text in ["[]", "{}x", r#"{"config":{"appz":{}}}"#] {
            assert!(decode(&bad, text.as_bytes()).is_err(), "{text}");
        }
    }

    struct Known;

    impl crate::orders::Insight for Known {
        fn explain(&self, _question: &[u8]) -> Result<Value, String> {
            Err("not asked".to_owned())
        }

        fn authority(&self, id: &str) -> Result<Option<crate::orders::Authority>, String> {
            Ok((id == "local").then(|| crate::orders::Authority {
                id: id.to_owned(),
                name: "Local".to_owned(),
                common_names: ("Root".to_owned(), "Below".to_owned()),
                certificates: ("r\n".to_owned(), "i\n".to_owned()),
            }))
        }
    }

    #[test]
    fn local_authorities_are_shown() {
        let current = Current::default();
        current.replace(Arc::default(), Document::Derived, Arc::new(Known));
        let get = |path: &str| authority(path.as_bytes(), &current);
        let shown: Value = serde_json::from_slice(&get("/pki/ca/local").body).expect("JSON");
        assert_eq!(shown["intermediate_common_name"], "Below");
        let chain = get("/pki/ca/local/certificates");
        assert_eq!(chain.body, b"i\nr\n");
        assert_eq!(chain.media_type, "application/pem-certificate-chain");
        for path in [
            "/pki/ca/",
            "/pki/ca/nope",
            "/pki/ca/local/x",
            "/pki/ca//certificates",
        ] {
            assert_eq!(get(path).status, Status::NOT_FOUND, "{path}");
        }
    }

    #[test]
    fn a_part_of_the_configuration_is_shown() {
        let (orders, _sent) = orders();
        let current = Current::default();
        let json = r#"{"apps":{"http":{"servers":{"a":{"listen":[":80",":81"]}}}}}"#;
        let (config, document) = document::read(json).expect("a configuration");
        current.replace(Arc::new(config), document, Arc::new(Known));
        let get = |path: &str| {
            let head = head(Method::Get, path, "");
            response(perform(Task::ShowConfig, &head, b"", &orders, &current))
        };
        assert_eq!(
            get("/config/"),
            (200, serde_json::from_str(json).expect("JSON"))
        );
        assert_eq!(
            get("/config/apps/http/servers/a/listen/1"),
            (200, json!(":81"))
        );
        assert_eq!(get("/config/apps/http/servers/a/listen/2").0, 400);
        assert_eq!(get("/config/apps/nothing"), (200, Value::Null));
        assert_eq!(get("/config/nothing/nothing").0, 400);
    }

    #[test]
    fn a_bad_configuration_is_refused_before_an_order_is_sent() {
        let (orders, sent) = orders();
        for (kind, body, status) in [
            ("application/json", &b"{"[..], 400),
            ("", b"{\"appz\":{}}", 400),
            ("text/caddyfile", b"localhost {\n bogus_directive\n}\n", 400),
            ("application/json", b"\xff", 400),
            ("text/plain", b"{}", 415),
        ] {
            let head = head(Method::Post, "/load", kind);
            let found = response(perform(
                Task::Load,
                &head,
                body,
                &orders,
                &Current::default(),
            ));
            assert_eq!(found.0, status, "{kind} {found:?}");
            assert!(found.1["error"].is_string());
        }
        assert!(sent.lock().expect("unlocked").is_empty());
    }

    #[test]
    fn an_upgrade_has_options() {
        let (orders, sent) = orders();
        let ask = |body: &[u8]| {
            let head = head(Method::Post, "/upgrade", "application/json");
            perform(Task::Upgrade, &head, body, &orders, &Current::default())
        };
        assert!(matches!(ask(b""), Next::Await(..)));
        let body = br#"{"binary": "/a", "ready_timeout": "5s", "grace_period": 0}"#;
        assert!(matches!(ask(body), Next::Await(..)));
        let order = sent.lock().expect("unlocked").pop();
        let Some(Order::Upgrade(order)) = order else {
            panic!("an order was sent")
        };
        assert_eq!(order.binary, Some("/a".into()));
        assert_eq!(order.ready_timeout, Some(Duration::from_secs(5)));
        assert_eq!(order.grace_period, Some(Duration::ZERO));
        for wrong in [
            &b"{"[..],
            br#"{"program": "a"}"#,
            br#"{"grace_period": -1}"#,
        ] {
            assert_eq!(response(ask(wrong)).0, 400);
        }
        assert_eq!(sent.lock().expect("unlocked").len(), 1);
    }

    #[test]
    fn a_good_configuration_becomes_an_order() {
        let (orders, sent) = orders();
        let mut head = head(Method::Post, "/load", "application/json; charset=utf-8");
        head.fields
            .push(FieldId::CacheControl, b"no-cache, Must-Revalidate");
        let next = perform(Task::Load, &head, b"{}", &orders, &Current::default());
        assert!(matches!(next, Next::Await(..)));
        let order = sent.lock().expect("unlocked").pop();
        let Some(Order::Load(order)) = order else {
            panic!("an order was sent")
        };
        assert!(order.forced);
    }
}
