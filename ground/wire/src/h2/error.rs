//! Why streams and connections end (RFC 9113, section 7). The layers above phrase messages for people.

use core::fmt;

/// An error code as it stands in RST_STREAM and GOAWAY frames. Codes without a name are kept as they are: they
/// mean what INTERNAL_ERROR means.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

macro_rules! codes {
    ($($name:ident $number:literal $meaning:literal),* $(,)?) => {
        impl ErrorCode {
            $(#[doc = $meaning] pub const $name: ErrorCode = ErrorCode($number);)*

            /// The registered name, empty for an unregistered code.
            pub const fn name(self) -> &'static str {
                match self.0 { $($number => stringify!($name),)* _ => "" }
            }
        }
    };
}

codes! {
    NO_ERROR 0x0 "Nothing went wrong: the end of an orderly connection, or of an upload nobody waits for.",
    PROTOCOL_ERROR 0x1 "A fault without a code of its own.",
    INTERNAL_ERROR 0x2 "The sender failed.",
    FLOW_CONTROL_ERROR 0x3 "More content than the window allowed, or a window above its limit.",
    SETTINGS_TIMEOUT 0x4 "Settings were not acknowledged in time.",
    STREAM_CLOSED 0x5 "A frame for a stream that was over.",
    FRAME_SIZE_ERROR 0x6 "A frame of a wrong length.",
    REFUSED_STREAM 0x7 "The stream was not looked at: the request can be sent again.",
    CANCEL 0x8 "The stream is of no use any more.",
    COMPRESSION_ERROR 0x9 "A header block that cannot be decoded.",
    CONNECT_ERROR 0xa "The connection behind CONNECT failed.",
    ENHANCE_YOUR_CALM 0xb "The peer makes more work than its requests need.",
    INADEQUATE_SECURITY 0xc "TLS is too weak for HTTP/2.",
    HTTP_1_1_REQUIRED 0xd "The request requires HTTP/1.1.",
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "" => write!(f, "code 0x{:x}", self.0),
            name => f.write_str(name),
        }
    }
}

/// The connection is over. A GOAWAY with this code is in the output, which is still to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The error code sent to the peer.
    pub code: ErrorCode,
    /// What it did.
    pub reason: Reason,
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $name:ident $code:ident $text:literal),* $(,)?) => {
        /// Why we end a connection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason {
            $($(#[doc = $doc])* $name,)*
        }

        impl Reason {
            /// The error code sent to the peer.
            pub const fn code(self) -> ErrorCode {
                match self { $(Reason::$name => ErrorCode::$code,)* }
            }
        }

        impl fmt::Display for Reason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Reason::$name => $text,)* })
            }
        }
    };
}

reasons! {
    /// What came first is not the preface (section 3.4).
    Preface PROTOCOL_ERROR "no connection preface",
    /// The first frame is not SETTINGS (section 3.4).
    SettingsMissing PROTOCOL_ERROR "first frame is not SETTINGS",
    /// A frame is longer than the largest we take (section 4.2).
    FrameTooLong FRAME_SIZE_ERROR "frame too long",
    /// A frame whose length its kind does not allow (section 4.2).
    FrameLength FRAME_SIZE_ERROR "frame of a wrong length",
    /// A frame on a stream where its kind does not belong, or a stream's frame on none (section 6).
    FrameStream PROTOCOL_ERROR "frame on a wrong stream",
    /// A frame that this side never gets, as PUSH_PROMISE (section 8.4).
    FrameUnexpected PROTOCOL_ERROR "unexpected frame",
    /// The padding is as long as the frame (section 6.1).
    Padding PROTOCOL_ERROR "padding too long",
    /// Another frame within a header block, or CONTINUATION outside of one (section 6.10).
    BlockInterrupted PROTOCOL_ERROR "header block interrupted",
    /// A header block in more frames or bytes than the limits.
    BlockTooLong ENHANCE_YOUR_CALM "header block too long",
    /// A header block that cannot be decoded (section 4.3).
    Compression COMPRESSION_ERROR "header block cannot be decoded",
    /// A setting with a value that is not allowed (section 6.5.2).
    SettingValue PROTOCOL_ERROR "setting out of range",
    /// An initial window above 2^31-1, or one that lifts a stream's above it (sections 6.5.2 and 6.9.2).
    SettingWindow FLOW_CONTROL_ERROR "initial window too large",
    /// The connection's window was lifted by nothing (section 6.9).
    WindowIncrement PROTOCOL_ERROR "window update by zero",
    /// The connection's window was lifted above 2^31-1 (section 6.9.1).
    WindowOverflow FLOW_CONTROL_ERROR "window above its limit",
    /// More content than the connection's window allowed (section 6.9.1).
    WindowExceeded FLOW_CONTROL_ERROR "content beyond the connection's window",
    /// A frame on a stream that nobody opened (section 5.1).
    StreamIdle PROTOCOL_ERROR "frame on an idle stream",
    /// A new stream with an even number or one below an earlier (section 5.1.1).
    StreamNumber PROTOCOL_ERROR "stream number not allowed",
    /// A frame on a stream after its end (section 5.1).
    StreamClosed STREAM_CLOSED "frame on a closed stream",
    /// A stream that depends on itself (RFC 7540, section 5.3.1).
    SelfDependency PROTOCOL_ERROR "stream depends on itself",
    /// The budget for work that brings no request forward is used up.
    Glitches ENHANCE_YOUR_CALM "too many frames that do nothing",
}

impl From<Reason> for Closed {
    fn from(reason: Reason) -> Closed {
        Closed {
            code: reason.code(),
            reason,
        }
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.code)
    }
}

impl core::error::Error for Closed {}
