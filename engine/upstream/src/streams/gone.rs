//! Why responses on shared connections are missing or incomplete, and the failures to report.

use std::fmt::{Debug, Display};

use sluice_wire::sections::HeadFault;

use sluice_net::failure::{Failure, FailureKind, Retry, Side};

/// Why a response is missing or incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone<E: Ending> {
    /// The upstream has not processed the request (RFC 9113, section 8.7; RFC 9114, section 4.1.1).
    Refused,
    /// The upstream has reset the stream.
    Reset(E::Code),
    /// The response violated the protocol; with the fault if it was in a head.
    Broken(Option<HeadFault>),
    /// The upstream sent too many interim responses.
    Babbled,
    /// The connection was closed, or nobody listens any more.
    Closed,
    /// The connection ended for a reason that the protocol names.
    Ended(E),
}

/// The reasons of one protocol for the end of a connection.
pub trait Ending: Copy + Debug + Eq {
    /// The code with which it resets streams.
    type Code: Copy + Debug + Eq + Display;

    /// The name of the protocol.
    const PROTOCOL: &'static str;

    /// How an upstream says that it has not processed a request.
    const REFUSED_BY: &'static str;

    /// The failure to report for the streams of such a connection.
    fn failure(self) -> Failure;
}

impl<E: Ending> Gone<E> {
    /// Whether the upstream has not processed the request.
    pub fn is_refused(self) -> bool {
        self == Gone::Refused
    }

    /// Whether the upstream has reset this stream only.
    pub fn is_reset(self) -> bool {
        matches!(self, Gone::Reset(_))
    }

    /// The failure to report for a call whose stream is gone.
    pub fn failure(self) -> Failure {
        let failure = |kind| Failure::new(Side::Upstream, kind);
        match self {
            Gone::Refused => failure(FailureKind::Closed)
                .with_retry(Retry::Always)
                .because(format!(
                    "it did not process the request ({})",
                    E::REFUSED_BY
                )),
            Gone::Reset(code) => {
                failure(FailureKind::Closed).because(format!("it reset the stream ({code})"))
            }
            Gone::Broken(None) => failure(FailureKind::Protocol)
                .because(format!("its response violates {}", E::PROTOCOL)),
            Gone::Broken(Some(fault)) => failure(FailureKind::Protocol).because(fault.to_string()),
            Gone::Babbled => failure(FailureKind::Protocol).because("too many interim responses"),
            Gone::Closed => failure(FailureKind::Closed),
            Gone::Ended(ending) => ending.failure(),
        }
    }
}
