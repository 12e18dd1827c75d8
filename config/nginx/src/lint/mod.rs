//! `sluice lint`: finds likely mistakes in an nginx.conf. Each rule is a row of [`RULES`]; the files of this directory
//! implement them. Definite errors are reported by `check` and `lower`.

mod fields;
mod paths;
mod process;
mod servers;
mod tree;
mod upstreams;

use sluice_diag::{Diagnostic, ImportId, Report, Span};

use crate::Loader;
use crate::tree::Directive;
pub use tree::{File, Spot};

/// What a rule looks for.
type Look = for<'t> fn(&File<'t>, &mut Found<'t>);

/// A rule.
pub struct Rule {
    /// Its stable name, which stands in brackets.
    pub id: &'static str,
    /// What is found, as a title.
    pub what: &'static str,
    /// What comes of it.
    pub why: &'static str,
    /// What to write instead.
    pub fix: &'static str,
    look: Look,
}

/// What was found of one rule.
#[derive(Default)]
pub struct Found<'t>(Vec<Finding<'t>>);

/// A place where a rule is broken.
struct Finding<'t> {
    at: Span,
    import: Option<ImportId>,
    label: String,
    also: Option<(&'t Directive, &'static str)>,
}

impl<'t> Found<'t> {
    /// Notes a directive.
    fn at(&mut self, directive: &'t Directive, label: impl Into<String>) {
        self.beside(directive, label, None);
    }

    /// Notes a directive, and another one that explains it.
    fn with(
        &mut self,
        directive: &'t Directive,
        label: impl Into<String>,
        other: &'t Directive,
        says: &'static str,
    ) {
        self.beside(directive, label, Some((other, says)));
    }

    fn beside(
        &mut self,
        directive: &'t Directive,
        label: impl Into<String>,
        also: Option<(&'t Directive, &'static str)>,
    ) {
        self.0.push(Finding {
            at: directive.span(),
            import: directive.name.import,
            label: label.into(),
            also,
        });
    }
}

/// Looks at an nginx.conf. The report holds what cannot be read as errors, and what the rules find as warnings.
pub fn lint(name: &str, text: &str, loader: &dyn Loader) -> Report {
    let parsed = crate::fragment::parse_completed(name, text, loader);
    let mut report = parsed.report;
    let file = File::new(&parsed.directives);
    for rule in RULES {
        let mut found = Found::default();
        (rule.look)(&file, &mut found);
        for finding in found.0 {
            let mut diagnostic = Diagnostic::warning(rule.id, rule.what)
                .at(finding.at, finding.label)
                .imported(finding.import)
                .note(rule.why)
                .help(rule.fix);
            if let Some((other, says)) = finding.also {
                diagnostic = diagnostic.also(other.span(), says);
            }
            report.push(diagnostic);
        }
    }
    report
}

macro_rules! rules {
    ($($id:literal $look:path: $what:literal, $why:literal, $fix:literal;)*) => {
        &[$(Rule { id: $id, what: $what, why: $why, fix: $fix, look: $look }),*]
    };
}

