//! Byte ranges (RFC 9110, section 14). `condition` decides whether a `Range` header applies; handlers send the parts.

use alloc::vec::Vec;

use crate::limits::RANGES_MAX;

/// A part of a representation, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Offset of its first byte.
    pub start: u64,
    /// Number of its bytes.
    pub len: u64,
}

/// What a Range field selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Everything: the field is to be ignored (200).
    Whole,
    /// One part (206 with Content-Range).
    One(Range),
    /// At least two parts in the order asked for (206, multipart/byteranges).
    Many(Vec<Range>),
    /// Nothing that exists (416 with the size in Content-Range).
    Unsatisfiable,
    /// The field is not well-formed (416, as Caddy; RFC 9110, section 14.2 also allows to ignore it).
    Malformed,
}

/// Selects parts of a representation of `size` bytes by the value of a `Range` header.
///
/// Units other than bytes are ignored, as RFC 9110, section 14.2 requires. A header that asks for more bytes than there
/// are, or for more than [`RANGES_MAX`] ranges, is ignored as well: section 14.2 allows that for overlapping or many
/// small ranges. A response is therefore never longer than the representation plus the heads of its parts.
pub fn select(field: &[u8], size: u64) -> Selection {
    let Some(equals) = memchr::memchr(b'=', field) else {
        return Selection::Malformed;
    };
    let (unit, set) = (&field[..equals], &field[equals + 1..]);
    if !unit.trim_ascii().eq_ignore_ascii_case(b"bytes") {
        return Selection::Whole;
    }
    let (mut first, mut others) = (None, Vec::new());
    let (mut asked, mut sum) = (0usize, 0u64);
    for spec in set.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
        if spec.is_empty() {
            continue;
        }
        asked += 1;
        let Some(spec) = parse_spec(spec) else {
            return Selection::Malformed;
        };
        let Some(range) = spec.within(size) else {
            continue;
        };
        sum = sum.saturating_add(range.len);
        match first {
            None => first = Some(range),
            Some(_) if others.len() < RANGES_MAX => others.push(range),
            Some(_) => {}
        }
    }
    // No part of an empty representation can be selected, so the whole one is the most useful response.
    match (asked, first) {
        (0, _) => Selection::Malformed,
        _ if size == 0 || asked > RANGES_MAX || sum > size => Selection::Whole,
        (_, None) => Selection::Unsatisfiable,
        (_, Some(range)) if others.is_empty() => Selection::One(range),
        (_, Some(range)) => {
            others.insert(0, range);
            Selection::Many(others)
        }
    }
}

enum Spec {
    From(u64),
    Between(u64, u64),
    Last(u64),
}

impl Spec {
    fn within(self, size: u64) -> Option<Range> {
        let (start, end) = match self {
            Spec::From(start) => (start, size),
            Spec::Between(start, last) => (start, last.saturating_add(1).min(size)),
            Spec::Last(len) => (size.saturating_sub(len), size),
        };
        (start < end).then(|| Range {
            start,
            len: end - start,
        })
    }
}

fn parse_spec(spec: &[u8]) -> Option<Spec> {
    let dash = memchr::memchr(b'-', spec)?;
    let (first, last) = (
        spec[..dash].trim_ascii_end(),
        spec[dash + 1..].trim_ascii_start(),
    );
    match (first.is_empty(), last.is_empty()) {
        (true, true) => None,
        (true, false) => Some(Spec::Last(position(last)?)),
        (false, true) => Some(Spec::From(position(first)?)),
        (false, false) => {
            let (first, last) = (position(first)?, position(last)?);
            (first <= last).then_some(Spec::Between(first, last))
        }
    }
}

/// A number of digits only; one too large for us is larger than any file.
fn position(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |value, &b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        Some(value.saturating_mul(10).saturating_add(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;

    fn of(field: &str, size: u64) -> Selection {
        select(field.as_bytes(), size)
    }

    fn one(start: u64, len: u64) -> Selection {
        Selection::One(Range { start, len })
    }

    #[test]
    fn single_ranges_are_cut_to_the_size() {
        assert_eq!(of("bytes=0-3", 10), one(0, 4));
        assert_eq!(of("bytes=3-", 10), one(3, 7));
        assert_eq!(of("bytes=-3", 10), one(7, 3));
        assert_eq!(of("bytes=-30", 10), one(0, 10));
        assert_eq!(of("bytes=9-99", 10), one(9, 1));
        assert_eq!(of("bytes=0-99999999999999999999999", 10), one(0, 10));
        assert_eq!(of("BYTES= 0 - 3 ", 10), one(0, 4));
        assert_eq!(of("bytes=0-0,99-", 10), one(0, 1));
    }

    #[test]
    fn several_ranges_keep_their_order() {
        let expected = vec![Range { start: 5, len: 2 }, Range { start: 0, len: 1 }];
        assert_eq!(of("bytes=5-6, 0-0", 10), Selection::Many(expected));
    }

    #[test]
    fn ranges_beyond_the_end_are_unsatisfiable() {
        assert_eq!(of("bytes=10-", 10), Selection::Unsatisfiable);
        assert_eq!(
            of("bytes=99999999999999999999999-", 10),
            Selection::Unsatisfiable
        );
        assert_eq!(of("bytes=-0", 10), Selection::Unsatisfiable);
    }

    #[test]
    fn malformed_ranges_are_distinguished_from_unknown_units() {
        for field in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-",
            "bytes=5-2",
            "bytes=1",
            "bytes=+1-2",
            "bytes=1--2",
        ] {
            assert_eq!(of(field, 10), Selection::Malformed, "{field}");
        }
        assert_eq!(of("lines=0-1", 10), Selection::Whole);
    }

    #[test]
    fn asking_for_more_than_there_is_gives_the_whole() {
        assert_eq!(of("bytes=0-,0-", 10), Selection::Whole);
        assert_eq!(of("bytes=0-5,5-9", 10), Selection::Whole);
        assert_eq!(of("bytes=0-", 0), Selection::Whole);
        assert_eq!(of("bytes=-1", 0), Selection::Whole);
    }

    #[test]
    fn more_ranges_than_the_limit_give_the_whole() {
        let field = |count: usize| {
            let specs: Vec<String> = (0..count).map(|i| format!("{i}-{i}")).collect();
            format!("bytes={}", specs.join(","))
        };
        let Selection::Many(ranges) = of(&field(RANGES_MAX), 1 << 20) else {
            panic!("the limit itself is allowed");
        };
        assert_eq!(ranges.len(), RANGES_MAX);
        assert_eq!(of(&field(RANGES_MAX + 1), 1 << 20), Selection::Whole);
        assert_eq!(of(&field(100_000), 1 << 30), Selection::Whole);
    }
}
