//! `transport fastcgi`, `scgi` and `uwsgi`: converts a request to the CGI variables (RFC 3875, section 4) that PHP and
//! other applications expect. `sluice-wire` encodes them and `sluice-net` manages connections.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use sluice_message::uri::{Uri, decode_percent};
use sluice_message::{
    ConnInfo, FieldId, Fields, IpText, Remote, RequestHead, Scheme, Status, TlsInfo, head, path,
};
use sluice_model::proxy::{CgiTransport, FastCgiTransport as Config};
use sluice_net::RequestBody;
use sluice_route::path::{Case, Slashes, normalize};
use sluice_route::placeholder::{NoValues, Unknown};
use sluice_route::values::origin_form;
use sluice_route::{Template, Values};
use sluice_upstream::Call;

use super::params::{Dialect, Params};
use crate::limits::CGI_BODY_BYTES_MAX;
use sluice_observe::log::{Level, Log};
use sluice_pipeline::collect::Measured;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::files::{self, Root, split_script};
use sluice_pipeline::odd_headers::{is_alias, is_odd};
use sluice_pipeline::refusal::Refusal;

/// The settings of a directive for FastCGI, or for a protocol that encodes the same variables differently.
pub struct FastCgi {
    dialect: Dialect,
    root: Root,
    symlinks: Symlinks,
    /// Script endings (`split`), in lower case; the path after one is the path info.
    split: Vec<Vec<u8>>,
    /// Variables in the configuration.
    own: Vec<(Box<[u8]>, Template)>,
    /// Those that are omitted if empty (`if_not_empty`).
    if_not_empty: Vec<Box<[u8]>>,
    /// Which other variables are sent, besides those for request headers.
    usual: Usual,
    user: Template,
    remainder: Template,
    /// The log for the application's standard error, if enabled.
    complaints: Option<Log>,
    /// Texts in standard error that invalidate the response (`fastcgi_catch_stderr`).
    caught: Arc<[Box<str>]>,
}

/// Which variables are sent in addition to the configured ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usual {
    /// All CGI variables.
    All,
    /// None, as in nginx.
    None,
}

/// Whether symbolic links in the root are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symlinks {
    Keep,
    /// Resolve them for each request, so that moving a link activates a release, and PHP does not use code that it
    /// compiled for the previous one.
    Resolve,
}

/// Variables with file names: request values cannot escape the folders configured in them.
const PATH_VARIABLES: [&[u8]; 9] = [
    b"SCRIPT_FILENAME",
    b"DOCUMENT_ROOT",
    b"CONTEXT_DOCUMENT_ROOT",
    b"PATH_TRANSLATED",
    b"UWSGI_FILE",
    b"UWSGI_CHDIR",
    b"UWSGI_HOME",
    b"UWSGI_PYHOME",
    b"UWSGI_TOUCH_RELOAD",
];

/// A request to an application.
pub struct Asked<'a> {
    /// The head.
    pub head: &'a RequestHead,
    /// The host for HTTP_HOST; empty if headers are not forwarded.
    pub host: &'a [u8],
    /// The client's connection.
    pub conn: &'a ConnInfo,
    /// Placeholder values.
    pub values: &'a dyn Values,
    /// The length of the body.
    pub length: u64,
}

impl FastCgi {
    /// Parses the settings of `transport fastcgi`.
    pub fn build(config: &Config, log: Option<&Log>) -> Result<FastCgi, Refusal> {
        FastCgi::speaking(Dialect::FastCgi, config, log)
    }

    /// Parses the settings of `transport scgi` and `transport uwsgi`.
    pub fn build_bare(dialect: Dialect, config: &CgiTransport) -> Result<FastCgi, Refusal> {
        // These protocols declare the length themselves. Where they do not, it may be one of the variables, as the
        // length of the body that is sent.
        let reserved: &[&str] = match (dialect, config.only_env) {
            (Dialect::Uwsgi(_), true) => &[],
            _ => &["CONTENT_LENGTH", "SCGI"],
        };
        if let Some(name) = reserved.iter().find(|name| config.env.contains_key(**name)) {
            return Err(Refusal::new(format!("env `{name}` in this transport"))
                .with_help("remove it: the server sets the content length itself"));
        }
        let shared = Config {
            root: config.root.clone(),
            split_path: config.split_path.clone(),
            resolve_root_symlink: config.resolve_root_symlink,
            env: config.env.clone(),
            only_env: config.only_env,
            env_if_not_empty: config.env_if_not_empty.clone(),
            ..Config::default()
        };
        FastCgi::speaking(dialect, &shared, None)
    }

