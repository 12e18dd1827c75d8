//! Every directive with its syntax and verdict.

use super::{Directive, Verdict};

/// The directives, by name.
pub const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "abort",
        usage: "abort [<matcher>]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "acme_server",
        usage: "acme_server [<matcher>] { … }",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "basic_auth",
        usage: "basic_auth [<matcher>] [<hash_algorithm> [<realm>]] { <username> <hash> … }",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "basicauth",
        usage: "basic_auth [<matcher>] [<hash_algorithm> [<realm>]] { <username> <hash> … }",
        verdict: Verdict::Renamed("basic_auth"),
    },
    Directive {
        name: "bind",
        usage: "bind <hosts...> [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "copy_response",
        usage: "copy_response [<matcher>] [<status>] [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "copy_response_headers",
        usage: "copy_response_headers [<matcher>] { … }",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "encode",
        usage: "encode [<matcher>] [<formats...>] [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "error",
        usage: "error [<matcher>] <status>|<message> [<status>] [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "file_server",
        usage: "file_server [<matcher>] [browse] [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "forward_auth",
        usage: "forward_auth [<matcher>] [<upstreams...>] { … }",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "fs",
        usage: "fs [<matcher>] <filesystem>",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "handle",
        usage: "handle [<matcher>] { <directives...> }",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "handle_errors",
        usage: "handle_errors [<status_codes...>] { <directives...> }",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "handle_path",
        usage: "handle_path <path_matcher> { <directives...> }",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "header",
        usage: "header [<matcher>] [[+|-|?|>]<field> [<value>|<find>] [<replace>]] [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "in_flight",
        usage: "in_flight [<matcher>] <max> [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "intercept",
        usage: "intercept [<matcher>] { … }",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "invoke",
        usage: "invoke [<matcher>] <route-name>",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "log",
        usage: "log [<logger_name>] [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "log_append",
        usage: "log_append [<matcher>] [<]<key> <value>",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "log_name",
        usage: "log_name [<matcher>] <names...>",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "log_skip",
        usage: "log_skip [<matcher>]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "map",
        usage: "map [<matcher>] <source> <destinations...> { … }",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "method",
        usage: "method [<matcher>] <method>",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "metrics",
        usage: "metrics [<matcher>] [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "php_fastcgi",
        usage: "php_fastcgi [<matcher>] <php-fpm_gateways...> [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "push",
        usage: "push [<matcher>] [<resource>] [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "python",
        usage: "python { module_wsgi|module_asgi|module_esgi <application> … }",
        verdict: Verdict::Plugin(
            "run the application by itself and pass requests on with `reverse_proxy`",
        ),
    },
    Directive {
        name: "rate_limit",
        usage: "rate_limit [<matcher>] { … }",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "redir",
        usage: "redir [<matcher>] <to> [<code>]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "request_body",
        usage: "request_body [<matcher>] { … }",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "request_header",
        usage: "request_header [<matcher>] [[+|-]<field> [<value>|<find>] [<replace>]]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "respond",
        usage: "respond [<matcher>] <status>|<body> [<status>] [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "reverse_proxy",
        usage: "reverse_proxy [<matcher>] [<upstreams...>] [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "rewrite",
        usage: "rewrite [<matcher>] <to>",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "root",
        usage: "root [<matcher>] <path>",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "route",
        usage: "route [<matcher>] { <directives...> }",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "skip_log",
        usage: "log_skip [<matcher>]",
        verdict: Verdict::Renamed("log_skip"),
    },
    Directive {
        name: "templates",
        usage: "templates [<matcher>] [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "timeouts",
        usage: "timeouts { … }",
        verdict: Verdict::Unreleased("use the global option `servers { timeouts { … } }`"),
    },
    Directive {
        name: "tls",
        usage: "tls [internal|force_automate|<email>] | [<cert_file> <key_file>] [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "tracing",
        usage: "tracing [<matcher>] { … }",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "try_files",
        usage: "try_files <files...> [{ … }]",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "uri",
        usage: "uri [<matcher>] strip_prefix|strip_suffix|replace|path_regexp|query …",
        verdict: Verdict::Lowered,
    },
    Directive {
        name: "vars",
        usage: "vars [<matcher>] [<name> <value>] [{ … }]",
        verdict: Verdict::Lowered,
    },
];

/// The order in which directives run, unless the option `order` changes it. `bind`, `handle_errors`, `log` and `tls`
/// are not handlers and therefore not listed. sluice's own two are placed where the `rate_limit` plugin recommends:
/// before password hashing.
pub const DIRECTIVE_ORDER: &[&str] = &[
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "skip_log",
    "log_skip",
    "log_name",
    "header",
    "copy_response_headers",
    "request_body",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "rate_limit",
    "in_flight",
    "basicauth",
    "basic_auth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "invoke",
    "handle",
    "handle_path",
    "route",
    "abort",
    "error",
    "copy_response",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
    "file_server",
    "acme_server",
];
