//! QUIC endpoints over UDP, and HTTP/3 on their connections: one endpoint for each socket of a worker. quinn-proto has
//! QUIC itself, `sluice-wire` has HTTP/3 and QPACK, `sluice-net` the requests.

mod connection;
mod connection_ids;
mod endpoint;
mod generations;
mod keys;
pub mod limits;
mod outbox;
mod serving;
mod socket;
mod tls;
mod transport;

pub use serving::serve;
