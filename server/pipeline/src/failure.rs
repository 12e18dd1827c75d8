//! Maps failures to statuses. No other place decides which status a failure results in.

use std::borrow::Cow;

use sluice_message::Status;
use sluice_net::{Failure, FailureKind, Side};

/// An error on its way to `handle_errors` or to the default error response.
#[derive(Debug)]
pub struct Fault {
    /// The status of the response.
    pub status: Status,
    /// The message for the log and for `{err.message}`; not sent to clients by default.
    pub message: Cow<'static, str>,
    /// The underlying failure, if something failed rather than being refused.
    pub failure: Option<Failure>,
}

impl Fault {
    /// The status that a failure results in.
    pub fn status_of(failure: &Failure) -> Status {
        status_of(failure.side, failure.kind)
    }

    /// Refuses a request for the given reason.
    pub fn new(status: Status, message: impl Into<Cow<'static, str>>) -> Self {
        Fault {
            status,
            message: message.into(),
            failure: None,
        }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        let status = status_of(failure.side, failure.kind);
        Fault {
            status,
            message: failure.to_string().into(),
            failure: Some(failure),
        }
    }
}

fn status_of(side: Side, kind: FailureKind) -> Status {
    use FailureKind as K;
    match (side, kind) {
        (Side::Client, K::Timeout) => Status::REQUEST_TIMEOUT,
        (Side::Client, K::Limit) => Status::CONTENT_TOO_LARGE,
        (Side::Client, K::Protocol | K::Closed | K::Dial | K::Tls | K::Unavailable | K::Io) => {
            Status::BAD_REQUEST
        }
        (Side::Upstream, K::Timeout) => Status::GATEWAY_TIMEOUT,
        (Side::Upstream, K::Unavailable | K::Limit) => Status::SERVICE_UNAVAILABLE,
        (Side::Upstream, K::Protocol | K::Closed | K::Dial | K::Tls | K::Io) => Status::BAD_GATEWAY,
        (Side::Internal, K::Limit | K::Unavailable) => Status::SERVICE_UNAVAILABLE,
        (Side::Internal, K::Protocol | K::Closed | K::Dial | K::Tls | K::Timeout | K::Io) => {
            Status::INTERNAL_SERVER_ERROR
        }
    }
}
