//! Parses a pattern with PCRE's default options, as bytes rather than characters. Escapes and sets are in `escape`.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::PatternError;
use super::tree::{ByteSet, Eagerness, Node, Place, Target};
use crate::limits::{PATTERN_BYTES_MAX, PATTERN_DEPTH_MAX, PATTERN_GROUPS_MAX};

/// The greatest number in a repetition, which is PCRE's.
const REPEAT_MAX: u32 = 65_535;

/// A pattern that was read.
pub struct Parsed {
    /// What it says.
    pub node: Node,
    /// How many groups it has.
    pub groups: u32,
    /// The names of groups, with their numbers.
    pub names: Vec<(String, u32)>,
    /// Whether two of its groups share a number: other engines have no word for that.
    pub shares_numbers: bool,
}

/// What `(?i)` and its like have set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    pub(super) folds: bool,
    pub(super) multi_line: bool,
    pub(super) dot_is_all: bool,
    pub(super) extended: bool,
    lazy: bool,
    keeps_no_groups: bool,
}

/// Reads `text`; letters of both cases are the same if it `folds`.
pub fn parse(text: &[u8], folds: bool) -> Result<Parsed, PatternError> {
    if text.len() > PATTERN_BYTES_MAX {
        return Err(PatternError::malformed(0, "the pattern is too long"));
    }
    let mut parser = Parser {
        text,
        at: 0,
        flags: Flags {
            folds,
            ..Flags::default()
        },
        groups: 0,
        all_groups: count_groups(text),
        names: Vec::new(),
        depth: 0,
        looks: 0,
        is_quoting: false,
        shares_numbers: false,
        targets: Vec::new(),
    };
    let node = parser.choice(false)?;
    if parser.at < text.len() {
        return Err(PatternError::malformed(
            parser.at,
            "this parenthesis closes nothing",
        ));
    }
    for (at, target) in &parser.targets {
        let is_there = match target {
            Target::Number(number) => (1..=parser.groups).contains(number),
            Target::Name(name) => parser.names.iter().any(|(known, _)| known == name),
        };
        if !is_there {
            return Err(PatternError::malformed(
                *at,
                "it refers to a group that is not there",
            ));
        }
    }
    Ok(Parsed {
        node,
        groups: parser.groups,
        names: parser.names,
        shares_numbers: parser.shares_numbers,
    })
}

/// About how many groups there are: whether `\12` is a group or a byte depends on it.
fn count_groups(text: &[u8]) -> u32 {
    let mut groups = 0;
    let mut bytes = text.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => _ = bytes.next(),
            b'(' => {
                let rest = &text[at + 1..];
                let has_name =
                    rest.starts_with(b"?<") || rest.starts_with(b"?P<") || rest.starts_with(b"?'");
                let looks = rest.starts_with(b"?<=") || rest.starts_with(b"?<!");
                if !rest.starts_with(b"?") && !rest.starts_with(b"*") || has_name && !looks {
                    groups += 1;
                }
            }
            _ => {}
        }
    }
    groups
}

/// Where in the pattern the reader stands, and what it knows.
pub(super) struct Parser<'p> {
    pub(super) text: &'p [u8],
    pub(super) at: usize,
    pub(super) flags: Flags,
    pub(super) groups: u32,
    pub(super) all_groups: u32,
    names: Vec<(String, u32)>,
    depth: usize,
    /// How many looks around here stand in each other.
    pub(super) looks: usize,
    /// Between `\Q` and `\E`.
    pub(super) is_quoting: bool,
    shares_numbers: bool,
    /// What back references refer to, and where they stand.
    pub(super) targets: Vec<(usize, Target)>,
}

/// What one step of reading gave.
pub(super) enum Piece {
    /// A part that may be repeated.
    Node(Node),
    /// A place, which may not.
    Fixed(Node),
    /// A comment, flags, the end of a quotation.
    Nothing,
}

