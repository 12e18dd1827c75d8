//! Remembers where parsing of an incomplete head continues, so that a head that arrives byte by byte takes time linear
//! in its length. `field_line`, `request` and `response` parse the lines.

use memchr::memchr;

use super::field_line::{FieldFault, Located, check_line};
use crate::limits::{Limits, LineEnds};

/// What the first line that is not yet complete belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    AwaitStartLine,
    AwaitField,
}

/// The state kept between two looks at a growing head. Complete lines are checked once when they arrive; when
/// the last one is there the whole head is read again, into its final place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resume {
    pub stage: Stage,
    /// Start of the first line that was not complete.
    pub at: usize,
    /// No line ends between `at` and here. Zero when nothing was looked at yet.
    pub scanned: usize,
    /// Field lines already checked.
    pub fields: usize,
}

impl Resume {
    /// Whether the line at hand became complete.
    pub fn line_is_complete(&mut self, bytes: &[u8]) -> bool {
        let from = self.scanned.min(bytes.len());
        match memchr(b'\n', &bytes[from..]) {
            Some(length) => {
                self.scanned = from + length;
                true
            }
            None => {
                self.scanned = bytes.len();
                false
            }
        }
    }

    /// Goes on to the field lines, of which the first starts at `at`.
    pub fn enter_fields(&mut self, at: usize) {
        *self = Resume {
            stage: Stage::AwaitField,
            at,
            scanned: at,
            fields: 0,
        };
    }

    /// Checks the field lines that became complete and returns whether the empty line is among them.
    pub fn advance(&mut self, bytes: &[u8], limits: &Limits) -> Result<bool, Located<FieldFault>> {
        while self.line_is_complete(bytes) {
            let end = self.scanned + 1;
            let takes_lf = limits.leniency.line_ends == LineEnds::LfToo;
            match &bytes[self.at..end] {
                b"\r\n" => return Ok(true),
                b"\n" if takes_lf => return Ok(true),
                _ => {}
            }
            if check_line(&bytes[..end], self.at, limits)? {
                if self.fields == limits.fields_max {
                    return Err(Located::new(FieldFault::TooMany, self.at));
                }
                self.fields += 1;
            }
            self.at = end;
            self.scanned = end;
        }
        if bytes.len() - self.at > limits.line_bytes_max {
            return Err(Located::new(FieldFault::LineTooLong, self.at));
        }
        Ok(false)
    }
}
