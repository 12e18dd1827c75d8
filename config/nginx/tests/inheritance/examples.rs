//! Two values of each directive that a location may have, and what else must be present for its effect to show.

use super::registry::{Context, ENTRIES, Entry, Verdict};

/// What nested locations make of a directive of the location around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// It holds in them unless they have their own.
    On,
    /// It holds in them no more; why.
    NotOn(&'static str),
    /// It holds in them, but would mean something else if it were written there; why.
    AsWritten(&'static str),
}

/// A directive with two values, none of which is the default, unless there are only two: then the first is not.
#[derive(Clone, Debug)]
pub struct Example {
    pub name: String,
    pub values: [String; 2],
    /// Lines beside it in each location that is looked at.
    pub beside: String,
    /// Lines of the server.
    pub around: String,
    /// What has to stand where the directive does not.
    pub usual: String,
    pub passes: Passes,
}

impl Example {
    /// The directive with its first or second value.
    pub fn line(&self, value: usize) -> String {
        let value = &self.values[value];
        let end = if value.ends_with('}') { "" } else { ";" };
        format!("{} {value}{end} ", self.name)
    }
}

/// The directives that have an example: those that do what nginx's documentation says, at least in part, in locations.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    ENTRIES.iter().filter(|entry| {
        let is_built = matches!(entry.verdict(), Verdict::Works | Verdict::Partly(_));
        // `location` is what the test is made of.
        is_built
            && entry.is_of_http()
            && entry.may_stand_in(Context::Location)
            && entry.name != "location"
            && !entry.contexts.is_empty()
    })
}

/// The directives of servers that no location has, and that have an example.
pub fn of_servers() -> impl Iterator<Item = &'static Entry> {
    ENTRIES.iter().filter(|entry| {
        let is_built = matches!(entry.verdict(), Verdict::Works | Verdict::Partly(_));
        is_built
            && entry.is_of_http()
            && !entry.may_stand_in(Context::Location)
            && entry.may_stand_in(Context::Http)
            && entry.may_stand_in(Context::Server)
            && entry.name != "server"
    })
}

/// Name, first value, second value, lines beside it.
type Row = (&'static str, &'static str, &'static str, &'static str);

const PASSWORD: &str = "auth_basic a; auth_basic_user_file f;";

