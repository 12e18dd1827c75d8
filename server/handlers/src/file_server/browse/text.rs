//! Listings for programs: JSON with Caddy's names, and plain text.

use std::io::Write;

use sluice_cache::Time;
use sluice_message::layout::LocalTime;
use sluice_message::uri::encode_path_as_go;

use super::entries::Entry;
use super::listing::{Listing, has_room};

/// Writes the listing as Caddy's JSON; as in Caddy, an empty listing is `null`.
pub(super) fn write_json(listing: &Listing, out: &mut Vec<u8>) {
    if listing.entries.is_empty() {
        out.extend_from_slice(b"null\n");
        return;
    }
    let mut separator = b'[';
    for entry in listing
        .entries
        .iter()
        .take_while(|_| has_room(out))
        .collect::<Vec<_>>()
    {
        out.push(separator);
        separator = b',';
        out.extend_from_slice(b"{\"name\":");
        write_string(&shown_name(entry), out);
        write_display(format_args!(",\"size\":{},\"url\":", entry.size), out);
        write_string(&url(entry), out);
        out.extend_from_slice(b",\"mod_time\":\"");
        write_time(entry.modified, "2006-01-02T15:04:05.999999999Z07:00", out);
        write_display(
            format_args!(
                "\",\"mode\":{},\"is_dir\":{},\"is_symlink\":{}",
                entry.mode, entry.is_dir, entry.is_link
            ),
            out,
        );
        if let Some(target) = &entry.target {
            out.extend_from_slice(b",\"symlink_path\":");
            write_string(target, out);
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"]\n");
}

/// Writes the listing as a table with three columns, aligned with tab stops every eight columns.
pub(super) fn write_plain(listing: &Listing, time_layout: &str, out: &mut Vec<u8>) {
    let rows: Vec<_> = listing
        .entries
        .iter()
        .map(|entry| {
            (
                shown_name(entry),
                human_size(entry.size).into_bytes(),
                entry.modified,
            )
        })
        .collect();
    let width = |texts: &mut dyn Iterator<Item = &Vec<u8>>| {
        texts.map(|text| letters(text)).max().unwrap_or(0).max(4) / 8 + 1
    };
    let name_tabs = width(&mut rows.iter().map(|row| &row.0));
    let size_tabs = width(&mut rows.iter().map(|row| &row.1));
    let mut row = |name: &[u8], size: &[u8], time: &[u8]| {
        if !has_room(out) {
            return;
        }
        for (cell, tabs) in [(name, name_tabs), (size, size_tabs)] {
            // A newline in a name would look like another row.
            out.extend(cell.iter().map(|&b| if b < 0x20 { b'?' } else { b }));
            out.extend(std::iter::repeat_n(b'\t', tabs - letters(cell) / 8));
        }
        out.extend_from_slice(time);
        out.push(b'\n');
    };
    row(b"Name", b"Size", b"Modified");
    row(b"----", b"----", b"--------");
    for (name, size, modified) in &rows {
        let mut time = Vec::new();
        write_time(*modified, time_layout, &mut time);
        row(name, size, &time);
    }
}

fn letters(text: &[u8]) -> usize {
    String::from_utf8_lossy(text).chars().count()
}

/// The name, with a trailing slash for a folder.
pub(super) fn shown_name(entry: &Entry) -> Vec<u8> {
    let mut name = entry.name.clone();
    if entry.is_dir {
        name.push(b'/');
    }
    name
}

/// The URL of an entry relative to the listing. The `./` prevents a colon in a name from being parsed as the end of a
/// scheme.
pub(super) fn url(entry: &Entry) -> Vec<u8> {
    let mut out = b"./".to_vec();
    encode_path_as_go(&shown_name(entry), &mut out);
    out
}

/// `1.5 KiB`
pub(super) fn human_size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit < 6 {
        value /= 1024.0;
        unit += 1;
    }
    let name = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][unit];
    if value < 10.0 {
        format!("{value:.1} {name}")
    } else {
        format!("{value:.0} {name}")
    }
}

/// Appends a time in UTC, formatted with a Go layout.
pub(super) fn write_time(time: Time, layout: &str, out: &mut Vec<u8>) {
    LocalTime::utc(time.seconds, time.nanos).push(layout, out);
}

fn write_display(text: std::fmt::Arguments<'_>, out: &mut Vec<u8>) {
    out.write_fmt(text)
        .expect("writing to memory does not fail");
}

/// Writes a JSON string. Characters special to HTML are escaped, so that the text is safe to embed.
fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for letter in String::from_utf8_lossy(text).chars() {
        match letter {
            '"' | '\\' => write_display(format_args!("\\{letter}"), out),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\x1f' => {
                write_display(format_args!("\\u{:04x}", letter as u32), out);
            }
            _ => out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::super::entries::example;
    use super::super::order::{Order, SortBy};
    use super::*;

    fn listing(entries: Vec<Entry>) -> Listing {
        Listing {
            entries,
            sort: SortBy::Name,
            order: Order::Ascending,
            is_root: false,
            cut: false,
            path: b"/".to_vec(),
            totals: Default::default(),
            page: Default::default(),
        }
    }

    #[test]
    fn json_has_the_names_and_escapes_of_caddy() {
        let mut first = example("a <&>\"'.txt", 2, 1_795_295_014, false);
        first.modified.nanos = 29_207_720;
        let mut out = Vec::new();
        write_json(
            &listing(vec![first, example("col:on%41?", 4096, 0, true)]),
            &mut out,
        );
        let expected = concat!(
            r#"[{"name":"a \u003c\u0026\u003e\"'.txt","size":2,"url":"./a%20%3C\u0026%3E%22%27.txt","#,
            r#""mod_time":"2026-11-21T21:03:34.02920772Z","mode":420,"is_dir":false,"is_symlink":false},"#,
            r#"{"name":"col:on%41?/","size":4096,"url":"./col:on%2541%3F/","#,
            r#""mod_time":"1970-01-01T00:00:00Z","mode":420,"is_dir":true,"is_symlink":false}]"#,
            "\n"
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut none = Vec::new();
        write_json(&listing(Vec::new()), &mut none);
        assert_eq!(none, b"null\n");
    }

    #[test]
    fn plain_text_is_aligned_by_tabs() {
        let entries = vec![
            example("a <&>\"'.txt", 2, 1_795_295_014, false),
            example("b.txt", 1492, 1_795_295_014, false),
            example("x\ny", 0, 0, false),
        ];
        let mut out = Vec::new();
        write_plain(&listing(entries), "January 2, 2006 at 15:04:05", &mut out);
        let expected = "Name\t\tSize\tModified\n----\t\t----\t--------\n\
            a <&>\"'.txt\t2 B\tNovember 21, 2026 at 21:03:34\n\
            b.txt\t\t1.5 KiB\tNovember 21, 2026 at 21:03:34\n\
            x?y\t\t0 B\tJanuary 1, 1970 at 00:00:00\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn sizes_are_readable() {
        let shown = [0, 1023, 1024, 1492, 10_240, 1_048_575, 1 << 20, u64::MAX].map(human_size);
        assert_eq!(
            shown,
            [
                "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "10 KiB", "1.0 MiB", "1.0 MiB", "16 EiB"
            ]
        );
    }
}
