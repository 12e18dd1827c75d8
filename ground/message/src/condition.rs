//! Conditional requests (RFC 9110, section 13): decides whether to send a representation, and whether a `Range` header
//! applies. The caller knows the validators; `range` selects the ranges.

use crate::date::parse_http;
use crate::etag;
use crate::fields::Fields;
use crate::method::Method;
use crate::name::FieldId;

/// What is known of the representation that a request selects.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// Its entity tag, if it has one.
    pub etag: Option<&'a [u8]>,
    /// Its time of modification in seconds since 1970, if known.
    pub modified: Option<i64>,
}

/// What the conditions of a request say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request is performed.
    Proceed,
    /// 304: the client has the representation already.
    NotModified,
    /// 412: the representation is not the one the client means.
    Failed,
}

/// Evaluates the conditions of a request in the order of RFC 9110, section 13.2.2. `now` is in seconds since 1970.
pub fn evaluate(method: &Method, fields: &Fields, validators: Validators<'_>, now: u64) -> Verdict {
    if fields.is_empty() {
        return Verdict::Proceed;
    }
    let reads = matches!(method, Method::Get | Method::Head);
    let date = |id| {
        fields
            .first(id)
            .and_then(|text| parse_http(text, now))
            .zip(validators.modified)
    };
    if fields.has(FieldId::IfMatch) {
        if !any_tag(
            fields,
            FieldId::IfMatch,
            validators.etag,
            etag::matches_strongly,
        ) {
            return Verdict::Failed;
        }
    } else if let Some((limit, modified)) = date(FieldId::IfUnmodifiedSince)
        && modified > limit
    {
        return Verdict::Failed;
    }
    let unchanged = if fields.has(FieldId::IfNoneMatch) {
        any_tag(
            fields,
            FieldId::IfNoneMatch,
            validators.etag,
            etag::matches_weakly,
        )
    } else {
        reads
            && matches!(date(FieldId::IfModifiedSince), Some((limit, modified)) if modified <= limit)
    };
    match (unchanged, reads) {
        (false, _) => Verdict::Proceed,
        (true, true) => Verdict::NotModified,
        (true, false) => Verdict::Failed,
    }
}

/// Whether a Range field is to be honoured (RFC 9110, section 13.1.5): there is no If-Range, or it names exactly
/// this representation.
pub fn range_applies(fields: &Fields, validators: Validators<'_>, now: u64) -> bool {
    let Some(value) = fields.first(FieldId::IfRange) else {
        return true;
    };
    if value.starts_with(b"\"") || value.starts_with(b"W/") {
        return validators
            .etag
            .is_some_and(|tag| etag::matches_strongly(tag, value));
    }
    // A date is a strong validator only if its second is over: else the file may change again within it.
    validators
        .modified
        .is_some_and(|modified| parse_http(value, now) == Some(modified) && modified < now as i64)
}

