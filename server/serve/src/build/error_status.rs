//! The one expression that a directive writes by itself: `handle_errors 404 5xx` becomes a condition on the status
//! of the error. It is recognised by its text and compiled to ranges; other expressions are left to a later
//! version.

use sluice_route::matcher::{Hook, Input, Refusal};
use sluice_route::placeholder::ErrorKey;
use sluice_route::{Found, Key};

const STATUS: &str = "{http.error.status_code}";

/// Statuses of errors.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ErrorStatus {
    /// Inclusive, in no order.
    ranges: Vec<(u16, u16)>,
}

impl ErrorStatus {
    /// Reads the alternatives `S in [404, 410]` and `S >= 500 && S <= 599`, joined by `||`; `None` for any other
    /// expression.
    pub(super) fn parse(expression: &str) -> Option<ErrorStatus> {
        let mut ranges = Vec::new();
        for alternative in expression.split("||") {
            let rest = alternative.trim().strip_prefix(STATUS)?.trim_start();
            match rest.strip_prefix("in") {
                Some(list) => {
                    let list = list.trim().strip_prefix('[')?.strip_suffix(']')?;
                    for code in list.split(',') {
                        let code = code.trim().parse().ok()?;
                        ranges.push((code, code));
                    }
                }
                None => {
                    let (low, high) = rest.strip_prefix(">=")?.split_once("&&")?;
                    let high = high
                        .trim()
                        .strip_prefix(STATUS)?
                        .trim_start()
                        .strip_prefix("<=")?;
                    ranges.push((low.trim().parse().ok()?, high.trim().parse().ok()?));
                }
            }
        }
        Some(ErrorStatus { ranges })
    }

    fn covers(&self, status: u16) -> bool {
        self.ranges
            .iter()
            .any(|(low, high)| (*low..=*high).contains(&status))
    }
}

impl Hook for ErrorStatus {
    fn matches(&self, input: &Input<'_>) -> Result<bool, Refusal> {
        Ok(input.scratch.with_buf(|buf| {
            let found = input.values.value(&Key::Error(ErrorKey::StatusCode), buf);
            let status = std::str::from_utf8(buf)
                .ok()
                .and_then(|text| text.parse().ok());
            found == Found::Known && status.is_some_and(|status| self.covers(status))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expressions_of_handle_errors_are_read() {
        let text = "{http.error.status_code} >= 500 && {http.error.status_code} <= 599 || \
                    {http.error.status_code} in [403, 404]";
        let status = ErrorStatus::parse(text).unwrap();
        assert_eq!(status.ranges, [(500, 599), (403, 403), (404, 404)]);
        for (code, expected) in [
            (500, true),
            (599, true),
            (404, true),
            (405, false),
            (600, false),
        ] {
            assert_eq!(status.covers(code), expected, "{code}");
        }
    }

    #[test]
    fn other_expressions_are_not() {
        for text in [
            "{http.request.method} == 'GET'",
            "{http.error.status_code} in [404] && true",
            "{http.error.status_code} == 404",
            "{http.error.status_code} in []",
            "",
        ] {
            assert_eq!(ErrorStatus::parse(text), None, "{text}");
        }
    }
}
