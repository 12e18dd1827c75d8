//! The definition of a directive: what it takes, how often it may stand, and what becomes of it.

/// What becomes of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does what nginx's documentation says.
    Works,
    /// It does what is named.
    Partly(&'static str),
    /// Its effect is always there; says why.
    Always(&'static str),
    /// It is read, changes nothing and is warned of; says what holds in its place.
    Idle(&'static str),
    /// With one of these first words it does what the documentation says; otherwise as `NotYet`.
    OnlyAs(&'static [&'static str]),
    /// It is refused by name as it is not built yet.
    NotYet,
    /// It is refused by name and will not come; says why.
    Refused(&'static str),
}

/// What a directive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// `on` or `off`.
    Flag,
    /// So many words, at least and at most.
    Words(usize, usize),
    /// One of these.
    Choice(&'static [&'static str]),
    /// A number.
    Number,
    /// A size, such as `8k`.
    Size,
    /// A length of time, such as `30s`.
    Time,
    /// So many words, at least and at most, and a block.
    Block(usize, usize),
}

/// As many words as there are.
pub const MANY: usize = usize::MAX;

/// Whether a directive may stand more than once in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// It may.
    Yes,
    /// It may not.
    No,
}

/// A directive as its module defines it.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// Whether it may be repeated.
    pub repeats: Repeats,
    /// What becomes of it.
    pub verdict: Verdict,
}

impl Definition {
    /// With another verdict.
    pub const fn but(self, verdict: Verdict) -> Definition {
        Definition { verdict, ..self }
    }
}

/// A directive that works, and that a block may have once.
pub const fn once(name: &'static str, takes: Takes) -> Definition {
    Definition {
        name,
        takes,
        repeats: Repeats::No,
        verdict: Verdict::Works,
    }
}

/// A directive that works, and that a block may have more than once.
pub const fn many(name: &'static str, takes: Takes) -> Definition {
    Definition {
        repeats: Repeats::Yes,
        ..once(name, takes)
    }
}
