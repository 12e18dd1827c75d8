//! The directives that both languages have. Each handler has a file of its own; `filters` change responses.

pub mod acme_protocol;
pub mod acme_server;
mod address_prefixes;
pub mod authentication;
pub mod body_text;
pub mod copy_response;
pub mod encode;
pub mod error;
pub mod file_server;
pub mod filters;
pub mod headers;
pub mod in_flight;
pub mod intercept;
pub mod limit_store;
pub mod limits;
pub mod log_append;
pub mod map;
pub mod metrics;
pub mod overload;
pub mod push;
pub mod rate_limit;
pub mod request_body;
pub mod rewrite;
pub mod shared_slots;
pub mod static_response;
pub mod subroute;
pub mod template_functions;
pub mod templates;
pub mod timeouts;
pub mod tracing;
pub mod vars;

#[cfg(test)]
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../../../tests/support/temp_folder.rs"]
mod temp_folder;

#[cfg(test)]
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../../../tests/support/wait.rs"]
mod wait;
