//! The HTTP server: builds a running server from the model and runs each request through its routes. `sluice-net`
//! manages sockets, `sluice-route` matches routes, `config/` parses configurations.

mod alt_svc;
pub mod config_loader;
pub mod explain;
pub mod fleet;
pub mod handover;
pub mod limits;
mod listen;
mod listener_wrapper;
mod modules;
mod own_settings;
pub mod process;
mod retired;
pub mod site;