    /// The name of the protocol in the log.
    pub fn scheme(&self) -> &'static str {
        match self.dialect {
            Dialect::FastCgi => "fastcgi",
            Dialect::Scgi => "scgi",
            Dialect::Uwsgi(_) => "uwsgi",
        }
    }

    fn speaking(dialect: Dialect, config: &Config, log: Option<&Log>) -> Result<FastCgi, Refusal> {
        let template =
            |text: &str| Template::parse(text).map_err(|error| Refusal::new(error.to_string()));
        let mut own = Vec::new();
        for (name, value) in &config.env {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(Refusal::new(format!("env `{name}` is not a variable name")));
            }
            own.push((name.as_bytes().into(), template(value)?));
        }
        for ending in &config.split_path {
            // Folding other letters can change their length, and thereby which part is the script name.
            if !ending.is_ascii() || ending.is_empty() {
                return Err(Refusal::new(format!(
                    "split `{ending}`: it has to be ASCII and not empty"
                )));
            }
        }
        Ok(FastCgi {
            dialect,
            root: Root::build(&config.root)?,
            symlinks: if config.resolve_root_symlink {
                Symlinks::Resolve
            } else {
                Symlinks::Keep
            },
            split: config
                .split_path
                .iter()
                .map(|ending| ending.to_ascii_lowercase().into())
                .collect(),
            own,
            if_not_empty: config
                .env_if_not_empty
                .iter()
                .map(|name| name.as_bytes().into())
                .collect(),
            usual: if config.only_env {
                Usual::None
            } else {
                Usual::All
            },
            complaints: log.filter(|_| config.capture_stderr).cloned(),
            caught: config
                .catch_stderr
                .iter()
                .map(|text| text.as_str().into())
                .collect(),
            user: template("{http.auth.user.id}")?,
            remainder: template("{http.matchers.file.remainder}")?,
        })
    }

    /// Appends the start of a request with all variables to `out`.
    pub fn encode(&self, asked: &Asked<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
        if asked.head.uri.path().contains(&0) {
            let reason = "the path has a byte that no file name can have";
            return Err(Fault::new(Status::BAD_REQUEST, reason));
        }
        if self.usual == Usual::All && !self.is_one_script(&asked.head.uri) {
            let reason = "the escaped and the decoded path select different scripts";
            return Err(Fault::new(Status::BAD_REQUEST, reason));
        }
        let root = self.root(asked)?;
        let mut variables = Variables {
            params: Params::begin(self.dialect, asked.length, out),
            own: &self.own,
            text: Vec::new(),
        };
        if self.usual == Usual::All {
            self.add_script(asked, &root, &mut variables);
            add_request(asked, &mut variables);
            add_server(asked, &mut variables);
            add_peer(asked.conn, &mut variables);
            variables.add_with(b"REMOTE_USER", |text| {
                self.user.expand(asked.values, Unknown::Empty, text);
            });
        } else if !asked.host.is_empty() {
            variables.add(b"HTTP_HOST", asked.host);
        }
        add_fields(asked.head, &mut variables);
        self.add_own(asked, &mut variables)?;
        variables.params.end()
    }

    /// The script in a request encoded by [`FastCgi::encode`].
    pub fn script_of(&self, request: &[u8]) -> Option<Vec<u8>> {
        self.dialect.find(request, b"SCRIPT_FILENAME")
    }

    /// Adds the configured variables.
    fn add_own(&self, asked: &Asked<'_>, variables: &mut Variables<'_>) -> Result<(), Fault> {
        let mut value = Vec::new();
        for (name, template) in &self.own {
            value.clear();
            // As in nginx, this is the length of the body that is sent, which may have been buffered to determine it.
            match &**name {
                b"CONTENT_LENGTH" if self.usual == Usual::None && asked.length > 0 => {
                    write!(value, "{}", asked.length).expect("writing to memory does not fail");
                }
                name if PATH_VARIABLES.contains(&name) => template
                    .expand_path(asked.values, &mut value)
                    .map_err(files::unfit)?,
                _ => template.expand(asked.values, Unknown::Empty, &mut value),
            }
            if value.is_empty() && self.if_not_empty.contains(name) {
                continue;
            }
            variables.params.push(name, &value);
        }
        Ok(())
    }

    /// Logs the application's standard error during `call`, if enabled.
    pub fn listen(&self, call: &mut Call, exchange: &Exchange) {
        let Some(log) = self.complaints.clone() else {
            return;
        };
        let upstream = exchange.context.upstream.address.clone();
        let method = exchange.req.method.clone();
        let (host, uri) = (exchange.req.authority.clone(), exchange.req.target.clone());
        call.listen(Box::new(move |stderr, status| {
            let is_error = status.is_none_or(Status::is_error);
            let level = if is_error { Level::Error } else { Level::Warn };
            let entry = log
                .entry(level, "http.reverse_proxy.transport.fastcgi", "stderr")
                .text("body", &stderr.text)
                .integer("bytes_dropped", stderr.dropped)
                .text("upstream", &upstream)
                .text("method", method.as_str())
                .text("host", &host)
                .text("uri", &uri);
            match status {
                Some(status) => entry.integer("status", u64::from(status.code())).send(),
                None => entry.send(),
            }
        }));
        if !self.caught.is_empty() {
            call.catch(&self.caught);
        }
    }

    /// Like [`FastCgi::encode`], for a health check, which has no client.
    pub fn encode_check(
        &self,
        head: &RequestHead,
        length: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let conn = ConnInfo {
            remote: Remote::Unix,
            local: None.into(),
            tls: None,
            facts: Default::default(),
        };
        let asked = Asked {
            head,
            host: &head.authority,
            conn: &conn,
            values: &NoValues,
            length,
        };
        self.encode(&asked, out)
    }

    /// The folder of the scripts, without a trailing slash.
    fn root(&self, asked: &Asked<'_>) -> Result<Vec<u8>, Fault> {
        let mut root = Vec::new();
        self.root
            .write(asked.values, &mut root)
            .map_err(files::unfit)?;
        if self.symlinks == Symlinks::Keep {
            return Ok(root);
        }
        let resolved = std::fs::canonicalize(OsStr::from_bytes(or_slash(&root)));
        let resolved = resolved.map_err(|error| {
            let message = format!("the root of the scripts leads nowhere: {error}");
            Fault::new(Status::INTERNAL_SERVER_ERROR, message)
        })?;
        let mut resolved = resolved.into_os_string().into_vec();
        if resolved == b"/" {
            resolved.clear();
        }
        Ok(resolved)
    }

    /// Splits a path into the name of the script and what follows it.
    fn split_path<'a>(&self, path: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        // Without endings, the path does not contain a script name.
        let split_at = match self.split.as_slice() {
            [] => Some(0),
            endings => split_script(path, endings),
        };
        path.split_at(split_at.unwrap_or(path.len()))
    }

    /// Whether the path as sent selects the same script as the decoded one. Patterns with `%` see the former, where
    /// `%2e%2e` is not a dot segment: a request must not be judged as one script and run another.
    fn is_one_script(&self, uri: &Uri) -> bool {
        if !uri.path_raw().contains(&b'%') {
            return true;
        }
        let (mut raw, mut decoded, mut sent) = (Vec::new(), Vec::new(), Vec::new());
        let valid = decode_percent(script_path(uri.path_raw(), &mut raw), &mut sent);
        let path = script_path(uri.path(), &mut decoded);
        valid && self.split_path(&sent).0 == self.split_path(path).0
    }

    /// Adds the script name and the path info.
    fn add_script(&self, asked: &Asked<'_>, root: &[u8], variables: &mut Variables<'_>) {
        let mut buf = Vec::new();
        let path = script_path(asked.head.uri.path(), &mut buf);
        let (script, mut info) = self.split_path(path);
        let mut remainder = Vec::new();
        if info.is_empty() {
            // A file matcher may have split the path already.
            self.remainder
                .expand(asked.values, Unknown::Empty, &mut remainder);
            info = &remainder;
        }
        variables.add(b"DOCUMENT_ROOT", or_slash(root));
        variables.add(b"DOCUMENT_URI", script);
        variables.add_with(b"SCRIPT_NAME", |text| {
            if !matches!(script, [] | [b'/', ..]) {
                text.push(b'/');
            }
            text.extend_from_slice(script);
        });
        variables.add_with(b"SCRIPT_FILENAME", |text| below(root, script, text));
        variables.add(b"PATH_INFO", info);
        if !info.is_empty() {
            variables.add_with(b"PATH_TRANSLATED", |text| below(root, info, text));
        }
    }
}

