//! The request data of a template: the dot with its fields and methods, named as in Go's net/http.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use sluice_message::uri::encode_path;
use sluice_message::{FieldName, Fields, RequestHead, Version};
use sluice_route::query;
use sluice_template::{Fault, Object, Of, Room, Text, Value};

use sluice_pipeline::context::Exchange;
use sluice_pipeline::values;

/// State shared by all templates of one page.
#[derive(Debug)]
pub struct Shared {
    request: Rc<Request>,
    original: Rc<Request>,
    /// The response headers, which a template may change.
    pub response: Rc<RefCell<Fields>>,
    root: Text,
    host: Text,
    remote_ip: Text,
    client_ip: Text,
}

impl Shared {
    /// The data of `exchange` for templates whose files are below `root`.
    pub fn new(exchange: &Exchange, root: &[u8]) -> Shared {
        let remote_ip = values::remote_ip(&exchange.conn);
        let client_ip = values::client_ip(exchange);
        let ip = |ip: Option<std::net::IpAddr>| {
            Text::new(ip.map(|ip| ip.to_string()).unwrap_or_default())
        };
        let target = String::from_utf8_lossy(&exchange.req.target).into_owned();
        let mut original = Request::new(exchange, &exchange.req);
        original.url = Rc::new(Url::of_target(&target));
        if let Some(method) = &exchange.context.original_method {
            original.method = Text::new(method.as_str());
        }
        Shared {
            request: Rc::new(Request::new(exchange, &exchange.req)),
            original: Rc::new(original),
            response: Rc::new(RefCell::new(exchange.res.fields.clone())),
            root: Text::new(root),
            host: Text::new(&exchange.req.host),
            remote_ip: ip(remote_ip),
            client_ip: ip(client_ip),
        }
    }
}

/// The dot of a template.
#[derive(Debug)]
pub struct Page {
    shared: Rc<Shared>,
    args: Value,
}

impl Page {
    /// The dot of a template with these arguments.
    pub fn dot(shared: &Rc<Shared>, args: &[Value]) -> Value {
        Value::Object(Rc::new(Page {
            shared: shared.clone(),
            args: Value::list(args.to_vec()),
        }))
    }
}

impl Object for Page {
    fn type_name(&self) -> &'static str {
        "*templates.TemplateContext"
    }

    fn member(&self, name: &str, args: &[Value], _room: &mut Room) -> Result<Option<Value>, Fault> {
        let shared = &self.shared;
        Ok(Some(match (name, args) {
            ("Req", []) => Value::Object(shared.request.clone()),
            ("OriginalReq", []) => Value::Object(shared.original.clone()),
            ("Args", []) => self.args.clone(),
            ("Root", []) => Value::Text(shared.root.clone()),
            ("Host", []) => Value::Text(shared.host.clone()),
            ("RemoteIP", []) => Value::Text(shared.remote_ip.clone()),
            ("ClientIP", []) => Value::Text(shared.client_ip.clone()),
            ("RespHeader", []) => Value::Object(Rc::new(ResponseFields(shared.response.clone()))),
            ("Cookie", [Value::Text(name)]) => {
                let found = shared.request.cookie(name.as_bytes());
                Value::text(found.unwrap_or_default())
            }
            _ => return Ok(None),
        }))
    }

    fn plain(&self) -> Value {
        Value::text(self.type_name())
    }
}

/// A request.
#[derive(Debug)]
struct Request {
    method: Text,
    url: Rc<Url>,
    version: Version,
    target: Text,
    authority: Text,
    remote: Text,
    content_length: i64,
    close: bool,
    server_name: Option<Text>,
    fields: Rc<RequestFields>,
}

impl Request {
    fn new(exchange: &Exchange, head: &RequestHead) -> Request {
        let remote = match exchange.conn.remote {
            sluice_message::Remote::Ip(addr) => addr.to_string(),
            sluice_message::Remote::Unix => "@".to_owned(),
        };
        let tls = exchange.conn.tls.as_deref();
        Request {
            method: Text::new(head.method.as_str()),
            url: Rc::new(Url::of_target(&String::from_utf8_lossy(
                head.uri.as_bytes(),
            ))),
            version: head.version,
            target: Text::new(&head.target),
            authority: Text::new(&head.authority),
            remote: Text::new(remote),
            content_length: exchange.body.len().map_or(-1, |length| length as i64),
            close: exchange.close,
            server_name: tls.map(|tls| Text::new(&tls.server_name)),
            fields: Rc::new(RequestFields::new(&head.fields)),
        }
    }

