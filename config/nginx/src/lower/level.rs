//! A block and its enclosing blocks: which block's directives are in effect. Most directives are inherited from the
//! enclosing block; those that form a list are inherited only if a block has none of them.

use std::collections::HashMap;
use std::rc::Rc;

use sluice_model::Duration;

use super::values;
use crate::tree::Directive;

/// A block and those around it.
#[derive(Clone, Debug)]
pub struct Level<'t> {
    around: Option<&'t Level<'t>>,
    directives: &'t [Directive],
    /// Those of a long block by their names: each of its thousand locations asks it for a hundred names.
    by_name: Option<Rc<HashMap<&'t str, Vec<&'t Directive>>>>,
}

/// Blocks of fewer directives are searched.
const INDEXED_MIN: usize = 32;

/// How many blocks are around a `server`: `http`, and what is outside of all.
const SERVER_DEPTH: usize = 2;

fn index(directives: &[Directive]) -> Option<Rc<HashMap<&str, Vec<&Directive>>>> {
    (directives.len() >= INDEXED_MIN).then(|| {
        let mut by_name: HashMap<&str, Vec<&Directive>> = HashMap::new();
        for directive in directives {
            by_name.entry(directive.name()).or_default().push(directive);
        }
        Rc::new(by_name)
    })
}

impl<'t> Level<'t> {
    /// The outermost block.
    pub fn outermost(directives: &'t [Directive]) -> Self {
        Level {
            around: None,
            directives,
            by_name: index(directives),
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
            by_name: index(directives),
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

    /// This block and those around it that are locations or stand in one, the innermost first.
    pub fn locations(&self) -> impl Iterator<Item = &Level<'t>> {
        std::iter::successors(Some(self), |level| level.around)
            .take_while(|level| level.depth() > SERVER_DEPTH)
    }

    /// The `server` block that it is or stands in.
    pub fn server(&self) -> Option<&Level<'t>> {
        std::iter::successors(Some(self), |level| level.around)
            .find(|level| level.depth() == SERVER_DEPTH)
    }

    /// How many blocks are around it.
    fn depth(&self) -> usize {
        std::iter::successors(self.around, |level| level.around).count()
    }

    /// The directives of the block itself.
    pub fn directives(&self) -> &'t [Directive] {
        self.directives
    }

    /// Those of the block itself that are called so.
    pub fn own(&self, name: &str) -> impl Iterator<Item = &'t Directive> {
        let (known, searched) = match &self.by_name {
            Some(by_name) => (by_name.get(name).map(Vec::as_slice), &[][..]),
            None => (None, self.directives),
        };
        let searched = searched.iter().filter(move |one| one.name() == name);
        known.unwrap_or_default().iter().copied().chain(searched)
    }

    /// The one that holds here.
    pub fn find(&self, name: &str) -> Option<&'t Directive> {
        let own = self.own(name).last();
        own.or_else(|| self.around.and_then(|around| around.find(name)))
    }

    /// Those called by any of these names, in the innermost block that has any.
    pub fn nearest(&self, names: &[&str]) -> Vec<&'t Directive> {
        let mut own: Vec<&Directive> = names.iter().flat_map(|name| self.own(name)).collect();
        // In the order in which they were written, which is that of their places in the block.
        if names.len() > 1 {
            own.sort_by_key(|directive| std::ptr::from_ref(*directive));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryLoader;
    use crate::parse::parse_with;

    #[test]
    fn long_blocks_say_the_same_as_short_ones() {
        let text = |filling: usize| {
            let filling = "location /x {}\n".repeat(filling);
            format!("allow a;\ndeny b;\n{filling}allow c;\nroot d;\ndeny e;\n")
        };
        for filling in [0, INDEXED_MIN * 2] {
            let parsed = parse_with("nginx.conf", &text(filling), "", &MemoryLoader::default());
            let level = Level::outermost(&parsed.directives);
            assert_eq!(
                level.by_name.is_some(),
                filling > 0,
                "it is searched by names"
            );
            let words = |lines: Vec<&Directive>| -> Vec<String> {
                let words = lines.iter().filter_map(|line| line.arg(0));
                words.map(str::to_owned).collect()
            };
            assert_eq!(
                words(level.nearest(&["deny", "allow"])),
                ["a", "b", "c", "e"]
            );
            assert_eq!(words(level.own("allow").collect()), ["a", "c"]);
            assert_eq!(level.word("root"), Some("d"));
            assert!(level.find("alias").is_none());
            let inner = level.within(&[]);
            assert_eq!(words(inner.nearest(&["deny"])), ["b", "e"]);
        }
    }
}
