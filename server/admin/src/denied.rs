//! Why a request to the admin API was not carried out.

use serde_json::{Value, json};
use sluice_message::Status;
use sluice_model::ConfigError;

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The status of the response.
    pub status: Status,
    /// A message for the user.
    pub why: String,
    /// The mistakes one by one, as objects with at least `severity` and `title`; empty where the message says all.
    pub diagnostics: Vec<Value>,
}

impl Denied {
    /// A denial without diagnostics.
    pub fn new(status: Status, why: impl Into<String>) -> Denied {
        Denied {
            status,
            why: why.into(),
            diagnostics: Vec::new(),
        }
    }

    /// The client's mistake.
    pub fn bad(why: impl Into<String>) -> Denied {
        Denied::new(Status::BAD_REQUEST, why)
    }

    /// A document that cannot be read as a configuration.
    pub fn from_config(error: ConfigError) -> Denied {
        let mut denied = Denied::bad(error.to_string());
        denied.diagnostics.push(match error {
            ConfigError::Syntax {
                line,
                column,
                message,
            } => {
                let place = json!({ "line": line, "column": column });
                json!({ "severity": "error", "slug": "invalid-json", "title": message, "place": place })
            }
            ConfigError::Shape { path, message } => {
                json!({ "severity": "error", "slug": "invalid-config", "title": message, "at": path })
            }
        });
        denied
    }
}
