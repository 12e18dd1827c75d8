//! What becomes of a request whose expression fails.

use sluice_message::Status;
use sluice_route::matcher::Refusal;

/// The refusal of a request whose expression cannot be evaluated.
pub(super) fn failed(reason: impl std::fmt::Display) -> Refusal {
    Refusal {
        status: Status::INTERNAL_SERVER_ERROR,
        reason: format!("evaluating an expression: {reason}").into(),
    }
}
