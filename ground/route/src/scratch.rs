//! Per-request scratch memory of matching: the groups of regular expressions, and buffers for intermediate texts.
//! `sluice-serve` keeps the variables that handlers set.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{OnceCell, RefCell};

use regex::bytes::CaptureLocations;

use crate::limits::{SCRATCH_BUF_BYTES_MAX, SCRATCH_BUFS_MAX, SCRATCH_CAPTURES_MAX};
use crate::named_regexp::NamedRegexp;
use crate::placeholder::{FileKey, Found};

/// One request's memory for matching. It is reused for the next request of a connection after
/// [`Scratch::clear`], so that matching seldom allocates.
///
/// It is small while nothing but hosts and paths was matched: ten thousand requests may wait for their upstreams.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Made when it is used first, and kept from then on.
    used: OnceCell<Box<Used>>,
    env: RefCell<Option<Rc<dyn Any>>>,
}

#[derive(Debug, Default)]
struct Used {
    captures: RefCell<Vec<Capture>>,
    bufs: RefCell<Vec<Vec<u8>>>,
    spare: RefCell<Vec<Capture>>,
    found: RefCell<Option<FoundFile>>,
    /// Groups of URL patterns by `COMPONENT.GROUP`.
    groups: RefCell<Vec<Group>>,
}

/// The name of a group of a URL pattern, and its value.
type Group = (Box<str>, Box<[u8]>);

/// What the latest `file` matcher found, for `{http.matchers.file.*}`.
#[derive(Clone, Debug, Default)]
pub struct FoundFile {
    /// Path below the root, as a URI path.
    pub relative: Vec<u8>,
    /// Path of the file itself.
    pub absolute: Vec<u8>,
    /// Whether it is a folder.
    pub is_dir: bool,
    /// What `split_path` cut off.
    pub remainder: Vec<u8>,
}

/// The latest match of one expression.
#[derive(Debug)]
struct Capture {
    regexp: Arc<NamedRegexp>,
    locations: CaptureLocations,
    text: Vec<u8>,
    origin: Origin,
}

/// What an expression was matched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The decoded path.
    Path,
    /// A field, variable or placeholder.
    Value,
}

impl Scratch {
    /// Empty memory.
    pub fn new() -> Scratch {
        Scratch::default()
    }

    /// Forgets the request and keeps its memory, as far as it is small: idle connections hold on to
    /// it.
    pub fn clear(&mut self) {
        let Some(used) = self.used.get_mut() else {
            return;
        };
        *used.found.get_mut() = None;
        used.groups.get_mut().clear();
        let bufs = used.bufs.get_mut();
        bufs.retain(|buf| buf.capacity() <= SCRATCH_BUF_BYTES_MAX);
        bufs.truncate(SCRATCH_BUFS_MAX);
        let spare = used.spare.get_mut();
        spare.append(used.captures.get_mut());
        spare.retain(|capture| capture.text.capacity() <= SCRATCH_BUF_BYTES_MAX);
        // The latest are the likeliest to be used again.
        spare.drain(..spare.len().saturating_sub(SCRATCH_CAPTURES_MAX));
    }

    /// What was captured so far, for a request that goes on apart from this one. Hooks have to be given their environment.
    pub fn copied(&self) -> Scratch {
        let copy = Scratch::default();
        let Some(used) = self.used.get() else {
            return copy;
        };
        let capture = |capture: &Capture| Capture {
            regexp: Arc::clone(&capture.regexp),
            locations: capture.locations.clone(),
            text: capture.text.clone(),
            origin: capture.origin,
        };
        let of_copy = copy.used();
        let captures = used.captures.borrow().iter().map(capture).collect();
        of_copy.captures.replace(captures);
        of_copy.found.replace(used.found.borrow().clone());
        of_copy.groups.replace(used.groups.borrow().clone());
        copy
    }

    fn used(&self) -> &Used {
        self.used.get_or_init(Box::default)
    }

    /// Matches `regexp` on `text` and remembers the groups for `{http.regexp.*}`, in place of those
    /// of an earlier match of the same expression.
    pub(crate) fn capture(&self, regexp: &Arc<NamedRegexp>, text: &[u8], origin: Origin) -> bool {
        if !regexp.is_match(text) {
            return false;
        }
        let mut captures = self.used().captures.borrow_mut();
        let earlier = captures
            .iter()
            .position(|capture| Arc::ptr_eq(&capture.regexp, regexp));
        let mut capture = match earlier {
            Some(at) => captures.remove(at),
            None => self.spare_for(regexp),
        };
        regexp.read(text, &mut capture.locations);
        capture.text.clear();
        capture.text.extend_from_slice(text);
        capture.origin = origin;
        captures.push(capture);
        true
    }

    /// Appends the group `group` of the latest match that has one, of the expression called
    /// `regexp` if a name is given. A group that took no part in the match is known and empty.
    pub fn captured(&self, regexp: Option<&str>, group: &str, out: &mut Vec<u8>) -> Found {
        self.find(regexp, group, |capture, index| {
            if let Some((start, end)) = capture.locations.get(index) {
                out.extend_from_slice(&capture.text[start..end]);
            }
        })
        .map_or(Found::Unknown, |()| Found::Known)
    }

    /// Whether that group was matched on a decoded path.
    pub(crate) fn captured_from_path(&self, regexp: Option<&str>, group: &str) -> bool {
        self.find(regexp, group, |capture, _| capture.origin) == Some(Origin::Path)
    }