#[rustfmt::skip]
const INHERITED: &[Row] = &[
    ("allow", "127.0.0.1", "10.0.0.0/8", ""),
    ("deny", "127.0.0.1", "10.0.0.0/8", ""),
    ("add_before_body", "/x", "/y", ""),
    ("add_after_body", "/x", "/y", ""),
    ("addition_types", "text/css", "text/xml", "add_before_body /x;"),
    ("auth_basic", "a", "b", "auth_basic_user_file f;"),
    ("auth_basic_user_file", "f", "g", "auth_basic a;"),
    ("auth_request", "/x", "/y", ""),
    ("auth_request_set", "$v 1", "$v 2", "auth_request /x;"),
    ("autoindex", "on", "off", ""),
    ("autoindex_exact_size", "off", "on", "autoindex on;"),
    ("autoindex_format", "json", "xml", "autoindex on;"),
    ("autoindex_localtime", "on", "off", "autoindex on;"),
    ("ancient_browser", "Links", "Lynx", "add_header X $ancient_browser;"),
    ("ancient_browser_value", "a", "b", "ancient_browser Links; add_header X $ancient_browser;"),
    ("modern_browser", "msie 5.5", "gecko 1.0.0", "add_header X $modern_browser;"),
    ("modern_browser_value", "a", "b", "modern_browser msie 5.5; add_header X $modern_browser;"),
    ("charset", "koi8-r", "utf-8", ""),
    ("charset_types", "text/css", "text/xml", "charset utf-8; types { text/css css; text/xml xml; }"),
    ("override_charset", "on", "off", "charset utf-8; source_charset koi8-r; proxy_pass http://127.0.0.1:1;"),
    ("source_charset", "koi8-r", "windows-1251", "charset utf-8;"),
    ("absolute_redirect", "off", "on", ""),
    ("auth_delay", "1s", "2s", PASSWORD),
    ("chunked_transfer_encoding", "off", "on", ""),
    ("client_body_buffer_size", "32k", "128k", "proxy_pass http://127.0.0.1:1;"),
    ("client_body_in_file_only", "on", "clean", "proxy_pass http://127.0.0.1:1;"),
    ("client_body_temp_path", "/a", "/b", "proxy_pass http://127.0.0.1:1;"),
    ("client_body_timeout", "1s", "2s", ""),
    ("client_max_body_size", "1k", "2k", ""),
    ("default_type", "a/b", "c/d", ""),
    ("disable_symlinks", "on", "if_not_owner", ""),
    ("early_hints", "$http_a", "$http_b", "proxy_pass http://127.0.0.1:1;"),
    ("error_page", "404 /x", "404 /y", ""),
    ("error_log", "/a", "/b", ""),
    ("etag", "off", "on", ""),
    ("if_modified_since", "off", "before", ""),
    ("internal", "", "", ""),
    ("keepalive_disable", "none", "safari", ""),
    ("keepalive_min_timeout", "1s", "2s", ""),
    ("keepalive_requests", "1", "2", ""),
    ("keepalive_time", "1m", "2m", ""),
    ("keepalive_timeout", "1s", "2s", ""),
    ("limit_rate", "1k", "2k", ""),
    ("limit_rate_after", "1k", "2k", "limit_rate 1k;"),
    ("lingering_close", "off", "always", ""),
    ("lingering_time", "1s", "2s", ""),
    ("lingering_timeout", "1s", "2s", ""),
    ("min_data_rate", "120", "off", ""),
    ("overload", "fail_fast 1 name=a", "fail_fast 2 name=a", ""),
    ("log_not_found", "off", "on", ""),
    ("max_ranges", "1", "2", ""),
    ("log_subrequest", "on", "off", "access_log /a;"),
    ("open_file_cache", "max=10", "off", ""),
    ("open_file_cache_errors", "on", "off", "open_file_cache max=10;"),
    ("open_file_cache_valid", "1s", "2s", "open_file_cache max=10;"),
    ("port_in_redirect", "off", "on", ""),
    ("post_action", "/x", "/y", ""),
    ("recursive_error_pages", "on", "off", ""),
    ("reset_timedout_connection", "on", "off", ""),
    ("resolver", "127.0.0.1", "127.0.0.2", "proxy_pass http://$arg_to;"),
    ("resolver_timeout", "1s", "2s", "resolver 127.0.0.1; proxy_pass http://$arg_to;"),
    ("root", "/a", "/b", ""),
    ("satisfy", "any", "all", "auth_basic a; auth_basic_user_file f; allow all;"),
    ("send_timeout", "1s", "2s", ""),
    ("server_name_in_redirect", "on", "off", ""),
    ("server_tokens", "\"a\"", "\"b\"", ""),
    ("types", "{ a/b x; }", "{ a/b y; }", ""),
    ("gunzip", "on", "off", ""),
    ("gzip", "on", "off", ""),
    ("gzip_comp_level", "2", "3", "gzip on;"),
    ("gzip_disable", "a", "b", "gzip on;"),
    ("gzip_http_version", "1.0", "1.1", "gzip on;"),
    ("gzip_min_length", "1", "2", "gzip on;"),
    ("gzip_proxied", "any", "auth", "gzip on;"),
    ("gzip_types", "text/css", "text/xml", "gzip on;"),
    ("gzip_vary", "on", "off", "gzip on;"),
    ("gzip_static", "on", "always", ""),
    ("add_header", "X a", "X b", ""),
    ("add_trailer", "X a", "X b", ""),
    ("expires", "1m", "2m", ""),
    ("index", "a", "b", ""),
    ("limit_conn", "clients 1", "clients 2", ""),
    ("limit_conn_dry_run", "on", "off", "limit_conn clients 1;"),
    ("limit_conn_log_level", "info", "warn", "limit_conn clients 1;"),
    ("limit_conn_status", "429", "430", "limit_conn clients 1;"),
    ("limit_req", "zone=requests burst=1", "zone=requests burst=2", ""),
    ("limit_req_dry_run", "on", "off", "limit_req zone=requests;"),
    ("limit_req_log_level", "info", "warn", "limit_req zone=requests;"),
    ("limit_req_status", "429", "430", "limit_req zone=requests;"),
    ("access_log", "/a", "/b", ""),
    ("open_log_file_cache", "max=1", "max=2", "access_log /l/$host;"),
    ("mirror", "/x", "/y", ""),
    ("mirror_request_body", "off", "on", "mirror /x;"),
    ("random_index", "on", "off", ""),
    ("set_real_ip_from", "127.0.0.1", "10.0.0.0/8", ""),
    ("real_ip_header", "X-A", "proxy_protocol", "set_real_ip_from 127.0.0.1;"),
    ("real_ip_recursive", "on", "off", "set_real_ip_from 127.0.0.1;"),
    ("valid_referers", "none", "blocked", "add_header X $invalid_referer;"),
    ("rewrite_log", "on", "off", ""),
    ("secure_link", "$arg_a", "$arg_b", "secure_link_md5 x; add_header X $secure_link;"),
    ("secure_link_md5", "x", "y", "secure_link $arg_a; add_header X $secure_link;"),
    ("secure_link_secret", "a", "b", "add_header X $secure_link;"),
    ("slice", "1k", "2k", ""),
    ("ssi", "on", "off", ""),
    ("ssi_last_modified", "on", "off", "ssi on;"),
    ("ssi_silent_errors", "on", "off", "ssi on;"),
    ("ssi_types", "text/css", "text/xml", "ssi on;"),
    ("ssi_value_length", "1", "2", "ssi on;"),
    ("sub_filter", "a b", "c d", ""),
    ("sub_filter_last_modified", "on", "off", "sub_filter a b;"),
    ("sub_filter_once", "off", "on", "sub_filter a b;"),
    ("sub_filter_types", "text/css", "text/xml", "sub_filter a b;"),
    ("userid", "on", "v1", ""),
    ("userid_domain", "a.test", "b.test", "userid on;"),
    ("userid_expires", "1d", "2d", "userid on;"),
    ("userid_flags", "secure", "httponly", "userid on;"),
    ("userid_mark", "a", "b", "userid on; userid_expires 1d;"),
    ("userid_name", "a", "b", "userid on;"),
    ("userid_p3p", "a", "b", "userid on;"),
    ("userid_path", "/a", "/b", "userid on;"),
    ("userid_service", "1", "2", "userid on;"),
    ("fastcgi_split_path_info", "^(.+a)(/.+)$", "^(.+b)(/.+)$", "add_header X $fastcgi_path_info;"),
    ("fastcgi_index", "a", "b", "add_header X $fastcgi_script_name;"),
    ("fastcgi_catch_stderr", "a", "b", "fastcgi_pass 127.0.0.1:1;"),
    ("fastcgi_keep_conn", "on", "off", "fastcgi_pass 127.0.0.1:1;"),
    ("proxy_cache_convert_head", "off", "on", "proxy_pass http://127.0.0.1:1; proxy_cache a; proxy_cache_valid 1m;"),
    ("proxy_cookie_domain", "a b", "c d", "proxy_pass http://127.0.0.1:1;"),
    ("proxy_cookie_flags", "a secure", "b secure", "proxy_pass http://127.0.0.1:1;"),
    ("proxy_cookie_path", "/a /b", "/c /d", "proxy_pass http://127.0.0.1:1;"),
    ("proxy_http_version", "1.0", "1.1", "proxy_pass http://127.0.0.1:1;"),
    ("proxy_method", "PUT", "POST", "proxy_pass http://127.0.0.1:1;"),
    ("proxy_redirect", "/a /b", "/c /d", "proxy_pass http://127.0.0.1:1;"),
    ("proxy_set_body", "a", "b", "proxy_pass http://127.0.0.1:1;"),
    ("memcached_gzip_flag", "1", "2", "memcached_pass 127.0.0.1:1; gunzip on;"),
    ("uwsgi_modifier1", "1", "2", "uwsgi_pass 127.0.0.1:1;"),
    ("uwsgi_modifier2", "1", "2", "uwsgi_pass 127.0.0.1:1;"),
];

