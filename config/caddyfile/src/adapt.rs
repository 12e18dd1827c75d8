//! Reads a Caddyfile of any version and lowers it.

use crate::lower::{Adapted, lower};
use crate::{Loader, Parsed, v1};

/// Reads a Caddyfile, one of Caddy 0 or 1 as well, and lowers it. Imports and environment variables come from `loader`.
pub fn adapt(name: &str, text: &str, loader: &dyn Loader) -> Adapted {
    let Parsed { file, mut report } = crate::parse(name, text, loader);
    if let Some(word) = v1::first_old_word(&file) {
        v1::warn_of_dialect(word, &mut report);
        return v1::adapt_tree(&file, report, loader);
    }
    lower(&file, report, loader)
}
