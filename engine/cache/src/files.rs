//! The open-file cache of one worker: metadata of paths, contents of small files, handles of larger ones. The caller says
//! how old entries may be, and the cache is bounded. The handlers map requests to paths.
//!
//! Looking up and reading files blocks the worker. Both are short: names and contents nearly always come from the
//! system's page cache, and larger files are sent by the kernel instead of being read here. A stalled disk stalls the
//! worker, as in nginx without `aio`.

use std::cell::RefCell;
use std::ffi::{CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use sluice_message::Moment;
use sluice_message::date::format_http;
use sluice_message::etag::FileTag;
use sluice_message::media_type;
use sluice_net::sys::files::{Links, Purpose, open_along, open_beneath};

use crate::file_facts::{Facts, Kind, Missing};
use crate::generations::{Generations, Weighed, Weight};
use crate::limits::{CONTENT_BYTES_MAX, RECHECK_AFTER};

/// Which symbolic links may be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All links, as in Caddy. The path itself contains no `..`, so only users with write access below the root can
    /// create a way out of it.
    Anywhere,
    /// Links that stay inside the directory named by this many leading bytes of the path.
    Beneath(usize),
    /// No links, except within this many leading bytes of the path.
    NoLinks(usize),
    /// Links whose target has the same owner as the link; within this many leading bytes of the path, all links.
    OwnLinks(usize),
}

/// How old what is known of a path may be before the system is consulted again. With zero a request sees each change that
/// was complete before it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxAge {
    /// Of a path that exists.
    pub found: Duration,
    /// Of a path that does not.
    pub missing: Duration,
}

impl MaxAge {
    /// At most a second old.
    pub const USUAL: MaxAge = MaxAge {
        found: RECHECK_AFTER,
        missing: RECHECK_AFTER,
    };
    /// The system is consulted for each request.
    pub const ZERO: MaxAge = MaxAge {
        found: Duration::ZERO,
        missing: Duration::ZERO,
    };
}

/// How a path is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which symbolic links may be followed.
    pub reach: Reach,
    /// How old the result may be.
    pub age: MaxAge,
}

impl From<Reach> for Access {
    /// With results of the usual age.
    fn from(reach: Reach) -> Access {
        Access {
            reach,
            age: MaxAge::USUAL,
        }
    }
}

/// The result of opening a path.
#[derive(Clone, Debug)]
pub enum Found {
    /// A regular file, opened.
    File(Rc<OpenFile>),
    /// A directory.
    Directory(Facts),
    /// Something that exists but must not be read.
    Special,
    /// Nothing usable.
    Missing(Missing),
}

/// A file as it was when it was opened.
#[derive(Debug)]
pub struct OpenFile {
    /// Its metadata.
    pub facts: Facts,
    /// Its content; the length is `facts.size`.
    pub content: Content,
    /// Its entity tag; `None` if the modification time is a placeholder for "unknown".
    pub etag: Option<FileTag>,
    /// Its modification time, formatted for a `Last-Modified` header.
    pub last_modified: Option<[u8; 29]>,
    /// Its media type, by file name extension.
    pub media_type: Option<&'static str>,
}

/// The content of a file.
#[derive(Clone, Debug)]
pub enum Content {
    /// A small file, read into memory.
    Bytes(Rc<[u8]>),
    /// A large file, to be read at explicit offsets.
    Handle(Rc<File>),
}

/// The open-file cache of one worker.
#[derive(Default)]
pub struct OpenFiles {
    entries: RefCell<Generations<Entry>>,
}

struct Entry {
    facts: Result<Facts, Missing>,
    opened: Option<Rc<OpenFile>>,
    checked: Moment,
    /// Whether a change right after the metadata was read could go unnoticed.
    doubtful: bool,
    reach: Reach,
}

impl Weighed for Entry {
    fn weight(&self) -> Weight {
        match self.opened.as_ref().map(|file| &file.content) {
            None => Weight::default(),
            Some(Content::Bytes(bytes)) => Weight {
                bytes: bytes.len(),
                handles: 0,
            },
            Some(Content::Handle(_)) => Weight {
                bytes: 0,
                handles: 1,
            },
        }
    }
}

impl OpenFiles {
    /// The metadata of `path`, without opening it. A trailing slash is ignored.
    pub fn facts(
        &self,
        path: &[u8],
        access: impl Into<Access>,
        now: Moment,
    ) -> Result<Facts, Missing> {
        let (path, access) = (without_slash(path), access.into());
        if let Some(entry) = self.entries.borrow_mut().find(path)
            && entry.is_current(path, access, now)
        {
            return entry.facts;
        }
        self.learn(path, access.reach, now)
    }

    /// Opens `path`. A trailing slash is ignored.
    pub fn open(&self, path: &[u8], access: impl Into<Access>, now: Moment) -> Found {
        let (path, access) = (without_slash(path), access.into());
        let reach = access.reach;
        let mut known = None;
        if let Some(entry) = self.entries.borrow_mut().find(path)
            && entry.is_current(path, access, now)
        {
            if let Some(file) = &entry.opened {
                return Found::File(file.clone());
            }
            known = Some(entry.facts);
        }
        let facts = known.unwrap_or_else(|| self.learn(path, reach, now));
        match facts.map(|facts| (facts.kind, facts)) {
            Err(missing) => Found::Missing(missing),
            Ok((Kind::Directory, facts)) => Found::Directory(facts),
            Ok((Kind::Special, _)) => Found::Special,
            Ok((Kind::File, _)) => self.read(path, reach, now),
        }
    }

