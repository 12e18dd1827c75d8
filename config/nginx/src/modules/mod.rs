//! nginx's modules. Each has a file that declares its supported directives and lowers them.

pub mod access;
pub mod acme;
pub mod addition;
pub mod answers;
pub mod auth;
pub mod browser;
pub mod buffering;
pub mod cache;
pub mod cgi;
pub mod charset;
pub mod content;
pub mod core;
pub mod fastcgi;
pub mod files;
pub mod grpc;
pub mod gzip;
pub mod handshakes;
pub mod headers;
pub mod http2;
pub mod http_core;
pub mod limits;
pub mod log;
pub mod map;
pub mod memcached;
pub mod mirror;
pub mod named;
pub mod openssl;
pub mod proxy;
pub mod ranges;
pub mod realip;
pub mod resolver;
pub mod rewrite;
pub mod scgi;
pub mod slice;
pub mod ssi;
pub mod ssl;
pub mod sub;
pub mod upstream;
pub mod upstream_tls;
pub mod upstream_url;
pub mod user_id;

use crate::definition::Word;

/// What each module has built.
pub const ALL: &[(&str, &[Word])] = &[
    ("ngx_core_module", core::WORDS),
    ("ngx_http_access_module", access::WORDS),
    ("ngx_http_acme_module", acme::WORDS),
    ("ngx_http_addition_module", addition::WORDS),
    ("ngx_http_auth_basic_module", auth::BASIC),
    ("ngx_http_auth_request_module", auth::REQUEST),
    ("ngx_http_autoindex_module", files::AUTOINDEX),
    ("ngx_http_browser_module", browser::WORDS),
    ("ngx_http_charset_module", charset::WORDS),
    ("ngx_http_core_module", http_core::WORDS),
    ("ngx_http_dav_module", files::DAV),
    ("ngx_http_empty_gif_module", content::EMPTY_GIF),
    ("ngx_http_fastcgi_module", fastcgi::WORDS),
    ("ngx_http_geo_module", map::GEO),
    ("ngx_http_grpc_module", grpc::WORDS),
    ("ngx_http_gzip_module", gzip::WORDS),
    ("ngx_http_gzip_static_module", gzip::STATIC),
    ("ngx_http_gunzip_module", gzip::GUNZIP),
    ("ngx_http_headers_module", headers::WORDS),
    ("ngx_http_index_module", files::INDEX),
    ("ngx_http_limit_conn_module", limits::CONNECTIONS),
    ("ngx_http_limit_req_module", limits::REQUESTS),
    ("ngx_http_log_module", log::WORDS),
    ("ngx_http_map_module", map::MAP),
    ("ngx_http_memcached_module", memcached::WORDS),
    ("ngx_http_mirror_module", mirror::WORDS),
    ("ngx_http_proxy_module", proxy::WORDS),
    ("ngx_http_random_index_module", files::RANDOM_INDEX),
    ("ngx_http_realip_module", realip::WORDS),
    ("ngx_http_referer_module", content::REFERER),
    ("ngx_http_rewrite_module", rewrite::WORDS),
    ("ngx_http_scgi_module", scgi::WORDS),
    ("ngx_http_secure_link_module", content::SECURE_LINK),
    ("ngx_http_slice_module", slice::WORDS),
    ("ngx_http_split_clients_module", map::SPLIT_CLIENTS),
    ("ngx_http_ssi_module", ssi::WORDS),
    ("ngx_http_ssl_module", ssl::WORDS),
    ("ngx_http_stub_status_module", content::STUB_STATUS),
    ("ngx_http_upstream_module", upstream::WORDS),
    ("ngx_http_sub_module", sub::WORDS),
    ("ngx_http_userid_module", user_id::WORDS),
    ("ngx_http_uwsgi_module", scgi::UWSGI),
    ("ngx_http_v2_module", http2::V2),
    ("ngx_http_v3_module", http2::V3),
];

/// What the module called `name` has built.
pub fn words(name: &str) -> Option<&'static [Word]> {
    let found = ALL.iter().find(|(module, _)| *module == name);
    found.map(|(_, words)| *words)
}
