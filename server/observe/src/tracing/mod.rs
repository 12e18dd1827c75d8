//! Tracing: a span for each request of routes with `tracing`, which continues the client's trace and is propagated to
//! upstreams (W3C Trace Context).

mod export;
pub mod limits;
mod parent;
pub(crate) mod protobuf;
mod settings;
mod span;

pub(crate) use export::CollectorClient;
pub use export::Exporter;
pub use parent::Parent;
pub(crate) use settings::{Destination, Signal};
pub use settings::{Sampler, Settings};
pub use span::{Ended, Span};
