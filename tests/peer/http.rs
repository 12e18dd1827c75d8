//! One raw HTTP/1.1 exchange, and the differences between two responses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A response as received.
#[derive(Debug, Default)]
pub struct Response {
    pub status: String,
    pub fields: BTreeMap<String, Vec<String>>,
    pub body: Vec<u8>,
}

/// A difference between our response and theirs.
#[derive(Debug)]
pub struct Differs {
    /// `status`, `body`, or the name of a header in lower case.
    pub what: String,
    pub theirs: String,
    pub ours: String,
}

impl fmt::Display for Differs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: caddy {:?}, sluice {:?}",
            self.what, self.theirs, self.ours
        )
    }
}

/// Sends `line` (`METHOD target` and headers after `|`) and reads the response.
pub fn ask(port: u16, line: &str) -> Response {
    exchange(port, &request(line))
}

/// The bytes of `line`.
pub fn request(line: &str) -> String {
    let mut parts = line.split('|').map(str::trim);
    let start = parts.next().unwrap_or_default();
    let mut request = format!("{start} HTTP/1.1\r\n");
    let (mut host, mut body) = (false, String::new());
    for part in parts {
        match part.strip_prefix("body=") {
            Some(text) => body = text.to_owned(),
            None => {
                host |= part.to_ascii_lowercase().starts_with("host:");
                request.push_str(&format!("{part}\r\n"));
            }
        }
    }
    if !host {
        request.push_str("Host: site.test\r\n");
    }
    if !body.is_empty() {
        request.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    request.push_str(&format!("Connection: close\r\n\r\n{body}"));
    request
}

/// Sends bytes and reads the response up to the end of the connection.
pub fn exchange(port: u16, request: &str) -> Response {
    let raw = raw_exchange(port, request).expect("the server listens and reads");
    parse(&raw)
}

/// As [`exchange`]; `None` if the connection fails or ends before the first byte of a response, as that of a listener
/// which is being closed does.
pub fn try_exchange(port: u16, request: &str) -> Option<Response> {
    let raw = raw_exchange(port, request).ok()?;
    (!raw.is_empty()).then(|| parse(&raw))
}

fn raw_exchange(port: u16, request: &str) -> io::Result<Vec<u8>> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.write_all(request.as_bytes())?;
    let mut raw = Vec::new();
    // Some rejections end with a reset after the response; what was received before counts.
    let _ = socket.read_to_end(&mut raw);
    Ok(raw)
}

/// Reads a response that ends with its connection.
pub fn parse(raw: &[u8]) -> Response {
    let Some(end) = raw.windows(4).position(|w| w == b"\r\n\r\n") else {
        return Response::default();
    };
    let head = String::from_utf8_lossy(&raw[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .unwrap_or_default()
        .split(' ')
        .nth(1)
        .unwrap_or_default();
    let mut response = Response {
        status: status.to_owned(),
        ..Response::default()
    };
    for line in lines {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let values = response
            .fields
            .entry(name.to_ascii_lowercase())
            .or_default();
        values.push(value.trim().to_owned());
    }
    let chunked = response
        .fields
        .get("transfer-encoding")
        .is_some_and(|v| v[0] == "chunked");
    response.body = if chunked {
        unchunk(&raw[end + 4..])
    } else {
        raw[end + 4..].to_vec()
    };
    response
}

fn unchunk(mut raw: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(line) = raw.windows(2).position(|w| w == b"\r\n") {
        let size = usize::from_str_radix(&String::from_utf8_lossy(&raw[..line]), 16).unwrap_or(0);
        if size == 0 || raw.len() < line + 2 + size {
            break;
        }
        body.extend_from_slice(&raw[line + 2..line + 2 + size]);
        raw = &raw[(line + 4 + size).min(raw.len())..];
    }
    body
}

/// Headers that always differ: the time or the name of the program.
const BY_NATURE: [&str; 2] = ["date", "server"];

impl Response {
    fn says(&self, name: &str, value: &str) -> bool {
        self.fields
            .get(name)
            .is_some_and(|values| values == &[value])
    }

    /// Whether the body is the upstream's echo of the request, which is compared line by line.
    fn is_echo(&self) -> bool {
        self.says("x-echo", "yes")
    }

    /// Whether the length depends on something that is compared separately, or on the compressor.
    fn has_derived_length(&self) -> bool {
        self.is_echo() || self.fields.contains_key("content-encoding")
    }

    fn field(&self, name: &str) -> String {
        let values = self.fields.get(name).cloned().unwrap_or_default();
        match name {
            _ if BY_NATURE.contains(&name) => (!values.is_empty()).to_string(),
            "content-length" if self.has_derived_length() => String::new(),
            _ => values.join(" | ").replace("Caddy", "sluice"),
        }
    }

    /// The `Expires` time in seconds since 1970.
    fn expires(&self) -> Option<i64> {
        let values = self.fields.get("expires")?;
        sluice_message::date::parse_http(values.first()?.as_bytes(), 0)
    }

    /// Whether both expire at the same time, within the delay between the two requests.
    fn expires_with(&self, other: &Response) -> bool {
        let both = self.expires().zip(other.expires());
        both.is_some_and(|(one, other)| one.abs_diff(other) <= 5)
    }

    fn text(&self) -> String {
        let mut body = Vec::new();
        // A response to HEAD has the header and no body.
        if self.says("content-encoding", "gzip") && !self.body.is_empty() {
            let read = flate2::read::GzDecoder::new(&*self.body).read_to_end(&mut body);
            if let Err(error) = read {
                return format!("not gzip ({error}): {:?}", self.body);
            }
        } else {
            body.extend_from_slice(&self.body);
        }
        String::from_utf8_lossy(&body).replace("Caddy", "sluice")
    }
}

pub fn differences(theirs: &Response, ours: &Response) -> Vec<Differs> {
    let mut found = Vec::new();
    let mut note = |what: &str, theirs: String, ours: String| {
        if theirs != ours {
            found.push(Differs {
                what: what.to_owned(),
                theirs,
                ours,
            });
        }
    };
    note("status", theirs.status.clone(), ours.status.clone());
    let names: BTreeSet<_> = theirs.fields.keys().chain(ours.fields.keys()).collect();
    for name in names {
        if name != "expires" || !theirs.expires_with(ours) {
            note(name, theirs.field(name), ours.field(name));
        }
    }
    let (theirs, ours, echo) = (
        theirs.text(),
        ours.text(),
        theirs.is_echo() && ours.is_echo(),
    );
    if !echo {
        note("body", theirs, ours);
        return found;
    }
    let (theirs, ours) = (lines(&theirs), lines(&ours));
    let names: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
    for name in names {
        let value = |of: &BTreeMap<String, String>| of.get(name).cloned().unwrap_or_default();
        note(&format!("> {name}"), value(&theirs), value(&ours));
    }
    found
}

/// The lines of an echo by name; the first one is the request line, and one without a colon is the body.
fn lines(text: &str) -> BTreeMap<String, String> {
    let (start, rest) = text.split_once('\n').unwrap_or((text, ""));
    let mut lines = BTreeMap::from([("start".to_owned(), start.to_owned())]);
    for line in rest.lines() {
        let (name, value) = line.split_once(':').unwrap_or(("body", line));
        let known = lines.entry(name.to_owned()).or_default();
        known.push_str(value);
    }
    lines
}
