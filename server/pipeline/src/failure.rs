//! Maps failures to statuses. No other place decides which status a failure results in.

use std::borrow::Cow;

use sluice_message::Status;
use sluice_net::{Failure, FailureKind, Side};

/// What ended a request. It decides whether the end is an error, and how it is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// The status says whether it is an error of the server or of the client.
    #[default]
    ByStatus,
    /// An error whatever the status: a rule or a limit of the configuration, or a file that cannot be opened.
    Error,
    /// The file that the request names does not exist.
    MissingFile,
    /// A client that does not keep to the protocol, or that has no access.
    Client,
    /// An error response of an upstream, which is replaced. Nothing failed here.
    UpstreamResponse,
    /// The configuration asks for this response. Nothing failed.
    Configured,
    /// An error that was logged where it occurred.
    Logged,
}

/// Why a request ended, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The text.
    pub text: Cow<'static, str>,
    /// The kind of reason.
    pub cause: Cause,
}

impl<T: Into<Cow<'static, str>>> From<T> for Reason {
    fn from(text: T) -> Reason {
        Reason {
            text: text.into(),
            cause: Cause::ByStatus,
        }
    }
}

/// An error on its way to `handle_errors` or to the default error response.
#[derive(Debug)]
pub struct Fault {
    /// The status of the response.
    pub status: Status,
    /// The message for the log and for `{err.message}`; not sent to clients by default.
    pub message: Cow<'static, str>,
    /// What ended the request.
    pub cause: Cause,
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
            cause: Cause::ByStatus,
            failure: None,
        }
    }

    /// The same for another cause.
    pub fn caused_by(self, cause: Cause) -> Self {
        Fault { cause, ..self }
    }

    /// The reason to log.
    pub fn reason(&self) -> Reason {
        Reason {
            text: self.message.clone(),
            cause: self.cause,
        }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        let status = status_of(failure.side, failure.kind);
        Fault {
            status,
            message: failure.to_string().into(),
            cause: Cause::ByStatus,
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