const ACTS: &str =
    "the documentation of the rewrite module runs them in the block where they stand";
const RESPONDS: &str =
    "it names the handler of its own location (development guide, \"content phase\")";

/// What holds in a location itself only.
#[rustfmt::skip]
const NOT_INHERITED: &[(&str, &str, &str, &str)] = &[
    ("break", "", "", ACTS),
    ("health_check", "interval=1s; proxy_pass http://group", "interval=2s; proxy_pass http://group", RESPONDS),
    ("if", "($arg_a) { set $v 1; }", "($arg_b) { set $v 1; }", ACTS),
    ("return", "200 a", "200 b", ACTS),
    ("rewrite", "^ /a", "^ /b", ACTS),
    ("set", "$v 1", "$v 2", ACTS),
    ("empty_gif", "", "", RESPONDS),
    ("stub_status", "", "", RESPONDS),
    ("api", "", "", RESPONDS),
    ("proxy_pass", "http://127.0.0.1:1", "http://127.0.0.1:2", RESPONDS),
    ("fastcgi_pass", "127.0.0.1:1", "127.0.0.1:2", RESPONDS),
    ("grpc_pass", "127.0.0.1:1", "127.0.0.1:2", RESPONDS),
    ("memcached_pass", "127.0.0.1:1", "127.0.0.1:2", RESPONDS),
    ("scgi_pass", "127.0.0.1:1", "127.0.0.1:2", RESPONDS),
    ("uwsgi_pass", "127.0.0.1:1", "127.0.0.1:2", RESPONDS),
    ("limit_except", "GET { deny all; }", "POST { deny all; }", "it limits \"allowed HTTP methods inside a location\"; nginx 1.22 lets a POST into a nested one"),
    ("try_files", "a =404", "b =404", "it is tried \"in the current context\"; nginx 1.22 does not look in a nested one"),
];

