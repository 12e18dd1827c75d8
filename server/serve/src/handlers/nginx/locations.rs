//! Which location a path is for. Of the locations with a path the one that has it whole or the longest beginning of it is
//! looked at first, then those inside of it, then, unless that forbids it, the patterns in their order.

use std::collections::HashMap;

use sluice_route::Provenance;

use super::explained::quoted;
use super::groups::Pattern;
use crate::context::Exchange;
use crate::failure::Fault;

/// The locations of a server or of a location, by number.
#[derive(Debug, Default)]
pub struct Locations {
    exact: HashMap<Box<[u8]>, u32>,
    /// Those whose path is the beginning of others', sorted.
    prefixes: Vec<Prefix>,
    patterns: Vec<(Pattern, u32)>,
}

#[derive(Debug)]
struct Prefix {
    path: Box<[u8]>,
    location: u32,
    /// No patterns are looked at.
    is_final: bool,
    /// A request for the path without its last slash is redirected.
    adds_slash: bool,
    /// The longest other one that this one begins with.
    shorter: Option<u32>,
}

/// How a location compares paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Exact,
    Beginning,
    FinalBeginning,
    Pattern,
    Name,
}

impl How {
    /// Reads the modifier of a location.
    pub fn of(modifier: &str) -> How {
        match modifier {
            "=" => How::Exact,
            "^~" => How::FinalBeginning,
            "~" | "~*" => How::Pattern,
            "@" => How::Name,
            _ => How::Beginning,
        }
    }

    /// Why it was chosen for a path.
    pub fn words(self, path: &[u8]) -> String {
        let path = quoted(path);
        match self {
            How::Exact => format!("its path is {path}, no other is looked at"),
            How::Beginning => {
                format!("no longer path begins {path}, and no pattern that is asked matches")
            }
            How::FinalBeginning => format!("no longer path begins {path}, and no pattern is asked"),
            How::Pattern => format!("the first pattern that matches {path}"),
            How::Name => "the request is sent here by name".to_owned(),
        }
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// This location.
    Location(u32),
    /// The path lacks the slash at its end.
    NeedsSlash,
    /// None.
    Nothing,
}

/// What a search among paths found.
enum ByPath {
    /// The whole path: nothing else is looked at.
    Whole(u32),
    /// A beginning of it.
    Beginning {
        location: u32,
        is_final: bool,
    },
    NeedsSlash,
    Nothing,
}

impl Locations {
    /// Adds one for exactly this path.
    pub fn add_exact(&mut self, path: &[u8], location: u32) {
        self.exact.insert(path.into(), location);
    }

    /// Adds one for all paths that begin so.
    pub fn add_prefix(&mut self, path: &[u8], location: u32, is_final: bool, adds_slash: bool) {
        self.prefixes.push(Prefix {
            path: path.into(),
            location,
            is_final,
            adds_slash,
            shorter: None,
        });
    }

    /// Adds one for paths that match.
    pub fn add_pattern(&mut self, pattern: Pattern, location: u32) {
        self.patterns.push((pattern, location));
    }

    /// To be called once after all were added.
    pub fn finish(&mut self) {
        self.prefixes.sort_by(|a, b| a.path.cmp(&b.path));
        for index in 0..self.prefixes.len() {
            let (before, rest) = self.prefixes.split_at_mut(index);
            let this = &mut rest[0];
            // Whatever begins this path stands before it, and on the way from there all begin so.
            let mut at = index.checked_sub(1).and_then(|at| u32::try_from(at).ok());
            while let Some(candidate) = at {
                let candidate = &before[candidate as usize];
                if this.path.starts_with(&candidate.path) {
                    break;
                }
                at = candidate.shorter;
            }
            this.shorter = at;
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.is_empty() && self.patterns.is_empty()
    }

    fn by_path(&self, path: &[u8]) -> ByPath {
        if !self.exact.is_empty()
            && let Some(location) = self.exact.get(path)
        {
            return ByPath::Whole(*location);
        }
        let after = self
            .prefixes
            .partition_point(|prefix| *prefix.path <= *path);
        // The one that lacks a slash at its end follows in order.
        let next = self.prefixes.get(after);
        if next.is_some_and(|next| next.adds_slash && next.path.strip_suffix(b"/") == Some(path)) {
            return ByPath::NeedsSlash;
        }
        let mut at = after.checked_sub(1);
        while let Some(index) = at {
            let prefix = &self.prefixes[index];
            if path.starts_with(&prefix.path) {
                return ByPath::Beginning {
                    location: prefix.location,
                    is_final: prefix.is_final,
                };
            }
            at = prefix.shorter.map(|shorter| shorter as usize);
        }
        ByPath::Nothing
    }

    /// The location of a path; `inside` gives those inside of a location.
    pub fn find<'l>(
        &'l self,
        x: &mut Exchange,
        path: &[u8],
        inside: &dyn Fn(u32) -> &'l Locations,
    ) -> Result<Found, Fault> {
        let (mut found, mut is_final) = (Found::Nothing, false);
        match self.by_path(path) {
            ByPath::Whole(location) => return Ok(Found::Location(location)),
            ByPath::NeedsSlash => return Ok(Found::NeedsSlash),
            ByPath::Nothing => {}
            ByPath::Beginning {
                location,
                is_final: ends,
            } => {
                found = Found::Location(location);
                is_final = ends;
                let nested = inside(location);
                if !nested.is_empty() {
                    match nested.find(x, path, inside)? {
                        Found::Nothing => {}
                        // What was found inside by a pattern or as a whole counts; a longer beginning
                        // still leaves the patterns around to be asked.
                        inner => {
                            if !nested.is_beginning(path, inner) {
                                return Ok(inner);
                            }
                            found = inner;
                        }
                    }
                }
            }
        }
        if is_final {
            return Ok(found);
        }
        for (pattern, location) in &self.patterns {
            if pattern.matches(x, path, Provenance::Path)? {
                let nested = inside(*location);
                return match nested.is_empty() {
                    true => Ok(Found::Location(*location)),
                    false => match nested.find(x, path, inside)? {
                        Found::Nothing => Ok(Found::Location(*location)),
                        inner => Ok(inner),
                    },
                };
            }
        }
        Ok(found)
    }

    /// Whether `found` is a location of ours that was found by the beginning of the path.
    fn is_beginning(&self, path: &[u8], found: Found) -> bool {
        match (self.by_path(path), found) {
            (ByPath::Beginning { location, .. }, Found::Location(found)) => location == found,
            _ => false,
        }
    }
}
