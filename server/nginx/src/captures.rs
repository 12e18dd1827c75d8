//! The groups of the last regular expression that matched.

use sluice_route::Provenance;

use super::uri;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::seldom::Empty;

/// The groups of the last regular expression that matched.
#[derive(Clone, Debug, Default)]
pub struct Captures {
    text: Vec<u8>,
    groups: Vec<Option<(u32, u32)>>,
    /// Whether groups are escaped for a query.
    escapes: bool,
    /// Whether the text is a path.
    is_path: bool,
}

impl Captures {
    /// The group with this number; empty if it did not participate in the match.
    pub fn group(&self, index: u8) -> &[u8] {
        let found = self.groups.get(usize::from(index)).copied().flatten();
        found.map_or(&[], |(start, end)| &self.text[start as usize..end as usize])
    }

    /// The provenance of a group when used in paths. An empty group is safe: its pattern permitted it.
    pub fn provenance(&self, index: u8) -> Provenance {
        match self.is_path || self.group(index).is_empty() {
            true => Provenance::Path,
            false => Provenance::Name,
        }
    }

    /// Sets whether groups are escaped: while a query or redirect is built from a path that was sent
    /// percent-encoded.
    pub(super) fn set_escapes(&mut self, escapes: bool) {
        self.escapes = escapes;
    }

    /// Appends the group with this number.
    pub(super) fn write(&self, index: u8, out: &mut Vec<u8>) {
        match self.escapes {
            true => uri::escape_argument(self.group(index), out),
            false => out.extend_from_slice(self.group(index)),
        }
    }

    /// Stores the groups that `find` finds in `text`, whose provenance is `from`; keeps the previous ones if it
    /// finds none.
    pub(super) fn keep(
        &mut self,
        text: &[u8],
        from: Provenance,
        find: impl FnOnce(&[u8], &mut Vec<Option<(u32, u32)>>) -> Result<bool, Fault>,
    ) -> Result<bool, Fault> {
        if !find(text, &mut self.groups)? {
            return Ok(false);
        }
        self.text.clear();
        self.text.extend_from_slice(text);
        self.is_path = from == Provenance::Path;
        Ok(true)
    }
}

impl Empty for Captures {
    fn empty() -> &'static Self {
        static EMPTY: Captures = Captures {
            text: Vec::new(),
            groups: Vec::new(),
            escapes: false,
            is_path: false,
        };
        &EMPTY
    }

    fn clear(&mut self) {
        self.text.clear();
        self.groups.clear();
        self.escapes = false;
    }
}
