//! The walk of a request through the routes of its server: what handlers and filters are, what they know of a request,
//! and how a configuration becomes a program of them. The handlers themselves are in the packages above.

pub mod build;
pub mod client_cert;
pub mod client_ip;
pub mod collect;
pub mod context;
pub mod early;
pub mod env_file;
pub mod expression;
pub mod failure;
pub mod files;
pub mod frame;
pub mod handler;
pub mod keys;
pub mod limits;
pub mod location;
pub mod odd_headers;
pub mod openssl_names;
pub mod program;
pub mod record;
pub mod refusal;
pub mod request_id;
pub mod seldom;
pub mod settings;
pub mod status;
pub mod step;
pub mod subrequests;
pub mod text;
pub mod url_pattern;
pub mod values;
pub mod vars;
pub mod virtual_servers;

pub use context::{Context, Exchange};
pub use failure::Fault;
pub use handler::{Filter, Handler, Step, Waiting};
