//! Regular expressions with names, under which placeholders find their groups.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::regexp::{Regexp, RegexpError};

/// A regular expression with the name under which its groups are found.
#[derive(Debug)]
pub struct NamedRegexp {
    name: String,
    regexp: Regexp,
    groups: Vec<Option<String>>,
}

impl NamedRegexp {
    /// Compiles `pattern`; `name` is a word or empty.
    pub fn new(name: &str, pattern: &str) -> Result<Arc<NamedRegexp>, RegexpError> {
        let word = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !word {
            return Err(RegexpError::BadName(name.into()));
        }
        let regexp = Regexp::new(pattern)?;
        let groups = regexp
            .group_names()
            .map(|group| group.map(String::from))
            .collect();
        Ok(Arc::new(NamedRegexp {
            name: name.into(),
            regexp,
            groups,
        }))
    }

    /// Its name, possibly empty.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_match(&self, text: &[u8]) -> bool {
        self.regexp.is_match(text)
    }

    pub(crate) fn locations(&self) -> regex::bytes::CaptureLocations {
        self.regexp.locations()
    }

    pub(crate) fn read(&self, text: &[u8], into: &mut regex::bytes::CaptureLocations) {
        self.regexp.read(text, into);
    }

    /// The index of the group with that number or name.
    pub(crate) fn group(&self, group: &str) -> Option<usize> {
        match group.parse::<usize>() {
            Ok(index) => (index < self.groups.len()).then_some(index),
            Err(_) => self
                .groups
                .iter()
                .position(|name| name.as_deref() == Some(group)),
        }
    }
}
