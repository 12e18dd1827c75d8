//! Files that templates read: restricted to their root and to the maximum size of a template.

use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use sluice_cache::{Facts, Kind, Reach};
use sluice_message::{Moment, path};
use sluice_template::{Fault, Object, Of, Room, Text, Time, Value, Zone};

use crate::limits::{LISTING_ENTRIES_MAX, TEMPLATE_BYTES_MAX};
use sluice_pipeline::files;

/// The files below a root. Symbolic links are followed, as in the file server; a name cannot escape the root.
pub struct Files {
    /// The absolute path, without a trailing slash.
    pub root: Vec<u8>,
    /// The current time, for the age of cached metadata.
    pub now: Moment,
}

impl Files {
    fn full(&self, name: &Text) -> Vec<u8> {
        let mut full = self.root.clone();
        // Normalized as an absolute path, so `..` does not remain.
        let mut named = Vec::with_capacity(name.as_bytes().len() + 1);
        named.push(b'/');
        named.extend_from_slice(name.as_bytes());
        path::clean(&named, &mut full);
        if full.len() > 1 && full.ends_with(b"/") {
            full.pop();
        }
        full
    }

    /// Reads a file.
    pub fn read(&self, name: &Text, room: &mut Room) -> Result<Vec<u8>, Fault> {
        let full = self.full(name);
        let facts = files::facts(&full, Reach::Anywhere, self.now).map_err(|_| missing(name))?;
        if facts.size > TEMPLATE_BYTES_MAX as u64 {
            return Err(Fault::Limit("bytes of a file"));
        }
        room.take(facts.size as usize)?;
        files::read_whole(&full, Reach::Anywhere, TEMPLATE_BYTES_MAX as u64, self.now)
            .ok_or_else(|| missing(name))
    }

    /// Whether a file or folder with this name exists.
    pub fn exists(&self, name: &Text) -> bool {
        files::facts(&self.full(name), Reach::Anywhere, self.now).is_ok()
    }

    /// The metadata of a file.
    pub fn facts(&self, name: &Text) -> Result<Value, Fault> {
        let full = self.full(name);
        let facts = files::facts(&full, Reach::Anywhere, self.now).map_err(|_| missing(name))?;
        let base = path::base_name(&full).to_vec();
        Ok(Value::Object(Rc::new(FileFacts { name: base, facts })))
    }

    /// The names in a folder, sorted.
    pub fn list(&self, name: &Text, room: &mut Room) -> Result<Value, Fault> {
        let full = self.full(name);
        let folder = std::path::Path::new(std::ffi::OsStr::from_bytes(&full));
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|_| missing(name))? {
            if names.len() >= LISTING_ENTRIES_MAX {
                return Err(Fault::Limit("names in a folder"));
            }
            let entry = entry.map_err(Fault::failed)?;
            let name = entry.file_name();
            room.take(name.as_bytes().len() + 64)?;
            names.push(Text::new(name.as_bytes()));
        }
        names.sort();
        let names = names.into_iter().map(Value::Text).collect();
        Ok(Value::list_of(names, Of::Text))
    }
}

fn missing(name: &Text) -> Fault {
    Fault::failed(format_args!("there is no file `{}` to read", name.lossy()))
}

struct FileFacts {
    name: Vec<u8>,
    facts: Facts,
}

impl Object for FileFacts {
    fn type_name(&self) -> &'static str {
        "*os.fileStat"
    }

    fn member(&self, name: &str, args: &[Value], _room: &mut Room) -> Result<Option<Value>, Fault> {
        if !args.is_empty() {
            return Ok(None);
        }
        let is_dir = self.facts.kind == Kind::Directory;
        Ok(Some(match name {
            "Name" => Value::text(&self.name),
            "Size" => Value::int64(self.facts.size as i64),
            "IsDir" => Value::Bool(is_dir),
            "Mode" => {
                let folder = if is_dir { 1 << 31 } else { 0 };
                Value::text(mode_text(self.facts.mode & 0o777 | folder))
            }
            "ModTime" => Value::Time(Time {
                seconds: self.facts.modified.seconds,
                nanos: self.facts.modified.nanos,
                zone: Zone::UTC,
            }),
            _ => return Ok(None),
        }))
    }

    fn plain(&self) -> Value {
        Value::text(&self.name)
    }
}

/// Formats a mode in the representation of Go's `FileMode`: `drwxr-xr-x`.
pub fn mode_text(mode: u32) -> String {
    let kinds = "dalTLDpSugct?".chars().enumerate();
    let mut text: String = kinds
        .filter(|(at, _)| mode & (1 << (31 - at)) != 0)
        .map(|(_, letter)| letter)
        .collect();
    if text.is_empty() {
        text.push('-');
    }
    for (at, letter) in "rwxrwxrwx".chars().enumerate() {
        text.push(if mode & (0o400 >> at) != 0 {
            letter
        } else {
            '-'
        });
    }
    text
}