/// All rules, by what they are about.
#[rustfmt::skip]
pub const RULES: &[Rule] = rules![
    "few-worker-connections" process::few_connections:
        "few connections per worker",
        "client and upstream connections count together; a worker at the limit closes idle ones without an error in its log",
        "write `worker_connections 10000;` or more";
    "connections-above-files" process::connections_above_files:
        "more connections than open files",
        "each connection is an open file, and a proxied request needs two",
        "set `worker_rlimit_nofile` to at least twice `worker_connections`";
    "connections-below-keepalive" process::connections_below_keepalive:
        "idle upstream connections use up the limit",
        "each worker keeps the idle connections of `keepalive`, which count like those of clients",
        "write `worker_connections 10000;` or more, or a smaller `keepalive`";
    "one-worker" process::one_worker:
        "only one worker",
        "without `worker_processes` nginx uses a single CPU",
        "write `worker_processes auto;`";
    "error-log-off" process::error_log_off:
        "`error_log off` writes to a file called `off`",
        "only `access_log` accepts `off`",
        "write `error_log /dev/null crit;`";
    "no-media-types" process::no_media_types:
        "no media types",
        "without `types` only .html, .gif and .jpg have their own type; scripts and styles are sent as text/plain",
        "add `include mime.types;` to `http`";
    "duplicate-media-type" process::duplicate_media_type:
        "an extension with two media types",
        "the last one wins, which is easily overlooked",
        "keep one of them";
    "gzip-types-html" process::gzip_types_html:
        "`gzip_types` names text/html",
        "text/html is always compressed; nginx warns about the duplicate",
        "remove it";

    "upstream-without-keepalive" upstreams::without_keepalive:
        "an upstream without keep-alive",
        "nginx before 1.29.7 then opens a connection for each request, and a busy site runs out of ports",
        "add `keepalive 32;` to the `upstream`";
    "keepalive-without-http11" upstreams::without_http11:
        "keep-alive has no effect",
        "nginx before 1.29.7 sends HTTP/1.0 requests with `Connection: close`, so no connection stays open",
        "add `proxy_http_version 1.1;` and `proxy_set_header Connection \"\";`";
    "fastcgi-keepalive-unused" upstreams::fastcgi_keepalive_unused:
        "keep-alive has no effect for FastCGI",
        "the application closes each connection unless the request asks to keep it open",
        "add `fastcgi_keep_conn on;`";
    "cache-without-validity" upstreams::cache_without_validity:
        "the cache may stay empty",
        "without `proxy_cache_valid` only responses that declare their own freshness are cached",
        "add `proxy_cache_valid 200 10m;` or another lifetime";
    "resolver-missing" upstreams::resolver_missing:
        "the name cannot be resolved",
        "an address with variables is resolved at request time, which needs a `resolver`; without one nginx responds with 502",
        "add `resolver 127.0.0.53;` or the address of a name server";
    "upstream-from-request" upstreams::from_request:
        "the client chooses the upstream",
        "a client can make the server proxy its request to any address in the network",
        "choose from fixed names with a `map`";
    "path-lost-in-regex" upstreams::path_in_regex:
        "`proxy_pass` with a path is not allowed here",
        "in a regular expression location, a named location or an `if`, nginx cannot tell which part of the path to replace",
        "remove the path and use `rewrite … break` before it";
    "proxy-without-host" upstreams::without_host:
        "the upstream does not get the client's host name",
        "without `proxy_set_header Host` it gets the name in `proxy_pass`, and creates links and cookies for that name",
        "add `proxy_set_header Host $host;`";
    "http-host-passed-on" upstreams::http_host:
        "the client's `Host` header is forwarded unchanged",
        "`$http_host` may differ from the name that selected the server, if the request target contains a host",
        "write `$host`";

    "add-header-lost" fields::add_header_lost:
        "headers of the outer block are lost",
        "a block inherits `add_header` only if it has none itself",
        "repeat them in this block, or include a common file in both";
    "proxy-set-header-lost" fields::set_header_lost:
        "headers for the upstream are lost",
        "a block inherits `proxy_set_header` only if it has none itself",
        "repeat them in this block, or include a common file in both";
    "fastcgi-param-lost" fields::param_lost:
        "parameters of the application are lost",
        "a block inherits `fastcgi_param` only if it has none itself",
        "include `fastcgi_params` in this block as well";
    "security-header-not-always" fields::not_always:
        "a security header is missing on error responses",
        "without `always` error responses lack it, although they can also contain client input",
        "add `always` at the end";
    "field-of-several-lines" fields::several_lines:
        "a header with a line break",
        "folded headers are obsolete (RFC 9112, section 5.2): clients reject them, or read the rest as another header",
        "write it on one line";
    "content-type-added" fields::content_type_added:
        "`add_header Content-Type` adds a second type",
        "the response also keeps the type that nginx chose",
        "write `default_type` instead";
    "response-splitting" fields::splitting:
        "a decoded path in a header or URL",
        "`$uri` is decoded: a client can use %0d%0a to add lines to the response or request",
        "write `$request_uri`";
    "origin-check-open" fields::origin_check_open:
        "an origin check that other sites pass",
        "a pattern without `^` and `$` matches any name that contains the expected one, such as site.test.evil.example",
        "begin it with `^https?://` and end it with `$`";
    "referer-none" fields::referer_none:
        "requests without a `Referer` header pass",
        "`none` admits requests without the header, and pages with `Referrer-Policy: no-referrer` send none",
        "remove `none`, or do not rely on `valid_referers`";
    "real-ip-from-anyone" fields::real_ip_from_anyone:
        "clients can choose their own address",
        "rules and limits by address use a header that any client can send",
        "name only the addresses of your own proxies in `set_real_ip_from`";

    "alias-traversal" paths::alias_traversal:
        "path traversal through `alias`",
        "the location does not end with a slash but its `alias` does, so `/name../file` reaches files outside of the folder",
        "end the location with a slash as well";
    "alias-without-slash" paths::alias_without_slash:
        "`alias` joins a folder and a file name without a slash",
        "the location ends with a slash but its `alias` does not, so `/name/file` becomes `folderfile`",
        "end the `alias` with a slash as well";
    "root-in-location" paths::root_in_location:
        "`root` is set only in `location /`",
        "other locations use the folder compiled into nginx",
        "move it to the `server`";
    "if-in-location" paths::if_in_location:
        "`if` contains more than rewriting",
        "an `if` in a location is a separate location: directives of other `if`s and `try_files` next to it have no effect",
        "use `map`, `error_page` or a location; only `return`, `rewrite`, `set` and `break` are safe in `if`";
    "if-host" paths::if_host:
        "`if` selects a host name",
        "it is evaluated for each request, although that name has already selected the server",
        "write a separate `server` with that `server_name` and the `return`";
    "php-without-check" paths::php_without_check:
        "missing scripts reach the application",
        "PHP may run the part of the path that exists, such as an uploaded picture in /picture.jpg/x.php",
        "add `try_files $uri =404;`, or `try_files $fastcgi_script_name =404;` if a path follows the script";
    "try-files-circle" paths::try_files_circle:
        "`try_files` has no fallback",
        "the last argument is always used, even if the file does not exist, so the request loops until nginx responds with 500",
        "add `=404` or another target at the end";
    "unreachable-location" paths::unreachable:
        "a location that is never selected",
        "regular expressions are tried in file order, and take precedence over prefixes without `=` or `^~`",
        "add `^~`, or move it before the other one";
    "return-before-locations" paths::return_before_locations:
        "a `return` that handles every request",
        "an unconditional `return` of a `server` runs before all of its locations",
        "move it to `location /`";
    "merge-slashes-off" paths::merge_slashes_off:
        "paths with repeated slashes stay distinct",
        "rules for `/admin/` do not apply to `//admin/`, which file systems and many applications treat as the same path",
        "leave `merge_slashes` on";
    "hidden-files-listed" paths::hidden_files:
        "hidden files of a listed folder are served",
        "the listing hides `.git` and `.env`, but the server still serves them",
        "add `location ~ /\\. { deny all; }`";
    "allow-without-deny" paths::allow_without_deny:
        "`allow` without `deny`",
        "clients that match no rule are admitted",
        "end the rules with `deny all;`";

    "server-name-underscore" servers::underscore:
        "`server_name _` is not a catch-all",
        "`_` is just a name that no client requests; the default server is the one with `default_server`, or the first of its address",
        "add `default_server` to its `listen`";
    "no-default-server" servers::no_default:
        "the first server handles unknown names",
        "several servers share an address and none has `default_server`, so the order of the files decides which one handles unknown names",
        "add a server with `listen … default_server;` and `return 444;`";
    "old-tls" servers::old_tls:
        "obsolete TLS versions",
        "SSLv3, TLS 1.0 and 1.1 are broken or deprecated (RFC 8996), and sluice does not support them",
        "write `ssl_protocols TLSv1.2 TLSv1.3;`";
    "listen-http2" servers::listen_http2:
        "`http2` as a parameter of `listen`",
        "deprecated since nginx 1.25.1: the directive `http2` enables HTTP/2 for each server",
        "write `http2 on;`";
    "body-without-limit" servers::body_without_limit:
        "bodies of any size",
        "one client can fill the disk or the memory of the application",
        "set the largest size that is needed, in the location that needs it";
    "open-status-page" servers::open_status:
        "the status page is open to everyone",
        "`stub_status` shows everyone how busy the server is",
        "add `allow 127.0.0.1;` and `deny all;`";
];
