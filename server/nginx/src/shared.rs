//! What the handlers of an nginx.conf share while they are built.

use std::sync::Arc;

use super::TreeRef;
use super::charset::recode::Charsets;
use super::ssi::variables::Names;
use super::types::Types;
use sluice_pipeline::build::Builder;

/// What the handlers of an nginx.conf share while they are built.
#[derive(Clone, Default)]
pub(super) struct Shared {
    /// The `types` tables.
    pub(super) types: Arc<[Arc<Types>]>,
    /// The character sets.
    pub(super) charsets: Arc<Charsets>,
    /// The variables, for SSI pages.
    pub(super) names: Arc<Names>,
    /// The virtual servers, available once they are built.
    pub(super) tree: TreeRef,
}

impl Shared {
    /// The values that were set for the configuration being built.
    pub(super) fn of(builder: &Builder<'_>) -> Shared {
        builder.own.get()
    }
}
