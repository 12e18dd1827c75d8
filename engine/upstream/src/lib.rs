//! Connections to upstreams: dialling, pooling, and HTTP/1, HTTP/2, HTTP/3, FastCGI, SCGI, uwsgi or memcached on them;
//! and calls to Redis.
//! `sluice-policy` selects the upstream, the layer above encodes the request, and `sluice-net` has workers and sockets.

mod call;
mod call_transport;
mod dial;
mod dialling;
mod early_look;
mod endpoint;
mod failures;
mod fastcgi;
mod h2;
mod h3;
mod handshake;
mod learned_keep_alive;
pub mod limits;
mod link;
mod link_call;
mod memcached;
mod name_cache;
mod names;
mod obtain;
mod outcome;
mod pool;
mod race;
pub mod redis;
mod resolver;
mod silence_timeout;
mod special_dial;
mod streams;
mod upload;
mod upstream_response;

#[cfg(test)]
mod tests;

pub use call::Call;
pub use call_transport::{Carrier, Wanted};
pub use dialling::{Dialling, Fallback, ProxyProtocol, ProxyTls, Reach, SocketBuffers, Through};
pub use endpoint::{Address, Endpoint, KeepAlive, Options, Protocol, Timeouts, Wear};
pub use fastcgi::Complaints;
pub use link::{Link, Origin};
pub use link_call::LinkCall;
pub use obtain::{obtain, take_kept};
pub use outcome::{CallFailure, Heard, Response};
pub use pool::Pool;
pub use resolver::{Family, Lifetime, Resolved, Resolver, Service, by_system, is_reachable};
pub use streams::{Seat, StreamCall};
pub use upload::{Traffic, Upload};
pub use upstream_response::ResponseBody;
