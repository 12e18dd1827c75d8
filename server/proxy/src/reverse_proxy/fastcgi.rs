//! `transport fastcgi`, `scgi` and `uwsgi`: converts a request to the CGI variables (RFC 3875, section 4) that PHP and
//! other applications expect. `sluice-wire` encodes them and `sluice-net` manages connections.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use sluice_message::decimal::push_integer;
use sluice_message::uri::{Uri, decode_percent};
use sluice_message::{
    ConnInfo, Field, FieldId, Fields, IpText, Remote, RequestHead, Scheme, Status, TlsInfo, head,
    path,
};
use sluice_model::proxy::{CgiTransport, FastCgiTransport as Config};
use sluice_net::RequestBody;
use sluice_route::path::{Case, Slashes, normalize};
use sluice_route::placeholder::{NoValues, Unknown};
use sluice_route::values::origin_form;
use sluice_route::{Template, Values};
use sluice_upstream::Call;
use sluice_wire::cgi::VariableName;

use super::configured_variables::{Configured, Empty, Taken, Value, configured};
use super::params::{Dialect, Params, Run};
use super::variable_names::{Variable, VariableNames};
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
    /// Variables in the configuration, which come last.
    own: Vec<Configured>,
    /// Their names, which take precedence over those of other variables.
    taken: Taken,
    /// The names of the other variables.
    names: VariableNames,
    /// Which other variables are sent, besides those for request headers.
    usual: Usual,
    /// Those of them that do not depend on the request.
    constant: Run,
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