    fn cookies(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let pairs = self
            .fields
            .all("Cookie")
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
        pairs.filter_map(|pair| {
            let pair = pair.trim_ascii();
            let at = memchr::memchr(b'=', pair)?;
            Some((&pair[..at], unquoted(&pair[at + 1..])))
        })
    }

    fn cookie(&self, name: &[u8]) -> Option<&[u8]> {
        self.cookies()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }
}

fn unquoted(value: &[u8]) -> &[u8] {
    let inner = value.strip_prefix(b"\"");
    inner
        .and_then(|value| value.strip_suffix(b"\""))
        .unwrap_or(value)
}

impl Object for Request {
    fn type_name(&self) -> &'static str {
        "*http.Request"
    }

    fn member(&self, name: &str, args: &[Value], _room: &mut Room) -> Result<Option<Value>, Fault> {
        let (major, minor) = match self.version {
            Version::Http10 => (1, 0),
            Version::Http11 => (1, 1),
            Version::Http2 => (2, 0),
            Version::Http3 => (3, 0),
        };
        let field = |name: &str| Value::text(self.fields.first(name).unwrap_or_default());
        Ok(Some(match (name, args) {
            ("Method", []) => Value::Text(self.method.clone()),
            ("URL", []) => Value::Object(self.url.clone()),
            ("Proto", []) => Value::text(self.version.as_str()),
            ("ProtoMajor", []) => Value::int(major),
            ("ProtoMinor", []) => Value::int(minor),
            ("Header", []) => Value::Object(self.fields.clone()),
            ("Host", []) => Value::Text(self.authority.clone()),
            ("RemoteAddr", []) => Value::Text(self.remote.clone()),
            ("RequestURI", []) => Value::Text(self.target.clone()),
            ("ContentLength", []) => Value::int64(self.content_length),
            ("Close", []) => Value::Bool(self.close),
            ("TLS", []) => match &self.server_name {
                Some(name) => Value::map([(Text::new("ServerName"), Value::Text(name.clone()))]),
                None => Value::Nil,
            },
            ("UserAgent", []) => field("User-Agent"),
            ("Referer", []) => field("Referer"),
            ("Cookies", []) => {
                let cookies = self.cookies();
                Value::list(cookies.map(|(name, value)| cookie(name, value)).collect())
            }
            ("Cookie", [Value::Text(name)]) => {
                let value = self.cookie(name.as_bytes());
                let value = value.ok_or(Fault::failed("the request has no such cookie"))?;
                cookie(name.as_bytes(), value)
            }
            ("FormValue", [Value::Text(name)]) => Value::text(self.url.query().first(name)),
            _ => return Ok(None),
        }))
    }

    fn plain(&self) -> Value {
        Value::text(self.type_name())
    }
}

fn cookie(name: &[u8], value: &[u8]) -> Value {
    Value::Object(Rc::new(Cookie {
        name: Text::new(name),
        value: Text::new(value),
    }))
}

#[derive(Debug)]
struct Cookie {
    name: Text,
    value: Text,
}

impl Object for Cookie {
    fn type_name(&self) -> &'static str {
        "*http.Cookie"
    }

    fn member(&self, name: &str, args: &[Value], _room: &mut Room) -> Result<Option<Value>, Fault> {
        Ok(match (name, args) {
            ("Name", []) => Some(Value::Text(self.name.clone())),
            ("Value", []) => Some(Value::Text(self.value.clone())),
            ("String", []) => Some(self.plain()),
            _ => None,
        })
    }

    fn plain(&self) -> Value {
        Value::text([self.name.as_bytes(), b"=", self.value.as_bytes()].concat())
    }
}

/// The URL of a request. A target in absolute-form includes scheme and host.
#[derive(Debug)]
struct Url {
    text: String,
    scheme: String,
    host: String,
    path: Vec<u8>,
    query: Option<String>,
}

