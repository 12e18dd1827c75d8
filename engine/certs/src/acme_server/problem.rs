//! What an ACME client is told when something cannot be (RFC 8555, section 6.7), as a problem document (RFC 7807).

use std::fmt;

use serde_json::{Value, json};

use crate::failure::CertsError;

/// The algorithms that are taken, as a client is told (RFC 8555, section 6.2).
pub(super) const ALGORITHMS: [&str; 5] = ["ES256", "ES384", "ES512", "EdDSA", "RS256"];

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The last part of its type, such as `badNonce`.
    pub kind: &'static str,
    /// The status of the answer.
    pub status: u16,
    /// For people.
    pub detail: String,
    /// What went wrong on our side, for our log only.
    pub cause: Option<String>,
    /// The algorithms that are taken, where another was used.
    algorithms: bool,
    /// The name or address that it is about.
    identifier: Option<Value>,
}

impl Problem {
    /// A problem of a kind of RFC 8555, section 6.7.
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

    /// The request is not what the protocol says.
    pub(super) fn malformed(detail: impl Into<String>) -> Problem {
        Problem::of("malformed", 400, detail)
    }

    /// There is no such thing.
    pub(super) fn not_found(what: &str) -> Problem {
        Problem::of("malformed", 404, format!("there is no such {what}"))
    }

    /// The client may not do this.
    pub(super) fn unauthorized(detail: impl Into<String>) -> Problem {
        Problem::of("unauthorized", 401, detail)
    }

    /// Something is full; later it may be well.
    pub(super) fn full(what: &str) -> Problem {
        Problem::of(
            "rateLimited",
            429,
            format!("too many {what}; try again later"),
        )
    }

    /// No certificate is made for this name.
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

    /// The document.
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
    /// Our own failures: a client gets no inner detail.
    fn from(error: CertsError) -> Problem {
        Problem {
            cause: Some(error.to_string()),
            ..Problem::of("serverInternal", 500, "internal error of the CA")
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.detail)
    }
}
