//! nginx's modules. Each has a file that declares its supported directives and lowers them.

pub mod access;
pub mod acme;
pub mod addition;
pub mod auth;
pub mod browser;
pub mod buffering;
pub mod cache;
pub mod cache_peers;
pub mod cgi;
pub mod charset;
pub mod content;
pub mod core;
pub mod fastcgi;
pub mod files;
pub mod forwarding;
pub mod grpc;
pub mod gzip;
pub mod handshakes;
pub mod headers;
pub mod health_checks;
pub mod http2;
pub mod http_core;
pub mod limits;
pub mod log;
pub mod map;
pub mod memcached;
pub mod mirror;
pub mod named;
pub mod next_upstream;
pub mod openssl;
pub mod overload;
pub mod proxy;
pub mod ranges;
pub mod realip;
pub mod request_id;
pub mod resolver;
pub mod rewrite;
pub mod scgi;
pub mod slice;
pub mod ssi;
pub mod ssl;
pub mod sub;
pub mod upstream;
pub mod upstream_connection;
pub mod upstream_responses;
pub mod upstream_tls;
pub mod upstream_url;
pub mod user_id;

use crate::definition::Definition;

/// A module of nginx, and the definitions of those of its directives that sluice knows.
pub struct Module {
    /// Its name, such as `ngx_http_core_module`.
    pub name: &'static str,
    /// What the names of its directives begin with and the tables leave out, such as `proxy_`: modules with upstreams share
    /// tables.
    pub prefix: &'static str,
    /// Tables of its directives.
    pub tables: &'static [&'static [Definition]],
    /// Tables that it has in common with other modules.
    pub common: &'static [&'static [Definition]],
}

impl Module {
    /// All definitions.
    pub fn definitions(&self) -> impl Iterator<Item = &'static Definition> {
        self.tables.iter().chain(self.common).copied().flatten()
    }

    /// The definition of the directive called `name`.
    pub fn definition(&self, name: &str) -> Option<&'static Definition> {
        let name = name.strip_prefix(self.prefix)?;
        self.definitions().find(|known| known.name == name)
    }
}