/// The path in which to look for a script, in the form that matchers compare: `/admin.php/../other.php` matches as
/// `/other.php` and must not run `admin.php`. Applications never see two slashes in a row, as in Caddy.
fn script_path<'a>(path: &'a [u8], buf: &'a mut Vec<u8>) -> &'a [u8] {
    normalize(path, Slashes::Merge, Case::Keep, buf)
}

/// Determines the length of a body: CGI declares it before the body (RFC 3875, section 4.1.2), and PHP reads no more
/// than that. A body without `Content-Length` has to be small enough to be buffered.
pub async fn measure(body: RequestBody, bytes_max: usize) -> Result<RequestBody, Fault> {
    match body {
        RequestBody::Stream(body) if body.len().is_none() => {
            let bytes_max = bytes_max.max(CGI_BODY_BYTES_MAX);
            match sluice_pipeline::collect::measure(body, bytes_max).await? {
                Measured::Whole(body) => Ok(RequestBody::Stream(body)),
                Measured::TooLong => Err(Fault::new(
                    Status::LENGTH_REQUIRED,
                    "the request body is long and has no Content-Length",
                )),
            }
        }
        body => Ok(body),
    }
}

/// Appends the path of `name` below `root`; it cannot escape the root.
fn below(root: &[u8], name: &[u8], out: &mut Vec<u8>) {
    if matches!(name, b"" | b"/") {
        return out.extend_from_slice(or_slash(root));
    }
    out.extend_from_slice(root);
    path::clean(name, out);
}

