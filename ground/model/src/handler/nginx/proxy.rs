//! How nginx proxies requests, where it differs from Caddy: the dialect of a [`crate::proxy::ReverseProxy`].

use alloc::string::String;
use alloc::vec::Vec;

use super::Redirects;
use crate::handler::body_buffers::BodyBuffers;
use crate::object::objects;
use crate::value::Duration;

objects! {
    /// How nginx proxies requests: it adds no headers of its own and sends the upstream's name as the host.
    pub struct NginxProxy {
        /// The `Host` header, with placeholders.
        pub host: String,
        /// What replaces the first bytes of the request target; the target is forwarded as received when absent.
        pub target: Option<Target>,
        /// Whether a client may upgrade to another protocol.
        pub upgrade: bool,
        /// Response headers that are not forwarded to the client.
        pub hide: Vec<String>,
        /// Response statuses that are handled as errors of this server.
        pub intercept: Vec<u16>,
        /// Changes to `Location` headers of the upstream; the first match applies.
        pub redirects: Vec<LocationChange>,
        /// How this server refers to itself in `Location` headers.
        pub naming: Redirects,
        /// When the request is retried with the next server: `error`, `timeout`, `invalid_header`, a status such as
        /// `http_502`, `non_idempotent`. Never when empty.
        pub next_upstream: Vec<String>,
        /// Maximum number of servers to try; all of them when zero.
        pub next_upstream_tries: i64,
        /// How long further servers may be tried; no limit when zero.
        pub next_upstream_timeout: Duration,
        /// The method of the upstream request, with placeholders; the client's when empty.
        pub method: String,
        /// What is sent instead of the request body, with placeholders.
        pub body: Option<String>,
        /// Continues the upstream request after the client has disconnected, until the response begins.
        pub ignore_client_abort: bool,
        /// Does not forward the request headers.
        pub drop_fields: bool,
        /// Does not forward the request body.
        pub drop_body: bool,
        /// Uses HTTP/1.0: a request has a `Content-Length`.
        pub http10: bool,
        /// Sends `TE: trailers`, as gRPC requires.
        pub trailers: bool,
        /// Forwards 103 (Early Hints) responses if one of these is neither empty nor `0`, with placeholders; never when
        /// there are none.
        pub early_hints: Vec<String>,
        /// Response headers without effect: `X-Accel-Redirect`, `X-Accel-Limit-Rate`.
        pub ignore: Vec<String>,
        /// Changes to the `Domain` attribute of cookies; the first match applies.
        pub cookie_domains: Vec<LocationChange>,
        /// Changes to the `Path` attribute of cookies; the first match applies.
        pub cookie_paths: Vec<LocationChange>,
        /// Flags to set or remove in cookies; the first match applies.
        pub cookie_flags: Vec<CookieFlags>,
        /// Bytes per second at which a response is read, in nginx's notation, with placeholders; `0` for no limit.
        pub limit_rate: String,
        /// Supports `Range` requests whether or not the upstream does.
        pub force_ranges: bool,
        /// Stores responses as files (`proxy_store`).
        pub keep: Option<KeepFile>,
        /// Buffering of request bodies until they are complete.
        pub request_buffers: BodyBuffers,
        /// Buffering of responses for clients that are slower than the upstream.
        pub response_buffers: BodyBuffers,
    }

    /// Stores responses as files.
    pub struct KeepFile {
        /// The path of the file, with placeholders.
        pub path: String,
        /// The permission bits of the file.
        pub mode: u32,
    }

    /// Flags to set or remove in a cookie.
    pub struct CookieFlags {
        /// Its name, with placeholders.
        pub name: String,
        /// The pattern that its name matches, where `name` is empty.
        pub pattern: String,
        /// The flags: `secure`, `nosecure`, `httponly`, `nohttponly`, `samesite=strict`, `samesite=lax`,
        /// `samesite=none`, `nosamesite`.
        pub flags: Vec<String>,
    }

    /// What stands in a target in place of its beginning.
    pub struct Target {
        /// The new beginning, with placeholders.
        pub path: String,
        /// How many bytes of the path it replaces.
        pub cut: u32,
        /// It is all of the target, query included; where it is empty the target stays as it is.
        pub whole: bool,
    }

    /// A redirect of the upstream that is changed.
    pub struct LocationChange {
        /// What it begins with, with placeholders.
        pub from: String,
        /// The pattern that it matches, where `from` is empty.
        pub pattern: String,
        /// What stands there instead, with placeholders.
        pub to: String,
    }
}
