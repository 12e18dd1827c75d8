//! Where bodies wait that are read faster than they are sent on.

use alloc::string::String;

use crate::object::objects;
use crate::route_origin::RouteOrigin;

objects! {
    /// Buffering of bodies, in memory and then in a temporary file.
    pub struct BodyBuffers {
        /// Disables buffering.
        pub off: bool,
        /// Bytes in memory; the default when zero.
        pub memory: u64,
        /// Bytes per write to the file; the default when zero.
        pub write: u64,
        /// Maximum bytes in the file; the default when absent, no file when zero.
        pub file_max: Option<u64>,
        /// The directory of the file; the system's temporary directory when empty.
        pub folder: String,
        /// Where it was written in the source; not part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }
}
