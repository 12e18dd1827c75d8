//! What the pages of one response share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::words::Groups;
use crate::limits::{SSI_INCLUDES_MAX, SSI_KEPT_BYTES_MAX};

/// State shared by all pages of one response, at any include depth.
#[derive(Debug, Default)]
pub struct Shared(Mutex<Kept>);

#[derive(Debug, Default)]
/// The values of [`Shared`].
pub struct Kept {
    pub(super) set: Vec<(String, Vec<u8>)>,
    pub(super) groups: Groups,
    blocks: Vec<(Vec<u8>, Arc<[u8]>)>,
    /// Total size of all stored values in bytes.
    bytes: usize,
    includes: u32,
}

impl Shared {
    /// The values, locked.
    pub(super) fn kept(&self) -> MutexGuard<'_, Kept> {
        // A panic leaves only complete values behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a variable.
    pub fn set(&self, name: String, value: Vec<u8>) -> Result<(), String> {
        let mut kept = self.kept();
        kept.make_room(name.len() + value.len())?;
        match kept.set.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => kept.set.push((name, value)),
        }
        Ok(())
    }

    /// Stores the groups of a pattern that matched.
    pub fn remember(&self, groups: Groups) -> Result<(), String> {
        for (name, number) in &groups.named {
            let value = groups.number(*number).unwrap_or_default().to_vec();
            self.set(name.clone(), value)?;
        }
        self.kept().groups = groups;
        Ok(())
    }

    /// Stores a block.
    pub fn keep_block(&self, name: Vec<u8>, text: Vec<u8>) -> Result<(), String> {
        let mut kept = self.kept();
        kept.make_room(name.len() + text.len())?;
        kept.blocks.push((name, text.into()));
        Ok(())
    }

    /// The block of this name; of several the first wins, as in nginx.
    pub fn block(&self, name: &[u8]) -> Option<Arc<[u8]>> {
        let kept = self.kept();
        let found = kept.blocks.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| text.clone())
    }

    /// Counts an include; false if the limit is exceeded.
    pub fn count_include(&self) -> bool {
        let mut kept = self.kept();
        kept.includes += 1;
        kept.includes <= SSI_INCLUDES_MAX
    }
}

impl Kept {
    fn make_room(&mut self, bytes: usize) -> Result<(), String> {
        // Replaced values still count: the total never shrinks, which bounds the work a page can cause.
        self.bytes += bytes;
        match self.bytes > SSI_KEPT_BYTES_MAX {
            true => Err("too much is kept by SSI commands".to_owned()),
            false => Ok(()),
        }
    }
}
