//! The files of one worker: what is known of paths, small contents, open handles. Nothing known is ever older
//! than a second, and all of it is bounded. Which path a request means is left to the handlers.
//!
//! Looking and reading block the worker. They are short: names and contents nearly always come from the
//! system's own cache, and larger files are not read here but sent by the system itself. A disk that stalls
//! stalls the worker with it, as it does in nginx without its `aio`.

use std::cell::RefCell;
use std::ffi::{CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;

use sluice_message::Moment;
use sluice_message::date::format_http;
use sluice_message::etag::FileTag;
use sluice_message::media_type;
use sluice_net::sys::files::{Links, Purpose, open_along, open_beneath};

use crate::facts::{Facts, Kind, Missing};
use crate::generations::{Generations, Weighed, Weight};
use crate::limits::{CONTENT_BYTES_MAX, RECHECK_AFTER};

/// How far links may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Wherever they point, as in Caddy. The path itself has no `..`, so only whoever may write below the root
    /// can lead out of it.
    Anywhere,
    /// Not out of the folder named by so many first bytes of the path.
    Beneath(usize),
    /// Nowhere, but for the first so many bytes of the path.
    NoLinks(usize),
    /// To what belongs to the owner of the link, but for the first so many bytes of the path.
    OwnLinks(usize),
}

/// What was found at a path.
#[derive(Clone, Debug)]
pub enum Found {
    /// A regular file, opened.
    File(Rc<OpenFile>),
    /// A folder.
    Directory(Facts),
    /// Something that exists but is not to be read.
    Special,
    /// Nothing.
    Missing(Missing),
}

/// A file as it was when it was opened.
#[derive(Debug)]
pub struct OpenFile {
    /// What the system told of it.
    pub facts: Facts,
    /// Its content, whose length is `facts.size`.
    pub content: Content,
    /// Its entity tag; none for a time of modification that means "unknown".
    pub etag: Option<FileTag>,
    /// Its time of modification for a Last-Modified field.
    pub last_modified: Option<[u8; 29]>,
    /// Its media type by the extension of its name.
    pub media_type: Option<&'static str>,
}

/// The content of a file.
#[derive(Clone, Debug)]
pub enum Content {
    /// A small one, in memory.
    Bytes(Rc<[u8]>),
    /// A large one, to be read at explicit offsets.
    Handle(Rc<File>),
}

/// The files of one worker.
#[derive(Default)]
pub struct OpenFiles {
    entries: RefCell<Generations<Entry>>,
}

struct Entry {
    facts: Result<Facts, Missing>,
    opened: Option<Rc<OpenFile>>,
    checked: Moment,
    /// The facts could hide a change made right after they were read.
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
    /// What `path` leads to, without opening it. A slash at its end is ignored.
    pub fn facts(&self, path: &[u8], reach: Reach, now: Moment) -> Result<Facts, Missing> {
        let path = without_slash(path);
        if let Some(entry) = self.entries.borrow_mut().find(path)
            && entry.is_current(path, reach, now)
        {
            return entry.facts;
        }
        self.learn(path, reach, now)
    }

    /// Opens what `path` leads to. A slash at its end is ignored.
    pub fn open(&self, path: &[u8], reach: Reach, now: Moment) -> Found {
        let path = without_slash(path);
        let mut known = None;
        if let Some(entry) = self.entries.borrow_mut().find(path)
            && entry.is_current(path, reach, now)
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

    /// Asks the system about `path` and remembers the answer.
    fn learn(&self, path: &[u8], reach: Reach, now: Moment) -> Result<Facts, Missing> {
        let facts = look(path, reach).map_err(|error| Missing::new(&error));
        // What is missing for lack of files may be there at the next request.
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
            // Something else took the place of the file since we looked; the next request sees what.
            Ok(None) => Found::Missing(Missing::NotFound),
            Err(error) => Found::Missing(Missing::new(&error)),
        }
    }
}

impl Entry {
    /// Whether the entry still holds at `now`; asks the system if it has not been asked for a while.
    fn is_current(&mut self, path: &[u8], reach: Reach, now: Moment) -> bool {
        if self.reach != reach {
            return false;
        }
        if now.since(self.checked) < RECHECK_AFTER {
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

/// Opens and, if it is small, reads a file; also tells whether it changed meanwhile. `None` if it is no regular
/// file any more.
fn load(path: &[u8], reach: Reach) -> io::Result<Option<(OpenFile, bool)>> {
    let mut file = match reach {
        Reach::Anywhere => {
            // A FIFO that takes the place of the file must not block the worker.
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
        // Whoever writes the file may have cut or grown it since; the answer has to fit what was read.
        changing = bytes.len() as u64 != facts.size || Facts::new(&file.metadata()?) != facts;
        facts.size = bytes.len() as u64;
        Content::Bytes(bytes.into())
    };
    // Zero and one are what archives and images without times carry; Caddy sends no validators for them either.
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
