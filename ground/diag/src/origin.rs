//! Where the parts of a configuration are in the source, for diagnostics that point at them after it was lowered.
//!
//! The model defines the parts and carries only their numbers.

use alloc::string::String;
use alloc::vec::Vec;

use crate::source::{ImportId, Sources, Span};

/// Names one entry of [`Origins`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OriginId(u32);

/// A place in a text, and how it was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The words.
    pub span: Span,
    /// The innermost import that brought them in.
    pub import: Option<ImportId>,
}

/// Where one part of a configuration was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// What it is called there: the name of a directive, or `site`.
    pub name: String,
    /// The words that make it up.
    pub place: Place,
    /// The words that say when it applies, each under the name of its condition.
    pub conditions: Vec<(String, Place)>,
}

/// The origins of one configuration, by number.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    entries: Vec<Origin>,
}

/// The text that a configuration was read from.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The files.
    pub sources: Sources,
    /// Where in them its parts were written.
    pub origins: Origins,
}

impl Origins {
    /// Adds an origin and names it for the parts that it is the origin of.
    pub fn add(&mut self, origin: Origin) -> OriginId {
        let id = u32::try_from(self.entries.len()).expect("texts are shorter than 4 GiB");
        self.entries.push(origin);
        OriginId(id)
    }

    /// The origin that `add` named so; none where the number is of another configuration.
    pub fn find(&self, id: OriginId) -> Option<&Origin> {
        self.entries.get(id.0 as usize)
    }
}

impl Origin {
    /// The place of the condition called `name`, else that of the whole.
    pub fn condition(&self, name: &str) -> Place {
        let found = self.conditions.iter().find(|(known, _)| known == name);
        found.map_or(self.place, |(_, place)| *place)
    }
}
