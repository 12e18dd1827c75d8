//! The syntax tree of a pattern, over bytes. `parse` builds it; `plain` and `program` compile it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Some of the 256 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteSet([u64; 4]);

impl ByteSet {
    /// None.
    pub const EMPTY: ByteSet = ByteSet([0; 4]);
    /// All.
    pub const ALL: ByteSet = ByteSet([u64::MAX; 4]);

    /// All but the line feed.
    pub fn but_line_feed() -> ByteSet {
        let mut line_feed = ByteSet::EMPTY;
        line_feed.add(b'\n');
        line_feed.inverted()
    }

    /// Whether `byte` is one of them.
    #[inline]
    pub fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0
    }

    /// Adds one.
    pub fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    /// Adds those from `first` to `last`, both included.
    pub fn add_range(&mut self, first: u8, last: u8) {
        (first..=last).for_each(|byte| self.add(byte));
    }

    /// Adds all of `other`.
    pub fn add_all(&mut self, other: &ByteSet) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own |= other;
        }
    }

    /// All others.
    pub fn inverted(&self) -> ByteSet {
        ByteSet(self.0.map(|word| !word))
    }

    /// These and their letters in the other case. Letters are those of ASCII, as in PCRE's own tables.
    pub fn folded(&self) -> ByteSet {
        let mut all = *self;
        for byte in b'a'..=b'z' {
            let upper = byte.to_ascii_uppercase();
            if self.has(byte) || self.has(upper) {
                all.add(byte);
                all.add(upper);
            }
        }
        all
    }

    /// The runs of neighbours, each from its first to its last.
    pub fn ranges(&self) -> Vec<(u8, u8)> {
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for byte in (0..=u8::MAX).filter(|byte| self.has(*byte)) {
            match ranges.last_mut() {
                Some((_, last)) if byte.checked_sub(1) == Some(*last) => *last = byte,
                _ => ranges.push((byte, byte)),
            }
        }
        ranges
    }
}

/// A place in the text that consumes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The very beginning: `\A`, `\G`, and `^` but in multi-line mode.
    Start,
    /// After the beginning or an inner line feed: `^` in multi-line mode.
    LineStart,
    /// The very end: `\z`.
    End,
    /// The end, or before a line feed that is the last byte: `\Z`, and `$` but in multi-line mode.
    LastEnd,
    /// The end or before any line feed: `$` in multi-line mode.
    LineEnd,
    /// Between a byte of a word and one of none.
    WordEdge,
    /// Anywhere else.
    NoWordEdge,
}

/// How often a repetition is tried first, and whether it gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eagerness {
    /// As often as possible.
    Greedy,
    /// As seldom as possible.
    Lazy,
    /// As often as possible, and none of it is given back.
    Possessive,
}

/// What a back reference refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The group with this number.
    Number(u32),
    /// The group with this name.
    Name(String),
}

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Nothing.
    Empty,
    /// This byte.
    Byte(u8),
    /// One of these bytes.
    Set(ByteSet),
    /// A place.
    At(Place),
    /// One after the other.
    Sequence(Vec<Node>),
    /// The first of these that lets the rest match.
    Choice(Vec<Node>),
    /// A group whose text is remembered.
    Group(u32, Box<Node>),
    /// A repetition.
    Repeat {
        /// What is repeated.
        node: Box<Node>,
        /// How often at least.
        min: u32,
        /// How often at most.
        max: Option<u32>,
        /// Which number is tried first.
        eagerness: Eagerness,
    },
    /// Looks forward from here, or at what stands before.
    Look {
        /// Whether it looks at what stands before.
        behind: bool,
        /// Whether it must not match.
        negated: bool,
        /// What is looked for.
        node: Box<Node>,
    },
    /// Once it has matched, no other way through it is tried.
    Atomic(Box<Node>),
    /// The text of a group once more.
    Back {
        /// Of which group.
        target: Target,
        /// Whether the case of letters does not count.
        folded: bool,
    },
    /// The match is said to begin here.
    Keep,
}

impl Node {
    /// Whether it can match without a byte. A back reference may.
    pub fn may_be_empty(&self) -> bool {
        self.first_bytes(&mut ByteSet::default())
    }