impl Parser<'_> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn looking_at(&self, text: &[u8]) -> bool {
        self.text[self.at..].starts_with(text)
    }

    pub(super) fn eat(&mut self, text: &[u8]) -> bool {
        let is_there = self.looking_at(text);
        if is_there {
            self.at += text.len();
        }
        is_there
    }

    /// Branches up to the end or a closing parenthesis. With `resets` each counts its groups from the same number.
    fn choice(&mut self, resets: bool) -> Result<Node, PatternError> {
        let base = self.groups;
        let mut most = base;
        let mut branches = Vec::new();
        loop {
            branches.push(self.branch()?);
            most = most.max(self.groups);
            if !self.eat(b"|") {
                break;
            }
            if resets {
                self.shares_numbers |= self.groups > base;
                self.groups = base;
            }
        }
        self.groups = most;
        Ok(match branches.len() {
            1 => branches.remove(0),
            _ => Node::Choice(branches),
        })
    }

    fn branch(&mut self) -> Result<Node, PatternError> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut may_repeat = false;
        while let Some(byte) = self.peek() {
            let start = self.at;
            if !self.is_quoting {
                if matches!(byte, b'|' | b')') {
                    break;
                }
                if self.skip_space(byte) {
                    continue;
                }
                if let Some((min, max)) = self.quantifier(byte)? {
                    if !may_repeat {
                        return Err(PatternError::malformed(start, "there is nothing to repeat"));
                    }
                    let node = nodes.pop().unwrap_or(Node::Empty);
                    nodes.push(self.repeated(node, min, max));
                    may_repeat = false;
                    continue;
                }
            }
            match self.piece(byte)? {
                Piece::Node(node) => {
                    nodes.push(node);
                    may_repeat = true;
                }
                Piece::Fixed(node) => {
                    nodes.push(node);
                    may_repeat = false;
                }
                Piece::Nothing => {
                    // `\Q…\E` is not an item of its own: a quantifier after it applies to its last byte.
                    may_repeat &=
                        self.text[start] == b'\\' || self.text[start..].starts_with(b"(?#");
                }
            }
        }
        Ok(match nodes.len() {
            0 => Node::Empty,
            1 => nodes.remove(0),
            _ => Node::Sequence(nodes),
        })
    }

    /// Passes over what `(?x)` makes a comment.
    fn skip_space(&mut self, byte: u8) -> bool {
        if !self.flags.extended {
            return false;
        }
        match byte {
            b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r' => {
                self.at += 1;
                true
            }
            b'#' => {
                let rest = &self.text[self.at..];
                self.at += memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
                true
            }
            _ => false,
        }
    }

    /// `*`, `+`, `?` or `{…}`, if that stands here.
    fn quantifier(&mut self, byte: u8) -> Result<Option<(u32, Option<u32>)>, PatternError> {
        let plain = match byte {
            b'*' => Some((0, None)),
            b'+' => Some((1, None)),
            b'?' => Some((0, Some(1))),
            b'{' => return self.braces(),
            _ => None,
        };
        if plain.is_some() {
            self.at += 1;
        }
        Ok(plain)
    }

    fn braces(&mut self) -> Result<Option<(u32, Option<u32>)>, PatternError> {
        let start = self.at;
        self.at += 1;
        let min = self.number();
        let max = match self.eat(b",") {
            true => match self.peek() {
                Some(b'}') => Some(None),
                _ => self.number().map(Some),
            },
            false => min.map(Some),
        };
        let (Some(min), Some(max), true) = (min, max, self.eat(b"}")) else {
            // Braces that repeat nothing stand for themselves.
            self.at = start;
            return Ok(None);
        };
        if min > REPEAT_MAX || max.is_some_and(|max| max > REPEAT_MAX) {
            return Err(PatternError::malformed(
                start,
                "at most 65535 repetitions are allowed",
            ));
        }
        if max.is_some_and(|max| max < min) {
            return Err(PatternError::malformed(
                start,
                "the smaller number comes first",
            ));
        }
        Ok(Some((min, max)))
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        let start = self.at;
        let mut number = 0u32;
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            number = number
                .saturating_mul(10)
                .saturating_add(u32::from(digit - b'0'));
            self.at += 1;
        }
        (self.at > start).then_some(number)
    }

    fn repeated(&mut self, node: Node, min: u32, max: Option<u32>) -> Node {
        if self.flags.extended {
            while self.peek().is_some_and(|byte| self.skip_space(byte)) {}
        }
        let eagerness = if self.eat(b"+") {
            Eagerness::Possessive
        } else if self.eat(b"?") != self.flags.lazy {
            Eagerness::Lazy
        } else {
            Eagerness::Greedy
        };
        Node::Repeat {
            node: Box::new(node),
            min,
            max,
            eagerness,
        }
    }

    fn piece(&mut self, byte: u8) -> Result<Piece, PatternError> {
        if self.is_quoting {
            if self.eat(b"\\E") {
                self.is_quoting = false;
                return Ok(Piece::Nothing);
            }
            self.at += 1;
            return Ok(Piece::Node(self.literal(byte)));
        }
        match byte {
            b'\\' => return self.escape(),
            b'(' => return self.group(),
            b'[' => return self.set().map(|set| Piece::Node(Node::Set(set))),
            _ => self.at += 1,
        }
        Ok(match byte {
            b'.' => Piece::Node(Node::Set(match self.flags.dot_is_all {
                true => ByteSet::ALL,
                false => ByteSet::but_line_feed(),
            })),
            b'^' => Piece::Fixed(Node::At(match self.flags.multi_line {
                true => Place::LineStart,
                false => Place::Start,
            })),
            b'$' => Piece::Fixed(Node::At(match self.flags.multi_line {
                true => Place::LineEnd,
                false => Place::LastEnd,
            })),
            byte => Piece::Node(self.literal(byte)),
        })
    }

    pub(super) fn literal(&self, byte: u8) -> Node {
        match self.flags.folds && byte.is_ascii_alphabetic() {
            false => Node::Byte(byte),
            true => {
                let mut set = ByteSet::EMPTY;
                set.add(byte);
                Node::Set(set.folded())
            }
        }
    }

    fn group(&mut self) -> Result<Piece, PatternError> {
        let start = self.at;
        if self.looking_at(b"(*") {
            return Err(self.verb());
        }
        if self.eat(b"(?#") {
            let rest = &self.text[self.at..];
            let Some(end) = memchr::memchr(b')', rest) else {
                return Err(PatternError::malformed(start, "this comment never ends"));
            };
            self.at += end + 1;
            return Ok(Piece::Nothing);
        }
        if self.depth >= PATTERN_DEPTH_MAX {
            return Err(PatternError::malformed(
                start,
                "its groups stand too deep in each other",
            ));
        }
        self.depth += 1;
        let flags = self.flags;
        let piece = self.inner(start)?;
        // Flags that stand alone hold until the group around them ends.
        if !matches!(piece, Piece::Nothing) {
            self.flags = flags;
        }
        self.depth -= 1;
        Ok(piece)
    }

    fn inner(&mut self, start: usize) -> Result<Piece, PatternError> {
        self.at += 1;
        if !self.eat(b"?") {
            return match self.flags.keeps_no_groups {
                true => self.closed(start, |parser| parser.choice(false)),
                false => self.numbered(start),
            };
        }
        if let Some(refused) = self.refused(start) {
            return Err(refused);
        }
        for (opening, behind, negated) in [
            (&b"="[..], false, false),
            (b"!", false, true),
            (b"<=", true, false),
            (b"<!", true, true),
        ] {
            if self.eat(opening) {
                return self.look(start, behind, negated);
            }
        }
        if self.eat(b">") {
            return self.closed(start, |parser| {
                Ok(Node::Atomic(Box::new(parser.choice(false)?)))
            });
        }
        if self.eat(b"|") {
            return self.closed(start, |parser| parser.choice(true));
        }
        if self.eat(b"P=") {
            let name = self.name(b')')?;
            return Ok(Piece::Node(self.back(start, Target::Name(name))));
        }
        for (opening, closing) in [(&b"P<"[..], b'>'), (b"<", b'>'), (b"'", b'\'')] {
            if self.eat(opening) {
                let name = self.name(closing)?;
                let number = self.groups + 1;
                let is_other = |(known, known_number): &(String, u32)| {
                    *known == name && *known_number != number
                };
                if self.names.iter().any(is_other) {
                    return Err(PatternError::malformed(start, "two groups have this name"));
                }
                if !self.names.iter().any(|(known, _)| *known == name) {
                    self.names.push((name, number));
                }
                return self.numbered(start);
            }
        }
        self.options(start)
    }

    /// What stands up to the closing parenthesis, as `inside` reads it.
    fn closed(
        &mut self,
        start: usize,
        inside: impl FnOnce(&mut Self) -> Result<Node, PatternError>,
    ) -> Result<Piece, PatternError> {
        let node = inside(self)?;
        match self.eat(b")") {
            true => Ok(Piece::Node(node)),
            false => Err(PatternError::malformed(start, "this group is not closed")),
        }
    }

    fn numbered(&mut self, start: usize) -> Result<Piece, PatternError> {
        self.groups += 1;
        let number = self.groups;
        if number > PATTERN_GROUPS_MAX {
            return Err(PatternError::malformed(start, "it has too many groups"));
        }
        self.closed(start, |parser| {
            Ok(Node::Group(number, Box::new(parser.choice(false)?)))
        })
    }

    fn look(&mut self, start: usize, behind: bool, negated: bool) -> Result<Piece, PatternError> {
        self.looks += 1;
        let piece = self.closed(start, |parser| {
            let node = parser.choice(false)?;
            let branches = match &node {
                Node::Choice(branches) => branches.as_slice(),
                node => core::slice::from_ref(node),
            };
            if behind && branches.iter().any(|branch| branch.width().is_none()) {
                let why =
                    "what looks behind matches a fixed number of bytes in each of its branches";
                return Err(PatternError::malformed(start, why));
            }
            Ok(Node::Look {
                behind,
                negated,
                node: Box::new(node),
            })
        });
        self.looks -= 1;
        piece
    }

    /// Flags: alone, or for a group.
    fn options(&mut self, start: usize) -> Result<Piece, PatternError> {
        let mut on = true;
        if self.eat(b"^") {
            let Flags { lazy, .. } = self.flags;
            self.flags = Flags {
                lazy,
                ..Flags::default()
            };
        }
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'-' => on = false,
                b'i' => self.flags.folds = on,
                b'm' => self.flags.multi_line = on,
                b's' => self.flags.dot_is_all = on,
                b'x' => self.flags.extended = on,
                b'n' => self.flags.keeps_no_groups = on,
                b'U' => self.flags.lazy = on,
                b')' => return Ok(Piece::Nothing),
                b':' => return self.closed(start, |parser| parser.choice(false)),
                _ => {
                    let why = "no kind of group begins so";
                    return Err(PatternError::malformed(self.at - 1, why));
                }
            }
        }
        Err(PatternError::malformed(start, "this group is not closed"))
    }

    /// What PCRE has and neither way of matching takes.
    fn refused(&self, start: usize) -> Option<PatternError> {
        let rest = &self.text[self.at..];
        let (first, second) = (rest.first().copied()?, rest.get(1).copied().unwrap_or(0));
        let what = match first {
            b'(' => "a condition inside of a pattern",
            b'C' => "a callout",
            b'R' | b'&' | b'0'..=b'9' => "a recursion",
            b'P' if second == b'>' => "a recursion",
            b'+' | b'-' if second.is_ascii_digit() => "a recursion",
            b'J' => "`(?J)`, groups that share a name",
            b'*' => "a look around that is not atomic",
            _ => return None,
        };
        Some(PatternError::unsupported(start, what))
    }

    /// `(*…`: all are refused, by name.
    fn verb(&self) -> PatternError {
        let rest = &self.text[self.at + 2..];
        let is_word =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'=' | b':');
        let end = rest
            .iter()
            .position(|byte| !is_word(byte))
            .unwrap_or(rest.len());
        let word = String::from_utf8_lossy(&rest[..end]).into_owned();
        match word.as_str() {
            "" => PatternError::malformed(self.at + 1, "there is nothing to repeat"),
            "UTF8" | "UTF" | "UCP" => PatternError::unsupported(
                self.at,
                alloc::format!("`(*{word})` (patterns read bytes, not characters)"),
            ),
            _ => PatternError::unsupported(self.at, alloc::format!("the verb `(*{word})`")),
        }
    }

    /// A name up to `closing`.
    pub(super) fn name(&mut self, closing: u8) -> Result<String, PatternError> {
        let start = self.at;
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let end = self.text[start..].iter().position(|byte| !is_word(byte));
        let end = end.map_or(self.text.len(), |end| start + end);
        let name = &self.text[start..end];
        let starts_well = name.first().is_some_and(|first| !first.is_ascii_digit());
        if !starts_well || name.len() > 32 || self.text.get(end) != Some(&closing) {
            let why = "a name has up to 32 letters, digits and `_`, and begins with no digit";
            return Err(PatternError::malformed(start, why));
        }
        self.at = end + 1;
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// A back reference that stands at `start`.
    pub(super) fn back(&mut self, start: usize, target: Target) -> Node {
        self.targets.push((start, target.clone()));
        Node::Back {
            target,
            folded: self.flags.folds,
        }
    }
}

/// `\R`: the end of a line, however it is written, taken whole.
pub(super) fn line_end() -> Node {
    let mut single = ByteSet::EMPTY;
    single.add_range(0x0a, 0x0d);
    single.add(0x85);
    let both = Node::Sequence(vec![Node::Byte(b'\r'), Node::Byte(b'\n')]);
    Node::Atomic(Box::new(Node::Choice(vec![both, Node::Set(single)])))
}