/// A module whose tables have whole names.
const fn plain(name: &'static str, tables: &'static [&'static [Definition]]) -> Module {
    Module {
        name,
        prefix: "",
        tables,
        common: &[],
    }
}

/// What modules have in common whose upstreams send responses of HTTP or CGI: they can be buffered and cached.
const WHOLE_RESPONSES: &[&[Definition]] = &[
    buffering::DIRECTIVES,
    cache::DIRECTIVES,
    cache_peers::DIRECTIVES,
    forwarding::REQUESTS,
    forwarding::RESPONSES,
    next_upstream::DIRECTIVES,
    upstream_connection::DIRECTIVES,
    upstream_connection::SOCKET_BUFFERS,
    upstream_responses::DIRECTIVES,
];

/// The modules of which sluice knows directives.
pub const ALL: &[Module] = &[
    plain("ngx_core_module", &[core::DIRECTIVES]),
    plain("ngx_http_access_module", &[access::DIRECTIVES]),
    plain("ngx_http_acme_module", &[acme::DIRECTIVES]),
    plain("ngx_http_addition_module", &[addition::DIRECTIVES]),
    plain("ngx_http_api_module", &[content::API]),
    plain("ngx_http_api_module_head", &[content::API]),
    plain("ngx_http_auth_basic_module", &[auth::BASIC]),
    plain("ngx_http_auth_request_module", &[auth::REQUEST]),
    plain("ngx_http_autoindex_module", &[files::AUTOINDEX]),
    plain("ngx_http_browser_module", &[browser::DIRECTIVES]),
    plain("ngx_http_charset_module", &[charset::DIRECTIVES]),
    plain(
        "ngx_http_core_module",
        &[
            http_core::DIRECTIVES,
            overload::DIRECTIVES,
            request_id::DIRECTIVES,
        ],
    ),
    plain("ngx_http_dav_module", &[files::DAV]),
    plain("ngx_http_empty_gif_module", &[content::EMPTY_GIF]),
    Module {
        name: "ngx_http_fastcgi_module",
        prefix: "fastcgi_",
        tables: &[fastcgi::DIRECTIVES, cgi::DIRECTIVES],
        common: WHOLE_RESPONSES,
    },
    plain("ngx_http_geo_module", &[map::GEO]),
    Module {
        name: "ngx_http_grpc_module",
        prefix: "grpc_",
        tables: &[
            grpc::DIRECTIVES,
            forwarding::RESPONSES,
            next_upstream::DIRECTIVES,
            upstream_connection::DIRECTIVES,
            upstream_connection::SOCKET_BUFFERS,
            upstream_tls::DIRECTIVES,
        ],
        common: &[],
    },
    plain("ngx_http_gzip_module", &[gzip::DIRECTIVES]),
    plain("ngx_http_gzip_static_module", &[gzip::STATIC]),
    plain("ngx_http_gunzip_module", &[gzip::GUNZIP]),
    plain("ngx_http_headers_module", &[headers::DIRECTIVES]),
    plain("ngx_http_index_module", &[files::INDEX]),
    plain("ngx_http_limit_conn_module", &[limits::CONNECTIONS]),
    plain("ngx_http_limit_req_module", &[limits::REQUESTS]),
    plain("ngx_http_log_module", &[log::DIRECTIVES]),
    plain("ngx_http_map_module", &[map::MAP]),
    Module {
        name: "ngx_http_memcached_module",
        prefix: "memcached_",
        tables: &[
            memcached::DIRECTIVES,
            next_upstream::DIRECTIVES,
            upstream_connection::DIRECTIVES,
        ],
        common: &[],
    },
    plain("ngx_http_mirror_module", &[mirror::DIRECTIVES]),
    Module {
        name: "ngx_http_proxy_module",
        prefix: "proxy_",
        tables: &[proxy::DIRECTIVES, upstream_tls::DIRECTIVES],
        common: WHOLE_RESPONSES,
    },
    plain("ngx_http_random_index_module", &[files::RANDOM_INDEX]),
    plain("ngx_http_realip_module", &[realip::DIRECTIVES]),
    plain("ngx_http_referer_module", &[content::REFERER]),
    plain("ngx_http_rewrite_module", &[rewrite::DIRECTIVES]),
    Module {
        name: "ngx_http_scgi_module",
        prefix: "scgi_",
        tables: &[scgi::DIRECTIVES, cgi::DIRECTIVES],
        common: WHOLE_RESPONSES,
    },
    plain("ngx_http_secure_link_module", &[content::SECURE_LINK]),
    plain("ngx_http_slice_module", &[slice::DIRECTIVES]),
    plain("ngx_http_split_clients_module", &[map::SPLIT_CLIENTS]),
    plain("ngx_http_ssi_module", &[ssi::DIRECTIVES]),
    plain("ngx_http_ssl_module", &[ssl::DIRECTIVES]),
    plain("ngx_http_stub_status_module", &[content::STUB_STATUS]),
    plain("ngx_http_upstream_module", &[upstream::DIRECTIVES]),
    plain("ngx_http_upstream_hc_module", &[health_checks::DIRECTIVES]),
    plain("ngx_http_sub_module", &[sub::DIRECTIVES]),
    plain("ngx_http_userid_module", &[user_id::DIRECTIVES]),
    Module {
        name: "ngx_http_uwsgi_module",
        prefix: "uwsgi_",
        tables: &[scgi::UWSGI, cgi::DIRECTIVES, upstream_tls::DIRECTIVES],
        common: WHOLE_RESPONSES,
    },
    plain("ngx_http_v2_module", &[http2::V2]),
    plain("ngx_http_v3_module", &[http2::V3]),
];

/// The module called `name`.
pub fn module(name: &str) -> Option<&'static Module> {
    ALL.iter().find(|module| module.name == name)
}
