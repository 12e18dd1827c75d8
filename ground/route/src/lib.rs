//! Matchers, placeholders and rewrites: a request head goes in, the selected route comes out. `sluice-serve` runs the
//! route, and also provides the values that are not in the head (time, environment, files).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod glob;
pub mod limits;
pub mod matcher;
pub mod named_regexp;
pub mod path;
pub mod pcre;
pub mod placeholder;
pub mod query;
pub mod regexp;
pub mod rewrite;

pub mod router;
pub mod scratch;
pub mod table;
pub mod uuid;
pub mod values;

pub use matcher::{Input, Matcher, MatcherError, MatcherSet, MatcherSets, Refusal};
pub use placeholder::{
    Found, Key, Kind, Provenance, Template, TemplateError, UnfitPath, Unknown, Values,
};

pub use rewrite::{QueryOps, Rewrite, RewriteError};
pub use router::{RouteIndex, RouteKey};
pub use scratch::Scratch;
pub use values::RequestValues;
