//! The HTTP server: builds a running server from the model and runs each request through its routes. `sluice-net`
//! manages sockets, `sluice-route` matches routes, `config/` parses configurations.

pub mod build;
mod client_cert;
pub mod client_ip;
pub mod context;
mod dialects;
mod early;
pub mod explain;
pub mod expression;
pub mod failure;
pub mod files;
pub mod filters;
pub mod handler;
pub mod handlers;
mod https;
mod keys;
pub mod limits;
mod listen;
mod listener_wrapper;
mod location;
mod modules;
mod odd_headers;
mod openssl_names;
mod pipeline;
pub mod process;
mod protocols;
pub mod record;
pub mod refusal;
mod settings;
pub mod site;
pub mod status;
mod subrequests;
mod templates;
pub mod text;
mod trust_pool;
pub mod values;
mod virtual_servers;

pub use context::{Context, Exchange};
pub use failure::Fault;
pub use handler::{Filter, Handler, Step, Waiting};
