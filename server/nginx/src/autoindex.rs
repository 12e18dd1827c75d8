//! `autoindex`: directory listings in nginx's format.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;

use sluice_message::layout::LocalTime;
use sluice_message::{FieldId, FixedField, Status, date};
use sluice_model::nginx::Autoindex as Config;
use sluice_net::Body;
use sluice_net::sys::local_time::local_offset;

use super::state::set_status;
use super::variables::argument;
use crate::limits::AUTOINDEX_ENTRIES_MAX;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::Step;
use sluice_pipeline::refusal::Refusal;

/// Settings of directory listings.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    sizes: Sizes,
    format: Format,
    /// Whether times are in the local time zone (`autoindex_localtime`).
    local: bool,
}

/// Output format of a listing (`autoindex_format`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Html,
    Json,
    /// JSON, wrapped in a call of the function that the request's `callback` argument names.
    Jsonp,
    Xml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sizes {
    Exact,
    Rounded,
}

struct Entry {
    name: Vec<u8>,
    is_dir: bool,
    is_file: bool,
    modified: i64,
    size: u64,
}

/// Maximum length of the callback name in bytes, as in nginx.
const CALLBACK_BYTES_MAX: usize = 128;

/// Width of the name column.
const NAME_COLUMNS: usize = 50;

impl Listing {
    /// Parses the directives.
    pub fn build(config: &Config) -> Result<Listing, Refusal> {
        Ok(Listing {
            sizes: match config.rounded {
                true => Sizes::Rounded,
                false => Sizes::Exact,
            },
            format: match config.format.as_str() {
                "" | "html" => Format::Html,
                "json" => Format::Json,
                "jsonp" => Format::Jsonp,
                "xml" => Format::Xml,
                other => return Err(Refusal::new(format!("autoindex_format `{other}`"))),
            },
            local: config.local_times,
        })
    }

    /// Responds with the listing of a directory.
    pub fn response(
        self,
        exchange: &mut Exchange,
        folder: &[u8],
        media_type: Option<FixedField>,
    ) -> Step {
        let Ok(callback) = self.callback(exchange) else {
            return Step::Fail(Fault::new(Status::BAD_REQUEST, "no name of a function"));
        };
        let Ok(entries) = entries(folder) else {
            return Step::Fail(Fault::new(Status::FORBIDDEN, "the folder may not be read"));
        };
        let mut page = std::mem::take(&mut exchange.inline);
        page.clear();
        let media_type = match self.format {
            Format::Html => {
                self.html(exchange, &entries, &mut page);
                media_type.unwrap_or_else(|| known_type("text/html"))
            }
            Format::Xml => {
                xml(&entries, &mut page);
                known_type("text/xml; charset=utf-8")
            }
            Format::Json | Format::Jsonp => match callback {
                None => {
                    json(&entries, &mut page);
                    known_type("application/json")
                }
                Some(name) => {
                    page.extend_from_slice(b"/* callback */\r\n");
                    page.extend_from_slice(&name);
                    page.push(b'(');
                    json(&entries, &mut page);
                    page.extend_from_slice(b");");
                    known_type("application/javascript")
                }
            },
        };
        exchange.inline = page;
        exchange.res.status = Status::OK;
        set_status(exchange);
        exchange.res.fields.push_fixed(&media_type);
        Step::Done(Body::Inline)
    }

    /// The callback name, or an error if the argument is not a valid identifier.
    fn callback(self, exchange: &Exchange) -> Result<Option<Vec<u8>>, ()> {
        if self.format != Format::Jsonp {
            return Ok(None);
        }
        let mut name = Vec::new();
        argument(exchange, b"callback", &mut name);
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
        match name.len() {
            0 => Ok(None),
            1..=CALLBACK_BYTES_MAX if name.iter().all(is_plain) => Ok(Some(name)),
            _ => Err(()),
        }
    }

