//! Caddy's JSON: each of its servers becomes a separate copy, and each handler that sends a response becomes a place to
//! test.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{Backend, Found, PORT, Place, Right, asked, file_at};

/// Nested routes; deeper ones are ignored.
const DEPTH_MAX: usize = 16;

/// State at a route.
#[derive(Clone, Debug, Default)]
struct State {
    host: Option<String>,
    path: Option<String>,
    root: Option<PathBuf>,
    /// A prefix stripped from the path before files are looked up.
    strip: Option<String>,
    /// The path has been replaced.
    rewritten: bool,
}

/// Parses a configuration.
pub fn read(text: &str) -> Result<Found, String> {
    let config: Value =
        serde_json::from_str(text).map_err(|error| format!("the JSON cannot be read: {error}"))?;
    let servers = config
        .pointer("/apps/http/servers")
        .and_then(Value::as_object)
        .ok_or("the configuration has no HTTP server")?;
    let mut found = Found::default();
    for (name, server) in servers {
        let mut walk = Walk {
            found: &mut found,
            kind: name.clone(),
        };
        walk.routes(server.get("routes"), State::default(), 0);
        let copy = copy(&config, name, server, &mut found);
        found.copies.push((name.clone(), copy));
    }
    let asked = |kind: &String| found.places.iter().any(|place| &place.kind == kind);
    let copies = found.copies.clone().into_iter();
    found.copies = copies.filter(|(kind, _)| asked(kind)).collect();
    Ok(found)
}

struct Walk<'a> {
    found: &'a mut Found,
    kind: String,
}

impl Walk<'_> {
    /// Walks the routes of one list: what an earlier one sets applies to later ones. Returns the state after them.
    fn routes(&mut self, routes: Option<&Value>, mut state: State, depth: usize) -> State {
        let routes = routes.and_then(Value::as_array).into_iter().flatten();
        for route in routes.filter(|_| depth < DEPTH_MAX) {
            let set = route.pointer("/match/0").and_then(Value::as_object);
            let handlers = route.get("handle").and_then(Value::as_array);
            let handlers: Vec<&Value> = handlers.into_iter().flatten().collect();
            let Some(own) = self.matched(set, &state, &handlers) else {
                continue;
            };
            let behind = self.handlers(&handlers, own, depth);
            if set.is_none() {
                // Without a condition, roots and rewrites apply to what follows.
                state = State {
                    host: state.host,
                    path: state.path,
                    ..behind
                };
            }
        }
        state
    }

    /// The state if the conditions hold; `None` if a client cannot simply request it.
    fn matched(
        &mut self,
        set: Option<&Map<String, Value>>,
        state: &State,
        handlers: &[&Value],
    ) -> Option<State> {
        let mut own = state.clone();
        for (name, value) in set.into_iter().flatten() {
            let first = value
                .pointer("/0")
                .and_then(Value::as_str)
                .unwrap_or_default();
            match name.as_str() {
                "host" if !first.contains(['*', '{']) => own.host = Some(first.to_string()),
                "path" if asked(first).is_some() => own.path = asked(first),
                _ => {
                    if handlers.iter().any(|handler| responds(handler)) {
                        let text = format!("{}: a route for `{name}` {value}", self.kind);
                        self.found.leave(text);
                    }
                    return None;
                }
            }
        }
        Some(own)
    }

    fn handlers(&mut self, handlers: &[&Value], mut state: State, depth: usize) -> State {
        for handler in handlers {
            let text = |name: &str| handler.get(name).and_then(Value::as_str);
            match text("handler").unwrap_or_default() {
                "subroute" => {
                    let inner = self.routes(handler.get("routes"), state.clone(), depth + 1);
                    (state.root, state.strip) = (inner.root, inner.strip);
                    state.rewritten = inner.rewritten;
                }
                "vars" => {
                    if let Some(root) = text("root") {
                        state.root = Some(PathBuf::from(root));
                    }
                }
                "rewrite" => {
                    if let Some(prefix) = text("strip_path_prefix") {
                        state.strip = Some(prefix.to_string());
                    }
                    state.rewritten |= handler.get("uri").is_some();
                }
                "static_response" => self.fixed(handler, &state),
                "file_server" => self.file(text("root"), &state),
                "reverse_proxy" => {
                    let backend = backend(handler);
                    self.place(&state, "", Right::Behind(backend));
                }
                _ => {}
            }
        }
        state
    }

    fn place(&mut self, state: &State, name: &str, right: Right) {
        let path = state.path.as_deref().unwrap_or("/");
        let slash = if name.is_empty() || path.ends_with('/') {
            ""
        } else {
            "/"
        };
        self.found.add(Place {
            host: state.host.clone(),
            path: format!("{path}{slash}{name}"),
            kind: self.kind.clone(),
            right,
        });
    }

    fn fixed(&mut self, handler: &Value, state: &State) {
        if handler.get("abort").and_then(Value::as_bool) == Some(true) {
            return;
        }
        let status = match handler.get("status_code") {
            None => Some(200),
            Some(Value::Number(number)) => number.as_u64(),
            Some(other) => other.as_str().and_then(|text| text.parse().ok()),
        };
        let Some(status) = status.and_then(|status| u16::try_from(status).ok()) else {
            let text = format!("{}: a fixed response whose status varies", self.kind);
            self.found.leave(text);
            return;
        };
        let body = handler
            .get("body")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let body = (!body.contains('{')).then(|| body.to_string());
        self.place(state, "", Right::Fixed(status, body));
    }

    fn file(&mut self, root: Option<&str>, state: &State) {
        let path = state.path.as_deref().unwrap_or("/");
        let root = root.map(PathBuf::from).or(state.root.clone());
        let root = root.unwrap_or_else(|| PathBuf::from("."));
        let below = state
            .strip
            .as_deref()
            .and_then(|strip| path.strip_prefix(strip));
        let below = below.unwrap_or(path);
        let varies = root.to_string_lossy().contains('{') || state.rewritten;
        match file_at(&root, below).filter(|_| !varies) {
            Some((name, file)) => self.place(state, &name, Right::File(file)),
            None => {
                let text = format!(
                    "{}: files at {path}: none found below {}",
                    self.kind,
                    root.display()
                );
                self.found.leave(text);
            }
        }
    }
}