/// CGI variables that are the same in every request. The user is in REMOTE_USER, however it was authenticated, and the
/// identity of RFC 1413 is not asked for.
const CONSTANT: [(&[u8], &[u8]); 4] = [
    (b"GATEWAY_INTERFACE", b"CGI/1.1"),
    (b"AUTH_TYPE", b""),
    (b"REMOTE_IDENT", b""),
    (
        b"SERVER_SOFTWARE",
        concat!("sluice/", env!("CARGO_PKG_VERSION")).as_bytes(),
    ),
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
        let (own, taken) = configured(dialect, config)?;
        let mut constant = Run::default();
        for (name, value) in CONSTANT {
            if !taken.has(name.into()) {
                let is_sent = constant.push(dialect, name, value);
                debug_assert!(is_sent, "these fit into each protocol");
            }
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
            names: VariableNames::new(dialect, &taken),
            taken,
            constant,
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
        let mut variables = Variables {
            params: Params::begin(self.dialect, asked.length, out),
            names: self.names,
            taken: &self.taken,
        };
        match self.usual {
            Usual::All => self.add_usual(asked, &mut variables)?,
            Usual::None if asked.host.is_empty() => {}
            Usual::None => variables.add(Variable::HttpHost, asked.host),
        }
        add_fields(&asked.head.fields, &mut variables);
        self.add_own(asked, &mut variables)?;
        variables.params.end()
    }

    /// The script in a request encoded by [`FastCgi::encode`].
    pub fn script_of(&self, request: &[u8]) -> Option<Vec<u8>> {
        self.dialect.find(request, b"SCRIPT_FILENAME")
    }

    /// Adds the CGI variables, except for those of request headers.
    fn add_usual(&self, asked: &Asked<'_>, variables: &mut Variables<'_>) -> Result<(), Fault> {
        if !self.is_one_script(&asked.head.uri) {
            let reason = "the escaped and the decoded path select different scripts";
            return Err(Fault::new(Status::BAD_REQUEST, reason));
        }
        match self
            .root
            .fixed()
            .filter(|_| self.symlinks == Symlinks::Keep)
        {
            Some(root) => self.add_script(asked, root, variables),
            None => files::with_path(|root| {
                self.write_root(asked, root)?;
                self.add_script(asked, root, variables);
                Ok::<(), Fault>(())
            })?,
        }
        variables.params.push_run(&self.constant);
        add_request(asked, variables);
        add_server(asked, variables);
        add_peer(asked.conn, variables);
        variables.add_with(Variable::RemoteUser, |out| {
            self.user.expand(asked.values, Unknown::Empty, out);
        });
        Ok(())
    }

    /// Adds the configured variables.
    fn add_own(&self, asked: &Asked<'_>, variables: &mut Variables<'_>) -> Result<(), Fault> {
        let params = &mut variables.params;
        for own in &self.own {
            match own {
                Configured::Constant(run) => params.push_run(run),
                Configured::Variable {
                    name,
                    value,
                    empty: Empty::Send,
                } => {
                    let mut written = Ok(());
                    params.push_named_with(name, |out| written = write_own(asked, value, out));
                    written?;
                }
                Configured::Variable {
                    name,
                    value,
                    empty: Empty::Omit,
                } => files::with_path(|text| {
                    write_own(asked, value, text)?;
                    if !text.is_empty() {
                        params.push_named(name, text);
                    }
                    Ok::<(), Fault>(())
                })?,
            }
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

    /// Appends the folder of the scripts, without a trailing slash, to `out`, which is empty.
    fn write_root(&self, asked: &Asked<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.root.write(asked.values, out).map_err(files::unfit)?;
        if self.symlinks == Symlinks::Keep {
            return Ok(());
        }
        let resolved = std::fs::canonicalize(OsStr::from_bytes(or_slash(out)));
        let resolved = resolved.map_err(|error| {
            let message = format!("the root of the scripts leads nowhere: {error}");
            Fault::new(Status::INTERNAL_SERVER_ERROR, message)
        })?;
        out.clear();
        match resolved.as_os_str().as_bytes() {
            b"/" => {}
            resolved => out.extend_from_slice(resolved),
        }
        Ok(())
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
        variables.add(Variable::DocumentRoot, or_slash(root));
        variables.add(Variable::DocumentUri, script);
        variables.add_with(Variable::ScriptName, |out| {
            if !matches!(script, [] | [b'/', ..]) {
                out.push(b'/');
            }
            out.extend_from_slice(script);
        });
        variables.add_with(Variable::ScriptFilename, |out| below(root, script, out));
        variables.add(Variable::PathInfo, info);
        if !info.is_empty() {
            variables.add_with(Variable::PathTranslated, |out| below(root, info, out));
        }
    }
}

/// Appends the value of a configured variable to `out`.
fn write_own(asked: &Asked<'_>, value: &Value, out: &mut Vec<u8>) -> Result<(), Fault> {
    match value {
        Value::BodyLength(_) if asked.length > 0 => push_integer(out, asked.length),
        Value::Path(text) => text.expand_path(asked.values, out).map_err(files::unfit)?,
        Value::Text(text) | Value::BodyLength(text) => {
            text.expand(asked.values, Unknown::Empty, out);
        }
    }
    Ok(())
}

/// The path in which to look for a script, in the form that matchers compare: `/admin.php/../other.php` matches as
/// `/other.php` and must not run `admin.php`. Applications never see two slashes in a row, as in Caddy.
fn script_path<'a>(path: &'a [u8], buf: &'a mut Vec<u8>) -> &'a [u8] {
    normalize(path, Slashes::Merge, Case::Keep, buf)
}

/// Whether the length of a body has yet to be determined.
pub fn lacks_length(body: &RequestBody) -> bool {
    matches!(body, RequestBody::Stream(body) if body.len().is_none())
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
    variables.add(Variable::RequestMethod, head.method.as_str().as_bytes());
    variables.add_with(Variable::RequestUri, |out| {
        let (path, query) = origin_form(&head.target);
        out.extend_from_slice(or_slash(path));
        if !query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(query);
        }
    });
    variables.add(Variable::QueryString, query);
    variables.add(Variable::ContentType, content_type.unwrap_or_default());
    variables.add_number(Variable::ContentLength, asked.length);
    variables.add_number(Variable::HttpContentLength, asked.length);
}

fn add_server(asked: &Asked<'_>, variables: &mut Variables<'_>) {
    let (host, port) = head::split_port(&asked.head.authority);
    let scheme = asked.conn.scheme();
    let usual_port = match scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
    };
    let local = asked.conn.local.address();
    let ip = local.map(|local| IpText::new(local.ip()));
    variables.add(
        Variable::ServerName,
        match (host, &ip) {
            // RFC 3875, section 4.1.14 forbids an empty value, but HTTP/1.0 requests may lack a host.
            (b"", Some(ip)) => ip.as_bytes(),
            (host, _) => host,
        },
    );
    variables.add_number(Variable::ServerPort, port.unwrap_or(usual_port).into());
    if let Some(ip) = &ip {
        variables.add(Variable::ServerAddr, ip.as_bytes());
    }
    let protocol = asked.head.version.as_str().as_bytes();
    variables.add(Variable::ServerProtocol, protocol);
    variables.add(Variable::RequestScheme, scheme.as_str().as_bytes());
    if let Some(tls) = &asked.conn.tls {
        add_tls(tls, variables);
    }
    if !asked.host.is_empty() {
        variables.add(Variable::HttpHost, asked.host);
    }
}

/// Variables about TLS with the names of Apache's mod_ssl, which applications expect.
fn add_tls(tls: &TlsInfo, variables: &mut Variables<'_>) {
    let version = match tls.version {
        "tls1.2" => "TLSv1.2",
        "tls1.3" => "TLSv1.3",
        other => other,
    };
    variables.add(Variable::Https, b"on");
    variables.add(Variable::SslProtocol, version.as_bytes());
    variables.add(Variable::SslCipher, tls.cipher.as_bytes());
}