impl Url {
    fn of_target(target: &str) -> Url {
        let (head, query) = match target.split_once('?') {
            Some((head, query)) => (head, Some(query.to_owned())),
            None => (target, None),
        };
        let (scheme, rest) = head.split_once("://").unwrap_or(("", head));
        let (host, path) = match scheme.is_empty() {
            true => ("", rest),
            false => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        };
        let mut decoded = Vec::new();
        sluice_message::uri::decode_percent(path.as_bytes(), &mut decoded);
        Url {
            text: target.to_owned(),
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            path: decoded,
            query,
        }
    }

    fn query(&self) -> Query {
        let mut values: BTreeMap<Text, Vec<Value>> = BTreeMap::new();
        for (name, value) in query::pairs(self.query.as_deref().unwrap_or("").as_bytes()) {
            values
                .entry(Text::new(&*name))
                .or_default()
                .push(Value::text(&*value));
        }
        Query(values)
    }

    fn escaped_path(&self) -> Vec<u8> {
        let mut escaped = Vec::new();
        encode_path(&self.path, &mut escaped);
        escaped
    }
}

impl Object for Url {
    fn type_name(&self) -> &'static str {
        "*url.URL"
    }

    fn member(&self, name: &str, args: &[Value], _room: &mut Room) -> Result<Option<Value>, Fault> {
        if !args.is_empty() {
            return Ok(None);
        }
        let (host, port) = match self.host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port),
            Some(_) | None => (self.host.as_str(), ""),
        };
        Ok(Some(match name {
            "Scheme" => Value::text(&self.scheme),
            "Host" => Value::text(&self.host),
            "Hostname" => Value::text(host.trim_matches(['[', ']'])),
            "Port" => Value::text(port),
            "Path" => Value::text(&self.path),
            "EscapedPath" => Value::text(self.escaped_path()),
            "RawQuery" => Value::text(self.query.as_deref().unwrap_or("")),
            "Query" => Value::Object(Rc::new(self.query())),
            "RequestURI" => {
                let mut uri = self.escaped_path();
                if let Some(query) = &self.query {
                    uri.push(b'?');
                    uri.extend_from_slice(query.as_bytes());
                }
                Value::text(uri)
            }
            "IsAbs" => Value::Bool(!self.scheme.is_empty()),
            "String" => self.plain(),
            // Request targets do not contain these (RFC 9112, section 3.2).
            "Fragment" | "Opaque" | "User" => Value::text(""),
            _ => return Ok(None),
        }))
    }

    fn plain(&self) -> Value {
        Value::text(&self.text)
    }
}

/// Query parameters by name.
#[derive(Debug)]
struct Query(BTreeMap<Text, Vec<Value>>);

impl Query {
    fn first(&self, name: &Text) -> Vec<u8> {
        match self.0.get(name).and_then(|values| values.first()) {
            Some(Value::Text(text)) => text.as_bytes().to_vec(),
            _ => Vec::new(),
        }
    }
}

impl Object for Query {
    fn type_name(&self) -> &'static str {
        "url.Values"
    }

    fn member(&self, name: &str, args: &[Value], _room: &mut Room) -> Result<Option<Value>, Fault> {
        Ok(Some(match (name, args) {
            ("Get", [Value::Text(name)]) => Value::text(self.first(name)),
            ("Has", [Value::Text(name)]) => Value::Bool(self.0.contains_key(name)),
            ("Encode", []) => {
                let mut out = Vec::new();
                for (name, values) in &self.0 {
                    for value in values {
                        if !out.is_empty() {
                            out.push(b'&');
                        }
                        sluice_message::uri::encode_query(name.as_bytes(), &mut out);
                        out.push(b'=');
                        if let Value::Text(value) = value {
                            sluice_message::uri::encode_query(value.as_bytes(), &mut out);
                        }
                    }
                }
                Value::text(out)
            }
            (name, []) => {
                let values = self.0.get(&Text::new(name)).cloned();
                Value::list_of(values.unwrap_or_default(), Of::Text)
            }
            _ => return Ok(None),
        }))
    }

    fn plain(&self) -> Value {
        let entries = self.0.iter();
        Value::map_of(
            entries.map(|(name, values)| (name.clone(), Value::list_of(values.clone(), Of::Text))),
            Of::Texts,
        )
    }
}

