//! Regular expressions in nginx's syntax, which is PCRE on bytes. The callers choose the text to match and use the
//! groups; Go's syntax is in `regexp`.
//!
//! What can be matched in linear time is compiled to the `regex` crate. Only lookaround, backreferences and possessive
//! or atomic groups are matched by backtracking, and so are loops whose body may be empty (`(a*)*`), because engines
//! disagree about their groups. Backtracking ends at a limit, as in PCRE.

mod escape;
mod memo;
mod parse;
mod plain;
mod program;
mod property;
mod required;
mod run;
mod tree;

#[cfg(test)]
mod tests;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use regex::bytes::{Regex, RegexBuilder};

use crate::limits::{REGEX_BYTES_MAX, REGEX_CACHE_BYTES_MAX, REGEX_DEPTH_MAX};
use parse::Parsed;
use program::Program;
use tree::{Node, Place};

/// Why a text is not a valid pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    /// Where in the text, in bytes.
    pub at: usize,
    /// What is wrong there.
    pub what: Wrong,
}

/// What is wrong with a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// PCRE would not take it either; the text says why.
    Malformed(Cow<'static, str>),
    /// PCRE has it and this does not; the text names it.
    Unsupported(Cow<'static, str>),
}

impl PatternError {
    fn malformed(at: usize, why: impl Into<Cow<'static, str>>) -> PatternError {
        PatternError {
            at,
            what: Wrong::Malformed(why.into()),
        }
    }

    fn unsupported(at: usize, what: impl Into<Cow<'static, str>>) -> PatternError {
        PatternError {
            at,
            what: Wrong::Unsupported(what.into()),
        }
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Wrong::Malformed(why) => f.write_str(why),
            Wrong::Unsupported(what) => write!(f, "{what} is not supported"),
        }
    }
}

impl core::error::Error for PatternError {}

/// A match was looked for in so many ways that it was given up: `PATTERN_TRIES_MAX`, `PATTERN_BACKTRACKS_MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many ways to match")
    }
}

impl core::error::Error for Exhausted {}

/// Whether letters of both cases are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// They are not, unless the pattern says so.
    Kept,
    /// They are, unless the pattern says otherwise.
    Folded,
}

/// A compiled pattern.
///
/// It matches bytes, as PCRE does by default: `.`, `\w` and sets match one byte, and letters are ASCII letters. `$`
/// also matches before a line feed that is the last byte.
#[derive(Clone, Debug)]
pub struct Pattern {
    way: Way,
    groups: u32,
    names: Box<[(String, u32)]>,
}

/// How a pattern is matched.
#[derive(Clone, Debug)]
enum Way {
    /// In linear time.
    Linear(Regex),
    /// In linear time, but for texts that end with a line feed.
    LinearButLines(Regex, Box<Program>),
    /// Step by step.
    Steps(Box<Program>),
}

impl Pattern {
    /// Compiles `text`.
    pub fn new(text: &str, case: Case) -> Result<Pattern, PatternError> {
        let parsed = parse::parse(text.as_bytes(), case == Case::Folded)?;
        Ok(Pattern {
            way: Way::of(&parsed)?,
            groups: parsed.groups,
            names: parsed.names.into_boxed_slice(),
        })
    }

    /// How many groups it has, the whole match not counted.
    pub fn groups_count(&self) -> usize {
        self.groups as usize
    }

    /// The groups that have names.
    pub fn names(&self) -> impl Iterator<Item = (&str, usize)> {
        let names = self.names.iter();
        names.map(|(name, number)| (name.as_str(), *number as usize))
    }

    /// Whether it is matched in linear time, whatever the text.
    pub fn is_linear(&self) -> bool {
        !matches!(self.way, Way::Steps(_))
    }

    /// Whether `text` has a match. Texts of 4 GiB and more have none.
    pub fn is_match(&self, text: &[u8]) -> Result<bool, Exhausted> {
        match self.steps_for(text) {
            Err(regex) => Ok(regex.is_match(text)),
            Ok(_) if u32::try_from(text.len()).is_err() => Ok(false),
            Ok(program) => run::find(program, text, None),
        }
    }

    /// Finds the first match and writes where its groups begin and end, the whole match first; `into` is left as it was
    /// where there is none. Texts of 4 GiB and more match nothing.
    pub fn groups(
        &self,
        text: &[u8],
        into: &mut Vec<Option<(u32, u32)>>,
    ) -> Result<bool, Exhausted> {
        if u32::try_from(text.len()).is_err() {
            return Ok(false);
        }
        let regex = match self.steps_for(text) {
            Ok(program) => return run::find(program, text, Some(into)),
            Err(regex) => regex,
        };
        let Some(captures) = regex.captures(text) else {
            return Ok(false);
        };
        into.clear();
        let groups = captures.iter();
        into.extend(groups.map(|group| Some((group?.start() as u32, group?.end() as u32))));
        Ok(true)
    }

    fn steps_for(&self, text: &[u8]) -> Result<&Program, &Regex> {
        match &self.way {
            Way::Linear(regex) => Err(regex),
            Way::LinearButLines(_, program) if text.last() == Some(&b'\n') => Ok(program),
            Way::LinearButLines(regex, _) => Err(regex),
            Way::Steps(program) => Ok(program),
        }
    }
}

impl Way {
    fn of(parsed: &Parsed) -> Result<Way, PatternError> {
        let program = || Program::new(&parsed.node, parsed.groups, &parsed.names).map(Box::new);
        let is_odd = parsed.shares_numbers || parsed.node.has_circles();
        let plain = match is_odd {
            true => None,
            false => plain::write(&parsed.node),
        };
        // What is too large for the automaton may still be small as steps.
        match plain.and_then(|plain| build(&plain)) {
            None => program().map(Way::Steps),
            Some(regex) if has_last_end(&parsed.node) => Ok(Way::LinearButLines(regex, program()?)),
            Some(regex) => Ok(Way::Linear(regex)),
        }
    }
}

fn build(plain: &str) -> Option<Regex> {
    RegexBuilder::new(plain)
        .unicode(false)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_CACHE_BYTES_MAX)
        // Sequences and sets nest in what was written, a few levels for each group.
        .nest_limit(REGEX_DEPTH_MAX * 4)
        .build()
        .ok()
}

/// Whether there is a `$` or `\Z` in it, which also hold before a last line feed.
fn has_last_end(node: &Node) -> bool {
    match node {
        Node::At(place) => *place == Place::LastEnd,
        Node::Sequence(nodes) | Node::Choice(nodes) => nodes.iter().any(has_last_end),
        Node::Group(_, node) | Node::Atomic(node) => has_last_end(node),
        Node::Repeat { node, .. } | Node::Look { node, .. } => has_last_end(node),
        Node::Empty | Node::Byte(_) | Node::Set(_) | Node::Back { .. } | Node::Keep => false,
    }
}
