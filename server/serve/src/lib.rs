//! What happens to a request: the model is built into a running server, and each request walks its routes.
//! Sockets are left to `sluice-net`, choosing to `sluice-route`, the language to `config/`.

pub mod build;
pub mod context;
pub mod failure;
pub mod filters;
pub mod handler;
pub mod handlers;
pub mod limits;
pub mod log;
pub mod pipeline;
pub mod record;
pub mod values;

pub use context::{Context, Exchange};
pub use failure::Fault;
pub use handler::{Filter, Handler, Step, Waiting};
