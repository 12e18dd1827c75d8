//! Tests of health check responses: `match` of an nginx.conf. `active` sends the checks.

use sluice_message::{FieldName, ResponseHead, Status};
use sluice_model::proxy::{HeaderTest as HeaderConfig, ResponseTests as Config, StatusTest};
use sluice_route::pcre::{Case, Pattern};

use sluice_pipeline::refusal::Refusal;

/// The tests of one directive. A response passes if it passes all of them.
pub struct ResponseTests {
    statuses: Vec<StatusTest>,
    headers: Vec<HeaderTest>,
    bodies: Vec<(Pattern, Expected)>,
    /// The names of headers, lower or upper case.
    required: Vec<Vec<u8>>,
}

/// Whether something must be so, or must not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Yes,
    No,
}

impl Expected {
    fn of(negated: bool) -> Expected {
        match negated {
            true => Expected::No,
            false => Expected::Yes,
        }
    }

    fn is(self, found: bool) -> bool {
        found == (self == Expected::Yes)
    }
}

struct HeaderTest {
    name: Vec<u8>,
    of: HeaderValue,
    expected: Expected,
}

/// What a header is compared with.
enum HeaderValue {
    Any,
    Exactly(Vec<u8>),
    Like(Pattern),
}

impl ResponseTests {
    /// Parses the settings.
    pub fn build(config: &Config) -> Result<ResponseTests, Refusal> {
        let bodies = config.body.iter().map(|test| {
            let pattern = pattern(&test.pattern)?;
            Ok((pattern, Expected::of(test.negated)))
        });
        Ok(ResponseTests {
            statuses: config.status.clone(),
            headers: config
                .headers
                .iter()
                .map(header)
                .collect::<Result<_, _>>()?,
            bodies: bodies.collect::<Result<_, Refusal>>()?,
            required: config
                .require
                .iter()
                .map(|text| name(text))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Whether the response has to be read up to its body.
    pub fn needs_body(&self) -> bool {
        !self.bodies.is_empty()
    }

    /// Whether a response head passes.
    pub fn is_head_passed(&self, head: &ResponseHead) -> bool {
        let is_required = |name: &Vec<u8>| {
            let value = joined(head, name);
            value.is_some_and(|value| !value.is_empty() && value != b"0")
        };
        self.statuses
            .iter()
            .all(|test| is_status(test, head.status))
            && self.headers.iter().all(|test| test.is_passed(head))
            && self.required.iter().all(is_required)
    }

    /// Whether the beginning of a body passes.
    pub fn is_body_passed(&self, body: &[u8]) -> bool {
        // A pattern that needs too many steps does not match.
        let is_passed = |(pattern, expected): &(Pattern, Expected)| {
            pattern.is_match(body).is_ok_and(|found| expected.is(found))
        };
        self.bodies.iter().all(is_passed)
    }
}

impl HeaderTest {
    fn is_passed(&self, head: &ResponseHead) -> bool {
        let value = joined(head, &self.name);
        let found = match (&self.of, value) {
            (HeaderValue::Any, value) => value.is_some(),
            (_, None) => false,
            (HeaderValue::Exactly(expected), Some(value)) => *expected == value,
            (HeaderValue::Like(pattern), Some(value)) => pattern.is_match(&value).unwrap_or(false),
        };
        self.expected.is(found)
    }
}

/// The values of all lines of a header.
fn joined(head: &ResponseHead, name: &[u8]) -> Option<Vec<u8>> {
    let values: Vec<&[u8]> = head.fields.find(name).collect();
    (!values.is_empty()).then(|| values.join(&b", "[..]))
}

fn is_status(test: &StatusTest, status: Status) -> bool {
    let mut ranges = test.ranges.iter();
    let found = ranges.any(|range| (range.first..=range.last).contains(&status.code()));
    Expected::of(test.negated).is(found)
}

fn header(config: &HeaderConfig) -> Result<HeaderTest, Refusal> {
    let of = match (&config.value, config.pattern.as_str()) {
        (Some(value), _) => HeaderValue::Exactly(value.clone().into_bytes()),
        (None, "") => HeaderValue::Any,
        (None, text) => HeaderValue::Like(pattern(text)?),
    };
    Ok(HeaderTest {
        name: name(&config.name)?,
        of,
        expected: Expected::of(config.negated),
    })
}

fn name(text: &str) -> Result<Vec<u8>, Refusal> {
    match FieldName::new(text) {
        Some(_) => Ok(text.as_bytes().to_vec()),
        None => Err(Refusal::new(format!("`{text}` is not a valid header name"))),
    }
}

fn pattern(text: &str) -> Result<Pattern, Refusal> {
    Pattern::new(text, Case::Kept)
        .map_err(|error| Refusal::new(format!("`{text}` is not a valid pattern: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use sluice_message::FieldId;

    fn tests(config: Value) -> ResponseTests {
        let config = serde_json::from_value(config).unwrap();
        ResponseTests::build(&config).map_err(|_| ()).unwrap()
    }

    fn head(status: u16) -> ResponseHead {
        let mut head = ResponseHead {
            status: Status::new(status).unwrap(),
            ..ResponseHead::default()
        };
        head.fields.push(FieldId::ContentType, b"text/html");
        head.fields
            .push_name(&FieldName::new("X-Load").unwrap(), b"0");
        head
    }

    #[test]
    fn statuses_are_in_a_range_or_in_none() {
        let ranges = json!([{"first": 200, "last": 204}, {"first": 301, "last": 301}]);
        for (negated, status, expected) in [
            (false, 200, true),
            (false, 204, true),
            (false, 205, false),
            (false, 301, true),
            (true, 301, false),
            (true, 500, true),
        ] {
            let found = tests(json!({"status": [{"ranges": ranges, "negated": negated}]}));
            assert_eq!(
                found.is_head_passed(&head(status)),
                expected,
                "{negated} {status}"
            );
        }
    }

    #[test]
    fn headers_are_present_equal_or_alike() {
        for (test, expected) in [
            (json!({"name": "content-type"}), true),
            (json!({"name": "Content-Type", "negated": true}), false),
            (json!({"name": "X-None"}), false),
            (json!({"name": "X-None", "negated": true}), true),
            (json!({"name": "Content-Type", "value": "text/html"}), true),
            (json!({"name": "Content-Type", "value": "text"}), false),
            (
                json!({"name": "Content-Type", "value": "text", "negated": true}),
                true,
            ),
            (json!({"name": "Content-Type", "pattern": "^text/"}), true),
            (
                json!({"name": "Content-Type", "pattern": "^html", "negated": true}),
                true,
            ),
            (json!({"name": "X-None", "pattern": "."}), false),
        ] {
            let found = tests(json!({"headers": [test]}));
            assert_eq!(found.is_head_passed(&head(200)), expected, "{test}");
        }
    }

    #[test]
    fn required_headers_are_neither_empty_nor_zero() {
        for (name, expected) in [("Content-Type", true), ("X-Load", false), ("X-None", false)] {
            let found = tests(json!({"require": [name]}));
            assert_eq!(found.is_head_passed(&head(200)), expected, "{name}");
        }
    }

    #[test]
    fn bodies_match_patterns() {
        let found =
            tests(json!({"body": [{"pattern": "Welcome"}, {"pattern": "error", "negated": true}]}));
        assert!(found.needs_body());
        assert!(found.is_body_passed(b"<p>Welcome</p>"));
        assert!(!found.is_body_passed(b"<p>Welcome, error</p>"));
        assert!(!found.is_body_passed(b"<p>welcome</p>"));
    }
}
