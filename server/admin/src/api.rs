//! Responses of the admin API. This module knows neither sockets nor the running server: it turns a request and its
//! body into a response or an order.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use sluice_caddyfile::{Adapted, DiskLoader, MemoryLoader, adapt};
use sluice_diag::Written;
use sluice_message::{FieldId, Method, RequestHead, Status};
use sluice_model::{Config, Duration as Given, Idle, idle_settings};

use crate::orders::{Current, LoadOrder, Order, Orders, UpgradeOrder, Waiter, reply};

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
}

impl Reply {
    /// A response without a body.
    pub fn done() -> Reply {
        Reply {
            status: Status::OK,
            body: Vec::new(),
            allow: "",
            media_type: "application/json",
        }
    }

    /// A JSON response.
    fn json(value: &Value) -> Reply {
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
}

/// The result of a request.
#[derive(Debug)]
pub enum Next {
    /// The response is ready.
    Response(Reply),
    /// An order was sent; its outcome determines the response.
    Await(Waiter),
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
    /// Explain how the request in the body would be handled.
    Explain,
    /// Show metrics.
    ShowMetrics,
    /// Show the state of the upstreams.
    ShowUpstreams,
    /// Show Python applications and their processes.
    ShowPython,
}

impl Task {
    /// Finds the operation for `head`; the error is the response that rejects the request.
    pub fn of(head: &RequestHead) -> Result<Task, Reply> {
        let path = head.uri.path();
        let (task, methods) = match path {
            b"/load" => (Task::Load, "POST"),
            b"/adapt" => (Task::Adapt, "POST"),
            b"/stop" => (Task::Stop, "POST"),
            b"/upgrade" => (Task::Upgrade, "POST"),
            b"/explain" => (Task::Explain, "POST"),
            b"/metrics" => (Task::ShowMetrics, "GET, HEAD"),
            b"/reverse_proxy/upstreams" => (Task::ShowUpstreams, "GET, HEAD"),
            b"/python/applications" => (Task::ShowPython, "GET, HEAD"),
            b"/config" => (Task::ShowConfig, "GET, HEAD"),
            _ if path.starts_with(b"/config/") => (Task::ShowConfig, "GET, HEAD"),
            _ => {
                return Err(Reply::error(
                    Status::NOT_FOUND,
                    "there is nothing at this path",
                ));
            }
        };
        let allowed = match head.method {
            Method::Post => methods == "POST",
            Method::Get | Method::Head => methods != "POST",
            Method::Put
            | Method::Delete
            | Method::Connect
            | Method::Options
            | Method::Trace
            | Method::Patch
            | Method::Other(_) => false,
        };
        if allowed {
            return Ok(task);
        }
        let why = match task {
            Task::ShowConfig => "changing a part is not supported yet; POST the whole to /load",
            Task::ShowMetrics | Task::ShowUpstreams | Task::ShowPython => "this path takes GET",
            Task::Load | Task::Adapt | Task::Stop | Task::Upgrade | Task::Explain => {
                "this path takes POST"
            }
        };
        let refusal = Reply::error(Status::METHOD_NOT_ALLOWED, why);
        Err(Reply {
            allow: methods,
            ..refusal
        })
    }

