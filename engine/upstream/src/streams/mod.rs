//! Connections to upstreams that are shared by many calls, each on a stream of its own: what calls, bodies and the pool of
//! such connections have in common. `h2` and `h3` implement the connections.

mod body;
mod call;
mod connection;
mod gone;
mod membership;
mod obtain;
mod reserved_stream;
mod shared_pool;
mod upload;

pub use call::StreamCall;
pub use connection::{Dialled, Dials, Found, Streams, Taken};
pub use gone::{Ending, Gone};
pub use membership::{Membership, Sharing};
pub(crate) use obtain::{obtain, take};
pub use reserved_stream::Seat;
pub use shared_pool::{Shared, Shelf};
