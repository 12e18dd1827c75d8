//! Translates nginx.conf text to the model, with diagnostics.
//!
//! `server/serve` checks whether the files named in it can be opened, and whether the server supports what the model
//! asks for.
#![forbid(unsafe_code)]

mod arguments;
mod builtin;
mod check;
mod context;
mod definition;
mod fragment;
mod glob;
mod hint;
mod lex;
pub mod limits;
pub mod lint;
mod lower;
mod modules;
mod parse;
pub mod registry;
mod translate;
pub mod tree;

pub use fragment::{begins_with_events, looks_like_nginx};
pub use lower::{Adapted, Invocation, adapt, adapt_as};
pub use parse::{COMMAND_LINE, Parsed, parse};
pub use sluice_caddyfile::{DiskLoader, Loader, MemoryLoader};
pub use translate::{NOT_TRANSLATED, Translated, translate};
