//! Every limit of the extension module, with its reason.

/// Bytes of a payload (decision 0023).
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// Bytes of a response that is written in one frame: `PART_MAX` of the worker.
pub const PART_BYTES_MAX: usize = 1 << 20;
/// Values that a lane remembers. A request has about 20, most of which are the same in the next one.
pub const REMEMBERED: usize = 512;
/// Bytes of a remembered value, so that a slot has one cache line and large values are not kept.
pub const REMEMBERED_BYTES_MAX: usize = 55;
/// Texts of applications whose bytes are remembered: names and values of response headers, and types of messages.
pub const TEXTS: usize = 256;
/// Bytes of such a text.
pub const TEXT_BYTES_MAX: usize = 128;
/// Bytes of a request's dictionary that the next one is compared with.
pub const EXAMPLE_BYTES_MAX: usize = 8 << 10;
/// Levels of lists and dictionaries in a request's dictionary: `extensions`, `tls`, a certificate chain, a text.
pub const DEPTH_MAX: usize = 8;
