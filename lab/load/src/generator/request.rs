//! Requests, serialized before the load begins.

use std::sync::Arc;

use sluice_message::name::is_token_byte;
use sluice_message::{FieldName, Method, RequestHead};

use super::expect::Expect;
use super::target::Target;

/// A request and its expected response.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The whole HTTP/1.1 request: head and body.
    pub wire: Arc<[u8]>,
    /// The head for HTTP/2.
    pub head: RequestHead,
    /// The body that is sent.
    pub body: Arc<[u8]>,
    /// The expected response.
    pub expect: Expect,
    /// Whether the response has no body (HEAD).
    pub bodiless: bool,
}

impl Prepared {
    /// What it was made from.
    pub fn draft(&self) -> Draft {
        let head = self.wire.len() - self.body.len();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = self.head.fields.iter();
        let fields: Vec<(String, String)> = fields
            .map(|field| (text(field.name), text(field.value)))
            .collect();
        let closes =
            memchr::memmem::find(&self.wire[..head], b"\r\nConnection: close\r\n").is_some();
        let given = |(name, _): &(String, String)| name.eq_ignore_ascii_case("connection");
        Draft {
            method: self.head.method.as_str().to_string(),
            path: text(self.head.uri.as_bytes()),
            close: closes && !fields.iter().any(given),
            fields,
            body: self.body.clone(),
        }
    }
}

/// The contents of a request.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The method token.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers other than `Host` and `Content-Length`, as name and value.
    pub fields: Vec<(String, String)>,
    /// The body that is sent; empty for none.
    pub body: Arc<[u8]>,
    /// Whether the client sends `Connection: close`.
    pub close: bool,
}

impl Default for Draft {
    fn default() -> Self {
        Draft {
            method: "GET".into(),
            path: "/".into(),
            fields: Vec::new(),
            body: Arc::from(&b""[..]),
            close: false,
        }
    }
}

/// Why a request cannot be serialized.
pub type BadDraft = String;

impl Draft {
    /// Serializes the request for both protocols.
    pub fn prepare(&self, target: &Target, expect: Expect) -> Result<Prepared, BadDraft> {
        let bad_method = || format!("invalid method `{}`", self.method);
        if self.method.is_empty() || !self.method.bytes().all(is_token_byte) {
            return Err(bad_method());
        }
        let method = Method::from_token(self.method.as_bytes()).ok_or_else(bad_method)?;
        let mut head = RequestHead {
            method,
            ..RequestHead::default()
        };
        head.uri.set(self.path.as_bytes());
        head.set_authority(target.authority.as_bytes());
        for (name, value) in &self.fields {
            let field =
                FieldName::new(name).ok_or_else(|| format!("invalid header name `{name}`"))?;
            if value.contains(['\r', '\n', '\0']) {
                return Err(format!(
                    "the value of header `{name}` contains a line break"
                ));
            }
            head.fields.push_name(&field, value.as_bytes());
        }
        Ok(Prepared {
            wire: Arc::from(self.wire(target)),
            head,
            body: self.body.clone(),
            expect,
            bodiless: self.method == "HEAD",
        })
    }

    /// The request as HTTP/1.1. The headers were validated before.
    fn wire(&self, target: &Target) -> Vec<u8> {
        let has = |wanted: &str| {
            let mut names = self.fields.iter().map(|(name, _)| name);
            names.any(|name| name.eq_ignore_ascii_case(wanted))
        };
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if !has("host") {
            text += &format!("Host: {}\r\n", target.authority);
        }
        for (name, value) in &self.fields {
            text += &format!("{name}: {value}\r\n");
        }
        let expects_body = matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        if (expects_body || !self.body.is_empty()) && !has("content-length") {
            text += &format!("Content-Length: {}\r\n", self.body.len());
        }
        if self.close && !has("connection") {
            text += "Connection: close\r\n";
        }
        text += "\r\n";
        let mut wire = text.into_bytes();
        wire.extend_from_slice(&self.body);
        wire
    }
}

#[cfg(test)]
mod tests {
    use super::super::target::{HttpVersion, Reach};
    use super::*;

    fn target() -> Target {
        Target::parse(
            "http://127.0.0.1:8080/a?b",
            HttpVersion::Http1,
            None,
            Reach::Loopback,
        )
        .unwrap()
    }

    #[test]
    fn requests_are_written_out() {
        let draft = Draft {
            method: "POST".into(),
            path: "/a?b".into(),
            fields: vec![("X-Hotdogs".into(), "aplenty".into())],
            body: Arc::from(&b"xyz"[..]),
            close: true,
        };
        let prepared = draft.prepare(&target(), Expect::default()).unwrap();
        let text = String::from_utf8(prepared.wire.to_vec()).unwrap();
        assert_eq!(
            text,
            "POST /a?b HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nX-Hotdogs: aplenty\r\nContent-Length: 3\r\n\
             Connection: close\r\n\r\nxyz"
        );
        assert_eq!(prepared.head.uri.as_bytes(), b"/a?b");
        let again = prepared.draft().prepare(&target(), Expect::default());
        assert_eq!(again.unwrap().wire, prepared.wire);
    }

    #[test]
    fn headers_that_would_break_the_request_are_refused() {
        for (method, name, value) in [
            ("GE T", "a", "b"),
            ("GET", "a b", "c"),
            ("GET", "a", "b\r\nc: d"),
        ] {
            let draft = Draft {
                method: method.into(),
                fields: vec![(name.into(), value.into())],
                ..Draft::default()
            };
            assert!(draft.prepare(&target(), Expect::default()).is_err());
        }
    }
}