    /// Reads the metadata of `path` from the system and caches the result.
    fn learn(&self, path: &[u8], reach: Reach, now: Moment) -> Result<Facts, Missing> {
        let facts = look(path, reach).map_err(|error| Missing::new(&error));
        // A failure for lack of file descriptors may be gone at the next request.
        if facts != Err(Missing::Exhausted) {
            let entry = Entry {
                facts,
                opened: None,
                checked: now,
                doubtful: facts.is_ok_and(|facts| facts.may_change_unseen()),
                reach,
            };
            self.entries.borrow_mut().insert(path, entry);
        }
        facts
    }

    fn read(&self, path: &[u8], reach: Reach, now: Moment) -> Found {
        let mut opened = load(path, reach);
        if opened
            .as_ref()
            .is_err_and(|error| Missing::new(error) == Missing::Exhausted)
        {
            self.entries.borrow_mut().drop_handles();
            opened = load(path, reach);
        }
        match opened {
            Ok(Some((file, changing))) => {
                let file = Rc::new(file);
                let entry = Entry {
                    facts: Ok(file.facts),
                    opened: Some(file.clone()),
                    checked: now,
                    doubtful: changing || file.facts.may_change_unseen(),
                    reach,
                };
                self.entries.borrow_mut().insert(path, entry);
                Found::File(file)
            }
            // The file was replaced since the lookup; the next request sees the replacement.
            Ok(None) => Found::Missing(Missing::NotFound),
            Err(error) => Found::Missing(Missing::new(&error)),
        }
    }
}

impl Entry {
    /// Whether the entry is still valid at `now`; rereads the metadata if the last check is too old.
    fn is_current(&mut self, path: &[u8], access: Access, now: Moment) -> bool {
        let Access { reach, age } = access;
        if self.reach != reach {
            return false;
        }
        let age_max = match self.facts {
            Ok(_) => age.found,
            Err(_) => age.missing,
        };
        if now.since(self.checked) < age_max {
            return true;
        }
        if self.doubtful || look(path, reach).map_err(|error| Missing::new(&error)) != self.facts {
            return false;
        }
        self.checked = now;
        true
    }
}

fn without_slash(path: &[u8]) -> &[u8] {
    match path {
        [rest @ .., b'/'] if !rest.is_empty() => rest,
        whole => whole,
    }
}

fn look(path: &[u8], reach: Reach) -> io::Result<Facts> {
    let metadata = match reach {
        Reach::Anywhere => std::fs::metadata(os_path(path)),
        confined => within(path, confined, Purpose::Stat)?.metadata(),
    };
    metadata.map(|metadata| Facts::new(&metadata))
}

fn within(path: &[u8], reach: Reach, purpose: Purpose) -> io::Result<File> {
    let (Reach::Beneath(root) | Reach::NoLinks(root) | Reach::OwnLinks(root)) = reach else {
        return File::open(os_path(path));
    };
    let (root, below) = path.split_at(root.min(path.len()));
    let below = below
        .iter()
        .position(|&b| b != b'/')
        .map_or(&b"."[..], |at| &below[at..]);
    let below = CString::new(below)?;
    let root = match (root, path.first()) {
        (b"", Some(b'/')) => File::open("/")?,
        (b"", _) => File::open(".")?,
        (root, _) => File::open(os_path(root))?,
    };
    match reach {
        Reach::NoLinks(_) => open_along(root.as_fd(), &below, purpose, Links::Never),
        Reach::OwnLinks(_) => open_along(root.as_fd(), &below, purpose, Links::OfOneOwner),
        Reach::Beneath(_) | Reach::Anywhere => open_beneath(root.as_fd(), &below, purpose),
    }
}

fn os_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// Opens a file and reads it if it is small; the flag says whether it changed meanwhile. `None` if it is no longer a
/// regular file.
fn load(path: &[u8], reach: Reach) -> io::Result<Option<(OpenFile, bool)>> {
    let mut file = match reach {
        Reach::Anywhere => {
            // A FIFO that has replaced the file must not block the worker.
            OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(os_path(path))?
        }
        confined => within(path, confined, Purpose::Read)?,
    };
    let mut facts = Facts::new(&file.metadata()?);
    if facts.kind != Kind::File {
        return Ok(None);
    }
    let mut changing = false;
    let content = if facts.size > CONTENT_BYTES_MAX {
        Content::Handle(Rc::new(file))
    } else {
        let mut bytes = Vec::with_capacity(facts.size as usize);
        (&mut file)
            .take(CONTENT_BYTES_MAX)
            .read_to_end(&mut bytes)?;
        // A writer may have truncated or extended the file since; the length must match what was read.
        changing = bytes.len() as u64 != facts.size || Facts::new(&file.metadata()?) != facts;
        facts.size = bytes.len() as u64;
        Content::Bytes(bytes.into())
    };
    // Archives and images without timestamps carry 0 or 1; Caddy sends no validators for such files either.
    let seconds = u64::try_from(facts.modified.seconds)
        .ok()
        .filter(|&seconds| seconds > 1);
    let nanos = seconds.map(|s| {
        s.wrapping_mul(1_000_000_000)
            .wrapping_add(facts.modified.nanos.into())
    });
    let opened = OpenFile {
        facts,
        content,
        etag: nanos.map(|nanos| FileTag::new(nanos, facts.size)),
        last_modified: seconds.map(format_http),
        media_type: media_type::of_name(path),
    };
    Ok(Some((opened, changing)))
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