    /// Remembers what a `file` matcher found, in place of what an earlier one did.
    pub fn found_file(&self, found: FoundFile) {
        *self.used().found.borrow_mut() = Some(found);
    }

    /// Appends what `{http.matchers.file.*}` stands for; unknown while no file was found.
    pub fn file_value(&self, key: FileKey, out: &mut Vec<u8>) -> Found {
        let Some(used) = self.used.get() else {
            return Found::Unknown;
        };
        let found = used.found.borrow();
        let Some(found) = found.as_ref().filter(|found| !found.absolute.is_empty()) else {
            return Found::Unknown;
        };
        out.extend_from_slice(match key {
            FileKey::Relative => &found.relative,
            FileKey::Absolute => &found.absolute,
            FileKey::Type if found.is_dir => b"directory",
            FileKey::Type => b"file",
            FileKey::Remainder => &found.remainder,
        });
        Found::Known
    }

    /// Remembers a group of a URL pattern as `COMPONENT.GROUP`, in place of an earlier one.
    pub fn found_group(&self, name: &str, value: &[u8]) {
        let mut groups = self.used().groups.borrow_mut();
        match groups.iter_mut().find(|(known, _)| &**known == name) {
            Some((_, known)) => *known = value.into(),
            None => groups.push((name.into(), value.into())),
        }
    }

    /// Appends what `{http.url_pattern.*}` stands for; unknown while no pattern with that group matched.
    pub fn group(&self, name: &str, out: &mut Vec<u8>) -> Found {
        let Some(used) = self.used.get() else {
            return Found::Unknown;
        };
        let groups = used.groups.borrow();
        let Some((_, value)) = groups.iter().find(|(known, _)| &**known == name) else {
            return Found::Unknown;
        };
        out.extend_from_slice(value);
        Found::Known
    }

    /// Gives hooks what they need of the world outside; opaque here. It stays over
    /// [`Scratch::clear`].
    pub fn set_env(&self, env: Rc<dyn Any>) {
        *self.env.borrow_mut() = Some(env);
    }

    /// Whether [`Scratch::set_env`] was called.
    pub fn has_env(&self) -> bool {
        self.env.borrow().is_some()
    }

    /// What [`Scratch::set_env`] was given, if it is a `T`.
    pub fn env<T: 'static>(&self) -> Option<Rc<T>> {
        self.env.borrow().clone()?.downcast().ok()
    }

    fn find<T>(
        &self,
        regexp: Option<&str>,
        group: &str,
        read: impl FnOnce(&Capture, usize) -> T,
    ) -> Option<T> {
        let captures = self.used.get()?.captures.borrow();
        let of_name = |capture: &&Capture| regexp.is_none_or(|name| capture.regexp.name() == name);
        let mut latest = captures.iter().rev().filter(of_name);
        let (capture, index) =
            latest.find_map(|capture| Some((capture, capture.regexp.group(group)?)))?;
        Some(read(capture, index))
    }

    /// Runs `f` with an empty buffer that keeps its memory between calls.
    pub fn with_buf<T>(&self, f: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let bufs = &self.used().bufs;
        let mut buf = bufs.borrow_mut().pop().unwrap_or_default();
        buf.clear();
        let result = f(&mut buf);
        bufs.borrow_mut().push(buf);
        result
    }

    fn spare_for(&self, regexp: &Arc<NamedRegexp>) -> Capture {
        let mut spare = self.used().spare.borrow_mut();
        match spare
            .iter()
            .position(|capture| Arc::ptr_eq(&capture.regexp, regexp))
        {
            Some(at) => spare.swap_remove(at),
            None => Capture {
                regexp: Arc::clone(regexp),
                locations: regexp.locations(),
                text: Vec::new(),
                origin: Origin::Value,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_what_was_captured() {
        let scratch = Scratch::new();
        let regexp = NamedRegexp::new("word", "a(.)").unwrap();
        assert!(scratch.capture(&regexp, b"ab", Origin::Value));
        scratch.found_group("path.id", b"7");
        let copy = scratch.copied();
        assert!(scratch.capture(&regexp, b"ac", Origin::Value));
        let mut out = Vec::new();
        assert_eq!(copy.captured(Some("word"), "1", &mut out), Found::Known);
        assert_eq!(copy.group("path.id", &mut out), Found::Known);
        assert_eq!(out, b"b7", "later matches of the original do not change it");
    }

    #[test]
    fn little_memory_is_kept_between_requests() {
        let mut scratch = Scratch::new();
        scratch.with_buf(|outer| {
            outer.resize(10, 0);
            scratch.with_buf(|inner| inner.resize(SCRATCH_BUF_BYTES_MAX * 2, 0));
        });
        let long = b"a".repeat(SCRATCH_BUF_BYTES_MAX * 2);
        for _ in 0..20 {
            let regexp = NamedRegexp::new("", "a").unwrap();
            assert!(scratch.capture(&regexp, b"a", Origin::Value));
        }
        let regexp = NamedRegexp::new("", "a").unwrap();
        assert!(scratch.capture(&regexp, &long, Origin::Value));
        scratch.clear();
        let used = scratch.used.get_mut().unwrap();
        assert_eq!(used.bufs.get_mut().len(), 1, "the large buffer is gone");
        assert_eq!(used.spare.get_mut().len(), SCRATCH_CAPTURES_MAX);
        assert!(used.captures.get_mut().is_empty());
    }
}
