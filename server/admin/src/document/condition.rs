//! Entity tags of parts, and the condition that a part has not changed since it was read (RFC 9110, section 13.1.1). A
//! tag contains the path of its part, as in Caddy, so a change of one part may depend on another.

use serde_json::Value;
use sluice_message::Status;
use sluice_policy::xxh64;

use super::change::part;
use super::place::Place;
use crate::denied::Denied;

/// The entity tag of a part, with its quotes.
pub fn tag(place: &Place, part: &Value) -> String {
    format!("\"{} {}\"", place.path, digest(part))
}

/// Of the text of the response, as Caddy computes it.
fn digest(part: &Value) -> String {
    let hash = xxh64::hash(&[part.to_string().as_bytes(), b"\n"]);
    format!("{hash:016x}")
}

/// `If-Match`: that a part of the document is still what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    path: String,
    digest: String,
}

impl Condition {
    /// Reads the value of `If-Match`: one entity tag, or `*`, which always holds.
    pub fn parse(value: &[u8]) -> Result<Option<Condition>, Denied> {
        let malformed = |what: &str| {
            let why = format!("malformed If-Match header; expect {what}");
            Denied::new(Status::BAD_REQUEST, why)
        };
        let text = str::from_utf8(value).unwrap_or_default().trim();
        if text == "*" {
            return Ok(None);
        }
        let inner = text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'));
        let inner = inner.ok_or_else(|| malformed("quoted string"))?;
        let parts = inner.split_once(' ');
        let (path, digest) = parts.ok_or_else(|| malformed("format \"<path> <hash>\""))?;
        Ok(Some(Condition {
            path: path.to_owned(),
            digest: digest.to_owned(),
        }))
    }

    /// Checks it against the document.
    pub fn check(&self, root: &Value) -> Result<(), Denied> {
        let place = Place::of(self.path.as_bytes())?;
        if digest(part(root, &place)?) == self.digest {
            return Ok(());
        }
        let why = "If-Match header did not match current config hash";
        Err(Denied::new(Status::PRECONDITION_FAILED, why))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tag_is_a_condition() {
        let root = json!({"a": {"b": [1]}, "c": 2});
        let place = Place::of(b"/config/a").expect("a place");
        let condition = Condition::parse(tag(&place, &root["a"]).as_bytes()).expect("a tag");
        let condition = condition.expect("a condition");
        assert_eq!(condition.check(&root), Ok(()));
        assert_eq!(condition.check(&json!({"a": {"b": [1]}, "c": 3})), Ok(()));
        let changed = condition.check(&json!({"a": {"b": [2]}}));
        assert_eq!(
            changed.expect_err("changed").status,
            Status::PRECONDITION_FAILED
        );
    }

    #[test]
    fn a_tag_is_that_of_caddy() {
        let place = Place::of(b"/config/foo").expect("a place");
        assert_eq!(
            tag(&place, &Value::Null),
            "\"/config/foo 396548453caeba50\""
        );
    }

    #[test]
    fn malformed_values_are_refused() {
        for value in ["", "abc", "\"\"", "\"abc\"", "W/\"/config x\""] {
            assert!(Condition::parse(value.as_bytes()).is_err(), "{value}");
        }
        assert_eq!(Condition::parse(b" * "), Ok(None));
    }
}
