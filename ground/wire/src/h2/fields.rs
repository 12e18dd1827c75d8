//! The one way from decoded fields to a head and from a head to fields (RFC 9113, section 8): what the two
//! directions of requests and responses share. Compression is left to `hpack`.

use core::fmt;

use sluice_message::Status;

macro_rules! faults {
    ($($(#[doc = $doc:literal])* $name:ident $status:expr, $text:literal;)*) => {
        /// What is wrong with a head or a trailer section. The connection goes on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum HeadFault {
            $($(#[doc = $doc])* $name,)*
        }

        impl HeadFault {
            /// The status to answer a request with. `None` where the request is malformed (RFC 9113,
            /// section 8.1.1): its stream is reset with PROTOCOL_ERROR.
            pub const fn status(self) -> Option<Status> {
                match self { $(HeadFault::$name => $status,)* }
            }
        }

        impl fmt::Display for HeadFault {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(HeadFault::$name => $text,)* })
            }
        }
    };
}

faults! {
    /// A field without a name.
    NameEmpty None, "field name is empty";
    /// A name with an upper-case letter or a byte that is not of a token (section 8.2.1).
    NameByte None, "field name is not a lower-case token";
    /// A name longer than the limit.
    NameTooLong Some(Status::HEADERS_TOO_LARGE), "field name too long";
    /// A value with a control character, or with white space at its ends (section 8.2.1).
    ValueByte None, "field value not allowed";
    /// More fields than the limit, crumbs of cookies included.
    TooMany Some(Status::HEADERS_TOO_LARGE), "too many fields";
    /// More bytes than the limit.
    TooLarge Some(Status::HEADERS_TOO_LARGE), "head too large";
    /// A pseudo-field after a field (section 8.3).
    PseudoLate None, "pseudo-field after a field";
    /// A pseudo-field twice (section 8.3).
    PseudoRepeated None, "pseudo-field repeated";
    /// A pseudo-field that is not known or not of this kind of message (section 8.3).
    PseudoUnknown None, "pseudo-field not allowed";
    /// A pseudo-field that this kind of message must have is missing (section 8.3.1).
    PseudoMissing None, "pseudo-field missing";
    /// A pseudo-field in trailers (section 8.1).
    PseudoTrailer None, "pseudo-field in trailers";
    /// A field about one HTTP/1 connection (section 8.2.2).
    ConnectionField None, "field of an HTTP/1 connection";
    /// TE with something else than `trailers` (section 8.2.2).
    Te None, "te is not trailers";
    /// The method is no token.
    Method None, "method is no token";
    /// The method is longer than the limit.
    MethodTooLong Some(Status::NOT_IMPLEMENTED), "method too long";
    /// The scheme is neither http nor https.
    Scheme Some(Status::BAD_REQUEST), "scheme is not http or https";
    /// The path has a byte or a form that is not allowed, or a broken escape.
    Path Some(Status::BAD_REQUEST), "path not allowed";
    /// An empty path (section 8.3.1).
    PathEmpty None, "path is empty";
    /// The path is longer than the limit.
    PathTooLong Some(Status::URI_TOO_LONG), "path too long";
    /// Neither an authority nor a host.
    HostMissing Some(Status::BAD_REQUEST), "no authority";
    /// More than one host.
    HostRepeated Some(Status::BAD_REQUEST), "more than one host field";
    /// The authority or the host is not a host with an optional port.
    HostInvalid Some(Status::BAD_REQUEST), "authority is not a host with optional port";
    /// Host is another than the authority (section 8.3.1).
    HostOther Some(Status::BAD_REQUEST), "host differs from the authority";
    /// Content-Length is repeated or not one plain decimal number below 2^63.
    Length None, "content-length is not one number";
    /// Content-Length is not zero, but the message ends with its head (section 8.1.1).
    LengthUnmet None, "content-length without content";
    /// An expectation other than `100-continue`.
    Expectation Some(Status::EXPECTATION_FAILED), "unknown expectation";
    /// Extended CONNECT that was not offered (RFC 8441, section 3).
    ProtocolNotOffered None, "extended connect was not offered";
    /// Extended CONNECT to another protocol than WebSocket.
    ProtocolUnknown Some(Status::NOT_IMPLEMENTED), "unknown protocol in extended connect";
    /// The status is not three digits from 100 on, or 101 (section 8.6).
    Status None, "status not allowed";
    /// Trailers that do not end the stream, or fields between them (section 8.1).
    TrailersOpen None, "trailers do not end the stream";
}
