//! `transport fastcgi`, `scgi` and `uwsgi`: a request as the variables that CGI names (RFC 3875, section 4) and PHP
//! expects. How they are written, records and connections are left to `sluice-wire` and `sluice-net`.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use sluice_message::{
    ConnInfo, FieldId, Fields, IpText, Remote, RequestHead, Scheme, Status, TlsInfo, head, path,
};
use sluice_model::proxy::{CgiTransport, FastCgiTransport as Config};
use sluice_net::RequestBody;
use sluice_net::upstream::Call;
use sluice_route::placeholder::{NoValues, Unknown};
use sluice_route::values::origin_form;
use sluice_route::{Template, Values};

use super::buffering::{self, Measured};
use super::params::{Dialect, Params};
use crate::context::Exchange;
use crate::failure::Fault;
use crate::files::{self, Root, split_script};
use crate::limits::CGI_BODY_BYTES_MAX;
use crate::odd_headers::{is_alias, is_odd};
use crate::refusal::Refusal;
use sluice_observe::log::{Level, Log};

/// How the applications of a directive are spoken to: over FastCGI, or one of the protocols that carry the same variables
/// in other bytes.
pub struct FastCgi {
    dialect: Dialect,
    root: Root,
    symlinks: Symlinks,
    /// The endings of scripts, in lower case; the path behind one is for the script.
    split: Vec<Vec<u8>>,
    /// Variables of the configuration.
    own: Vec<(Box<[u8]>, Template)>,
    /// Those of them that are left out where they are empty.
    if_not_empty: Vec<Box<[u8]>>,
    /// Which variables there are beside those and the fields of the request.
    usual: Usual,
    user: Template,
    remainder: Template,
    /// Where it is told what applications write to standard error, if anywhere.
    complaints: Option<Log>,
    /// Texts there that make an answer an invalid one.
    caught: Arc<[Box<str>]>,
}

/// Which variables there are beside those of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usual {
    /// All that CGI names.
    All,
    /// None, as with nginx.
    None,
}

/// What becomes of symbolic links in the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symlinks {
    Keep,
    /// They are followed with each request, so that a release goes live by moving a link, and what PHP has compiled
    /// under the old path is not used for the new one.
    Resolve,
}

/// The variables by which applications are told of files: no value of a request leads out of the folders that the
/// configuration names there.
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

/// A request on its way to an application.
pub struct Asked<'a> {
    /// Its head.
    pub head: &'a RequestHead,
    /// The host it names, for HTTP_HOST; empty where its fields are not passed on.
    pub host: &'a [u8],
    /// The connection it came by.
    pub conn: &'a ConnInfo,
    /// What placeholders stand for.
    pub values: &'a dyn Values,
    /// The length of its body.
    pub length: u64,
}

impl FastCgi {
    /// Reads the settings of `transport fastcgi`.
    pub fn build(config: &Config, log: Option<&Log>) -> Result<FastCgi, Refusal> {
        FastCgi::speaking(Dialect::FastCgi, config, log)
    }

