//! Location lookup. Exact and longest prefix matches come first, then nested locations, then, unless the prefix
//! location forbids it (`^~`), regular expressions in order.

use std::collections::{HashMap, HashSet};

use sluice_route::Provenance;

use super::explained::quoted;
use super::groups::Pattern;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;

/// The locations of a server or nested in a location, by index.
#[derive(Debug, Default)]
pub struct Locations {
    exact: HashMap<Box<[u8]>, u32>,
    /// Prefix locations, sorted by path.
    prefixes: Vec<Prefix>,
    /// Paths that a request gets a trailing slash for, as a location has it.
    with_slash: HashSet<Box<[u8]>>,
    patterns: Vec<(Pattern, u32)>,
}

#[derive(Debug)]
struct Prefix {
    path: Box<[u8]>,
    location: u32,
    /// `^~`: regular expressions are not tried.
    is_final: bool,
    /// The longest other prefix of this path.
    shorter: Option<u32>,
}

/// How a location matches paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Exact,
    Beginning,
    FinalBeginning,
    Pattern,
    Name,
}

impl How {
    /// Parses the modifier of a location.
    pub fn of(modifier: &str) -> How {
        match modifier {
            "=" => How::Exact,
            "^~" => How::FinalBeginning,
            "~" | "~*" => How::Pattern,
            "@" => How::Name,
            _ => How::Beginning,
        }
    }

    /// Why the location was chosen, for `explain`.
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

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// This location.
    Location(u32),
    /// The path lacks the trailing slash of a location.
    NeedsSlash,
    /// No location.
    Nothing,
}

/// The result of a lookup by path.
enum ByPath {
    /// An exact match: nothing else is tried.
    Whole(u32),
    /// A prefix match.
    Beginning {
        location: u32,
        is_final: bool,
    },
    NeedsSlash,
    Nothing,
}

impl Locations {
    /// Adds a location for exactly this path.
    pub fn add_exact(&mut self, path: &[u8], location: u32) {
        self.exact.insert(path.into(), location);
    }

    /// Adds a prefix location.
    pub fn add_prefix(&mut self, path: &[u8], location: u32, is_final: bool) {
        self.prefixes.push(Prefix {
            path: path.into(),
            location,
            is_final,
            shorter: None,
        });
    }

    /// Redirects requests for this path without its trailing slash, unless there is a location for exactly that path.
    pub fn add_slash(&mut self, path: &[u8]) {
        if let Some(bare) = path.strip_suffix(b"/") {
            self.with_slash.insert(bare.into());
        }
    }

    /// Adds a regular expression location.
    pub fn add_pattern(&mut self, pattern: Pattern, location: u32) {
        self.patterns.push((pattern, location));
    }

    /// Sorts and links the prefixes; call once after all locations were added.
    pub fn finish(&mut self) {
        self.prefixes.sort_by(|a, b| a.path.cmp(&b.path));
        for index in 0..self.prefixes.len() {
            let (before, rest) = self.prefixes.split_at_mut(index);
            let this = &mut rest[0];
            // Prefixes of this path precede it, and `shorter` leads from each to the next.
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

    /// Whether there are no locations.
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
        let mut at = after.checked_sub(1);
        // A location for the path itself precedes one for the path with a slash.
        if !self.with_slash.is_empty()
            && self.with_slash.contains(path)
            && at.is_none_or(|at| *self.prefixes[at].path != *path)
        {
            return ByPath::NeedsSlash;
        }
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

    /// The location of a path; `inside` returns the locations nested in another.
    pub fn find<'l>(
        &'l self,
        exchange: &mut Exchange,
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
                    match nested.find(exchange, path, inside)? {
                        Found::Nothing => {}
                        // A nested exact or regular expression match is final; after a longer nested prefix the
                        // outer regular expressions are still tried.
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
            if pattern.matches(exchange, path, Provenance::Path)? {
                let nested = inside(*location);
                return match nested.is_empty() {
                    true => Ok(Found::Location(*location)),
                    false => match nested.find(exchange, path, inside)? {
                        Found::Nothing => Ok(Found::Location(*location)),
                        inner => Ok(inner),
                    },
                };
            }
        }
        Ok(found)
    }

    /// Whether `found` is a prefix location of `self`.
    fn is_beginning(&self, path: &[u8], found: Found) -> bool {
        match (self.by_path(path), found) {
            (ByPath::Beginning { location, .. }, Found::Location(found)) => location == found,
            _ => false,
        }
    }
}
