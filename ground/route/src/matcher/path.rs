//! The `path` matcher: exact paths, prefixes, suffixes, substrings and globs, case-insensitive. `crate::path`
//! normalizes paths; patterns with `%` are in `escaped`.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use sluice_message::Uri;

use super::escaped::EscapedPattern;
use super::{Input, MatcherError};
use crate::glob::Glob;
use crate::path::{Case, Slashes, fold, normalize};
use crate::placeholder::{Template, Unknown};
use crate::router::PathKey;

/// Path patterns, one of which has to match.
#[derive(Clone, Debug)]
pub struct PathMatcher {
    /// The patterns that nearly all are: for paths with their slashes merged.
    merged: Vec<Test>,
    others: Vec<Pattern>,
    key: Option<Vec<PathKey>>,
}

#[derive(Clone, Debug)]
enum Pattern {
    Fixed(Slashes, Test),
    Escaped(Slashes, EscapedPattern),
    Dynamic(Form, Template),
}

/// A test of the normal form of a path.
#[derive(Clone, Debug)]
enum Test {
    Any,
    Exact(Box<[u8]>),
    Prefix(Box<[u8]>),
    Suffix(Box<[u8]>),
    Substring(Box<[u8]>),
    Glob(Glob),
}

/// What the stars of a pattern make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Any,
    Prefix,
    Suffix,
    Substring,
    Glob,
    Escaped,
}

impl Form {
    /// A star at one end and nowhere else makes a prefix or suffix, stars at both ends and nowhere
    /// else a substring; those may span slashes, and all else is a glob. A `%` asks for the path as
    /// it was sent.
    fn of(pattern: &str, plain: &[u8]) -> Form {
        let stars = plain.iter().filter(|&&byte| byte == b'*').count();
        match (stars, pattern.starts_with('*'), pattern.ends_with('*')) {
            _ if pattern == "*" => Form::Any,
            _ if plain.contains(&b'%') => Form::Escaped,
            (2, true, true) => Form::Substring,
            (1, true, _) => Form::Suffix,
            (1, _, true) => Form::Prefix,
            _ => Form::Glob,
        }
    }

    /// The pattern without the stars that made its form.
    fn trim(self, pattern: &str) -> &str {
        match self {
            Form::Prefix => &pattern[..pattern.len() - 1],
            Form::Suffix => &pattern[1..],
            Form::Substring => &pattern[1..pattern.len() - 1],
            Form::Any | Form::Glob | Form::Escaped => pattern,
        }
    }
}

impl PathMatcher {
    /// Compiles `patterns`.
    pub fn new<S: AsRef<str>>(patterns: &[S]) -> Result<PathMatcher, MatcherError> {
        let compiled = patterns
            .iter()
            .map(|pattern| Pattern::new(pattern.as_ref()));
        let compiled = compiled.collect::<Result<Vec<_>, _>>()?;
        let key = compiled.iter().map(Pattern::key).collect();
        let (mut merged, mut others) = (Vec::new(), Vec::new());
        for pattern in compiled {
            match pattern {
                Pattern::Fixed(Slashes::Merge, test) => merged.push(test),
                other => others.push(other),
            }
        }
        Ok(PathMatcher {
            merged,
            others,
            key,
        })
    }

    /// Whether the request's path matches.
    pub fn matches(&self, input: &Input<'_>) -> bool {
        let path = input.head.uri.path();
        let merged = !self.merged.is_empty()
            && input.scratch.with_buf(|buf| {
                let path = normalize(path, Slashes::Merge, Case::Fold, buf);
                self.merged.iter().any(|test| test.matches(path))
            });
        merged
            || self.others.iter().any(|pattern| match pattern {
                Pattern::Fixed(slashes, test) => input
                    .scratch
                    .with_buf(|buf| test.matches(normalize(path, *slashes, Case::Fold, buf))),
                Pattern::Escaped(slashes, pattern) => matches_escaped(pattern, *slashes, input),
                Pattern::Dynamic(form, template) => matches_dynamic(*form, template, input),
            })
    }

    /// The paths as the route index takes them; `None` if any path may match.
    pub(crate) fn key(&self) -> Option<Vec<PathKey>> {
        self.key.clone()
    }
}