/// Request headers by name, in Go's canonical form.
#[derive(Debug)]
struct RequestFields(BTreeMap<Text, Vec<Text>>);

impl RequestFields {
    fn new(fields: &Fields) -> RequestFields {
        let mut by_name: BTreeMap<Text, Vec<Text>> = BTreeMap::new();
        for field in fields.iter() {
            // Go stores Host separately.
            if !field.name.eq_ignore_ascii_case(b"Host") {
                by_name
                    .entry(canonical(field.name))
                    .or_default()
                    .push(Text::new(field.value));
            }
        }
        RequestFields(by_name)
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &Text> {
        let found = self.0.get(&canonical(name.as_bytes()));
        found.into_iter().flatten()
    }

    fn first(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next().map(Text::as_bytes)
    }
}

/// Converts `content-type` to `Content-Type`.
fn canonical(name: &[u8]) -> Text {
    let mut begins = true;
    let spelled: Vec<u8> = name
        .iter()
        .map(|byte| {
            let spelled = if begins {
                byte.to_ascii_uppercase()
            } else {
                byte.to_ascii_lowercase()
            };
            begins = *byte == b'-';
            spelled
        })
        .collect();
    Text::new(spelled)
}

fn list(texts: Vec<Text>) -> Value {
    Value::list_of(texts.into_iter().map(Value::Text).collect(), Of::Text)
}

impl Object for RequestFields {
    fn type_name(&self) -> &'static str {
        "http.Header"
    }

    fn member(&self, name: &str, args: &[Value], _room: &mut Room) -> Result<Option<Value>, Fault> {
        Ok(Some(match (name, args) {
            ("Get", [Value::Text(name)]) => {
                Value::text(self.first(&name.lossy()).unwrap_or_default())
            }
            ("Values", [Value::Text(name)]) => list(self.all(&name.lossy()).cloned().collect()),
            (name, []) => {
                let found = self.0.get(&Text::new(name)).cloned();
                list(found.unwrap_or_default())
            }
            _ => return Ok(None),
        }))
    }

    fn plain(&self) -> Value {
        let entries = self.0.iter();
        Value::map_of(
            entries.map(|(name, values)| (name.clone(), list(values.clone()))),
            Of::Texts,
        )
    }
}

/// Response headers, which templates may change.
#[derive(Debug)]
struct ResponseFields(Rc<RefCell<Fields>>);

impl Object for ResponseFields {
    fn type_name(&self) -> &'static str {
        "templates.WrappedHeader"
    }

    fn member(&self, name: &str, args: &[Value], room: &mut Room) -> Result<Option<Value>, Fault> {
        let mut fields = self.0.borrow_mut();
        let field = |text: &Text| {
            let name = FieldName::new(&text.lossy());
            name.ok_or(Fault::failed("a header field cannot have this name"))
        };
        match (name, args) {
            ("Get", [Value::Text(name)]) => {
                let found = fields.find_first(name.as_bytes());
                return Ok(Some(Value::text(found.unwrap_or_default())));
            }
            ("Values", [Value::Text(name)]) => {
                let found = fields.find(name.as_bytes()).map(Text::new).collect();
                return Ok(Some(list(found)));
            }
            ("Add", [Value::Text(name), Value::Text(value)]) => {
                room.take(name.as_bytes().len() + value.as_bytes().len() + 256)?;
                fields.push_name(&field(name)?, &one_line(value));
            }
            ("Set", [Value::Text(name), Value::Text(value)]) => {
                room.take(name.as_bytes().len() + value.as_bytes().len() + 256)?;
                fields.set_name(&field(name)?, &one_line(value));
            }
            ("Del", [Value::Text(name)]) => _ = fields.remove_name(name.as_bytes()),
            _ => return Ok(None),
        }
        Ok(Some(Value::text("")))
    }

    fn plain(&self) -> Value {
        RequestFields::new(&self.0.borrow()).plain()
    }
}

/// Replaces line breaks, whatever a client sent (RFC 9110, section 5.5).
fn one_line(value: &Text) -> Vec<u8> {
    value
        .as_bytes()
        .iter()
        .map(|byte| {
            if matches!(byte, b'\r' | b'\n' | 0) {
                b' '
            } else {
                *byte
            }
        })
        .collect()
}
