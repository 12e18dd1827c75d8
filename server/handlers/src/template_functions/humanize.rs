//! Human-readable sizes and ages in the format of `humanize`, and text without tags.

use sluice_message::hex::push_escaped;

/// `2.0 MB`: in powers of 1000.
pub fn size(bytes: u64) -> String {
    scaled(bytes, 1000.0, ["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

/// `1.5 KiB`: in powers of 1024.
pub fn binary_size(bytes: u64) -> String {
    scaled(
        bytes,
        1024.0,
        ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"],
    )
}

fn scaled(bytes: u64, base: f64, names: [&str; 7]) -> String {
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let mut scale = 1.0;
    let mut unit = 0;
    while bytes as f64 / scale >= base && unit < names.len() - 1 {
        scale *= base;
        unit += 1;
    }
    let value = bytes as f64 / scale;
    let tenths = (value * 10.0 + 0.5).floor() / 10.0;
    // Rounded once: 123.45 is 123, although its tenths, 123.5, would be 124.
    if value < 10.0 && tenths < 10.0 {
        format!("{tenths:.1} {}", names[unit])
    } else {
        format!("{:.0} {}", (value + 0.5).floor(), names[unit])
    }
}

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;
const MONTH: u64 = 30 * DAY;
const YEAR: u64 = 12 * MONTH;

/// `4 years ago`, `2 days from now`.
pub fn age(seconds: i64, now: i64) -> String {
    let side = if seconds > now { "from now" } else { "ago" };
    let apart = seconds.abs_diff(now);
    let (unit, name) = match apart {
        0 => return "now".to_owned(),
        1..MINUTE => (1, "second"),
        MINUTE..HOUR => (MINUTE, "minute"),
        HOUR..DAY => (HOUR, "hour"),
        DAY..WEEK => (DAY, "day"),
        WEEK..MONTH => (WEEK, "week"),
        MONTH..YEAR => (MONTH, "month"),
        _ => (YEAR, "year"),
    };
    // As in `humanize`, a year and a half counts as two years.
    let count = match apart {
        _ if unit == YEAR && (YEAR * 3 / 2..2 * YEAR).contains(&apart) => 2,
        _ => apart / unit,
    };
    if count >= 37 && unit == YEAR {
        return format!("a long while {side}");
    }
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {name}{plural} {side}")
}

/// Removes tags. Text after an unclosed `<` is removed as well.
pub fn without_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut depth = 0_usize;
    let mut quote = None;
    for letter in text.chars() {
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            (_, Some(_)) => {}
            ('<', None) => depth += 1,
            ('>', None) if depth > 0 => depth -= 1,
            ('"' | '\'', None) if depth > 0 => quote = Some(letter),
            (_, None) if depth == 0 => out.push(letter),
            (_, None) => {}
        }
    }
    out
}

/// Escapes `text` for use as a path segment.
pub fn path_escaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    push_escaped(&mut out, text, b"-_.~$&+:=@");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_are_those_of_caddy() {
        for (bytes, expected) in [
            (0, "0 B"),
            (9, "9 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (9_949, "9.9 kB"),
            (9_950, "10 kB"),
            (10_499, "10 kB"),
            (999_950, "1000 kB"),
            (2_048_000, "2.0 MB"),
            (123_456_789_012, "123 GB"),
            (123_500_000_000, "124 GB"),
        ] {
            assert_eq!(size(bytes), expected, "{bytes}");
        }
        assert_eq!(binary_size(1536), "1.5 KiB");
        let now = 2_000_000_000;
        for (seconds, expected) in [
            (0, "now"),
            (1, "1 second ago"),
            (59, "59 seconds ago"),
            (3 * 60, "3 minutes ago"),
            (-7200, "2 hours from now"),
            (86_400, "1 day ago"),
            (15 * 86_400, "2 weeks ago"),
            (40 * 86_400, "1 month ago"),
            (400 * 86_400, "1 year ago"),
            (600 * 86_400, "2 years ago"),
            (40 * 360 * 86_400, "a long while ago"),
        ] {
            assert_eq!(age(now - seconds, now), expected);
        }
    }

    #[test]
    fn tags_are_left_out() {
        for (text, expected) in [
            ("a <b>x</b> < c", "a x "),
            ("<a<b>c>d", "d"),
            ("a > b", "a > b"),
            ("<a href='>'>x", "x"),
            ("it's <i>\"so\"</i>", "it's \"so\""),
        ] {
            assert_eq!(without_tags(text), expected);
        }
    }
}