fn add_peer(conn: &ConnInfo, variables: &mut Variables<'_>) {
    // The peer on a Unix domain socket has neither.
    let (ip, port) = match conn.remote {
        Remote::Ip(addr) => (Some(IpText::new(addr.ip())), Some(addr.port())),
        Remote::Unix => (None, None),
    };
    let ip = ip.as_ref().map_or(&b""[..], IpText::as_bytes);
    variables.add(Variable::RemoteAddr, ip);
    variables.add(Variable::RemoteHost, ip);
    match port {
        Some(port) => variables.add_number(Variable::RemotePort, port.into()),
        None => variables.add(Variable::RemotePort, b""),
    }
}

/// Adds the request headers (RFC 3875, section 4.1.18). Repeated headers are joined, and names that an application
/// could mistake for another are omitted. `Proxy` is omitted because HTTP libraries treat `HTTP_PROXY` as their proxy
/// setting.
fn add_fields(fields: &Fields, variables: &mut Variables<'_>) {
    let repeated = repeated(fields);
    let mut joined = 0;
    for (index, field) in fields.iter().enumerate() {
        if field.id == FieldId::Other {
            add_other(fields, index, field, variables);
            continue;
        }
        // It is configured, or has a variable of its own.
        let Some(name) = variables.names.of_header(field.id) else {
            continue;
        };
        if repeated & bit(field.id) == 0 {
            variables.params.push_named(name, field.value);
        } else if joined & bit(field.id) == 0 {
            joined |= bit(field.id);
            let joint: &[u8] = match field.id {
                // RFC 9113, section 8.2.3: a comma would become part of a value.
                FieldId::Cookie => b"; ",
                _ => b", ",
            };
            let write = |out: &mut Vec<u8>| join(fields.all(field.id), joint, out);
            variables.params.push_named_with(name, write);
        }
    }
}

/// Adds the header at `index`, whose name is not a known one, and all others with its name.
fn add_other(fields: &Fields, index: usize, field: Field<'_>, variables: &mut Variables<'_>) {
    let name = VariableName::OfHeader(field.name);
    if is_left_out(fields, index, field) || variables.taken.has(name) {
        return;
    }
    let is_same = |other: &Field<'_>| {
        other.id == FieldId::Other && other.name.eq_ignore_ascii_case(field.name)
    };
    let mut after = fields.iter().skip(index + 1).filter(is_same).peekable();
    if after.peek().is_none() {
        return variables.params.push(name, field.value);
    }
    let values = std::iter::once(field).chain(after).map(|same| same.value);
    let write = |out: &mut Vec<u8>| join(values, b", ", out);
    variables.params.push_with(name, write);
}

/// The known names that more than one line has, as a set of [`bit`]s.
fn repeated(fields: &Fields) -> u128 {
    let (mut seen, mut repeated) = (0, 0);
    for id in fields.ids() {
        repeated |= seen & bit(id);
        seen |= bit(id);
    }
    repeated
}

/// A known name in a set of them.
fn bit(id: FieldId) -> u128 {
    const { assert!(FieldId::ALL.len() < 128, "each name has a bit") };
    1 << id as u8
}

fn join<'a>(values: impl Iterator<Item = &'a [u8]>, joint: &[u8], out: &mut Vec<u8>) {
    for (index, value) in values.enumerate() {
        if index > 0 {
            out.extend_from_slice(joint);
        }
        out.extend_from_slice(value);
    }
}

/// Whether the line at `index`, whose name is not a known one, gets no variable.
fn is_left_out(fields: &Fields, index: usize, field: Field<'_>) -> bool {
    field.name.eq_ignore_ascii_case(b"proxy")
        || is_repeated(fields, index, field.name)
        || is_odd(field.id, field.name) && has_alias(fields, field.name)
}

/// Whether another request header maps to the same variable, here or in PHP: among `X_A`, `X.A` and `X-A` only the last
/// is unambiguous. Which of these names clients may send is decided before.
fn has_alias(fields: &Fields, name: &[u8]) -> bool {
    fields.iter().any(|field| is_alias(field.name, name))
}

/// Whether an earlier header line has the same name as the one at `index`, which is not a known one.
fn is_repeated(fields: &Fields, index: usize, name: &[u8]) -> bool {
    let mut before = fields.iter().take(index);
    before.any(|field| field.id == FieldId::Other && field.name.eq_ignore_ascii_case(name))
}

/// The variables of a request so far.
struct Variables<'a> {
    params: Params<'a>,
    names: VariableNames,
    taken: &'a Taken,
}

impl Variables<'_> {
    /// Adds a variable, unless it is configured or has been added by the protocol.
    fn add(&mut self, variable: Variable, value: &[u8]) {
        if let Some(name) = self.names.of(variable) {
            self.params.push_named(name, value);
        }
    }

    fn add_with(&mut self, variable: Variable, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(name) = self.names.of(variable) {
            self.params.push_named_with(name, write);
        }
    }

    fn add_number(&mut self, variable: Variable, value: u64) {
        self.add_with(variable, |out| push_integer(out, value));
    }
}
