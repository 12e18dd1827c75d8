//! `ngx_http_slice_module`: answers that are asked for piece by piece.

use sluice_model::Handler;
use sluice_model::nginx::Slice;

use crate::lower::level::Level;
use crate::registry::Takes::Size;
use crate::registry::Word;

/// The directives.
pub const WORDS: &[Word] = &[Word::once("slice", Size)];

/// Asks for what a place answers piece by piece.
pub fn lower(level: &Level<'_>) -> Option<Handler> {
    let size = level.size("slice").filter(|size| *size > 0)?;
    Some(Handler::NginxSlice(Slice { size }))
}
