//! Handlers: each directive that answers or changes a request has one file.

// WIP authentication
// WIP encode
pub mod error;
// WIP file_server
pub mod headers;
pub mod log_append;
pub mod map;
pub mod request_body;
// WIP reverse_proxy
pub mod rewrite;
pub mod static_response;
pub mod subroute;
pub mod vars;
