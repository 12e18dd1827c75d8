//! Directives whose arguments are keywords from a fixed set: nginx's own keywords, from its documentation of each
//! directive.

/// What failures of upstreams are called where HTTP is spoken with them.
const NEXT_OF_HTTP: &[&str] = &[
    "error",
    "timeout",
    "invalid_header",
    "non_idempotent",
    "http_500",
    "http_502",
    "http_503",
    "http_504",
    "http_403",
    "http_404",
    "http_429",
    "updating",
    "off",
];

/// The same where an application is asked.
const NEXT_OF_CGI: &[&str] = &[
    "error",
    "timeout",
    "invalid_header",
    "non_idempotent",
    "http_500",
    "http_503",
    "http_403",
    "http_404",
    "http_429",
    "updating",
    "off",
];

const NEXT_OF_MEMCACHED: &[&str] = &["error", "timeout", "invalid_response", "not_found", "off"];

const IGNORED: &[&str] = &[
    "X-Accel-Redirect",
    "X-Accel-Expires",
    "X-Accel-Limit-Rate",
    "X-Accel-Buffering",
    "X-Accel-Charset",
    "Expires",
    "Cache-Control",
    "Set-Cookie",
    "Vary",
];

const GZIP_PROXIED: &[&str] = &[
    "off",
    "expired",
    "no-cache",
    "no-store",
    "private",
    "no_last_modified",
    "no_etag",
    "auth",
    "any",
];

const PROTOCOLS: &[&str] = &["SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

const USERID_FLAGS: &[&str] = &[
    "off",
    "secure",
    "httponly",
    "samesite=strict",
    "samesite=lax",
    "samesite=none",
];

const COOKIE_FLAGS: &[&str] = &[
    "secure",
    "nosecure",
    "httponly",
    "nohttponly",
    "samesite",
    "samesite=strict",
    "samesite=lax",
    "samesite=none",
    "nosamesite",
];

const LEVELS: &[&str] = &[
    "debug", "info", "notice", "warn", "error", "crit", "alert", "emerg",
];

/// The words that a directive may have from the one with this number on; in any case where they are names of fields.
pub struct Set {
    /// The first word that is one of them.
    pub from: usize,
    /// The words.
    pub words: &'static [&'static str],
    /// The expected words, shown in the diagnostic.
    pub wanted: &'static str,
}

/// The set that a directive has.
pub fn of(name: &str) -> Option<Set> {
    let set = |from, words, wanted| {
        Some(Set {
            from,
            words,
            wanted,
        })
    };
    const HTTP: &str = "`error`, `timeout`, `invalid_header`, `non_idempotent`, `http_500`, `http_502`, `http_503`, `http_504`, \
                        `http_403`, `http_404`, `http_429`, `updating` or `off`";
    const CGI: &str = "`error`, `timeout`, `invalid_header`, `non_idempotent`, `http_500`, `http_503`, `http_403`, `http_404`, \
                       `http_429`, `updating` or `off`";
    const FIELDS: &str =
        "`Cache-Control`, `Expires`, `Set-Cookie`, `Vary` or a field of `X-Accel-`";
    match name {
        "proxy_next_upstream" | "grpc_next_upstream" | "proxy_cache_use_stale" => {
            set(0, NEXT_OF_HTTP, HTTP)
        }
        "fastcgi_next_upstream"
        | "uwsgi_next_upstream"
        | "scgi_next_upstream"
        | "fastcgi_cache_use_stale"
        | "uwsgi_cache_use_stale"
        | "scgi_cache_use_stale" => set(0, NEXT_OF_CGI, CGI),
        "memcached_next_upstream" => set(
            0,
            NEXT_OF_MEMCACHED,
            "`error`, `timeout`, `invalid_response`, `not_found` or `off`",
        ),
        "proxy_ignore_headers"
        | "fastcgi_ignore_headers"
        | "uwsgi_ignore_headers"
        | "scgi_ignore_headers"
        | "grpc_ignore_headers" => set(0, IGNORED, FIELDS),
        "gzip_proxied" => set(
            0,
            GZIP_PROXIED,
            "`off`, `expired`, `no-cache`, `no-store`, `private`, `no_last_modified`, `no_etag`, `auth` and `any`",
        ),
        "keepalive_disable" => set(
            0,
            &["none", "msie6", "safari"],
            "`none`, `msie6` and `safari`",
        ),
        "ssl_protocols" | "proxy_ssl_protocols" | "grpc_ssl_protocols" | "uwsgi_ssl_protocols" => {
            set(0, PROTOCOLS, "`TLSv1.2` and `TLSv1.3`")
        }
        "userid_flags" => set(
            0,
            USERID_FLAGS,
            "`secure`, `httponly`, `samesite=strict`, `samesite=lax`, `samesite=none` or `off`",
        ),
        "proxy_cookie_flags" => set(
            1,
            COOKIE_FLAGS,
            "`secure`, `nosecure`, `httponly`, `nohttponly`, `samesite`, `samesite=strict`, `samesite=lax`, `samesite=none` and \
             `nosamesite`",
        ),
        "error_log" => set(
            1,
            LEVELS,
            "`debug`, `info`, `notice`, `warn`, `error`, `crit`, `alert` or `emerg`",
        ),
        _ => None,
    }
}
