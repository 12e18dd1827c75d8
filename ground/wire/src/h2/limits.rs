//! Limits on what one HTTP/2 connection may use. The owner of the socket enforces timeouts.

use crate::limits::TargetBytes;
use crate::sections::HeadLimits;

/// Bounds of one HTTP/2 connection, for both ends. Bytes and items are both counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent requests on one connection. RFC 9113, section 6.5.2 recommends at least 100; Caddy allows 250, nginx
    /// 128. A reset request counts until its handler has released it, so that opening and resetting streams in turn
    /// starts no more work than waiting would (CVE-2023-44487).
    pub streams_max: u16,
    /// A decoded head: names, values and 32 bytes for each field (RFC 9113, section 6.5.2). As in HTTP/1.
    pub header_list_bytes_max: u32,
    /// Fields in one head or trailer section, each crumb of a cookie included, which browsers send apart. Without a
    /// count a few bytes that point into the compression's table become thousands of fields (CVE-2026-49975).
    pub fields_max: u16,
    /// The decoded heads of all open requests of one connection. Without this bound 100 requests of some dozen bytes
    /// each would hold 100 times the limit of one head; usual heads take 1 to 2 KiB, of which as many fit as there may
    /// be streams. A request beyond it is refused in a way that lets the client send it again.
    pub open_heads_bytes_max: u32,
    /// A request target. 8,000 bytes are what RFC 9110, section 4.1 asks for at least.
    pub target_bytes_max: u16,
    /// A method. The longest registered one, `UPDATEREDIRECTREF`, has 17 letters.
    pub method_bytes_max: u16,
    /// Bytes of a field name. Longer names are not genuine but attempts to fill tables.
    pub name_bytes_max: u16,
    /// Bytes of a field value of a request, pseudo-fields excepted. `header_list_bytes_max` bounds it where nothing else does.
    pub value_bytes_max: u32,
    /// A header block as it comes, before it is decoded. Encoding makes no head longer than this unless on purpose.
    pub block_bytes_max: u32,
    /// CONTINUATION frames in one header block. A block of 32 KiB needs two; endless ones are an attack
    /// (CVE-2024-27316).
    pub continuations_max: u16,
    /// What a stream may send before anything was read; streams that nobody reads hold no more. Not below 65,535,
    /// which clients may use before they hear of less (RFC 9113, section 6.9.2).
    pub stream_window: u32,
    /// What a stream may have under way once it is read: its window grows up to this, so that uploads over long
    /// lines are not slowed down. 256 KiB in 50 ms are 40 Mbit/s.
    pub stream_window_max: u32,
    /// What all streams of a connection may have under way together. This bounds the unread content that one
    /// connection can make us hold; not below `stream_window_max`, so that one upload may use all of it.
    pub connection_window: u32,
    /// The dynamic table of the header compression, each way. 4,096 bytes is what every peer starts with
    /// (RFC 7541, section 4.2).
    pub table_bytes_max: u16,
    /// Frames waiting to be sent. With more nothing is read and no content taken until the peer reads.
    pub output_bytes_max: usize,
    /// The budget for frames that bring no request forward, in points (see the costs in `glitch`). At three
    /// quarters the connection is closed gracefully, at the end at once. It is refilled by requests that end well
    /// and by time. 16,384 points are 1,024 resets.
    pub glitch_points_max: u32,
    /// Which frame a client has to send first.
    pub first_frame: FirstFrame,
    /// Which bytes a request target may have.
    pub targets: TargetBytes,
}

/// Which frame a peer has to send first (RFC 9113, section 3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstFrame {
    /// SETTINGS.
    #[default]
    Settings,
    /// Any frame that may stand on a new connection. Until its SETTINGS arrive the peer has the initial values of RFC 9113,
    /// section 6.5.2.
    Any,
}

impl Limits {
    /// Those of heads.
    pub fn heads(&self) -> HeadLimits {
        HeadLimits {
            section_bytes_max: self.header_list_bytes_max,
            fields_max: self.fields_max,
            name_bytes_max: self.name_bytes_max,
            value_bytes_max: self.value_bytes_max,
            method_bytes_max: self.method_bytes_max,
            target_bytes_max: self.target_bytes_max,
            targets: self.targets,
        }
    }

    /// The limits that stand where nobody sets others.
    pub const DEFAULT: Limits = Limits {
        streams_max: 128,
        header_list_bytes_max: 32 * 1024,
        fields_max: 128,
        open_heads_bytes_max: 512 * 1024,
        target_bytes_max: 8 * 1024,
        method_bytes_max: 32,
        name_bytes_max: 256,
        value_bytes_max: u32::MAX,
        block_bytes_max: 32 * 1024,
        continuations_max: 8,
        stream_window: WINDOW_INITIAL,
        stream_window_max: 256 * 1024,
        connection_window: 1024 * 1024,
        table_bytes_max: 4096,
        output_bytes_max: 64 * 1024,
        glitch_points_max: 16 * 1024,
        first_frame: FirstFrame::Settings,
        targets: TargetBytes::Ascii,
    };

    /// Those of servers, who do not choose their clients: the heads of 128 usual requests, 1.5 KiB each, all of the window
    /// in unread content, the output and what else 128 streams need, 450 KiB, are together below 1 MiB.
    pub const SERVER: Limits = Limits {
        open_heads_bytes_max: 192 * 1024,
        connection_window: 256 * 1024,
        ..Limits::DEFAULT
    };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}

/// The largest frame we take: the smallest bound that RFC 9113, section 4.2 allows. Larger ones would save 9 bytes
/// in 16,384 and keep other streams waiting.
pub(crate) const FRAME_BYTES_MAX: u32 = 16_384;

/// The largest window (RFC 9113, section 6.9.1).
pub(crate) const WINDOW_MAX: u32 = (1 << 31) - 1;

/// The window of a connection and of its streams before anything was said (RFC 9113, section 6.9.2).
pub(crate) const WINDOW_INITIAL: u32 = 65_535;

/// Streams that we reset of which we remember the numbers, since the peer may have sent for them what we see only
/// later (RFC 9113, section 5.1). As many as can be open at a time by default.
pub(crate) const RESET_REMEMBERED_MAX: usize = 128;

/// Streams that the peer ended of which we remember the numbers, only to name its faults rightly: frames after the
/// end have another code than numbers that go backwards.
pub(crate) const ENDED_REMEMBERED_MAX: usize = 32;

/// Priorities that came before their streams (RFC 9218, section 7.1); browsers send one ahead at most.
pub(crate) const PRIORITIES_AHEAD_MAX: usize = 8;

/// Fields whose sight the encoder remembers, to give a place in the table only to what comes again.
pub(crate) const SIGHTINGS_MAX: usize = 32;
