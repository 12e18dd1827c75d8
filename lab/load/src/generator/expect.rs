//! The expected response, and the check of every response against it: always status and length, and by default every
//! byte of the body.

use std::sync::Arc;

use super::response::{Facts, Take, fields};
use crate::result::FailureClass;

/// The expected response.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// The status that a response must have.
    pub status: u16,
    /// What to verify of the body.
    pub body: BodyExpect,
    /// Headers that must be present: name, and value unless any is accepted.
    pub fields: Vec<(String, Option<String>)>,
}

/// What to verify of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BodyExpect {
    /// Nothing: the target's responses differ each time.
    #[default]
    Any,
    /// Its length.
    Length(u64),
    /// Every byte in each n-th response of a connection; in the others the length.
    Exact {
        /// The body.
        bytes: Arc<[u8]>,
        /// 1 for every response.
        every: u64,
    },
}

impl Expect {
    /// Expects this status and exactly this body.
    pub fn exactly(status: u16, body: &[u8]) -> Self {
        let bytes = Arc::from(body);
        Expect {
            status,
            body: BodyExpect::Exact { bytes, every: 1 },
            fields: Vec::new(),
        }
    }

    /// What is verified, in words for the result.
    pub fn words(&self) -> String {
        let body = match &self.body {
            BodyExpect::Any => "any body".to_string(),
            BodyExpect::Length(length) => format!("{length} bytes of body"),
            BodyExpect::Exact { bytes, every: 1 } => {
                format!("every byte of a body of {}", bytes.len())
            }
            BodyExpect::Exact { bytes, every } => format!(
                "the length of a body of {}, and in every {every}th response all of its bytes",
                bytes.len()
            ),
        };
        let fields = match self.fields.len() {
            0 => String::new(),
            count => format!(", {count} fields"),
        };
        format!("status {}, {body}{fields}", self.status)
    }
}

/// Why a complete response is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The kind of failure.
    pub class: FailureClass,
    /// The status received.
    pub status: u16,
    /// What was received instead.
    pub seen: String,
}

/// Verifies one response incrementally.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judge {
    status: u16,
    body_bytes: u64,
    differs: bool,
    /// Index of the header that is not as expected, plus one.
    field: u16,
    compare: bool,
}

impl Judge {
    /// Begins with the `number`th response of a connection.
    pub fn begin(&mut self, expect: &Expect, number: u64) {
        let compare = match &expect.body {
            BodyExpect::Exact { every, .. } => number.is_multiple_of((*every).max(1)),
            BodyExpect::Any | BodyExpect::Length(_) => false,
        };
        *self = Judge {
            compare,
            ..Judge::default()
        };
    }

    /// Takes the status and a function that looks up headers.
    pub fn head(
        &mut self,
        expect: &Expect,
        status: u16,
        mut has: impl FnMut(&str, Option<&str>) -> bool,
    ) {
        self.status = status;
        for (at, (name, value)) in expect.fields.iter().enumerate() {
            if self.field == 0 && !has(name, value.as_deref()) {
                self.field = at as u16 + 1;
            }
        }
    }

    /// Takes a piece of the body.
    pub fn body(&mut self, expect: &Expect, bytes: &[u8]) {
        if self.compare
            && !self.differs
            && let BodyExpect::Exact { bytes: whole, .. } = &expect.body
        {
            let from = usize::try_from(self.body_bytes).unwrap_or(usize::MAX);
            let piece = whole.get(from..from.saturating_add(bytes.len()));
            self.differs = piece != Some(bytes);
        }
        self.body_bytes += bytes.len() as u64;
    }

