//! `ngx_http_slice_module`: responses that are fetched in slices.

use sluice_model::Handler;
use sluice_model::nginx::Slice;

use crate::definition::Takes::Size;
use crate::definition::{Definition, once};
use crate::lower::level::Level;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[once("slice", Size)];

/// Fetches the responses of a block in slices.
pub fn lower(level: &Level<'_>) -> Option<Handler> {
    let size = level.size("slice").filter(|size| *size > 0)?;
    Some(Handler::NginxSlice(Slice { size }))
}
