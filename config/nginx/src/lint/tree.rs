//! The blocks of a file, each with its enclosing blocks, as the rules see them.

use crate::tree::Directive;

/// A file.
pub struct File<'t> {
    /// All blocks, outer ones first; the file itself is the first.
    pub spots: Vec<Spot<'t>>,
}

/// A block, and those around it.
#[derive(Clone)]
pub struct Spot<'t> {
    top: &'t [Directive],
    chain: Vec<&'t Directive>,
}

impl<'t> File<'t> {
    /// Finds the blocks.
    pub fn new(top: &'t [Directive]) -> Self {
        let mut spots = Vec::new();
        let whole = Spot {
            top,
            chain: Vec::new(),
        };
        add(whole, &mut spots);
        File { spots }
    }

    /// The blocks of this name.
    pub fn blocks(&self, name: &str) -> impl Iterator<Item = &Spot<'t>> {
        self.spots.iter().filter(move |spot| spot.kind() == name)
    }

    /// Directives of this name, with the block each stands in.
    pub fn all<'s>(
        &'s self,
        name: &'s str,
    ) -> impl Iterator<Item = (&'s Spot<'t>, &'t Directive)> + 's {
        let of = move |spot: &'s Spot<'t>| spot.own(name).map(move |line| (spot, line));
        self.spots.iter().flat_map(of)
    }

    /// The `upstream` of this name.
    pub fn upstream(&self, name: &str) -> Option<&'t Directive> {
        let found = self.blocks("upstream").filter_map(Spot::block);
        found.filter(|block| block.arg(0) == Some(name)).last()
    }
}

fn add<'t>(spot: Spot<'t>, into: &mut Vec<Spot<'t>>) {
    let body = spot.body();
    let chain = spot.chain.clone();
    let top = spot.top;
    into.push(spot);
    for block in body.iter().filter(|line| line.block.is_some()) {
        let chain = chain.iter().copied().chain([block]).collect();
        add(Spot { top, chain }, into);
    }
}

impl<'t> Spot<'t> {
    /// The block; none for the file itself.
    pub fn block(&self) -> Option<&'t Directive> {
        self.chain.last().copied()
    }

    /// What the block is called.
    pub fn kind(&self) -> &'t str {
        self.block().map_or("", Directive::name)
    }

    /// What stands in it.
    pub fn body(&self) -> &'t [Directive] {
        self.block().map_or(self.top, Directive::body)
    }

    /// The directives of this name in the block itself.
    pub fn own<'n>(&self, name: &'n str) -> impl Iterator<Item = &'t Directive> + use<'t, 'n> {
        self.body().iter().filter(move |line| line.name() == name)
    }

    /// The blocks around it, from the inside, with the file itself last.
    pub fn around(&self) -> impl Iterator<Item = Spot<'t>> + '_ {
        (0..self.chain.len()).rev().map(|length| Spot {
            top: self.top,
            chain: self.chain[..length].to_vec(),
        })
    }

    /// The directive of this name that holds here.
    pub fn find(&self, name: &str) -> Option<&'t Directive> {
        let own = self.own(name).last();
        own.or_else(|| self.around().find_map(|spot| spot.own(name).last()))
    }

    /// The directives of this name in the innermost block that has any.
    pub fn nearest(&self, name: &str) -> Vec<&'t Directive> {
        let own: Vec<_> = self.own(name).collect();
        match own.is_empty() {
            false => own,
            true => self.nearest_around(name),
        }
    }

    /// As `nearest`, but without the block itself.
    pub fn nearest_around(&self, name: &str) -> Vec<&'t Directive> {
        let lists = self.around().map(|spot| spot.own(name).collect::<Vec<_>>());
        lists
            .into_iter()
            .find(|list| !list.is_empty())
            .unwrap_or_default()
    }

    /// The block of this name that it stands in.
    pub fn within(&self, name: &str) -> Option<&'t Directive> {
        self.chain
            .iter()
            .rev()
            .copied()
            .find(|block| block.name() == name)
    }

    /// How its location compares, and with what.
    pub fn location(&self) -> Option<(&'t str, &'t str)> {
        let block = self.block().filter(|block| block.name() == "location")?;
        let (modifier, word) = crate::lower::locations::modifier_and_word(block)?;
        Some((modifier, word))
    }
}
