//! Content negotiation: chooses what the client prefers among content codings (RFC 9110, section 12.5.3) and media
//! types (section 12.5.1). The caller lists what it can offer.

use crate::fields::Fields;
use crate::name::FieldId;

/// A weight in thousandths, from 0 (not acceptable) to 1000 (RFC 9110, section 12.4.2).
pub type Weight = u16;

/// The weight that the Accept-Encoding fields give to `coding`: that of its own entry, else that of `*`, else 0.
/// A fault in a weight makes it 0, so that a client never gets what it may not understand.
pub fn coding_weight(fields: &Fields, coding: &[u8]) -> Weight {
    let (mut own, mut any) = (None, None);
    for value in fields.all(FieldId::AcceptEncoding) {
        for entry in value.split(|&b| b == b',') {
            let (name, weight) = split_weight(entry);
            if is_coding(name, coding) {
                own = own.or(Some(weight));
            } else if name == b"*" {
                any = any.or(Some(weight));
            }
        }
    }
    own.or(any).unwrap_or(0)
}

/// The number of the offered coding with the greatest weight; of several, the first. `None` if the client takes
/// none of them.
pub fn choose_coding<'a>(
    fields: &Fields,
    offers: impl IntoIterator<Item = &'a [u8]>,
) -> Option<usize> {
    if !fields.has(FieldId::AcceptEncoding) {
        return None;
    }
    let mut best: Option<(usize, Weight)> = None;
    for (at, coding) in offers.into_iter().enumerate() {
        let weight = coding_weight(fields, coding);
        if weight > best.map_or(0, |(_, best)| best) {
            best = Some((at, weight));
        }
    }
    best.map(|(at, _)| at)
}

/// RFC 9110, section 8.4.1.3: `x-gzip` is `gzip`.
fn is_coding(name: &[u8], coding: &[u8]) -> bool {
    name.eq_ignore_ascii_case(coding) || coding == b"gzip" && name.eq_ignore_ascii_case(b"x-gzip")
}

/// Whether the `Accept` headers name `media_type` itself with a weight above 0; `*/*` does not count. A program uses
/// this to ask for something other than the page meant for people.
pub fn accepts_by_name(fields: &Fields, media_type: &[u8]) -> bool {
    fields
        .all(FieldId::Accept)
        .flat_map(|value| value.split(|&b| b == b','))
        .any(|entry| {
            let (name, weight) = split_weight(entry);
            weight > 0 && name.eq_ignore_ascii_case(media_type)
        })
}

/// An entry like `gzip;q=0.5` as its name and its weight. Other parameters are not looked at.
fn split_weight(entry: &[u8]) -> (&[u8], Weight) {
    let mut parts = entry.split(|&b| b == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| match part {
        [b'q' | b'Q', rest @ ..] => rest.trim_ascii_start().strip_prefix(b"="),
        _ => None,
    });
    (
        name,
        weight.map_or(1000, |text| parse_weight(text.trim_ascii())),
    )
}

/// `0`, `1`, `0.123`, `1.000`; anything else is 0.
fn parse_weight(text: &[u8]) -> Weight {
    let (whole, fraction) = match text {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (*whole, fraction),
        _ => return 0,
    };
    if !fraction.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let thousandths = [100, 10, 1]
        .iter()
        .zip(fraction)
        .map(|(unit, &b)| unit * Weight::from(b - b'0'));
    (Weight::from(whole - b'0') * 1000 + thousandths.sum::<Weight>()).min(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepting(id: FieldId, values: &[&str]) -> Fields {
        let mut fields = Fields::new();
        values
            .iter()
            .for_each(|value| fields.push(id, value.as_bytes()));
        fields
    }

    fn chosen(values: &[&str]) -> Option<usize> {
        let fields = accepting(FieldId::AcceptEncoding, values);
        choose_coding(&fields, [&b"br"[..], b"zstd", b"gzip"])
    }

    #[test]
    fn the_greatest_weight_wins_and_then_the_order_of_offers() {
        assert_eq!(chosen(&["gzip, zstd, br"]), Some(0));
        assert_eq!(chosen(&["gzip, zstd"]), Some(1));
        assert_eq!(chosen(&["br;q=0.5, gzip;q=0.8, zstd;q=0.79"]), Some(2));
        assert_eq!(chosen(&["deflate", "GZIP"]), Some(2));
        assert_eq!(chosen(&["x-gzip"]), Some(2));
        assert_eq!(chosen(&["gzip ; q = 1"]), Some(2));
    }

    #[test]
    fn a_weight_of_zero_refuses() {
        assert_eq!(chosen(&["gzip;q=0"]), None);
        assert_eq!(chosen(&["gzip;q=0.000, br;q=0"]), None);
        assert_eq!(chosen(&["*;q=0"]), None);
        assert_eq!(chosen(&["*, br;q=0, zstd;q=0"]), Some(2));
        assert_eq!(chosen(&["*"]), Some(0));
        assert_eq!(chosen(&["identity"]), None);
        assert_eq!(chosen(&[""]), None);
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn faulty_weights_refuse() {
        for weight in ["", "2", "-1", "0.1234", "1e3", "0,5", ".5", "a"] {
            let entry = alloc::format!("gzip;q={weight}");
            let fields = accepting(FieldId::AcceptEncoding, &[&entry]);
            assert_eq!(coding_weight(&fields, b"gzip"), 0, "{weight}");
        }
        let fields = accepting(FieldId::AcceptEncoding, &["gzip;q=1.999"]);
        assert_eq!(coding_weight(&fields, b"gzip"), 1000);
        let fields = accepting(FieldId::AcceptEncoding, &["gzip;q=0.05"]);
        assert_eq!(coding_weight(&fields, b"gzip"), 50);
    }

    #[test]
    fn media_types_count_only_by_name() {
        let json =
            |value| accepts_by_name(&accepting(FieldId::Accept, &[value]), b"application/json");
        assert!(json("application/json"));
        assert!(json("text/html, Application/JSON;q=0.1"));
        assert!(!json("*/*"));
        assert!(!json("application/json;q=0"));
        assert!(!json("application/jsonp"));
    }
}
