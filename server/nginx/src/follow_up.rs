//! A request that follows another one (`post_action`), as the state of the first holds it. `post_action` starts it.

use sluice_observe::log::Log;
use sluice_pipeline::subrequests::ServerRef;

/// The request that follows.
pub(crate) struct FollowUp {
    /// A path, or `@` and the name of a location.
    pub(crate) uri: Box<str>,
    /// The server of both.
    pub(crate) site: ServerRef,
    /// Where it is reported if there are too many.
    pub(crate) log: Option<Log>,
}

impl std::fmt::Debug for FollowUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FollowUp").field(&self.uri).finish()
    }
}
