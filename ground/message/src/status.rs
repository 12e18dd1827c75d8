//! Status codes (RFC 9110, section 15). Handlers decide when to send which.

/// A three-digit status code, 100 to 999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal),* $(,)?) => {
        impl Status {
            $(#[doc = concat!($code, " ", $reason)] pub const $name: Status = Status($code);)*

            /// The registered reason phrase, empty for an unregistered code.
            pub const fn reason(self) -> &'static str {
                match self.0 { $($code => $reason,)* _ => "" }
            }
        }
    };
}

statuses! {
    CONTINUE 100 "Continue", SWITCHING_PROTOCOLS 101 "Switching Protocols", PROCESSING 102 "Processing",
    EARLY_HINTS 103 "Early Hints",
    OK 200 "OK", CREATED 201 "Created", ACCEPTED 202 "Accepted",
    NON_AUTHORITATIVE 203 "Non-Authoritative Information", NO_CONTENT 204 "No Content",
    RESET_CONTENT 205 "Reset Content", PARTIAL_CONTENT 206 "Partial Content",
    MULTI_STATUS 207 "Multi-Status", ALREADY_REPORTED 208 "Already Reported", IM_USED 226 "IM Used",
    MULTIPLE_CHOICES 300 "Multiple Choices", MOVED_PERMANENTLY 301 "Moved Permanently",
    FOUND 302 "Found", SEE_OTHER 303 "See Other", NOT_MODIFIED 304 "Not Modified",
    USE_PROXY 305 "Use Proxy", TEMPORARY_REDIRECT 307 "Temporary Redirect",
    PERMANENT_REDIRECT 308 "Permanent Redirect",
    BAD_REQUEST 400 "Bad Request", UNAUTHORIZED 401 "Unauthorized",
    PAYMENT_REQUIRED 402 "Payment Required", FORBIDDEN 403 "Forbidden", NOT_FOUND 404 "Not Found",
    METHOD_NOT_ALLOWED 405 "Method Not Allowed", NOT_ACCEPTABLE 406 "Not Acceptable",
    PROXY_AUTHENTICATION_REQUIRED 407 "Proxy Authentication Required",
    REQUEST_TIMEOUT 408 "Request Timeout", CONFLICT 409 "Conflict", GONE 410 "Gone",
    LENGTH_REQUIRED 411 "Length Required", PRECONDITION_FAILED 412 "Precondition Failed",
    CONTENT_TOO_LARGE 413 "Content Too Large", URI_TOO_LONG 414 "URI Too Long",
    UNSUPPORTED_MEDIA_TYPE 415 "Unsupported Media Type",
    RANGE_NOT_SATISFIABLE 416 "Range Not Satisfiable", EXPECTATION_FAILED 417 "Expectation Failed",
    TEAPOT 418 "I'm a teapot", MISDIRECTED_REQUEST 421 "Misdirected Request",
    UNPROCESSABLE_CONTENT 422 "Unprocessable Content", LOCKED 423 "Locked",
    FAILED_DEPENDENCY 424 "Failed Dependency", TOO_EARLY 425 "Too Early",
    UPGRADE_REQUIRED 426 "Upgrade Required", PRECONDITION_REQUIRED 428 "Precondition Required",
    TOO_MANY_REQUESTS 429 "Too Many Requests",
    HEADERS_TOO_LARGE 431 "Request Header Fields Too Large",
    LEGAL_REASONS 451 "Unavailable For Legal Reasons",
    INTERNAL_SERVER_ERROR 500 "Internal Server Error", NOT_IMPLEMENTED 501 "Not Implemented",
    BAD_GATEWAY 502 "Bad Gateway", SERVICE_UNAVAILABLE 503 "Service Unavailable",
    GATEWAY_TIMEOUT 504 "Gateway Timeout", VERSION_NOT_SUPPORTED 505 "HTTP Version Not Supported",
    VARIANT_ALSO_NEGOTIATES 506 "Variant Also Negotiates",
    INSUFFICIENT_STORAGE 507 "Insufficient Storage", LOOP_DETECTED 508 "Loop Detected",
    NOT_EXTENDED 510 "Not Extended",
    NETWORK_AUTHENTICATION_REQUIRED 511 "Network Authentication Required",
}

impl Default for Status {
    fn default() -> Self {
        Status::OK
    }
}

impl Status {
    /// The status `code`, if it has three digits (100 to 999; RFC 9110, section 15).
    pub const fn new(code: u16) -> Option<Status> {
        if code >= 100 && code <= 999 {
            Some(Status(code))
        } else {
            None
        }
    }

    /// The code as a number.
    pub const fn code(self) -> u16 {
        self.0
    }

    /// Whether the code is 1xx: an interim response.
    pub const fn is_informational(self) -> bool {
        self.0 < 200
    }

    /// Whether a response with this status never has a body, whatever its headers say: 1xx, 204, 304 (RFC 9110, section
    /// 6.4.1).
    pub const fn is_bodiless(self) -> bool {
        self.0 < 200 || self.0 == 204 || self.0 == 304
    }

    /// Whether the code is 400 or more.
    pub const fn is_error(self) -> bool {
        self.0 >= 400
    }
}
