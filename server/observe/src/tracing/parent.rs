//! Parses a client's trace context (W3C Trace Context, section 3.2).

/// The client's span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The trace ID.
    pub trace_id: u128,
    /// The span ID.
    pub span_id: u64,
    /// Whether the client records the trace.
    pub sampled: bool,
}

impl Parent {
    /// Parses a `traceparent` header; `None` for one that the standard requires to ignore.
    pub fn parse(field: &[u8]) -> Option<Parent> {
        let mut parts = field.splitn(4, |byte| *byte == b'-');
        let mut part = |length| parts.next().filter(|part: &&[u8]| part.len() >= length);
        let (version, trace, span, rest) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let version = hex(version, 2)?;
        // Section 3.2.2: version 255 is invalid; later versions may add parts after the flags of version 0.
        let (flags, more) = rest.split_at(2);
        let ended = match version {
            255 => return None,
            0 => more.is_empty(),
            _ => more.is_empty() || more[0] == b'-',
        };
        let parent = Parent {
            trace_id: hex(trace, 32)?,
            span_id: u64::try_from(hex(span, 16)?).ok()?,
            sampled: hex(flags, 2)? & 1 != 0,
        };
        (ended && parent.trace_id != 0 && parent.span_id != 0).then_some(parent)
    }
}

/// Parses exactly `length` lower-case hexadecimal digits.
fn hex(text: &[u8], length: usize) -> Option<u128> {
    if text.len() != length {
        return None;
    }
    text.iter().try_fold(0u128, |number, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_as_the_standard_says() {
        let whole = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parent = Parent {
            trace_id: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
            span_id: 0xb7ad_6b71_6920_3331,
            sampled: true,
        };
        assert_eq!(Parent::parse(whole.as_bytes()), Some(parent));
        let unsampled = whole.replace("-01", "-00");
        let parsed = Parent::parse(unsampled.as_bytes()).expect("it is one");
        assert!(!parsed.sampled);
        let later = whole.replacen("00", "cc", 1) + "-what-is-to-come";
        assert_eq!(Parent::parse(later.as_bytes()), Some(parent));
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
        ] {
            assert_eq!(Parent::parse(bad.as_bytes()), None, "{bad}");
        }
        for length in 0..whole.len() {
            assert_eq!(Parent::parse(&whole.as_bytes()[..length]), None, "{length}");
        }
    }
}
