//! The built-in HTML page of a listing. It needs neither scripts nor external resources: links sort the list, and
//! colours follow the user's preference for dark or light.

use std::io::Write;

use super::super::escape::escape;
use super::entries::Entry;
use super::listing::{Listing, has_room};
use super::order::{Order, SortBy};
use super::text::{human_size, shown_name, url, write_time};

/// Writes the page; `nonce` is the one in the Content-Security-Policy of the response.
pub(super) fn write(listing: &Listing, nonce: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
          <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
          <meta name=\"color-scheme\" content=\"light dark\">\n<title>",
    );
    escape(&listing.path, out);
    push(
        out,
        format_args!("</title>\n<style nonce=\"{nonce}\">{STYLE}</style>\n</head>\n<body>\n"),
    );
    write_path(listing, out);
    write_summary(listing, out);
    out.extend_from_slice(
        b"<main>\n<table>\n<caption>Content of this folder</caption>\n<thead>\n<tr>",
    );
    for column in [Column::Name, Column::Size, Column::Time] {
        write_heading(listing, column, out);
    }
    out.extend_from_slice(b"</tr>\n</thead>\n<tbody>\n");
    if !listing.is_root {
        out.extend_from_slice(
            b"<tr><td><a class=\"up\" href=\"../\">Parent folder</a></td><td></td><td></td></tr>\n",
        );
    }
    for entry in &listing.entries {
        if !has_room(out) {
            break;
        }
        write_row(entry, out);
    }
    out.extend_from_slice(b"</tbody>\n</table>\n</main>\n</body>\n</html>\n");
}

/// Writes the path with a link to each parent folder. The links are relative, so that they work even if a path prefix
/// was stripped.
fn write_path(listing: &Listing, out: &mut Vec<u8>) {
    let segments: Vec<_> = listing
        .path
        .split(|&b| b == b'/')
        .filter(|segment| !segment.is_empty())
        .collect();
    out.extend_from_slice(b"<header>\n<h1><nav aria-label=\"Path\">");
    for depth in 0..=segments.len() {
        let name = if depth == 0 {
            b"/"
        } else {
            segments[depth - 1]
        };
        let up = segments.len() - depth;
        if up == 0 {
            out.extend_from_slice(b"<span aria-current=\"page\">");
            escape(name, out);
            out.extend_from_slice(b"</span>");
        } else {
            push(out, format_args!("<a href=\"{}\">", "../".repeat(up)));
            escape(name, out);
            out.extend_from_slice(b"</a>");
        }
        if depth > 0 && up > 0 {
            out.extend_from_slice(b"<span aria-hidden=\"true\">/</span>");
        }
    }
    out.extend_from_slice(b"</nav></h1>\n");
}

fn write_summary(listing: &Listing, out: &mut Vec<u8>) {
    if listing.entries.is_empty() && !listing.cut {
        return out.extend_from_slice(b"<p>This folder is empty.</p>\n</header>\n");
    }
    let folders = listing.entries.iter().filter(|entry| entry.is_dir).count();
    let files = listing.entries.len() - folders;
    let bytes: u64 = listing
        .entries
        .iter()
        .filter(|entry| !entry.is_dir)
        .map(|e| e.size)
        .sum();
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    push(
        out,
        format_args!(
            "<p>{folders} folder{}, {files} file{}, {}",
            plural(folders),
            plural(files),
            human_size(bytes)
        ),
    );
    if listing.cut {
        out.extend_from_slice(b". There is more than this list shows");
    }
    out.extend_from_slice(b".</p>\n</header>\n");
}

#[derive(Clone, Copy)]
enum Column {
    Name,
    Size,
    Time,
}

fn write_heading(listing: &Listing, column: Column, out: &mut Vec<u8>) {
    let (title, sort) = match column {
        Column::Name => ("Name", SortBy::NameFoldersFirst),
        Column::Size => ("Size", SortBy::Size),
        Column::Time => ("Modified", SortBy::Time),
    };
    let current = match column {
        Column::Name => matches!(listing.sort, SortBy::Name | SortBy::NameFoldersFirst),
        Column::Size => listing.sort == SortBy::Size,
        Column::Time => listing.sort == SortBy::Time,
    };
    let (state, next) = match (current, listing.order) {
        (true, Order::Ascending) => (" aria-sort=\"ascending\"", Order::Descending),
        (true, Order::Descending) => (" aria-sort=\"descending\"", Order::Ascending),
        (false, _) => ("", Order::Ascending),
    };
    push(
        out,
        format_args!(
            "<th scope=\"col\"{state}><a href=\"?sort={}&amp;order={}\">{title}</a></th>",
            sort.as_str(),
            next.as_str()
        ),
    );
}

