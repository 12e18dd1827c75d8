//! Errors reported to ACME clients (RFC 8555, section 6.7), as problem documents (RFC 7807).

use std::fmt;

use serde_json::{Value, json};

use sluice_certs::failure::CertsError;
use sluice_certs::subject::SubjectError;

/// The supported algorithms, as reported to clients (RFC 8555, section 6.2).
pub(super) const ALGORITHMS: [&str; 5] = ["ES256", "ES384", "ES512", "EdDSA", "RS256"];

/// Why a request is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The last part of the problem type, such as `badNonce`.
    pub kind: &'static str,
    /// The status of the response.
    pub status: u16,
    /// A human-readable explanation.
    pub detail: String,
    /// The internal error, for our log only.
    pub cause: Option<String>,
    /// Whether to list the supported algorithms, because another one was used.
    algorithms: bool,
    /// The identifier that the problem refers to.
    identifier: Option<Value>,
}

impl Problem {
    /// A problem of a type of RFC 8555, section 6.7.
    pub(super) fn of(kind: &'static str, status: u16, detail: impl Into<String>) -> Problem {
        Problem {
            kind,
            status,
            detail: detail.into(),
            cause: None,
            algorithms: false,
            identifier: None,
        }
    }

    /// The request violates the protocol.
    pub(super) fn malformed(detail: impl Into<String>) -> Problem {
        Problem::of("malformed", 400, detail)
    }

    /// The resource does not exist.
    pub(super) fn not_found(what: &str) -> Problem {
        Problem::of("malformed", 404, format!("there is no such {what}"))
    }

    /// The client is not authorized to do this.
    pub(super) fn unauthorized(detail: impl Into<String>) -> Problem {
        Problem::of("unauthorized", 401, detail)
    }

    /// A limit is reached; the client may retry later.
    pub(super) fn full(what: &str) -> Problem {
        Problem::of(
            "rateLimited",
            429,
            format!("too many {what}; try again later"),
        )
    }

    /// Certificates for this identifier are not allowed.
    pub(super) fn rejected(identifier: Value, detail: impl Into<String>) -> Problem {
        Problem {
            identifier: Some(identifier),
            ..Problem::of("rejectedIdentifier", 400, detail)
        }
    }

    pub(super) fn bad_algorithm(found: &str) -> Problem {
        Problem {
            algorithms: true,
            ..Problem::of(
                "badSignatureAlgorithm",
                400,
                format!("`{found}` is not taken"),
            )
        }
    }

    /// The problem document.
    pub(super) fn to_json(&self) -> Value {
        let mut value = json!({
            "type": format!("urn:ietf:params:acme:error:{}", self.kind),
            "detail": self.detail,
            "status": self.status,
        });
        if self.algorithms {
            value["algorithms"] = json!(ALGORITHMS);
        }
        if let Some(identifier) = &self.identifier {
            value["identifier"] = identifier.clone();
        }
        value
    }
}

impl From<CertsError> for Problem {
    /// An internal error, whose details are not sent to the client.
    fn from(error: CertsError) -> Problem {
        Problem {
            cause: Some(error.to_string()),
            ..Problem::of("serverInternal", 500, "internal error of the CA")
        }
    }
}

impl From<SubjectError> for Problem {
    /// An internal error, like every other error of this package.
    fn from(error: SubjectError) -> Problem {
        CertsError::from(error).into()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.detail)
    }
}
