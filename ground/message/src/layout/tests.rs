use alloc::format;
use alloc::string::String;

use super::*;

fn spelled(layout: &str, time: &LocalTime<'_>) -> String {
    let (mut once, mut kept) = (Vec::new(), Vec::new());
    time.push(layout, &mut once);
    Layout::new(layout).push(time, &mut kept);
    assert_eq!(once, kept, "{layout}");
    String::from_utf8(once).expect("layouts give text")
}

#[test]
fn layouts_spell_times_as_go_does() {
    // What Caddy 2.11.4 wrote for this layout at this moment.
    let layout = "2006-01-02T15:04:05.999999999Z07:00 Monday January 1 2 _2 02 __2 002 06 3 03 4 5 pm PM \
                  .000 ,000 -0700 -07:00 -07 Z0700 MST";
    assert_eq!(
        spelled(layout, &LocalTime::utc(1_795_305_294, 112_165_003)),
        "2026-11-21T23:54:54.112165003Z Saturday November 11 21 21 21 325 325 26 11 11 54 54 pm PM \
         .112 ,112 +0000 +00:00 +00 Z UTC"
    );
    for (layout, expected) in [
        ("Mon Jan _2 15:04:05 2006", "Thu Jan  1 00:00:00 1970"),
        ("3:04PM", "12:00AM"),
        ("05.999", "00"),
        ("05.000", "00.000"),
        ("05.0001", "00.0001"),
        ("Month of Janitors", "Month of Janitors"),
        ("_2006 __2006", "_1970   1070"),
        ("2006. Janet", "1970. Janet"),
        ("bogus ünïcode", "bogus ünïcode"),
        ("-07:00:00", "+00:00:00"),
    ] {
        assert_eq!(spelled(layout, &LocalTime::utc(0, 0)), expected, "{layout}");
    }
}

#[test]
fn fractions_are_those_of_go() {
    // What Go 1.26 wrote.
    for (layout, nanos, expected) in [
        (".0000000000000", 78_900_001, ".078900001"),
        (".99999999999999", 78_900_001, ".078900001"),
        (",000", 78_900_001, ",078"),
        (",999", 78_900_000, ",078"),
        (".00 .01 ,0a", 78_900_001, ".07 .01 ,0a"),
        ("05,9", 78_900_001, "00"),
        ("a,99b", 1, "ab"),
        (".999", 0, ""),
        (".999999999", 1, ".000000001"),
    ] {
        let time = LocalTime::utc(0, nanos);
        assert_eq!(spelled(layout, &time), expected, "{layout}");
    }
}

#[test]
fn zones_are_spelled_with_name_and_sign() {
    let layout = "Z07:00 -07 -070000 MST";
    for (offset, zone, expected) in [
        (-(4 * 3600 + 30 * 60), "VET", "-04:30 -04 -043000 VET"),
        (3600, "", "+01:00 +01 +010000 +0100"),
        (0, "UTC", "Z +00 +000000 UTC"),
    ] {
        let time = LocalTime::new(0, 0, offset, zone);
        assert_eq!(spelled(layout, &time), expected);
    }
    let time = LocalTime::new(1_580_702_706, 0, -5 * 3600, "EST");
    assert_eq!(
        spelled("Monday, 02 Jan 2006 3:04PM MST", &time),
        "Sunday, 02 Feb 2020 11:05PM EST"
    );
}

#[test]
fn years_before_the_first_have_a_sign() {
    for (year, expected) in [(0, "0000 00"), (-1, "-0001 01"), (-123, "-0123 23")] {
        let time = LocalTime::utc(crate::date::days_from_civil(year, 2, 3) * 86_400, 0);
        assert_eq!(spelled("2006 06", &time), expected);
    }
}

#[test]
fn what_was_spelled_is_known_again() {
    for layout in [
        "2006-01-02T15-04-05.000",
        "Mon Jan _2 15:04:05 2006",
        "Monday, January 2 06 3:4:5.999pm -0700 MST",
        "2006.002 __2 03PM Z07:00",
    ] {
        let parsed = Layout::new(layout);
        for seconds in [0, 1_795_305_294, 4_000_000_000] {
            for zone in ["UTC", "CEST", "WITA", "ChST", "+03", "-0330"] {
                let time = LocalTime::new(seconds, 120_000_000, 3600, zone);
                let text = spelled(layout, &time) + "-size";
                assert_eq!(parsed.strip(&text), Some("-size"), "{layout}: {text}");
            }
        }
        assert_eq!(parsed.strip("access"), None, "{layout}");
    }
    assert_eq!(Layout::new("2006-01-02").strip("2026-02-30-size"), None);
    assert_eq!(Layout::new("05.log").strip("06.log"), Some(""));
}

#[test]
fn a_date_has_year_month_and_day() {
    for (layout, expected) in [
        ("2006-01-02", true),
        ("06 __2", true),
        ("Jan 2 15:04:05", false),
        ("Mon", false),
    ] {
        assert_eq!(Layout::new(layout).has_date(), expected, "{layout}");
    }
}

