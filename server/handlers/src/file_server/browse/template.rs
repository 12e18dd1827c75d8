//! Listings with a custom template, which uses the names of Caddy's listing.

use std::rc::Rc;

use sluice_template::{Delimiters, Fault, Object, Room, Text, Time, Value, Zone, time};

use super::entries::Entry;
use super::listing::Listing;
use super::text::{shown_name, url};
use crate::limits::TEMPLATE_BYTES_MAX;
use crate::template_functions::humanize::binary_size;
use crate::template_functions::{self, Setting, mode_text};
use sluice_cache::Reach;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault as Refused;
use sluice_pipeline::files::read_whole;
use sluice_pipeline::subrequests::ServerRef;

/// A file with a template for listings.
#[derive(Debug)]
pub(super) struct Template {
    /// The absolute path.
    path: Vec<u8>,
}

impl Template {
    /// The template in the file at `path`, which may be relative to the working directory.
    pub(super) fn new(path: &str) -> std::io::Result<Template> {
        let path = std::path::absolute(path)?;
        Ok(Template {
            path: path.into_os_string().into_encoded_bytes(),
        })
    }

    /// Writes `listing`. The file is checked on each use, so changes take effect at once.
    pub(super) fn write(
        &self,
        exchange: &Exchange,
        listing: &Listing,
        root: &[u8],
        site: &ServerRef,
    ) -> Result<Vec<u8>, Refused> {
        let now = exchange.worker.clock.coarse();
        let Some(source) = read_whole(&self.path, Reach::Anywhere, TEMPLATE_BYTES_MAX as u64, now)
        else {
            let message = "the template for lists cannot be read";
            return Err(Refused::new(
                sluice_message::Status::INTERNAL_SERVER_ERROR,
                message,
            ));
        };
        let setting = Setting {
            root: root.to_vec(),
            delimiters: Delimiters::default(),
            site,
        };
        let facts = facts(listing);
        template_functions::write_with(exchange, &source, &setting, |page| {
            Value::Object(Rc::new(List { facts, page }))
        })
    }
}

/// The dot of the template: the data of the listing in addition to that of every template.
struct List {
    facts: Vec<(&'static str, Value)>,
    page: Value,
}

impl Object for List {
    fn type_name(&self) -> &'static str {
        "*fileserver.templateContext"
    }

    fn member(&self, name: &str, args: &[Value], room: &mut Room) -> Result<Option<Value>, Fault> {
        let found = self.facts.iter().find(|(known, _)| *known == name);
        match (found, &self.page) {
            (Some((_, value)), _) if args.is_empty() => Ok(Some(value.clone())),
            (Some(_), _) => Ok(None),
            (None, Value::Object(page)) => page.member(name, args, room),
            (None, _) => Ok(None),
        }
    }

    fn plain(&self) -> Value {
        Value::text(self.type_name())
    }
}

fn facts(listing: &Listing) -> Vec<(&'static str, Value)> {
    let path = match listing.path.strip_suffix(b"/") {
        Some(path) if !path.is_empty() => path,
        Some(_) | None => &listing.path,
    };
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let totals = listing.totals;
    let number = |number: usize| Value::int(number as i64);
    vec![
        (
            "Name",
            Value::text(if name.is_empty() { b"/" } else { name }),
        ),
        ("Path", Value::text(path)),
        ("CanGoUp", Value::Bool(!listing.is_root)),
        (
            "Items",
            Value::list(listing.entries.iter().map(item).collect()),
        ),
        ("Limit", number(listing.page.limit)),
        ("Offset", number(listing.page.offset)),
        ("Sort", Value::text(listing.sort.as_str())),
        ("Order", Value::text(listing.order.as_str())),
        ("Layout", Value::text("")),
        ("NumDirs", number(totals.folders)),
        ("NumFiles", number(totals.files)),
        ("TotalFileSize", Value::int64(totals.own_bytes as i64)),
        (
            "TotalFileSizeFollowingSymlinks",
            Value::int64(totals.bytes as i64),
        ),
        (
            "HumanTotalFileSize",
            Value::text(binary_size(totals.own_bytes)),
        ),
        (
            "HumanTotalFileSizeFollowingSymlinks",
            Value::text(binary_size(totals.bytes)),
        ),
        ("Breadcrumbs", breadcrumbs(path)),
    ]
}

/// The folders from the root to the listed one, with relative links.
fn breadcrumbs(path: &[u8]) -> Value {
    let names: Vec<_> = path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
        .collect();
    let crumb = |depth: usize| {
        let text = if depth == 0 { b"/" } else { names[depth - 1] };
        Value::map([
            (
                Text::new("Link"),
                Value::text("../".repeat(names.len() - depth)),
            ),
            (Text::new("Text"), Value::text(text)),
        ])
    };
    Value::list((0..=names.len()).map(crumb).collect())
}

fn item(entry: &Entry) -> Value {
    Value::Object(Rc::new(Item(entry.clone())))
}

/// One entry.
struct Item(Entry);

impl Object for Item {
    fn type_name(&self) -> &'static str {
        "fileserver.fileInfo"
    }

    fn member(&self, name: &str, args: &[Value], _room: &mut Room) -> Result<Option<Value>, Fault> {
        let entry = &self.0;
        let modified = Time {
            seconds: entry.modified.seconds,
            nanos: entry.modified.nanos,
            zone: Zone::UTC,
        };
        Ok(Some(match (name, args) {
            ("Name", []) => Value::text(shown_name(entry)),
            ("Size", []) => Value::int64(entry.size as i64),
            ("HumanSize", []) => Value::text(binary_size(entry.size)),
            ("URL", []) => Value::text(url(entry)),
            ("ModTime", []) => Value::Time(modified),
            ("HumanModTime", [Value::Text(layout)]) if layout.as_bytes().len() <= 1_000 => {
                let mut out = Vec::new();
                time::format(&modified, &layout.lossy(), &mut out);
                Value::text(out)
            }
            ("Mode", []) => Value::text(mode_text(entry.mode)),
            ("IsDir", []) => Value::Bool(entry.is_dir),
            ("IsSymlink", []) => Value::Bool(entry.is_link),
            ("SymlinkPath", []) => Value::text(entry.target.as_deref().unwrap_or_default()),
            ("HasExt", endings) => {
                let name = entry.name.to_ascii_lowercase();
                let ends = |ending: &Value| match ending {
                    Value::Text(ending) => name.ends_with(ending.as_bytes()),
                    _ => false,
                };
                Value::Bool(!entry.is_dir && endings.iter().any(ends))
            }
            _ => return Ok(None),
        }))
    }

    fn plain(&self) -> Value {
        Value::text(shown_name(&self.0))
    }
}