    /// Reads the settings of `transport scgi` and `transport uwsgi`.
    pub fn build_bare(dialect: Dialect, config: &CgiTransport) -> Result<FastCgi, Refusal> {
        // Where nobody else tells the length, it may be among the variables: it is then that of what is sent.
        let told: &[&str] = match (dialect, config.only_env) {
            (Dialect::Uwsgi(_), true) => &[],
            _ => &["CONTENT_LENGTH", "SCGI"],
        };
        if let Some(name) = told.iter().find(|name| config.env.contains_key(**name)) {
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

    /// What the log calls the way to it.
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
            // Folding other letters can change their length, and with it what counts as the script.
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

    /// Writes the beginning of a request, with all variables, to `out`.
    pub fn encode(&self, asked: &Asked<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
        if asked.head.uri.path().contains(&0) {
            let reason = "the path has a byte that no file name can have";
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

    /// The script that a request encoded by [`FastCgi::encode`] names.
    pub fn script_of(&self, request: &[u8]) -> Option<Vec<u8>> {
        self.dialect.find(request, b"SCRIPT_FILENAME")
    }

    /// Adds the variables of the configuration.
    fn add_own(&self, asked: &Asked<'_>, variables: &mut Variables<'_>) -> Result<(), Fault> {
        let mut value = Vec::new();
        for (name, template) in &self.own {
            value.clear();
            // nginx tells the length of the body that is sent, which for one without a length is that of what was
            // collected.
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

    /// Has it told what the application writes to standard error during `call`, if that is wanted.
    pub fn listen(&self, call: &mut Call, x: &Exchange) {
        let Some(log) = self.complaints.clone() else {
            return;
        };
        let upstream = x.context.upstream.address.clone();
        let method = x.req.method.clone();
        let (host, uri) = (x.req.authority.clone(), x.req.target.clone());
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

    /// As [`FastCgi::encode`] for a question of our own, which no client asked.
    pub fn encode_check(
        &self,
        head: &RequestHead,
        length: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let conn = ConnInfo {
            remote: Remote::Unix,
            local: None,
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

    /// The folder of the scripts, without a slash at its end.
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

    /// Which script runs, and what is left of the path for it.
    fn add_script(&self, asked: &Asked<'_>, root: &[u8], variables: &mut Variables<'_>) {
        let path = script_path(asked.head.uri.path());
        let path = &*path;
        // Without endings nothing of the path names a script.
        let split_at = match self.split.as_slice() {
            [] => Some(0),
            endings => split_script(path, endings),
        };
        let (script, mut info) = path.split_at(split_at.unwrap_or(path.len()));
        let mut remainder = Vec::new();
        if info.is_empty() {
            // A file matcher may have split the path before.
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

/// The path in which a script is looked for. Matchers see paths without dot segments: `/admin.php/../other.php` passes as
/// `/other.php`, and must not run `admin.php`. Repeated slashes stay, as what follows a script may be a whole address.
fn script_path(path: &[u8]) -> Cow<'_, [u8]> {
    if !path
        .split(|byte| *byte == b'/')
        .any(|part| matches!(part, b"." | b".."))
    {
        return Cow::Borrowed(path);
    }
    let mut clean = Vec::with_capacity(path.len());
    path::clean(path, &mut clean);
    Cow::Owned(clean)
}

/// Gives a body a length: CGI tells it before the body (RFC 3875, section 4.1.2), and PHP reads no more than that.
/// A client that does not tell it has to send so little that it can be collected.
pub async fn measure(body: RequestBody, bytes_max: usize) -> Result<RequestBody, Fault> {
    match body {
        RequestBody::Stream(body) if body.len().is_none() => {
            let bytes_max = bytes_max.max(CGI_BODY_BYTES_MAX);
            match buffering::measure(body, bytes_max).await? {
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

/// Appends the file that `name` leads to below `root`, and nowhere else.
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
    variables.add_with(b"SERVER_NAME", |text| match (host, asked.conn.local) {
        // RFC 3875, section 4.1.14: it is never empty; HTTP/1.0 may name no host.
        (b"", Some(local)) => text.extend_from_slice(IpText::new(local.ip()).as_bytes()),
        (host, _) => text.extend_from_slice(host),
    });
    variables.add_shown(b"SERVER_PORT", port.unwrap_or(usual_port));
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

/// HTTPS as Apache's mod_ssl names it, which applications expect.
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
    // The peer of a unix socket has neither.
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

/// The fields of the request (RFC 3875, section 4.1.18). Each has a variable of its own or none: lines of one name are
/// joined, and names that an application could take for another one are left out.
/// `Proxy` is left out as the libraries of applications take `HTTP_PROXY` for a proxy of their own.
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

/// Whether another field of the request would become the same variable, here or in PHP: of `X_A`, `X.A` and `X-A` only the
/// last can stand for no other. What clients may send of such names at all was decided before.
fn has_alias(fields: &Fields, name: &[u8]) -> bool {
    fields.iter().any(|field| is_alias(field.name, name))
}

/// Whether a line before that at `index` has the same name.
fn is_repeated(fields: &Fields, index: usize, name: &[u8]) -> bool {
    let mut before = fields.iter().take(index);
    before.any(|field| field.name.eq_ignore_ascii_case(name))
}

/// The variables of a request so far.
struct Variables<'a> {
    params: Params<'a>,
    /// Those of the configuration, which no other may replace: they come last.
    own: &'a [(Box<[u8]>, Template)],
    text: Vec<u8>,
}

impl Variables<'_> {
    /// Whether the configuration has a value for it, or it stands there already.
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
