//! The response cache: `proxy_cache` and `fastcgi_cache`.

mod keeping;
mod nodes;
mod rules;
pub mod sharing;
mod stale;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::setup;
use crate::client::{Client, Response, exchange};
use crate::harness::{Server, Setup, eventually};
use crate::upstream::Upstream;
use crate::wire::{Wire, field};

/// A request as the upstream received it: the lines of the head.
pub type Asked = Vec<String>;

/// An upstream with scripted responses that records its requests.
pub struct Origin {
    pub upstream: Upstream,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Origin {
    /// `response` gets the request, and how often its target was requested before.
    pub fn start(response: impl Fn(&mut Wire, &[String], usize) + Send + Sync + 'static) -> Origin {
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let known = asked.clone();
        let upstream = Upstream::start(move |mut wire| {
            while let Some(head) = wire.head() {
                if wire.body(&head).is_none() {
                    return;
                }
                let before = {
                    let mut known = known.lock().expect("no test panics in it");
                    let same = known
                        .iter()
                        .filter(|one| target(one) == target(&head))
                        .count();
                    known.push(head.clone());
                    same
                };
                response(&mut wire, &head, before);
            }
        });
        Origin { upstream, asked }
    }

    /// One that responds to each target with these headers, and with the target and how often it was requested.
    pub fn describing(fields: &[(&str, &str)]) -> Origin {
        let fields: HashMap<String, String> = fields
            .iter()
            .map(|(target, fields)| ((*target).to_owned(), (*fields).to_owned()))
            .collect();
        Origin::start(move |wire, head, before| {
            let path = target(head).split('?').next().unwrap_or_default();
            let fields = fields.get(path).map_or("", String::as_str);
            let fields = fields.replace('|', "\r\n");
            say(
                wire,
                "200 OK",
                &fields,
                &format!("{} {before}", target(head)),
            );
        })
    }

    /// How often a target was requested.
    pub fn count(&self, path: &str) -> usize {
        let asked = self.asked.lock().expect("no test panics in it");
        asked.iter().filter(|one| target(one) == path).count()
    }

    /// The last request for a target.
    pub fn last(&self, path: &str) -> Asked {
        let asked = self.asked.lock().expect("no test panics in it");
        let found = asked.iter().rfind(|one| target(one) == path);
        found
            .cloned()
            .unwrap_or_else(|| panic!("nobody asked for {path}"))
    }
}

pub fn target(head: &[String]) -> &str {
    let line = head.first().map_or("", String::as_str);
    line.split(' ').nth(1).unwrap_or_default()
}

/// A response with these headers; errors of a disconnected client are ignored.
pub fn say(wire: &mut Wire, status: &str, fields: &str, body: &str) {
    let between = if fields.is_empty() { "" } else { "\r\n" };
    let length = body.len();
    let _ = wire.try_send(format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{fields}{between}\r\n{body}"
    ));
}

/// A server that caches the responses of an upstream in its folder `cache`, and reports the cache status.
fn caching(origin: u16, lines: &str) -> Setup {
    setup(&conf("{folder}/cache", origin, lines))
}

/// Starts it, and waits for its metrics as well.
fn start(setup: Setup) -> Server {
    setup.start()
}

fn conf(folder: &str, origin: u16, lines: &str) -> String {
    format!(
        "events {{}}\nhttp {{\nproxy_cache_path {folder} levels=1:2 keys_zone=one:1m;\nserver {{\nlisten 127.0.0.1:{{port}};\n\
         add_header X-Cache $upstream_cache_status always;\nproxy_cache one;\nlocation / {{ proxy_pass http://127.0.0.1:{origin}; \
         }}\n{lines}\n}}\n}}\n"
    )
}

/// Requests a path with these headers, each with its line ending.
fn ask(server: &Server, method: &str, path: &str, fields: &str) -> Response {
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{fields}\r\n");
    if method != "HEAD" {
        return exchange(server.port, request);
    }
    let mut client = Client::connect(server.port);
    client.send(request);
    let head = client.head().expect("an answer");
    Response {
        status: head[9..12].parse().expect("a status"),
        head,
        body: Vec::new(),
    }
}

fn get(server: &Server, path: &str) -> Response {
    ask(server, "GET", path, "")
}

/// The cache status, and the body.
fn seen(response: &Response) -> (String, String) {
    let had = response.field("X-Cache").unwrap_or("-");
    (had.to_owned(), response.text())
}

fn pair(had: &str, text: &str) -> (String, String) {
    (had.to_owned(), text.to_owned())
}

fn request_field<'a>(head: &'a [String], name: &str) -> Option<&'a str> {
    field(head, name)
}

/// The value of a cache metric.
pub fn counted(server: &Server, name: &str) -> u64 {
    let page = server.metrics();
    let beginning = format!("{name}{{");
    let line = page.lines().find(|line| line.starts_with(&beginning));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {page}"))
}

/// Waits until this many responses were cached: one may still be read after its client has disconnected.
fn eventually_stored(server: &Server, count: u64) {
    let stored = || counted(server, "sluice_cache_stored_total");
    eventually(
        "stored answers",
        || stored() >= count,
        || stored().to_string(),
    );
}
