//! HTTP/3 (RFC 9114) with header compression (RFC 9204): what the bytes of QUIC streams mean. The transport is a
//! library's; `sluice-net` brings the two together and decides how to respond.
//!
//! Each kind of stream has a machine that takes bytes as they arrive: [`MessageReader`] those of a request,
//! [`PeerStreams`] those of the streams that the peer opens beside, among them its control stream. None reads a
//! clock or waits. Whatever a peer sends, the memory used for it is bounded by [`Limits`]; frames that do not advance any
//! request are counted as glitches for the owner's budget.

mod conduct;
mod control;
mod error;
mod frame;
mod heads;
mod limits;
mod message;
mod peer_streams;
pub mod qpack;
mod settings;
mod stream_kind;
mod varint;

pub use conduct::{Conduct, Verdict};
pub use control::{ControlEvent, ControlReader};
pub use error::{Code, Fault};
pub use frame::{FrameKind, encode_frame_head};
pub use heads::{HeadReader, HeadWriter, Read};
pub use limits::Limits;
pub use message::{Follows, MessageReader, Part};
pub use peer_streams::{PeerEvent, PeerStreams};
pub use settings::Settings;
pub use stream_kind::{StreamKind, StreamKindReader};
pub use varint::{decode_varint, encode_varint};
