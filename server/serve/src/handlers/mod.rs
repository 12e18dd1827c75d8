//! Handlers. Each directive that handles or changes requests has a file of its own.

pub mod acme_server;
pub mod authentication;
pub mod body_text;
pub mod cache;
pub mod copy_response;
pub mod encode;
pub mod error;
pub mod file_server;
pub mod headers;
pub mod in_flight;
pub mod intercept;
pub mod log_append;
pub mod map;
pub mod metrics;
pub mod nginx;
pub mod push;
pub mod rate_limit;
pub mod request_body;
pub mod reverse_proxy;
pub mod rewrite;
pub mod static_response;
pub mod subroute;
pub mod templates;
pub mod tracing;
pub mod vars;