    /// Whether it refers back to the text of a group.
    pub fn has_references(&self) -> bool {
        match self {
            Node::Back { .. } => true,
            Node::Sequence(nodes) | Node::Choice(nodes) => nodes.iter().any(Node::has_references),
            Node::Group(_, node) | Node::Atomic(node) => node.has_references(),
            Node::Repeat { node, .. } | Node::Look { node, .. } => node.has_references(),
            Node::Empty | Node::Byte(_) | Node::Set(_) | Node::At(_) | Node::Keep => false,
        }
    }

    /// Whether something in it that may match without a byte is repeated without end. Engines end such circles in
    /// different ways, so that their matches differ.
    pub fn has_circles(&self) -> bool {
        match self {
            Node::Sequence(nodes) | Node::Choice(nodes) => nodes.iter().any(Node::has_circles),
            Node::Group(_, node) | Node::Atomic(node) | Node::Look { node, .. } => {
                node.has_circles()
            }
            Node::Repeat { node, max, .. } => {
                max.is_none() && node.may_be_empty() || node.has_circles()
            }
            Node::Empty
            | Node::Byte(_)
            | Node::Set(_)
            | Node::At(_)
            | Node::Back { .. }
            | Node::Keep => false,
        }
    }

    /// How many bytes it takes, if that is always the same number.
    pub fn width(&self) -> Option<usize> {
        match self {
            Node::Empty | Node::At(_) | Node::Look { .. } => Some(0),
            Node::Byte(_) | Node::Set(_) => Some(1),
            Node::Sequence(nodes) => nodes
                .iter()
                .try_fold(0usize, |sum, node| sum.checked_add(node.width()?)),
            Node::Choice(nodes) => {
                let mut widths = nodes.iter().map(Node::width);
                let first = widths.next().flatten()?;
                widths.all(|width| width == Some(first)).then_some(first)
            }
            Node::Group(_, node) | Node::Atomic(node) => node.width(),
            Node::Repeat { node, min, max, .. } => match max {
                Some(max) if max == min => node.width()?.checked_mul(*min as usize),
                _ => node.width().filter(|width| *width == 0),
            },
            Node::Back { .. } | Node::Keep => None,
        }
    }

    /// Adds the bytes that a match can begin with, and says whether it may go on behind this node without one.
    pub fn first_bytes(&self, into: &mut ByteSet) -> bool {
        match self {
            Node::Empty | Node::At(_) | Node::Look { .. } | Node::Keep => true,
            Node::Byte(byte) => {
                into.add(*byte);
                false
            }
            Node::Set(set) => {
                into.add_all(set);
                false
            }
            Node::Sequence(nodes) => nodes.iter().all(|node| node.first_bytes(into)),
            Node::Choice(nodes) => nodes
                .iter()
                .fold(false, |empty, node| node.first_bytes(into) | empty),
            Node::Group(_, node) | Node::Atomic(node) => node.first_bytes(into),
            Node::Repeat { node, min, max, .. } => match max {
                Some(0) => true,
                _ => node.first_bytes(into) | (*min == 0),
            },
            Node::Back { .. } => {
                into.add_all(&ByteSet::ALL);
                true
            }
        }
    }

    /// Whether it only matches at the very beginning.
    pub fn is_anchored(&self) -> bool {
        match self {
            Node::At(Place::Start) => true,
            Node::Sequence(nodes) => {
                let mut nodes = nodes.iter();
                // What comes before it must not take bytes, or the beginning is behind it.
                nodes
                    .find(|node| !matches!(node, Node::Empty | Node::Look { .. } | Node::Keep))
                    .is_some_and(Node::is_anchored)
            }
            Node::Choice(nodes) => nodes.iter().all(Node::is_anchored),
            Node::Group(_, node) | Node::Atomic(node) => node.is_anchored(),
            Node::Repeat { node, min, .. } => *min > 0 && node.is_anchored(),
            Node::Empty
            | Node::Byte(_)
            | Node::Set(_)
            | Node::At(_)
            | Node::Look { .. }
            | Node::Back { .. }
            | Node::Keep => false,
        }
    }
}
