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
    let parsed = crate::parse(name, text, loader);
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
        "few connections for each worker",
        "clients and upstreams count together, and a worker that has no more closes idle ones without an error in its log",
        "write `worker_connections 10000;` or more";
    "connections-above-files" process::connections_above_files:
        "more connections than open files",
        "each connection is an open file, and a proxied request needs two",
        "set `worker_rlimit_nofile` to at least twice `worker_connections`";
    "connections-below-keepalive" process::connections_below_keepalive:
        "connections that upstreams use up",
        "what `keepalive` names is kept by each worker while nobody uses it, and counts like the connections of clients",
        "write `worker_connections 10000;` or more, or a smaller `keepalive`";
    "one-worker" process::one_worker:
        "one worker only",
        "without `worker_processes` nginx uses one processor, whatever the machine has",
        "write `worker_processes auto;`";
    "error-log-off" process::error_log_off:
        "`error_log off` writes to a file called `off`",
        "`off` is a word of `access_log` only",
        "write `error_log /dev/null crit;`";
    "no-media-types" process::no_media_types:
        "no media types",
        "only .html, .gif and .jpg have a type of their own, so scripts and styles are sent as text/plain",
        "add `include mime.types;` to `http`";
    "duplicate-media-type" process::duplicate_media_type:
        "an extension with two media types",
        "the last one counts, which is easily overlooked",
        "keep one of both";
    "gzip-types-html" process::gzip_types_html:
        "`gzip_types` names text/html",
        "text/html is always compressed; nginx warns of it as a duplicate",
        "leave it out";

    "upstream-without-keepalive" upstreams::without_keepalive:
        "an upstream whose connections are not kept",
        "nginx before 1.29.7 opens a connection for each request then, and a busy site runs out of ports",
        "add `keepalive 32;` to the `upstream`";
    "keepalive-without-http11" upstreams::without_http11:
        "idle connections that are not used",
        "nginx before 1.29.7 speaks HTTP/1.0 to upstreams and says `Connection: close`, so nothing is kept",
        "add `proxy_http_version 1.1;` and `proxy_set_header Connection \"\";`";
    "fastcgi-keepalive-unused" upstreams::fastcgi_keepalive_unused:
        "idle connections that FastCGI does not use",
        "the application closes each connection unless the request asks to keep it open",
        "add `fastcgi_keep_conn on;`";
    "cache-without-validity" upstreams::cache_without_validity:
        "a cache that may store nothing",
        "without `proxy_cache_valid` only responses that declare their own freshness are cached",
        "add `proxy_cache_valid 200 10m;` or what fits";
    "resolver-missing" upstreams::resolver_missing:
        "a name that nobody can look up",
        "an address with variables is resolved for each request, which needs a `resolver`; without one nginx responds with 502",
        "add `resolver 127.0.0.53;` or the address of a name server";
    "upstream-from-request" upstreams::from_request:
        "the client chooses the upstream",
        "a client can make the server proxy its request to any address in the network",
        "choose from fixed names with a `map`";
    "path-lost-in-regex" upstreams::path_in_regex:
        "`proxy_pass` with a path where no part of the path can be replaced",
        "in a location by a pattern, in a named one and in `if` nginx refuses such a path",
        "leave the path out and use `rewrite … break` in front of it";
    "proxy-without-host" upstreams::without_host:
        "the upstream is not told the name that the client asked for",
        "without `proxy_set_header Host` it sees the name in `proxy_pass`, and makes links and cookies for that",
        "add `proxy_set_header Host $host;`";
    "http-host-passed-on" upstreams::http_host:
        "the client's `Host` header is forwarded unchanged",
        "`$http_host` may differ from the name that chose the server, where the request names a host in its target",
        "write `$host`";

    "add-header-lost" fields::add_header_lost:
        "fields of the block around are lost",
        "`add_header` is inherited only where a block has none of its own",
        "repeat them in this block, or include a common file in both";
    "proxy-set-header-lost" fields::set_header_lost:
        "fields for the upstream are lost",
        "`proxy_set_header` is inherited only where a block has none of its own",
        "repeat them in this block, or include a common file in both";
    "fastcgi-param-lost" fields::param_lost:
        "parameters of the application are lost",
        "`fastcgi_param` is inherited only where a block has none of its own",
        "include `fastcgi_params` in this block, too";
    "security-header-not-always" fields::not_always:
        "a protecting field that errors do not have",
        "without `always` error responses lack it, and they too can show what a client sent",
        "add `always` at its end";
    "field-of-several-lines" fields::several_lines:
        "a field with a line break",
        "folded fields are obsolete (RFC 9112, section 5.2): clients refuse them, or take the rest for another field",
        "write it on one line";
    "content-type-added" fields::content_type_added:
        "`add_header Content-Type`",
        "the response then has two types, because the one that nginx chose stays",
        "write `default_type` instead";
    "response-splitting" fields::splitting:
        "a decoded path in a field or an address",
        "`$uri` is decoded: a line break that a client wrote as %0d%0a begins a new line of the response or of the request",
        "write `$request_uri`";
    "origin-check-open" fields::origin_check_open:
        "a check of the origin that others pass",
        "a pattern without `^` and `$` is met by any name that contains the wanted one, such as site.test.evil.example",
        "begin it with `^https?://` and end it with `$`";
    "referer-none" fields::referer_none:
        "requests without a referer pass",
        "a request without the header passes the check: pages with `Referrer-Policy: no-referrer` send none",
        "leave `none` out, or do not rely on `valid_referers`";
    "real-ip-from-anyone" fields::real_ip_from_anyone:
        "anyone may say which address he has",
        "rules and limits by address go by a field that the client wrote",
        "name only the addresses of your own proxies in `set_real_ip_from`";

    "alias-traversal" paths::alias_traversal:
        "a path that leads out of the folder",
        "the location has no slash at its end but its `alias` has, so nginx serves `/name../file` from beside the folder",
        "end the location with a slash as well";
    "alias-without-slash" paths::alias_without_slash:
        "a folder and a file name grow together",
        "the location ends with a slash but its `alias` does not, so `/name/file` is looked up as `folderfile`",
        "end the `alias` with a slash as well";
    "root-in-location" paths::root_in_location:
        "`root` in `location /` only",
        "other locations then look for their files in the folder that nginx was built with",
        "move it to the `server`";
    "if-in-location" paths::if_in_location:
        "`if` with more than rewriting in it",
        "an `if` of a location is a location of its own: what stands beside it in other `if`s or in `try_files` is lost",
        "use `map`, `error_page` or a location; only `return`, `rewrite`, `set` and `break` are safe in `if`";
    "if-host" paths::if_host:
        "`if` chooses a name",
        "it is tried for each request of the server, after the server has been chosen by that very name",
        "write a `server` with that `server_name` and `return` in it";
    "php-without-check" paths::php_without_check:
        "scripts that are not there reach the application",
        "PHP may run the part of the path that exists, such as an uploaded picture in /picture.jpg/x.php",
        "add `try_files $uri =404;`, or with a path behind the script `try_files $fastcgi_script_name =404;`";
    "try-files-circle" paths::try_files_circle:
        "`try_files` ends with a candidate",
        "the last word is where the request goes in any case, so this one loops until nginx responds with 500",
        "add `=404` or another address at its end";
    "unreachable-location" paths::unreachable:
        "a location that is never chosen",
        "patterns are tried in the order of the file, and win against paths that are not marked with `=` or `^~`",
        "mark it with `^~`, or put it in front";
    "return-before-locations" paths::return_before_locations:
        "a `return` that handles every request",
        "what a `server` returns without a condition comes before all of its locations",
        "move it to `location /`";
    "merge-slashes-off" paths::merge_slashes_off:
        "paths with several slashes stay distinct",
        "rules for `/admin/` do not hold for `//admin/`, which files and applications often take for the same",
        "leave `merge_slashes` on";
    "hidden-files-listed" paths::hidden_files:
        "a listed folder whose hidden files can be had",
        "the listing hides `.git` and `.env`, but the server still serves them",
        "add `location ~ /\\. { deny all; }`";
    "allow-without-deny" paths::allow_without_deny:
        "`allow` that keeps nobody out",
        "who is met by no rule comes in",
        "end the rules with `deny all;`";

    "server-name-underscore" servers::underscore:
        "`server_name _` catches nothing by itself",
        "`_` is only a name that nobody asks for; the default server is the one that says so, or the first of its address",
        "add `default_server` to its `listen`";
    "no-default-server" servers::no_default:
        "the first server handles unknown names",
        "several servers share an address and none is the default: the order of files decides which one handles unknown names",
        "add a server with `listen … default_server;` and `return 444;`";
    "old-tls" servers::old_tls:
        "old versions of TLS",
        "SSLv3, TLS 1.0 and 1.1 are broken or forbidden (RFC 8996), and sluice never speaks them",
        "write `ssl_protocols TLSv1.2 TLSv1.3;`";
    "listen-http2" servers::listen_http2:
        "`http2` as a word of `listen`",
        "since 1.25.1 that is old; HTTP/2 is switched for each server",
        "write `http2 on;`";
    "body-without-limit" servers::body_without_limit:
        "bodies of any size",
        "one client can fill the disk or the memory of the application",
        "write the largest size that is needed, in the location that needs it";
    "open-status-page" servers::open_status:
        "a page of statistics that is open to all",
        "`stub_status` tells strangers how busy the server is",
        "add `allow 127.0.0.1;` and `deny all;`";
];