    /// Bytes of the body so far.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Verdict on the complete response. `bodiless` for responses to HEAD.
    pub fn end(&self, expect: &Expect, bodiless: bool) -> Result<(), Wrong> {
        let wrong = |class, seen| Wrong {
            class,
            status: self.status,
            seen,
        };
        if self.status != expect.status {
            let seen = format!("status {} instead of {}", self.status, expect.status);
            return Err(wrong(FailureClass::Status, seen));
        }
        let length = match &expect.body {
            BodyExpect::Any => None,
            BodyExpect::Length(length) => Some(*length),
            BodyExpect::Exact { bytes, .. } => Some(bytes.len() as u64),
        };
        if let Some(length) = length.filter(|length| *length != self.body_bytes && !bodiless) {
            let seen = format!("{} bytes of body instead of {length}", self.body_bytes);
            return Err(wrong(FailureClass::Length, seen));
        }
        if self.differs {
            let seen = "a body of the right length with different bytes".to_string();
            return Err(wrong(FailureClass::Body, seen));
        }
        if let Some((name, value)) = usize::from(self.field)
            .checked_sub(1)
            .and_then(|at| expect.fields.get(at))
        {
            let seen = match value {
                Some(value) => format!("no header `{name}: {value}`"),
                None => format!("no field `{name}`"),
            };
            return Err(wrong(FailureClass::Field, seen));
        }
        Ok(())
    }
}

/// A judge with the expected response, for the HTTP/1 reader.
#[derive(Debug)]
pub struct Judging<'a> {
    /// Decides whether the response is correct.
    pub judge: &'a mut Judge,
    /// The expected response.
    pub expect: &'a Expect,
}

impl Take for Judging<'_> {
    fn head(&mut self, facts: &Facts, raw: &[u8]) {
        let has = |name: &str, value: Option<&str>| {
            field(raw, name)
                .is_some_and(|found| value.is_none_or(|value| found == value.as_bytes()))
        };
        self.judge.head(self.expect, facts.status, has);
    }

    fn body(&mut self, bytes: &[u8]) {
        self.judge.body(self.expect, bytes);
    }
}

/// The value of the first header of that name in an HTTP/1 head.
pub fn field<'a>(raw: &'a [u8], name: &'a str) -> Option<&'a [u8]> {
    fields(raw, name).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(expect: &Expect, number: u64, status: u16, pieces: &[&str]) -> Option<FailureClass> {
        let mut judge = Judge::default();
        judge.begin(expect, number);
        judge.head(expect, status, |name, _| name == "server");
        for piece in pieces {
            judge.body(expect, piece.as_bytes());
        }
        judge.end(expect, false).err().map(|wrong| wrong.class)
    }

    #[test]
    fn each_fault_has_its_class() {
        let mut expect = Expect::exactly(200, b"hello");
        assert_eq!(judged(&expect, 0, 200, &["he", "llo"]), None);
        assert_eq!(
            judged(&expect, 0, 502, &["hello"]),
            Some(FailureClass::Status)
        );
        assert_eq!(
            judged(&expect, 0, 200, &["hell"]),
            Some(FailureClass::Length)
        );
        assert_eq!(
            judged(&expect, 0, 200, &["hello", "!"]),
            Some(FailureClass::Length)
        );
        assert_eq!(
            judged(&expect, 0, 200, &["hexlo"]),
            Some(FailureClass::Body)
        );
        expect.fields = vec![("server".into(), None)];
        assert_eq!(judged(&expect, 0, 200, &["hello"]), None);
        expect.fields = vec![("etag".into(), None)];
        assert_eq!(
            judged(&expect, 0, 200, &["hello"]),
            Some(FailureClass::Field)
        );
    }

    #[test]
    fn bodies_may_be_compared_in_every_nth_response_only() {
        let mut expect = Expect::exactly(200, b"hello");
        if let BodyExpect::Exact { every, .. } = &mut expect.body {
            *every = 4;
        }
        let wrong = |number| judged(&expect, number, 200, &["HELLO"]);
        assert_eq!(
            (wrong(0), wrong(1), wrong(4)),
            (Some(FailureClass::Body), None, Some(FailureClass::Body))
        );
        assert_eq!(
            judged(&expect, 1, 200, &["HELL"]),
            Some(FailureClass::Length)
        );
    }

    #[test]
    fn fields_are_found_whatever_their_case() {
        let raw = b"HTTP/1.1 200 OK\r\nServer:  a b \r\nX: y\r\n\r\n";
        assert_eq!(field(raw, "server"), Some(&b"a b"[..]));
        assert_eq!(field(raw, "date"), None);
    }
}