impl Pattern {
    fn new(pattern: &str) -> Result<Pattern, MatcherError> {
        let template =
            Template::parse(pattern).map_err(|e| MatcherError::Template(pattern.into(), e))?;
        let refuse = |error| MatcherError::Glob(pattern.into(), error);
        let Some(text) = template.literal() else {
            let plain: Vec<u8> = template.plain_bytes().collect();
            let form = Form::of(pattern, &plain);
            let trimmed = Template::parse(form.trim(pattern));
            return Ok(Pattern::Dynamic(
                form,
                trimmed.map_err(|e| MatcherError::Template(pattern.into(), e))?,
            ));
        };
        let mut folded = text.to_vec();
        fold(&mut folded);
        let text = String::from_utf8(folded).expect("folding keeps text valid");
        let slashes = slashes_of(text.as_bytes());
        let form = Form::of(&text, text.as_bytes());
        let trimmed: Box<[u8]> = form.trim(&text).as_bytes().into();
        Ok(Pattern::Fixed(
            slashes,
            match form {
                Form::Any => Test::Any,
                Form::Prefix => Test::Prefix(trimmed),
                Form::Suffix => Test::Suffix(trimmed),
                Form::Substring => Test::Substring(trimmed),
                Form::Glob if !text.contains(['*', '?', '[', '\\']) => Test::Exact(trimmed),
                Form::Glob => Test::Glob(Glob::parse(&text).map_err(refuse)?),
                Form::Escaped => {
                    return Ok(Pattern::Escaped(
                        slashes,
                        EscapedPattern::parse(&text).map_err(refuse)?,
                    ));
                }
            },
        ))
    }

    fn key(&self) -> Option<PathKey> {
        match self {
            Pattern::Fixed(Slashes::Merge, Test::Exact(path)) => Some(PathKey::Exact(path.clone())),
            Pattern::Fixed(Slashes::Merge, Test::Prefix(path)) => {
                Some(PathKey::Prefix(path.clone()))
            }
            Pattern::Fixed(..) | Pattern::Escaped(..) | Pattern::Dynamic(..) => None,
        }
    }
}

impl Test {
    fn matches(&self, path: &[u8]) -> bool {
        match self {
            Test::Any => true,
            Test::Exact(text) => path == text.as_ref(),
            Test::Prefix(text) => path.starts_with(text),
            Test::Suffix(text) => path.ends_with(text),
            Test::Substring(text) => memchr::memmem::find(path, text).is_some(),
            Test::Glob(glob) => glob.matches(path),
        }
    }
}

/// Slashes are merged in the path unless the pattern asks for a doubled one.
fn slashes_of(pattern: &[u8]) -> Slashes {
    match memchr::memmem::find(pattern, b"//") {
        Some(_) => Slashes::Keep,
        None => Slashes::Merge,
    }
}

fn matches_escaped(pattern: &EscapedPattern, slashes: Slashes, input: &Input<'_>) -> bool {
    input.scratch.with_buf(|buf| {
        pattern.matches(normalize(
            input.head.uri.path_raw(),
            slashes,
            Case::Fold,
            buf,
        ))
    })
}

/// Matches a pattern with placeholders. What makes it a pattern is the text of the configuration
/// alone: stars and brackets in values are ordinary characters, so a client cannot widen a pattern
/// by what it sends.
fn matches_dynamic(form: Form, template: &Template, input: &Input<'_>) -> bool {
    input.scratch.with_buf(|text| {
        template.expand_each(
            input.values,
            Unknown::Empty,
            text,
            |_, out, start| match form {
                Form::Glob => escape_glob(out, start),
                Form::Escaped => encode_value(out, start),
                Form::Any | Form::Prefix | Form::Suffix | Form::Substring => {}
            },
        );
        fold(text);
        let slashes = slashes_of(text);
        match form {
            Form::Glob => {
                let glob = core::str::from_utf8(text)
                    .ok()
                    .and_then(|text| Glob::parse(text).ok());
                input.scratch.with_buf(|buf| {
                    let path = normalize(input.head.uri.path(), slashes, Case::Fold, buf);
                    glob.is_some_and(|glob| glob.matches(path))
                })
            }
            Form::Escaped => {
                let pattern = core::str::from_utf8(text).ok().map(EscapedPattern::parse);
                pattern
                    .and_then(Result::ok)
                    .is_some_and(|p| matches_escaped(&p, slashes, input))
            }
            Form::Any | Form::Prefix | Form::Suffix | Form::Substring => {
                input.scratch.with_buf(|buf| {
                    let path = normalize(input.head.uri.path(), slashes, Case::Fold, buf);
                    match form {
                        Form::Prefix => path.starts_with(text),
                        Form::Suffix => path.ends_with(text),
                        Form::Substring => memchr::memmem::find(path, text).is_some(),
                        Form::Any | Form::Glob | Form::Escaped => true,
                    }
                })
            }
        }
    })
}

fn escape_glob(text: &mut Vec<u8>, start: usize) {
    let value = text.split_off(start);
    for byte in value {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
}

fn encode_value(text: &mut Vec<u8>, start: usize) {
    let value = text.split_off(start);
    let mut uri = Uri::default();
    uri.set_path(&value);
    // A star is plain in paths but would be a wildcard here.
    for &byte in uri.path_raw() {
        match byte {
            b'*' => text.extend_from_slice(b"%2a"),
            _ => text.push(byte),
        }
    }
}
