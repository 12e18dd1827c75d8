//! `autoindex`: lists of folders as nginx writes them.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;

use sluice_message::layout::LocalTime;
use sluice_message::{FieldId, FixedField, Status};
use sluice_model::nginx::Autoindex as Config;
use sluice_net::Body;

use super::pages;
use crate::context::Exchange;
use crate::failure::Fault;
use crate::handler::Step;
use crate::limits::AUTOINDEX_ENTRIES_MAX;

/// How lists are written.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    sizes: Sizes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sizes {
    Exact,
    Rounded,
}

struct Entry {
    name: Vec<u8>,
    is_dir: bool,
    modified: i64,
    size: u64,
}

/// Columns that a name gets.
const NAME_COLUMNS: usize = 50;

impl Listing {
    /// Reads the settings.
    pub fn build(config: &Config) -> Listing {
        Listing {
            sizes: match config.rounded {
                true => Sizes::Rounded,
                false => Sizes::Exact,
            },
        }
    }

    /// Answers with what is in a folder.
    pub fn answer(self, x: &mut Exchange, folder: &[u8], media_type: Option<FixedField>) -> Step {
        let Ok(entries) = entries(folder) else {
            return Step::Fail(Fault::new(Status::FORBIDDEN, "the folder may not be read"));
        };
        let mut title = Vec::new();
        push_escaped(x.req.uri.path(), &mut title);
        let mut page = std::mem::take(&mut x.inline);
        page.clear();
        page.extend_from_slice(b"<html>\r\n<head><title>Index of ");
        page.extend_from_slice(&title);
        page.extend_from_slice(b"</title></head>\r\n<body>\r\n<h1>Index of ");
        page.extend_from_slice(&title);
        page.extend_from_slice(b"</h1><hr><pre><a href=\"../\">../</a>\r\n");
        for entry in &entries {
            self.line(entry, &mut page);
        }
        page.extend_from_slice(b"</pre><hr></body>\r\n</html>\r\n");
        x.inline = page;
        x.res.status = Status::OK;
        pages::set_status(x);
        match media_type {
            Some(field) => x.res.fields.push_fixed(&field),
            None => x.res.fields.push(FieldId::ContentType, b"text/html"),
        }
        Step::Done(Body::Inline)
    }

    fn line(self, entry: &Entry, page: &mut Vec<u8>) {
        let slash: &[u8] = if entry.is_dir { b"/" } else { b"" };
        page.extend_from_slice(b"<a href=\"");
        // A name with a colon would be taken for one with a scheme.
        if entry.name.contains(&b':') {
            page.extend_from_slice(b"./");
        }
        push_component(&entry.name, page);
        page.extend_from_slice(slash);
        page.extend_from_slice(b"\">");
        let length = entry.name.len() + slash.len();
        let columns = match length > NAME_COLUMNS {
            true => {
                push_escaped(&entry.name[..NAME_COLUMNS - 3], page);
                page.extend_from_slice(b"..&gt;</a>");
                NAME_COLUMNS
            }
            false => {
                push_escaped(&entry.name, page);
                page.extend_from_slice(slash);
                page.extend_from_slice(b"</a>");
                length
            }
        };
        page.extend(std::iter::repeat_n(b' ', NAME_COLUMNS - columns + 1));
        LocalTime::utc(entry.modified, 0).push("02-Jan-2006 15:04 ", page);
        self.size(entry, page)
            .expect("writing to memory does not fail");
        page.extend_from_slice(b"\r\n");
    }

    fn size(self, entry: &Entry, page: &mut Vec<u8>) -> std::io::Result<()> {
        let size = entry.size;
        match (self.sizes, entry.is_dir) {
            (Sizes::Exact, true) => write!(page, "{:>19}", "-"),
            (Sizes::Exact, false) => write!(page, "{size:>19}"),
            (Sizes::Rounded, true) => write!(page, "{:>7}", "-"),
            (Sizes::Rounded, false) => {
                let rounded = |shift: u32| (size + (1 << (shift - 1))) >> shift;
                match size {
                    0..=9_999 => write!(page, " {size:>6}"),
                    10_000..=0xf_ffff => write!(page, "{:>6}K", rounded(10)),
                    0x10_0000..=0x3fff_ffff => write!(page, "{:>6}M", rounded(20)),
                    _ => write!(page, "{:>6}G", rounded(30)),
                }
            }
        }
    }
}

/// What is in a folder: folders first, then by name; names that begin with a dot are left out.
fn entries(folder: &[u8]) -> std::io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(OsStr::from_bytes(folder))?.flatten() {
        let name = entry.file_name().into_vec();
        if name.starts_with(b".") {
            continue;
        }
        // What a link leads to counts, if it leads anywhere.
        let facts: Option<Metadata> = fs::metadata(entry.path())
            .or_else(|_| entry.metadata())
            .ok();
        let Some(facts) = facts else { continue };
        found.push(Entry {
            name,
            is_dir: facts.is_dir(),
            modified: facts.mtime(),
            size: facts.size(),
        });
        if found.len() >= AUTOINDEX_ENTRIES_MAX {
            break;
        }
    }
    found.sort_by(|a, b| b.is_dir.cmp(&a.is_dir).then_with(|| a.name.cmp(&b.name)));
    Ok(found)
}

fn push_escaped(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            byte => out.push(*byte),
        }
    }
}

/// A name as one part of an address.
fn push_component(name: &[u8], out: &mut Vec<u8>) {
    for byte in name {
        match byte.is_ascii_alphanumeric() || b"-._~!*\'()".contains(byte) {
            true => out.push(*byte),
            false => write!(out, "%{byte:02X}").expect("writing to memory does not fail"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_as_nginx_does() {
        let shown = |size: u64| {
            let mut out = Vec::new();
            let entry = Entry {
                name: Vec::new(),
                is_dir: false,
                modified: 0,
                size,
            };
            let listing = Listing {
                sizes: Sizes::Rounded,
            };
            listing.size(&entry, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        for (size, text) in [
            (0, "      0"),
            (9_999, "   9999"),
            (10_000, "    10K"),
            (10_752, "    11K"),
            (5 << 20, "     5M"),
            (3 << 30, "     3G"),
        ] {
            assert_eq!(shown(size), text);
        }
    }
}