    /// Whether the operation needs the request body.
    pub fn wants_body(self) -> bool {
        match self {
            Task::Load | Task::Adapt | Task::Upgrade | Task::Explain => true,
            Task::Stop
            | Task::ShowConfig
            | Task::ShowMetrics
            | Task::ShowUpstreams
            | Task::ShowPython => false,
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
        Task::ShowMetrics => Next::Response(metrics(head, current)),
        Task::ShowUpstreams => Next::Response(match current.counts() {
            Some(counts) => Reply::json(&counts.upstreams()),
            None => nothing_counted(),
        }),
        Task::ShowPython => Next::Response(match current.counts() {
            Some(counts) => Reply::json(&counts.python_applications()),
            None => nothing_counted(),
        }),
        Task::Adapt => Next::Response(match decode(head, body) {
            Ok((config, _, warnings)) => {
                Reply::json(&json!({ "warnings": warnings, "result": config.to_value() }))
            }
            Err(reply) => reply,
        }),
        Task::Load => match decode(head, body) {
            Ok((config, written, _warnings)) => {
                let (replier, waiter) = reply();
                let order = LoadOrder {
                    config,
                    written,
                    forced: is_forced(head),
                    reply: replier,
                };
                sent(orders, Order::Load(Box::new(order)), waiter)
            }
            Err(reply) => Next::Response(reply),
        },
        Task::Explain => Next::Response(explain(body, current)),
        Task::Stop => {
            let (replier, waiter) = reply();
            sent(orders, Order::Stop(replier), waiter)
        }
        Task::Upgrade => match upgrade_order(body) {
            Ok((order, waiter)) => sent(orders, Order::Upgrade(Box::new(order)), waiter),
            Err(reply) => Next::Response(reply),
        },
    }
}

fn explain(question: &[u8], current: &Current) -> Reply {
    let Some(explain) = current.explain() else {
        return Reply::error(Status::SERVICE_UNAVAILABLE, "nothing is served yet");
    };
    match explain(question) {
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

fn upgrade_order(body: &[u8]) -> Result<(UpgradeOrder, Waiter), Reply> {
    let request: UpgradeRequest = match body.trim_ascii() {
        b"" => UpgradeRequest::default(),
        body => serde_json::from_slice(body)
            .map_err(|error| Reply::error(Status::BAD_REQUEST, error.to_string()))?,
    };
    let (reply, waiter) = reply();
    let order = UpgradeOrder {
        binary: request.binary.map(PathBuf::from),
        ready_timeout: duration(request.ready_timeout)?,
        grace_period: duration(request.grace_period)?,
        reply,
    };
    Ok((order, waiter))
}

fn sent(orders: &Orders, order: Order, waiter: Waiter) -> Next {
    match orders.send(order) {
        Ok(()) => Next::Await(waiter),
        Err(why) => Next::Response(Reply::error(Status::SERVICE_UNAVAILABLE, why)),
    }
}

fn is_forced(head: &RequestHead) -> bool {
    let controls = head.fields.first(FieldId::CacheControl).unwrap_or_default();
    controls
        .split(|b| *b == b',')
        .any(|c| c.trim_ascii().eq_ignore_ascii_case(b"must-revalidate"))
}

/// A configuration, its source texts, and its warnings, one line each.
type Decoded = (Config, Option<Arc<Written>>, Vec<String>);

/// Parses a configuration in the format given by `Content-Type`.
fn decode(head: &RequestHead, body: &[u8]) -> Result<Decoded, Reply> {
    let bad = |why: String| Reply::error(Status::BAD_REQUEST, why);
    let text = std::str::from_utf8(body).map_err(|_| bad("the body is not UTF-8".to_owned()))?;
    let kind = head
        .fields
        .first(FieldId::ContentType)
        .unwrap_or(b"application/json");
    let essence = kind
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    match essence.to_ascii_lowercase().as_slice() {
        b"application/json" | b"text/json" | b"" => {
            let config = Config::from_json(text).map_err(|error| bad(error.to_string()))?;
            let warnings = idle_settings(&config);
            let warnings = warnings.iter().map(
                |Idle {
                     place,
                     name,
                     instead,
                 }| {
                    format!("warning[no-effect]: {name} has no effect; {instead} (at {place})")
                },
            );
            let warnings = warnings.collect();
            Ok((config, None, warnings))
        }
        kind if kind == WITH_TEXTS.as_bytes() => with_texts(text).map_err(bad),
        b"text/caddyfile" => {
            let Adapted {
                config,
                report,
                origins,
                ..
            } = adapt("Caddyfile", text, &DiskLoader);
            let config = config.ok_or_else(|| bad(report.short().trim_end().to_owned()))?;
            let warnings = report.short().lines().map(String::from).collect();
            let sources = report.sources;
            Ok((
                config,
                Some(Arc::new(Written { sources, origins })),
                warnings,
            ))
        }
        _ => Err(Reply::error(
            Status::UNSUPPORTED_MEDIA_TYPE,
            "send application/json or text/caddyfile",
        )),
    }
}

/// Media type of a configuration together with its source texts: `config` is the JSON, `caddyfile` the Caddyfile with
/// its name, its text, the files it imports and the environment variables it uses.
pub const WITH_TEXTS: &str = "application/vnd.sluice.caddyfile+json";

/// Parses [`WITH_TEXTS`]. `config` takes effect; the texts serve only for source positions, and only if they yield the
/// same configuration.
fn with_texts(text: &str) -> Result<Decoded, String> {
    let mut whole: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let config = whole.get_mut("config").map(Value::take);
    let config = config.ok_or("`config` is missing")?;
    let config = Config::from_value(config).map_err(|error| error.to_string())?;
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
    // They are equal except for the origin IDs, which `eq` ignores.
    Ok(match read.filter(|read| *read == config) {
        Some(read) => {
            let sources = report.sources;
            let written = Written { sources, origins };
            (read, Some(Arc::new(written)), Vec::new())
        }
        None => (config, None, Vec::new()),
    })
}

fn nothing_counted() -> Reply {
    Reply::error(Status::SERVICE_UNAVAILABLE, "nothing is counted yet")
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

/// The part of the configuration at the path: object keys and list indices.
fn show(path: &[u8], current: &Current) -> Reply {
    let whole = current.config().to_value();
    let mut part = &whole;
    let steps = path.strip_prefix(b"/config").unwrap_or_default();
    for step in steps
        .split(|byte| *byte == b'/')
        .filter(|step| !step.is_empty())
    {
        let step = String::from_utf8_lossy(step);
        let found = match part {
            Value::Object(map) => map.get(&*step),
            Value::Array(list) => step.parse().ok().and_then(|index: usize| list.get(index)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        match found {
            Some(found) => part = found,
            None => {
                let why = format!("the configuration has no `{step}` at this path");
                return Reply::error(Status::NOT_FOUND, why);
            }
        }
    }
    Reply::json(part)
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
    fn paths_and_methods_choose_the_task() {
        for (method, path, expected) in [
            (Method::Post, "/load", Ok(Task::Load)),
            (Method::Get, "/load", Err(405)),
            (Method::Get, "/config/apps/http", Ok(Task::ShowConfig)),
            (Method::Delete, "/config/apps", Err(405)),
            (Method::Post, "/stop", Ok(Task::Stop)),
            (Method::Get, "/stop", Err(405)),
            (Method::Get, "/configs", Err(404)),
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
            decode(&head, body.as_bytes()).expect("it is one")
        };
        let (found, written, _) = decoded(&body("hello"));
        assert_eq!(found, config);
        let written = written.expect("the texts give it");
        let route = &found.servers().next().expect("a server").1.routes[0];
        let origin = route.origin.route().expect("it was written");
        assert!(written.origins.find(origin).is_some());
        // Texts that yield another configuration are ignored.
        let (found, written, _) = decoded(&body("bye"));
        assert_eq!(found, config);
        assert!(written.is_none());
        let bad = head(Method::Post, "/load", WITH_TEXTS);
        for text in ["[]", "{}x", r#"{"config":{"appz":{}}}"#] {
            assert!(decode(&bad, text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_part_of_the_configuration_is_shown() {
        let (orders, _sent) = orders();
        let current = Current::default();
        let json = r#"{"apps":{"http":{"servers":{"a":{"listen":[":80",":81"]}}}}}"#;
        let config = Config::from_json(json).expect("a configuration");
        current.replace(Arc::new(config), Arc::new(|_| Err("not asked".to_owned())));
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
        assert_eq!(get("/config/apps/http/servers/a/listen/2").0, 404);
        assert_eq!(get("/config/apps/nothing").0, 404);
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
        assert!(matches!(ask(b""), Next::Await(_)));
        let body = br#"{"binary": "/a", "ready_timeout": "5s", "grace_period": 0}"#;
        assert!(matches!(ask(body), Next::Await(_)));
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
        assert!(matches!(next, Next::Await(_)));
        let order = sent.lock().expect("unlocked").pop();
        let Some(Order::Load(order)) = order else {
            panic!("an order was sent")
        };
        assert!(order.forced);
    }
}
