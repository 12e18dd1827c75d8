//! Where parts of a configuration were written.

use alloc::vec::Vec;

use sluice_diag::OriginId;

/// Where the handlers of a route were written, one number each; none where nobody knows. Two configurations that say
/// the same are equal wherever they were written.
#[derive(Clone, Debug, Default)]
pub struct RouteOrigin(pub Vec<OriginId>);

crate::walk::without_text!(RouteOrigin);

impl PartialEq for RouteOrigin {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl RouteOrigin {
    /// Where the route as a whole was written.
    pub fn route(&self) -> Option<OriginId> {
        self.0.first().copied()
    }

    /// Where its handler `index` was written.
    pub fn handler(&self, index: usize) -> Option<OriginId> {
        self.0.get(index).or(self.0.last()).copied()
    }
}