fn or_slash(root: &[u8]) -> &[u8] {
    if root.is_empty() { b"/" } else { root }
}

fn add_request(asked: &Asked<'_>, variables: &mut Variables<'_>) {
    let head = asked.head;
    let query = head.uri.query().unwrap_or_default();
    let content_type = head.fields.first(FieldId::ContentType);
    variables.add(b"REQUEST_METHOD", head.method.as_str().as_bytes());
    variables.add_with(b"REQUEST_URI", |text| {
        let (path, query) = origin_form(&head.target);
        text.extend_from_slice(or_slash(path));
        if !query.is_empty() {
            text.push(b'?');
            text.extend_from_slice(query);
        }
    });
    variables.add(b"QUERY_STRING", query);
    variables.add(b"CONTENT_TYPE", content_type.unwrap_or_default());
    variables.add_shown(b"CONTENT_LENGTH", asked.length);
    variables.add_shown(b"HTTP_CONTENT_LENGTH", asked.length);
    variables.add(b"GATEWAY_INTERFACE", b"CGI/1.1");
    variables.add(b"AUTH_TYPE", b"");
}

fn add_server(asked: &Asked<'_>, variables: &mut Variables<'_>) {
    let (host, port) = head::split_port(&asked.head.authority);
    let scheme = asked.conn.scheme();
    let usual_port = match scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
    };
    let local = asked.conn.local.address();
    variables.add_with(b"SERVER_NAME", |text| match (host, local) {
        // RFC 3875, section 4.1.14 forbids an empty value, but HTTP/1.0 requests may lack a host.
        (b"", Some(local)) => text.extend_from_slice(IpText::new(local.ip()).as_bytes()),
        (host, _) => text.extend_from_slice(host),
    });
    variables.add_shown(b"SERVER_PORT", port.unwrap_or(usual_port));
    if let Some(local) = local {
        variables.add(b"SERVER_ADDR", IpText::new(local.ip()).as_bytes());
    }
    let protocol = asked.head.version.as_str().as_bytes();
    variables.add(b"SERVER_PROTOCOL", protocol);
    let software = concat!("sluice/", env!("CARGO_PKG_VERSION"));
    variables.add(b"SERVER_SOFTWARE", software.as_bytes());
    variables.add(b"REQUEST_SCHEME", scheme.as_str().as_bytes());
    if let Some(tls) = &asked.conn.tls {
        add_tls(tls, variables);
    }
    if !asked.host.is_empty() {
        variables.add(b"HTTP_HOST", asked.host);
    }
}

