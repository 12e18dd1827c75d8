//! Caddyfile text to the model, with diagnostics.
//!
//! Whether a file that is named here can be opened, and whether the server can do what the model
//! says, is left to `server/serve`.

mod loader;
pub mod tree;

pub use loader::{Loader, MemoryLoader};

use sluice_diag::Report;

/// What [`parse`] made of a text.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The tree; what could not be read is missing from it, and the report says why.
    pub file: tree::File,
    /// The mistakes found, and the texts they point into.
    pub report: Report,
}
