//! The origin of each cache: sends the responses of a script and counts its requests. Each cache has its own, so that
//! the requests of one do not affect the other.

use std::collections::HashMap;
use std::net::Shutdown;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use crate::support::listen;
use crate::support::wire::{Wire, field};

/// The responses for one path, in turn; the last one is repeated. Each has a status, headers, and words with an `@`
/// that say how it is sent, separated by `|`.
pub type Script = (&'static str, &'static [&'static str]);

/// A running origin.
pub struct Origin {
    pub port: u16,
    counts: Counts,
}

type Counts = Arc<Mutex<HashMap<String, usize>>>;

impl Origin {
    pub fn start(scripts: &'static [Script]) -> Origin {
        let counts = Counts::default();
        let known = counts.clone();
        let port = listen(move |mut wire| while serve(&mut wire, scripts, &known).is_some() {});
        Origin { port, counts }
    }

    /// Number of requests for a target.
    pub fn count(&self, target: &str) -> usize {
        let counts = self.counts.lock().expect("no answer panics with it");
        counts.get(target).copied().unwrap_or_default()
    }
}

fn serve(wire: &mut Wire, scripts: &[Script], counts: &Counts) -> Option<()> {
    let head = wire.head()?;
    let body = wire.body(&head)?;
    let mut words = head[0].split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let before = {
        let mut counts = counts.lock().expect("no answer panics with it");
        let count = counts.entry(target.to_owned()).or_default();
        *count += 1;
        *count - 1
    };
    let path = target.split('?').next()?;
    let script = scripts.iter().find(|(known, _)| *known == path);
    let (_, responses) = script.copied().unwrap_or(("", &["200"]));
    let response = responses[before.min(responses.len() - 1)];
    let mut text = format!("{method} {target} {before}\n");
    for name in [
        "Range",
        "If-Range",
        "If-None-Match",
        "If-Modified-Since",
        "If-Match",
        "If-Unmodified-Since",
        "Cache-Control",
    ] {
        if let Some(value) = field(&head, name) {
            text.push_str(&format!("{name}: {value}\n"));
        }
    }
    text.push_str(&String::from_utf8_lossy(&body));
    Response::new(response, text).give(wire, &head, method == "HEAD")
}

/// A scripted response.
struct Response {
    status: String,
    fields: Vec<String>,
    sent: Vec<String>,
    text: Vec<u8>,
}

impl Response {
    fn new(script: &str, text: String) -> Response {
        let mut parts = script.split('|').map(str::trim);
        let mut response = Response {
            status: parts.next().unwrap_or("200").to_owned(),
            fields: Vec::new(),
            sent: Vec::new(),
            text: text.into_bytes(),
        };
        for part in parts {
            match part.strip_prefix('@') {
                Some(word) => response.sent.push(word.to_owned()),
                None => response.fields.push(part.to_owned()),
            }
        }
        if response.is("large") {
            response.text = (0..1_000_000_u32)
                .map(|at| b'a' + (at % 23) as u8)
                .collect();
        }
        if response.is("empty") {
            response.text.clear();
        }
        response
    }

    fn is(&self, word: &str) -> bool {
        self.sent.iter().any(|sent| sent == word)
    }

    fn field(&self, name: &str) -> Option<&str> {
        let lines = self.fields.iter().filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(found, _)| found.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim())
    }

    /// Sends it; `None` if the connection ends with it.
    fn give(mut self, wire: &mut Wire, head: &[String], is_head: bool) -> Option<()> {
        // Longer than the clients that are to wait for it, and than the servers' timeouts.
        if self.is("slow") {
            sleep(Duration::from_millis(700));
        }
        // Longer than both wait for a lock.
        if self.is("late") {
            sleep(Duration::from_millis(2500));
        }
        if self.is("drop") {
            let _ = wire.stream().shutdown(Shutdown::Both);
            return None;
        }
        if self.is("garbage") {
            let _ = wire.try_send("nonsense without a head\r\n\r\n");
            return None;
        }
        let matches = field(head, "If-None-Match");
        let since = field(head, "If-Modified-Since").filter(|_| matches.is_none());
        if matches.is_some() && matches == self.field("ETag")
            || since.is_some() && since == self.field("Last-Modified")
        {
            self.status = "304".to_owned();
            self.text.clear();
        }
        if let Some((start, end)) = field(head, "Range")
            .filter(|_| self.is("ranges"))
            .and_then(range)
        {
            self.status = "206".to_owned();
            let end = end.min(self.text.len() - 1);
            let of = self.text.len();
            self.fields
                .push(format!("Content-Range: bytes {start}-{end}/{of}"));
            self.text = self.text[start..=end].to_vec();
        }
        self.send(wire, is_head)
    }

    fn send(self, wire: &mut Wire, is_head: bool) -> Option<()> {
        let mut raw = format!("HTTP/1.1 {} Said\r\n", self.status).into_bytes();
        let has_none = self.status == "304" || self.status == "204";
        let framing = match () {
            () if has_none => String::new(),
            () if self.is("chunked") || self.is("cutchunk") => {
                "Transfer-Encoding: chunked\r\n".to_owned()
            }
            () if self.is("eof") => "Connection: close\r\n".to_owned(),
            () if self.is("cut") => format!("Content-Length: {}\r\n", self.text.len() + 10),
            () => format!("Content-Length: {}\r\n", self.text.len()),
        };
        raw.extend_from_slice(framing.as_bytes());
        for line in &self.fields {
            raw.extend_from_slice(format!("{line}\r\n").as_bytes());
        }
        raw.extend_from_slice(b"\r\n");
        let is_chunked = self.is("chunked") || self.is("cutchunk");
        match () {
            () if is_head || has_none => {}
            () if is_chunked => {
                for part in self.text.chunks(7000) {
                    raw.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                    raw.extend_from_slice(part);
                    raw.extend_from_slice(b"\r\n");
                }
                if self.is("chunked") {
                    raw.extend_from_slice(b"0\r\n\r\n");
                }
            }
            () => raw.extend_from_slice(&self.text),
        }
        wire.try_send(raw).ok()?;
        let ends = self.is("eof") || self.is("cut") || self.is("cutchunk");
        (!ends).then_some(())
    }
}

/// The first and the last byte of the requested range.
fn range(field: &str) -> Option<(usize, usize)> {
    let (start, end) = field.strip_prefix("bytes=")?.split_once('-')?;
    Some((start.parse().ok()?, end.parse().unwrap_or(usize::MAX)))
}