fn any_tag(
    fields: &Fields,
    id: FieldId,
    current: Option<&[u8]>,
    matches: impl Fn(&[u8], &[u8]) -> bool,
) -> bool {
    fields.all(id).any(|value| {
        value == b"*"
            || current.is_some_and(|current| etag::list(value).any(|tag| matches(tag, current)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODIFIED: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const EARLIER: &[u8] = b"Sun, 06 Nov 1994 08:49:36 GMT";
    const NOW: u64 = 1_795_305_599;
    const VALIDATORS: Validators<'_> = Validators {
        etag: Some(b"\"v\""),
        modified: Some(784_111_777),
    };

    fn fields(lines: &[(FieldId, &[u8])]) -> Fields {
        let mut fields = Fields::new();
        lines.iter().for_each(|(id, value)| fields.push(*id, value));
        fields
    }

    fn verdict(method: Method, lines: &[(FieldId, &[u8])]) -> Verdict {
        evaluate(&method, &fields(lines), VALIDATORS, NOW)
    }

    #[test]
    fn single_conditions_are_evaluated() {
        use FieldId::*;
        use Verdict::*;
        for (id, value, expected) in [
            (IfMatch, &b"\"v\""[..], Proceed),
            (IfMatch, b"\"x\", \"v\"", Proceed),
            (IfMatch, b"*", Proceed),
            (IfMatch, b"W/\"v\"", Failed),
            (IfMatch, b"\"x\"", Failed),
            (IfMatch, b"", Failed),
            (IfUnmodifiedSince, MODIFIED, Proceed),
            (IfUnmodifiedSince, EARLIER, Failed),
            (IfUnmodifiedSince, b"nonsense", Proceed),
            (IfNoneMatch, b"\"v\"", NotModified),
            (IfNoneMatch, b"W/\"v\"", NotModified),
            (IfNoneMatch, b"*", NotModified),
            (IfNoneMatch, b"\"x\"", Proceed),
            (IfModifiedSince, MODIFIED, NotModified),
            (IfModifiedSince, EARLIER, Proceed),
            (IfModifiedSince, b"nonsense", Proceed),
        ] {
            let found = verdict(Method::Get, &[(id, value)]);
            assert_eq!(found, expected, "{id:?} {:?}", core::str::from_utf8(value));
        }
    }

    #[test]
    fn tags_take_precedence_over_dates() {
        use FieldId::*;
        let stale_tag = [(IfNoneMatch, &b"\"x\""[..]), (IfModifiedSince, MODIFIED)];
        assert_eq!(verdict(Method::Get, &stale_tag), Verdict::Proceed);
        let good_tag = [(IfMatch, &b"\"v\""[..]), (IfUnmodifiedSince, EARLIER)];
        assert_eq!(verdict(Method::Get, &good_tag), Verdict::Proceed);
        let both = [(IfMatch, &b"\"x\""[..]), (IfNoneMatch, b"\"v\"")];
        assert_eq!(verdict(Method::Get, &both), Verdict::Failed);
    }

    #[test]
    fn several_lines_are_one_list() {
        let lines = [
            (FieldId::IfNoneMatch, &b"\"x\""[..]),
            (FieldId::IfNoneMatch, b"\"v\""),
        ];
        assert_eq!(verdict(Method::Get, &lines), Verdict::NotModified);
    }

    #[test]
    fn other_methods_fail_instead_of_not_modified() {
        assert_eq!(
            verdict(Method::Put, &[(FieldId::IfNoneMatch, b"*")]),
            Verdict::Failed
        );
        assert_eq!(
            verdict(Method::Put, &[(FieldId::IfModifiedSince, MODIFIED)]),
            Verdict::Proceed
        );
    }

    #[test]
    fn without_validators_only_a_star_matches() {
        let none = Validators {
            etag: None,
            modified: None,
        };
        let check = |id, value: &[u8]| evaluate(&Method::Get, &fields(&[(id, value)]), none, NOW);
        assert_eq!(check(FieldId::IfNoneMatch, b"\"v\""), Verdict::Proceed);
        assert_eq!(check(FieldId::IfModifiedSince, MODIFIED), Verdict::Proceed);
        assert_eq!(check(FieldId::IfNoneMatch, b"*"), Verdict::NotModified);
    }

    #[test]
    fn a_range_applies_only_to_exactly_the_named_representation() {
        let applies = |value: &[u8], now| {
            range_applies(&fields(&[(FieldId::IfRange, value)]), VALIDATORS, now)
        };
        assert!(range_applies(&Fields::new(), VALIDATORS, NOW));
        assert!(applies(b"\"v\"", NOW));
        assert!(!applies(b"W/\"v\"", NOW));
        assert!(!applies(b"\"x\"", NOW));
        assert!(applies(MODIFIED, NOW));
        assert!(!applies(EARLIER, NOW));
        assert!(!applies(b"Sun, 06 Nov 1994 08:49:38 GMT", NOW));
        assert!(!applies(MODIFIED, 784_111_777));
    }
}