    fn html(self, exchange: &Exchange, entries: &[Entry], page: &mut Vec<u8>) {
        let mut title = Vec::new();
        push_escaped(exchange.req.uri.path(), &mut title);
        page.extend_from_slice(b"<html>\r\n<head><title>Index of ");
        page.extend_from_slice(&title);
        page.extend_from_slice(b"</title></head>\r\n<body>\r\n<h1>Index of ");
        page.extend_from_slice(&title);
        page.extend_from_slice(b"</h1><hr><pre><a href=\"../\">../</a>\r\n");
        for entry in entries {
            self.line(entry, page);
        }
        page.extend_from_slice(b"</pre><hr></body>\r\n</html>\r\n");
    }

    fn line(self, entry: &Entry, page: &mut Vec<u8>) {
        let slash: &[u8] = if entry.is_dir { b"/" } else { b"" };
        page.extend_from_slice(b"<a href=\"");
        // Without `./`, text before a colon would be read as a URL scheme.
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
        let offset = match (self.local, u64::try_from(entry.modified)) {
            (true, Ok(modified)) => local_offset(modified).seconds,
            _ => 0,
        };
        LocalTime::new(entry.modified, 0, offset, "").push("02-Jan-2006 15:04 ", page);
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

/// The entries of a directory, directories first, sorted by name. Names that begin with a dot are skipped.
fn entries(folder: &[u8]) -> std::io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(OsStr::from_bytes(folder))?.flatten() {
        let name = entry.file_name().into_vec();
        if name.starts_with(b".") {
            continue;
        }
        // Show the target of a symbolic link, or the link itself if it is broken.
        let facts: Option<Metadata> = fs::metadata(entry.path())
            .or_else(|_| entry.metadata())
            .ok();
        let Some(facts) = facts else { continue };
        found.push(Entry {
            name,
            is_dir: facts.is_dir(),
            is_file: facts.is_file(),
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

fn known_type(text: &str) -> FixedField {
    FixedField::known(FieldId::ContentType, text.as_bytes())
}

impl Entry {
    /// The entry type in machine-readable listings.
    fn kind(&self) -> &'static str {
        match (self.is_dir, self.is_file) {
            (true, _) => "directory",
            (false, true) => "file",
            (false, false) => "other",
        }
    }
}

fn json(entries: &[Entry], page: &mut Vec<u8>) {
    page.extend_from_slice(b"[");
    for (index, entry) in entries.iter().enumerate() {
        page.extend_from_slice(match index {
            0 => b"\r\n{ \"name\":\"",
            _ => b",\r\n{ \"name\":\"",
        });
        push_json(&entry.name, page);
        page.extend_from_slice(b"\", \"type\":\"");
        page.extend_from_slice(entry.kind().as_bytes());
        page.extend_from_slice(b"\", \"mtime\":\"");
        let modified = u64::try_from(entry.modified).unwrap_or(0);
        page.extend_from_slice(&date::format_http(modified));
        page.push(b'"');
        if entry.is_file {
            let size = format!(", \"size\":{}", entry.size);
            page.extend_from_slice(size.as_bytes());
        }
        page.extend_from_slice(b" }");
    }
    page.extend_from_slice(b"\r\n]");
}

fn xml(entries: &[Entry], page: &mut Vec<u8>) {
    page.extend_from_slice(b"<?xml version=\"1.0\"?>\r\n<list>\r\n");
    for entry in entries {
        let kind = entry.kind();
        page.extend_from_slice(format!("<{kind} mtime=\"").as_bytes());
        LocalTime::utc(entry.modified, 0).push("2006-01-02T15:04:05Z", page);
        page.push(b'"');
        if entry.is_file {
            page.extend_from_slice(format!(" size=\"{}\"", entry.size).as_bytes());
        }
        page.push(b'>');
        push_escaped(&entry.name, page);
        page.extend_from_slice(format!("</{kind}>\r\n").as_bytes());
    }
    page.extend_from_slice(b"</list>\r\n");
}

/// Appends the contents of a JSON string. As in nginx, invalid UTF-8 is copied unchanged.
fn push_json(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..0x20 => write!(out, "\\u{byte:04X}").expect("writing to memory does not fail"),
            byte => out.push(*byte),
        }
    }
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

/// Appends a name as one percent-encoded path segment.
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
                is_file: true,
                modified: 0,
                size,
            };
            let listing = Listing {
                sizes: Sizes::Rounded,
                format: Format::Html,
                local: false,
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
