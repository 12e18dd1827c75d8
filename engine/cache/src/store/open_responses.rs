//! Cached responses that one worker has open: heads and small bodies in memory, handles of larger ones.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use sluice_message::caching::Times;
use sluice_message::{Moment, ResponseHead};

use super::record::Record;
use super::{Digest, Store, fill, lock};
use crate::files::Content;
use crate::generations::{Generations, Weighed, Weight};
use crate::limits::{CONTENT_BYTES_MAX, RECHECK_AFTER};

/// A cached response.
#[derive(Debug)]
pub struct Stored {
    record: Record,
    /// Its body.
    pub content: Content,
    /// Offset of the body in a [`Content::Handle`].
    pub start: u64,
    pub(super) digest: Digest,
    pub(super) id: u64,
    /// Device and inode of its file.
    file: (u64, u64),
}

impl Stored {
    /// Its head as received from the upstream.
    pub fn head(&self) -> &ResponseHead {
        &self.record.head
    }

    /// Its times.
    pub fn times(&self) -> Times {
        self.record.times
    }

    /// The length of its body.
    pub fn len(&self) -> u64 {
        self.record.content_len
    }

    /// Whether its body is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The request headers that it varies by, as in [`Vary::Names`](sluice_message::caching::Vary::Names).
    pub fn names(&self) -> &[u8] {
        &self.record.names
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.record.key
    }

    pub(super) fn variant(&self) -> &[u8] {
        &self.record.variant
    }

    pub(super) fn nonce(&self) -> u64 {
        self.record.nonce
    }

    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    /// Its body, if it is in memory.
    pub(super) fn small(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Bytes(bytes) => Some(bytes),
            Content::Handle(_) => None,
        }
    }
}

/// Cached responses that one worker has open, from all caches together.
#[derive(Default)]
pub struct Opened {
    entries: RefCell<Generations<Entry>>,
}

struct Entry {
    stored: Rc<Stored>,
    checked: Moment,
}

impl Weighed for Entry {
    fn weight(&self) -> Weight {
        let head = self.stored.record.block_len;
        match &self.stored.content {
            Content::Bytes(bytes) => Weight {
                bytes: head + bytes.len(),
                handles: 0,
            },
            Content::Handle(_) => Weight {
                bytes: head,
                handles: 1,
            },
        }
    }
}

impl Opened {
    /// The response with this digest, as it is in its file.
    pub(super) fn find(
        &self,
        store: &Store,
        digest: Digest,
        id: u64,
        now: Moment,
    ) -> io::Result<Rc<Stored>> {
        let mut name = [0; 24];
        name[..16].copy_from_slice(&digest.0);
        name[16..].copy_from_slice(&store.number.to_le_bytes());
        if let Some(entry) = self.entries.borrow_mut().find(&name)
            && entry.stored.id == id
            && entry.is_current(store, now)
        {
            return Ok(entry.stored.clone());
        }
        let stored = match Stored::open(store, digest, id) {
            // Another worker may be updating the header block; or there may be too many open files.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let _one_at_a_time = lock(&store.renewing);
                Stored::open(store, digest, id)?
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                self.entries.borrow_mut().drop_handles();
                Stored::open(store, digest, id)?
            }
            done => done?,
        };
        let stored = Rc::new(stored);
        let entry = Entry {
            stored: stored.clone(),
            checked: now,
        };
        self.entries.borrow_mut().insert(&name, entry);
        Ok(stored)
    }
}

impl Entry {
    /// Whether its file still exists: some tools purge by removing files.
    fn is_current(&mut self, store: &Store, now: Moment) -> bool {
        if now.since(self.checked) < RECHECK_AFTER {
            return true;
        }
        let found = std::fs::metadata(store.file(self.stored.digest));
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.stored.file) {
            self.checked = now;
            return true;
        }
        false
    }
}

impl Stored {
    fn open(store: &Store, digest: Digest, id: u64) -> io::Result<Stored> {
        let file = File::open(store.file(digest))?;
        let record = fill::read_record(&file)?;
        let metadata = file.metadata()?;
        let start = record.block_len as u64;
        let content = if record.content_len > CONTENT_BYTES_MAX {
            Content::Handle(Rc::new(file))
        } else {
            let mut bytes = vec![0; record.content_len as usize];
            file.read_exact_at(&mut bytes, start)?;
            Content::Bytes(bytes.into())
        };
        Ok(Stored {
            record,
            content,
            start,
            digest,
            id,
            file: (metadata.dev(), metadata.ino()),
        })
    }

    /// Counts body bytes that are sent.
    pub fn count_sent(&self, store: &Store, bytes: u64) {
        store.counts.sent.fetch_add(bytes, Ordering::Relaxed);
    }
}