/// Variables about TLS with the names of Apache's mod_ssl, which applications expect.
fn add_tls(tls: &TlsInfo, variables: &mut Variables<'_>) {
    let version = match tls.version {
        "tls1.2" => "TLSv1.2",
        "tls1.3" => "TLSv1.3",
        other => other,
    };
    variables.add(b"HTTPS", b"on");
    variables.add(b"SSL_PROTOCOL", version.as_bytes());
    variables.add(b"SSL_CIPHER", tls.cipher.as_bytes());
}

fn add_peer(conn: &ConnInfo, variables: &mut Variables<'_>) {
    // The peer on a Unix domain socket has neither.
    let (ip, port) = match conn.remote {
        Remote::Ip(addr) => (Some(IpText::new(addr.ip())), Some(addr.port())),
        Remote::Unix => (None, None),
    };
    let ip = ip.as_ref().map_or(&b""[..], IpText::as_bytes);
    variables.add(b"REMOTE_ADDR", ip);
    variables.add(b"REMOTE_HOST", ip);
    variables.add(b"REMOTE_IDENT", b"");
    match port {
        Some(port) => variables.add_shown(b"REMOTE_PORT", port),
        None => variables.add(b"REMOTE_PORT", b""),
    }
}

/// Adds the request headers (RFC 3875, section 4.1.18). Repeated headers are joined, and names that an application
/// could mistake for another are omitted. `Proxy` is omitted because HTTP libraries treat `HTTP_PROXY` as their proxy
/// setting.
fn add_fields(head: &RequestHead, variables: &mut Variables<'_>) {
    let mut name = Vec::new();
    for (index, field) in head.fields.iter().enumerate() {
        let has_place = matches!(field.id, FieldId::Host | FieldId::ContentLength);
        if has_place
            || field.name.eq_ignore_ascii_case(b"proxy")
            || is_repeated(&head.fields, index, field.name)
            || is_odd(field.id, field.name) && has_alias(&head.fields, field.name)
        {
            continue;
        }
        name.clear();
        name.extend_from_slice(b"HTTP_");
        name.extend(field.name.iter().map(|byte| match byte {
            b'-' => b'_',
            byte => byte.to_ascii_uppercase(),
        }));
        let joint: &[u8] = match field.id {
            // RFC 9113, section 8.2.3: a comma would become part of a value.
            FieldId::Cookie => b"; ",
            _ => b", ",
        };
        variables.add_with(&name, |text| {
            for (index, value) in head.fields.find(field.name).enumerate() {
                if index > 0 {
                    text.extend_from_slice(joint);
                }
                text.extend_from_slice(value);
            }
        });
    }
}

/// Whether another request header maps to the same variable, here or in PHP: among `X_A`, `X.A` and `X-A` only the last
/// is unambiguous. Which of these names clients may send is decided before.
fn has_alias(fields: &Fields, name: &[u8]) -> bool {
    fields.iter().any(|field| is_alias(field.name, name))
}

/// Whether an earlier header line has the same name as the one at `index`.
fn is_repeated(fields: &Fields, index: usize, name: &[u8]) -> bool {
    let mut before = fields.iter().take(index);
    before.any(|field| field.name.eq_ignore_ascii_case(name))
}

/// The variables of a request so far.
struct Variables<'a> {
    params: Params<'a>,
    /// The configured variables, which come last and take precedence.
    own: &'a [(Box<[u8]>, Template)],
    text: Vec<u8>,
}

impl Variables<'_> {
    /// Whether the variable is configured or has been added.
    fn is_taken(&self, name: &[u8]) -> bool {
        self.own.iter().any(|(own, _)| **own == *name) || self.params.begins_with(name)
    }

    fn add(&mut self, name: &[u8], value: &[u8]) {
        if !self.is_taken(name) {
            self.params.push(name, value);
        }
    }

    fn add_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        if !self.is_taken(name) {
            self.params.push_with(name, &mut self.text, write);
        }
    }

    fn add_shown(&mut self, name: &[u8], value: impl std::fmt::Display) {
        self.add_with(name, |text| {
            write!(text, "{value}").expect("writing to memory does not fail");
        });
    }
}