/// What the location itself is part of the meaning of: it is inherited as it was written around.
const BY_PLACE: &[(&str, &str, &str, &str)] = &[
    (
        "alias",
        "/a/",
        "/b/",
        "it stands in for the path of the location in which it is written",
    ),
    (
        "status_zone",
        "a",
        "b",
        "that of a server counts all of its requests, and no location inherits it",
    ),
];

/// Directives of servers, which no location has. A certificate is there.
#[rustfmt::skip]
const OF_SERVERS: &[Row] = &[
    ("client_header_timeout", "1s", "2s", ""),
    ("ignore_invalid_headers", "off", "on", ""),
    ("large_client_header_buffers", "1 1k", "2 2k", ""),
    ("max_headers", "10", "20", ""),
    ("merge_slashes", "off", "on", ""),
    ("request_id", "on", "on X-Id", ""),
    ("underscores_in_headers", "on", "off", ""),
    ("ssl", "on", "off", "listen 2;"),
    ("ssl_certificate", "a", "b", "ssl_certificate_key k;"),
    ("ssl_certificate_cache", "max=1", "max=2", "ssl_certificate $host; ssl_certificate_key $host;"),
    ("ssl_certificate_key", "a", "b", "ssl_certificate c;"),
    ("ssl_ciphers", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", ""),
    ("ssl_client_certificate", "a", "b", "ssl_verify_client on;"),
    ("ssl_conf_command", "Groups P-256", "Groups P-384", ""),
    ("ssl_crl", "a", "b", "ssl_verify_client on; ssl_client_certificate c;"),
    ("ssl_early_data", "on", "off", ""),
    ("ssl_ecdh_curve", "X25519", "prime256v1", ""),
    ("ssl_password_file", "a", "b", ""),
    ("ssl_prefer_server_ciphers", "on", "off", "ssl_ciphers ECDHE-RSA-CHACHA20-POLY1305:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256;"),
    ("ssl_protocols", "TLSv1.3", "TLSv1.2", ""),
    ("ssl_reject_handshake", "on", "off", ""),
    ("ssl_session_cache", "shared:a:1m", "off", "ssl_session_tickets off;"),
    ("ssl_session_ticket_key", "a", "b", ""),
    ("ssl_session_tickets", "off", "on", ""),
    ("ssl_session_timeout", "1h", "2h", ""),
    ("ssl_stapling_file", "a", "b", "ssl_stapling on;"),
    ("ssl_stapling_responder", "http://a.test", "http://b.test", "ssl_stapling on;"),
    ("ssl_trusted_certificate", "a", "b", "ssl_verify_client on;"),
    ("ssl_verify_client", "on", "optional", "ssl_client_certificate c;"),
    ("ssl_verify_depth", "2", "3", "ssl_verify_client on; ssl_client_certificate c;"),
    ("http2", "on", "off", ""),
    ("http3", "on", "off", "listen 2 quic;"),
    ("http3_max_concurrent_streams", "10", "20", ""),
    ("http3_stream_buffer_size", "32k", "64k", ""),
    ("quic_gso", "on", "off", ""),
    ("quic_host_key", "a", "b", ""),
    ("quic_retry", "on", "off", ""),
    ("http2_body_preread_size", "32k", "128k", ""),
    ("http2_max_concurrent_streams", "1", "2", ""),
];

/// What takes effect only where the server has fields, too.
const OF_FIELDS: &[(&str, &str, &str)] = &[
    ("add_header_inherit", "add_header X x;", "add_header Y y;"),
    (
        "add_trailer_inherit",
        "add_trailer X x;",
        "add_trailer Y y;",
    ),
];

/// The kinds of upstreams: the beginning of their directives, what passes requests on to them, with TLS, and which of
/// the rows below they have.
const UPSTREAMS: &[(&str, &str, &str)] = &[
    (
        "proxy",
        "proxy_pass http://127.0.0.1:1;",
        "proxy_pass https://127.0.0.1:1;",
    ),
    ("fastcgi", "fastcgi_pass 127.0.0.1:1;", ""),
    (
        "grpc",
        "grpc_pass 127.0.0.1:1;",
        "grpc_pass grpcs://127.0.0.1:1;",
    ),
    ("memcached", "memcached_pass 127.0.0.1:1;", ""),
    ("scgi", "scgi_pass 127.0.0.1:1;", ""),
    (
        "uwsgi",
        "uwsgi_pass 127.0.0.1:1;",
        "uwsgi_pass suwsgi://127.0.0.1:1;",
    ),
];

/// Directives of several kinds of upstreams, without their beginnings. `P` stands for those in the lines beside them.
#[rustfmt::skip]
const OF_UPSTREAMS: &[Row] = &[
    ("bind", "127.0.0.1", "127.0.0.2", ""),
    ("buffer_size", "8k", "16k", ""),
    ("buffering", "off", "on", ""),
    ("buffers", "2 4k", "4 4k", ""),
    ("connect_timeout", "1s", "2s", ""),
    ("force_ranges", "on", "off", ""),
    ("hide_header", "X-A", "X-B", ""),
    ("ignore_client_abort", "on", "off", ""),
    ("ignore_headers", "X-Accel-Redirect", "X-Accel-Charset", ""),
    ("intercept_errors", "on", "off", "error_page 404 /x;"),
    ("limit_rate", "1k", "2k", ""),
    ("max_temp_file_size", "1m", "2m", ""),
    ("next_upstream", "timeout", "off", "P_pass GROUP;"),
    ("next_upstream_timeout", "1s", "2s", "P_pass GROUP;"),
    ("next_upstream_tries", "1", "2", "P_pass GROUP;"),
    ("param", "A a", "A b", ""),
    ("pass_header", "X-A", "X-B", "P_hide_header X-A; P_hide_header X-B;"),
    ("pass_request_body", "off", "on", ""),
    ("pass_request_headers", "off", "on", ""),
    ("read_timeout", "1s", "2s", ""),
    ("request_buffering", "off", "on", ""),
    ("send_timeout", "1s", "2s", ""),
    ("set_header", "X-A a", "X-A b", ""),
    ("socket_rcvbuf", "8k", "16k", ""),
    ("socket_sndbuf", "8k", "16k", ""),
    ("store", "/a$uri", "/b$uri", ""),
    ("store_access", "group:r", "all:r", "P_store /a$uri;"),
    ("temp_file_write_size", "8k", "16k", ""),
    ("temp_path", "/a", "/b", ""),
    ("no_cache", "$arg_a", "$arg_b", "CACHE"),
    ("cache", "a", "b", "P_cache_key k; P_cache_valid 1m;"),
    ("cache_background_update", "on", "off", "CACHE P_cache_use_stale updating;"),
    ("cache_bypass", "$arg_a", "$arg_b", "CACHE"),
    ("cache_key", "a", "b", "P_cache a; P_cache_valid 1m;"),
    ("cache_lock", "on", "off", "CACHE"),
    ("cache_lock_age", "1s", "2s", "CACHE P_cache_lock on;"),
    ("cache_lock_timeout", "1s", "2s", "CACHE P_cache_lock on;"),
    ("cache_max_range_offset", "1", "2", "CACHE"),
    ("cache_methods", "POST", "GET", "CACHE"),
    ("cache_min_uses", "2", "3", "CACHE"),
    ("cache_peers", "secret=x a=http://a b=http://b", "secret=y a=http://a b=http://b", "CACHE"),
    ("cache_purge", "$arg_a", "$arg_b", "CACHE"),
    ("cache_revalidate", "on", "off", "CACHE"),
    ("cache_use_stale", "error", "timeout", "CACHE"),
    ("cache_valid", "1m", "2m", "P_cache a; P_cache_key k;"),
    ("ssl_certificate", "a", "b", "P_ssl_certificate_key k;"),
    ("ssl_certificate_key", "a", "b", "P_ssl_certificate c;"),
    ("ssl_ciphers", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", ""),
    ("ssl_conf_command", "Groups P-256", "Groups P-384", ""),
    ("ssl_crl", "a", "b", "P_ssl_verify on; P_ssl_trusted_certificate t;"),
    ("ssl_name", "a.test", "b.test", ""),
    ("ssl_password_file", "a", "b", "P_ssl_certificate c; P_ssl_certificate_key k;"),
    ("ssl_protocols", "TLSv1.2", "TLSv1.3", ""),
    ("ssl_server_name", "off", "on", ""),
    ("ssl_session_reuse", "off", "on", ""),
    ("ssl_trusted_certificate", "a", "b", "P_ssl_verify on;"),
    ("ssl_verify", "on", "off", "P_ssl_trusted_certificate t;"),
];

fn of_upstream(name: &str) -> Option<Example> {
    let (kind, rest) = name.split_once('_')?;
    let (_, plain, secure) = UPSTREAMS.iter().find(|(known, ..)| *known == kind)?;
    let (_, first, second, beside) = OF_UPSTREAMS.iter().find(|(known, ..)| *known == rest)?;
    let passes = match (rest.starts_with("ssl_"), beside.contains("P_pass")) {
        (true, _) => secure,
        (false, true) => "",
        (false, false) => plain,
    };
    let scheme = if kind == "proxy" { "http://" } else { "" };
    let beside = beside
        .replace("CACHE", "P_cache a; P_cache_key k; P_cache_valid 1m;")
        .replace("GROUP", &format!("{scheme}group"))
        .replace("P_", &format!("{kind}_"));
    Some(example(name, [first, second], format!("{passes} {beside}")))
}

fn example(name: &str, values: [&str; 2], beside: String) -> Example {
    Example {
        name: name.to_owned(),
        values: values.map(str::to_owned),
        beside,
        around: String::new(),
        usual: match name.ends_with("_cache_key") {
            true => format!("{name} z;"),
            false => String::new(),
        },
        passes: Passes::On,
    }
}

/// The example of a directive.
pub fn find(name: &str) -> Option<Example> {
    let row = INHERITED.iter().chain(OF_SERVERS).find(|row| row.0 == name);
    if let Some((_, first, second, beside)) = row {
        return Some(example(name, [first, second], (*beside).to_owned()));
    }
    if let Some((_, first, second, why)) = NOT_INHERITED.iter().find(|row| row.0 == name) {
        return Some(Example {
            passes: Passes::NotOn(why),
            ..example(name, [first, second], String::new())
        });
    }
    if let Some((_, first, second, why)) = BY_PLACE.iter().find(|row| row.0 == name) {
        return Some(Example {
            passes: Passes::AsWritten(why),
            ..example(name, [first, second], String::new())
        });
    }
    if let Some((_, around, beside)) = OF_FIELDS.iter().find(|row| row.0 == name) {
        return Some(Example {
            around: (*around).to_owned(),
            ..example(name, ["merge", "off"], (*beside).to_owned())
        });
    }
    of_upstream(name)
}

/// The names of all rows, to find one that is of no directive.
pub fn names() -> Vec<String> {
    let own = INHERITED.iter().chain(NOT_INHERITED);
    let own = own.chain(BY_PLACE).chain(OF_SERVERS).map(|row| row.0);
    let own = own
        .chain(OF_FIELDS.iter().map(|row| row.0))
        .map(str::to_owned);
    let of_upstreams = OF_UPSTREAMS.iter().flat_map(|row| {
        let names = UPSTREAMS
            .iter()
            .map(|(kind, ..)| format!("{kind}_{}", row.0));
        let names: Vec<String> = names
            .filter(|name| entries().any(|entry| entry.name == name))
            .collect();
        match names.is_empty() {
            true => vec![row.0.to_owned()],
            false => names,
        }
    });
    own.chain(of_upstreams).collect()
}