/// Seconds since 1970 and nanoseconds, or nothing.
fn read(layout: &str, text: &str) -> Option<(i64, u32)> {
    parse(layout, text).map(|read| {
        (
            read.seconds - i64::from(read.offset.unwrap_or(0)),
            read.nanos,
        )
    })
}

#[test]
fn times_are_read_by_their_layout() {
    for (layout, text, seconds) in [
        ("2006-01-02", "2020-02-03", Some(1_580_688_000)),
        (
            "Mon, 02 Jan 2006 15:04:05 MST",
            "Mon, 03 Feb 2020 04:05:06 UTC",
            Some(1_580_702_706),
        ),
        (
            "2006-01-02T15:04:05Z07:00",
            "2020-02-03T04:05:06+02:00",
            Some(1_580_695_506),
        ),
        ("Jan _2 06 3:04PM", "feb  3 20 4:05AM", Some(1_580_702_700)),
        ("2006 002", "2020 034", Some(1_580_688_000)),
        ("2006-01-02 002", "2020-02-03 034", Some(1_580_688_000)),
        ("2006-01-02 002", "2020-02-03 035", None),
        ("2006 __2", "2021 366", None),
        ("2006 002", "2021 000", None),
        ("2006-01-02", "2020-02-30", None),
        ("2006-01-02", "2020-13-01", None),
        ("2006-01-02", "2020-01-01x", None),
        ("2006-01-02", "+020-01-01", None),
        ("2006 15:04", "1970 24:00", None),
        ("2006 3:04", "1970 13:00", None),
        ("2006 3PM", "1970 12PM", Some(43_200)),
        ("2006 3PM", "1970 12AM", Some(0)),
        ("2006 15", "1970 4", Some(14_400)),
        ("2006 a  b", "1970   a b", Some(0)),
        ("2006 ab ", "1970 ab", Some(0)),
        ("2006 a b", "1970 ab", None),
        ("06", "69", Some(-365 * 86_400)),
        ("06", "68", Some(3_092_601_600)),
    ] {
        let found = read(layout, text).map(|(seconds, _)| seconds);
        assert_eq!(found, seconds, "{layout}: {text}");
    }
}

#[test]
fn fractions_are_read_as_by_go() {
    for (layout, text, nanos) in [
        ("05", "06.5", Some(500_000_000)),
        ("05", "06,5", Some(500_000_000)),
        ("05", "06.", None),
        ("05.", "06.", Some(0)),
        ("05.000", "06.123", Some(123_000_000)),
        ("05.000", "06.12", None),
        ("05.000", "06.1234", None),
        ("05,000", "06.500", Some(500_000_000)),
        ("05 .000", "06 .500", Some(500_000_000)),
        ("05 .000", "06.1 .500", None),
        ("05.999", "06", Some(0)),
        ("05.999", "06.123456789123", Some(123_456_789)),
        ("05.0000000000", "06.9000000001", Some(900_000_000)),
        (".999", ".", None),
    ] {
        let found = read(layout, text).map(|(_, nanos)| nanos);
        assert_eq!(found, nanos, "{layout}: {text}");
    }
}

#[test]
fn zones_are_read_as_by_go() {
    for (layout, text, expected) in [
        ("-0700", "+0130", Some((Some(5_400), None))),
        ("-07:00:00", "-01:00:01", Some((Some(-3_601), None))),
        ("-0700", "Z", None),
        ("Z0700", "Z", Some((Some(0), Some("UTC")))),
        ("-0700", "+2400", Some((Some(86_400), None))),
        ("-0700", "+2500", None),
        ("-0700", "+0061", None),
        ("-0700 MST", "+0000 GMT", Some((Some(0), Some("GMT")))),
        ("MST -0700", "UTC +0100", Some((Some(0), Some("UTC")))),
        ("MST", "CEST", Some((None, Some("CEST")))),
        ("MST", "CESX", None),
        ("MST", "ABCDT", Some((None, Some("ABCDT")))),
        ("MST", "ABCDE", None),
        ("MST", "AB", None),
        ("MST", "GMT-12", Some((Some(-43_200), Some("GMT-12")))),
        ("MST", "GMT+99", None),
        ("MST", "+03", Some((None, Some("+03")))),
        ("MST", "+24", None),
        ("MST", "+3", None),
    ] {
        let found = parse(layout, text).map(|read| (read.offset, read.zone));
        assert_eq!(found, expected, "{layout}: {text}");
    }
}

#[test]
fn no_text_is_too_odd_to_be_read() {
    let layouts = "MST-0700Z07:00__2 _2Jan.000 05,999ü";
    let texts = "GMT+UTC+0330é.123 ü,";
    for layout in 0..layouts.len() {
        for text in 0..texts.len() {
            let (Some(layout), Some(text)) = (layouts.get(layout..), texts.get(text..)) else {
                continue;
            };
            let whole = format!("{text}{text}");
            assert!(parse(layout, &whole).is_none_or(|read| read.nanos < 1_000_000_000));
        }
    }
}