fn write_row(entry: &Entry, out: &mut Vec<u8>) {
    let class = if entry.is_dir { "dir" } else { "file" };
    push(out, format_args!("<tr><td><a class=\"{class}\" href=\""));
    escape(&url(entry), out);
    out.extend_from_slice(b"\">");
    escape(&shown_name(entry), out);
    out.extend_from_slice(b"</a>");
    if let Some(target) = &entry.target {
        out.extend_from_slice(b" <small>\xe2\x86\x92 ");
        escape(target, out);
        out.extend_from_slice(b"</small>");
    }
    if entry.is_dir {
        out.extend_from_slice(b"</td><td>\xe2\x80\x94</td>");
    } else {
        push(
            out,
            format_args!(
                "</td><td title=\"{} bytes\">{}</td>",
                entry.size,
                human_size(entry.size)
            ),
        );
    }
    // The time layout includes the markup, which does not contain any layout elements.
    let time = "<td><time datetime=\"2006-01-02T15:04:05Z\">2006-01-02 15:04</time></td></tr>\n";
    write_time(entry.modified, time, out);
}

fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text)
        .expect("writing to memory does not fail");
}

const STYLE: &str = "
:root { color-scheme: light dark; --text: light-dark(#1c2024, #e6e8eb); --soft: light-dark(#60646c, #9ba1a9);
  --back: light-dark(#fff, #14171a); --line: light-dark(#e3e5e8, #2b3036); --hover: light-dark(#f3f5f7, #1d2226);
  --link: light-dark(#0b5cad, #7cb8ff) }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 64rem; padding: 2rem 1rem; color: var(--text); background: var(--back);
  font: 1rem/1.5 system-ui, sans-serif }
h1 { margin: 0; font-size: 1.25rem; overflow-wrap: anywhere }
nav span[aria-hidden] { color: var(--soft); padding: 0 .15em }
nav a:first-child { padding-right: .25em }
p { margin: .25rem 0 1.5rem; color: var(--soft) }
a { color: var(--link); text-decoration: none }
a:hover, a:focus-visible { text-decoration: underline }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
th, td { padding: .4rem .5rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; width: 100% }
th { font-weight: 600 }
th[aria-sort=ascending] a::after { content: ' \u{2191}' }
th[aria-sort=descending] a::after { content: ' \u{2193}' }
td:not(:first-child), small { color: var(--soft) }
tbody tr:hover { background: var(--hover) }
.dir { font-weight: 600 }
@media (max-width: 40rem) { th:nth-child(3), td:nth-child(3) { display: none } }
";

#[cfg(test)]
mod tests {
    use super::super::entries::example;
    use super::*;

    fn page(path: &str, entries: Vec<Entry>, is_root: bool) -> String {
        let listing = Listing {
            entries,
            sort: SortBy::Size,
            order: Order::Ascending,
            is_root,
            cut: true,
            path: path.into(),
            totals: Default::default(),
            page: Default::default(),
        };
        let mut out = Vec::new();
        write(&listing, "n0", &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn names_cannot_become_markup() {
        let evil = "<script>alert(\"1\")</script>'&.txt";
        let page = page(
            &format!("/{evil}/"),
            vec![example(evil, 1, 0, false)],
            false,
        );
        assert!(!page.contains("<script"));
        assert!(
            page.contains("href=\"./%3Cscript%3Ealert%28%221%22%29%3C/script%3E%27&amp;.txt\"")
        );
        assert!(page.contains("&lt;script&gt;alert(&#34;1&#34;)"));
    }

    #[test]
    fn the_path_links_to_every_folder_above() {
        let page = page("/a/b c/", Vec::new(), false);
        assert!(page.contains("<a href=\"../../\">/</a>"));
        assert!(page.contains("<a href=\"../\">a</a>"));
        assert!(page.contains("<span aria-current=\"page\">b c</span>"));
        assert!(page.contains("Parent folder"));
    }

    #[test]
    fn the_root_has_no_parent_and_headings_turn_the_order() {
        let page = page(
            "/",
            vec![example("d", 0, 0, true), example("f", 5, 0, false)],
            true,
        );
        assert!(!page.contains("Parent folder"));
        assert!(page.contains("1 folder, 1 file, 5 B. There is more"));
        assert!(page.contains("aria-sort=\"ascending\"><a href=\"?sort=size&amp;order=desc\">"));
        assert!(page.contains("<style nonce=\"n0\">"));
        assert!(page.contains("href=\"./d/\""));
    }
}