/// Whether a handler, or one nested in it, sends a response.
fn responds(handler: &Value) -> bool {
    let name = handler
        .get("handler")
        .and_then(Value::as_str)
        .unwrap_or_default();
    matches!(
        name,
        "static_response" | "file_server" | "reverse_proxy" | "subroute"
    )
}

fn backend(handler: &Value) -> Backend {
    match handler
        .pointer("/transport/protocol")
        .and_then(Value::as_str)
    {
        Some("fastcgi") => Backend::Fastcgi,
        _ => Backend::Http,
    }
}

/// The configuration with only one server, on the lab's port.
fn copy(config: &Value, name: &str, server: &Value, found: &mut Found) -> String {
    let mut config = config.clone();
    let mut server = server.clone();
    server["listen"] = json!([format!("127.0.0.1:{PORT}")]);
    server["automatic_https"] = json!({ "disable": true });
    found
        .changes
        .insert("each server listens on the lab's port, without TLS".into());
    if let Some(server) = server.as_object_mut() {
        for part in [
            "tls_connection_policies",
            "listener_wrappers",
            "logs",
            "protocols",
        ] {
            if server.remove(part).is_some() {
                found
                    .changes
                    .insert(format!("`{part}` of servers is omitted"));
            }
        }
    }
    behind(&mut server, found);
    config["apps"]["http"] = json!({ "servers": { name: server } });
    config["admin"] = json!({ "disabled": true });
    for app in ["tls", "pki"] {
        if let Some(apps) = config["apps"].as_object_mut()
            && apps.remove(app).is_some()
        {
            found.changes.insert(format!("the app `{app}` is omitted"));
        }
    }
    if let Some(top) = config.as_object_mut() {
        for part in ["logging", "storage"] {
            if top.remove(part).is_some() {
                found.changes.insert(format!("`{part}` is omitted"));
            }
        }
    }
    format!("{config:#}\n")
}

/// Replaces upstreams with the lab's, and makes roots absolute.
fn behind(value: &mut Value, found: &mut Found) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|one| behind(one, found)),
        Value::Object(object) => {
            let handler = object.get("handler").and_then(Value::as_str);
            let proxies = handler == Some("reverse_proxy");
            let has_root = matches!(handler, Some("vars" | "file_server"));
            if proxies {
                let port = backend(&Value::Object(object.clone())).port();
                object.insert(
                    "upstreams".into(),
                    json!([{ "dial": format!("127.0.0.1:{port}") }]),
                );
                object.remove("dynamic_upstreams");
                object.remove("health_checks");
                if let Some(transport) = object.get_mut("transport").and_then(Value::as_object_mut)
                {
                    transport.remove("tls");
                    transport.remove("versions");
                }
                let text = "the lab's upstreams replace yours, without TLS and health checks";
                found.changes.insert(text.into());
            }
            if has_root && let Some(Value::String(root)) = object.get_mut("root") {
                *root = absolute(root);
            }
            object.values_mut().for_each(|one| behind(one, found));
        }
        _ => {}
    }
}

/// The absolute path of a folder, so that the experiment can run elsewhere.
fn absolute(path: &str) -> String {
    if path.contains('{') {
        return path.to_string();
    }
    let found = Path::new(path).canonicalize();
    found.map_or(path.to_string(), |found| found.display().to_string())
}
