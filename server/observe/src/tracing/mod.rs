//! Traces: a span for each request of routes that ask for one, joined to the trace of whoever sent the request and
//! handed on to upstreams (W3C Trace Context). Which requests get one is left to the handler `tracing`.

mod export;
pub mod limits;
mod parent;
pub(crate) mod protobuf;
mod settings;
mod span;

pub use export::Exporter;
pub(crate) use export::post;
pub use parent::Parent;
pub(crate) use settings::{Collector, Destination, Signal};
pub use settings::{Sampler, Settings};
pub use span::{Ended, Span};
