//! Translates Caddyfile text to the model, with diagnostics.
//!
//! `server/serve` checks whether the files named in it can be opened, and whether the server supports what the model
//! asks for.
#![forbid(unsafe_code)]

mod adapt;
mod arguments;
mod dump;
mod format;
mod import;
mod lex;
pub mod limits;
mod lines;
mod loader;
pub mod lower;
mod parse;
pub mod registry;
mod substitute;
pub mod tree;
mod v1;

pub use adapt::adapt;
pub use format::format;
pub use loader::{DiskLoader, Loader, MemoryLoader};
pub use lower::{Adapted, WrittenExpression};
pub use parse::parse;
pub use v1::{Translated, adapt_v1, is_v1, translate};

use sluice_diag::Report;

/// What [`parse()`] made of a text.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The tree; what could not be read is missing from it, and the report says why.
    pub file: tree::File,
    /// The mistakes found, and the texts they point into.
    pub report: Report,
}
