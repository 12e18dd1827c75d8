//! Connections to upstreams: dialling, pooling, and HTTP/1, HTTP/2 or FastCGI on them. `sluice-policy` selects the
//! upstream, and the layer above encodes the request.

mod call;
mod dial;
mod dialling;
mod endpoint;
mod fastcgi;
mod h2;
mod learned;
pub mod limits;
mod link;
mod link_call;
mod memcached;
mod names;
mod pool;
mod race;
mod resolver;
mod through;
mod upload;
mod upstream_response;

#[cfg(test)]
mod tests;

pub use call::{Answer, Call, CallFailure, Carrier, Heard};
pub use dial::{Wanted, obtain, take_kept};
pub use dialling::{Dialling, Fallback, ProxyProtocol, ProxyTls, Reach, SocketBuffers, Through};
pub use endpoint::{Address, Endpoint, KeepAlive, Options, Protocol, Timeouts, Wear};
pub use fastcgi::Complaints;
pub use h2::{Seat, StreamCall};
pub use link::{Link, Origin};
pub use link_call::LinkCall;
pub use pool::Pool;
pub use resolver::{Answered, Family, Lifetime, Resolver, Service, by_system, is_reachable};
pub use upload::{Traffic, Upload};
pub use upstream_response::AnswerBody;
