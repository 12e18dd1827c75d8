//! A block and those around it: which directive of which block holds. Most are inherited from the block around; those
//! that make a list are inherited only where a block has none of them.

use sluice_model::Duration;

use super::values;
use crate::tree::Directive;

/// A block and those around it.
#[derive(Clone, Copy, Debug)]
pub struct Level<'t> {
    around: Option<&'t Level<'t>>,
    directives: &'t [Directive],
}

impl<'t> Level<'t> {
    /// The outermost block.
    pub fn outermost(directives: &'t [Directive]) -> Self {
        Level {
            around: None,
            directives,
        }
    }

    /// A block inside of this one.
    pub fn within<'b>(&'b self, directives: &'b [Directive]) -> Level<'b>
    where
        't: 'b,
    {
        Level {
            around: Some(self),
            directives,
        }
    }

    /// The directive that it is the block of; none for an empty block.
    pub fn block(&self) -> Option<&'t Directive> {
        let mut blocks = self.around?.directives.iter();
        blocks.find(|block| {
            !self.directives.is_empty() && std::ptr::eq(block.body(), self.directives)
        })
    }

    /// The block around it.
    pub fn around(&self) -> Option<&'t Level<'t>> {
        self.around
    }

    /// The directives of the block itself.
    pub fn directives(&self) -> &'t [Directive] {
        self.directives
    }

    /// Those of the block itself that are called so.
    pub fn own(&self, name: &str) -> impl Iterator<Item = &'t Directive> {
        self.directives
            .iter()
            .filter(move |directive| directive.name() == name)
    }

    /// The one that holds here.
    pub fn find(&self, name: &str) -> Option<&'t Directive> {
        let own = self.own(name).last();
        own.or_else(|| self.around.and_then(|around| around.find(name)))
    }

    /// Those called by any of these names, in the innermost block that has any.
    pub fn nearest(&self, names: &[&str]) -> Vec<&'t Directive> {
        let is_one = |directive: &&Directive| names.contains(&directive.name());
        let own: Vec<&Directive> = self.directives.iter().filter(is_one).collect();
        match self.around {
            Some(around) if own.is_empty() => around.nearest(names),
            _ => own,
        }
    }

    /// All of this name, in this block and in those around it.
    pub fn everywhere(&self, name: &str) -> Vec<&'t Directive> {
        let mut found = match self.around {
            Some(around) => around.everywhere(name),
            None => Vec::new(),
        };
        found.extend(self.own(name));
        found
    }

    /// The first word of the one that holds here.
    pub fn word(&self, name: &str) -> Option<&'t str> {
        self.find(name)?.arg(0)
    }

    /// Whether a switch is on; `usually` where nothing is said.
    pub fn is_on(&self, name: &str, usually: bool) -> bool {
        self.word(name).map_or(usually, |word| word == "on")
    }

    /// A length of time.
    pub fn time(&self, name: &str) -> Option<Duration> {
        self.word(name).and_then(values::time)
    }

    /// A size.
    pub fn size(&self, name: &str) -> Option<u64> {
        self.word(name).and_then(values::size)
    }
}
