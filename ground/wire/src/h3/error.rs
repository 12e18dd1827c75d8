//! Why streams and connections end (RFC 9114, section 8.1; RFC 9204, section 6).

use core::fmt;

/// An error code as it stands in RESET_STREAM, STOP_SENDING and CONNECTION_CLOSE frames. Codes without a name are kept
/// as they are: they mean what H3_NO_ERROR means.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u64);

macro_rules! codes {
    ($($name:ident $number:literal $text:literal $meaning:literal),* $(,)?) => {
        impl Code {
            $(#[doc = $meaning] pub const $name: Code = Code($number);)*

            /// The registered name, empty for an unregistered code.
            pub const fn name(self) -> &'static str {
                match self.0 { $($number => $text,)* _ => "" }
            }
        }
    };
}

codes! {
    NO_ERROR 0x100 "H3_NO_ERROR" "Nothing went wrong: the end of an orderly connection, or of an upload nobody waits for.",
    GENERAL_PROTOCOL_ERROR 0x101 "H3_GENERAL_PROTOCOL_ERROR" "A fault without a code of its own.",
    INTERNAL_ERROR 0x102 "H3_INTERNAL_ERROR" "The sender failed.",
    STREAM_CREATION_ERROR 0x103 "H3_STREAM_CREATION_ERROR" "A stream of a kind that must not be there, or a second one.",
    CLOSED_CRITICAL_STREAM 0x104 "H3_CLOSED_CRITICAL_STREAM" "A control, encoder or decoder stream was closed.",
    FRAME_UNEXPECTED 0x105 "H3_FRAME_UNEXPECTED" "A frame where it must not stand.",
    FRAME_ERROR 0x106 "H3_FRAME_ERROR" "A frame of a wrong length or layout.",
    EXCESSIVE_LOAD 0x107 "H3_EXCESSIVE_LOAD" "The peer makes more work than its requests need.",
    ID_ERROR 0x108 "H3_ID_ERROR" "A stream or push ID that must not be used.",
    SETTINGS_ERROR 0x109 "H3_SETTINGS_ERROR" "A setting that must not be there, or a value that it must not have.",
    MISSING_SETTINGS 0x10a "H3_MISSING_SETTINGS" "The control stream does not begin with SETTINGS.",
    REQUEST_REJECTED 0x10b "H3_REQUEST_REJECTED" "The request was not looked at: it can be sent again.",
    REQUEST_CANCELLED 0x10c "H3_REQUEST_CANCELLED" "The request or its response is of no use any more.",
    REQUEST_INCOMPLETE 0x10d "H3_REQUEST_INCOMPLETE" "The stream ended before the request was complete.",
    MESSAGE_ERROR 0x10e "H3_MESSAGE_ERROR" "The message is malformed.",
    CONNECT_ERROR 0x10f "H3_CONNECT_ERROR" "The connection behind CONNECT failed.",
    VERSION_FALLBACK 0x110 "H3_VERSION_FALLBACK" "The request requires another version of HTTP.",
    DECOMPRESSION_FAILED 0x200 "QPACK_DECOMPRESSION_FAILED" "A field section that cannot be decoded.",
    ENCODER_STREAM_ERROR 0x201 "QPACK_ENCODER_STREAM_ERROR" "An instruction of an encoder that cannot be followed.",
    DECODER_STREAM_ERROR 0x202 "QPACK_DECODER_STREAM_ERROR" "An instruction of a decoder that cannot be followed.",
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "" => write!(f, "code 0x{:x}", self.0),
            name => f.write_str(name),
        }
    }
}

/// What a peer's bytes end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Only the stream: it is to be reset, and the peer asked to stop sending.
    Stream(Code),
    /// The whole connection.
    Connection(Code),
}

impl Fault {
    /// The code for the peer.
    pub fn code(self) -> Code {
        match self {
            Fault::Stream(code) | Fault::Connection(code) => code,
        }
    }
}
