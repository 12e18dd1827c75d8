//! The house rules that a program can check (those marked ✓ in CONTRIBUTING.md). rustfmt and clippy check others.

mod documents;
mod floors;
mod rust;
mod scan;
mod source;

use std::fmt;
use std::path::Path;

pub use source::Source;

/// One breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breach {
    /// Path below the repository's folder.
    pub path: String,
    /// Line, from 1; 0 for the whole file.
    pub line: usize,
    /// The rule.
    pub rule: &'static str,
    /// What was found and what the rule wants.
    pub message: String,
}

impl Breach {
    /// A breach at a line of a file.
    pub fn new(path: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Self {
        Breach {
            path: path.into(),
            line,
            rule,
            message: message.into(),
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {} [{}]",
            self.path, self.line, self.message, self.rule
        )
    }
}

/// Checks the repository, prints what breaks the rules and tells whether nothing does.
pub fn print(root: &Path) -> bool {
    let sources = match source::read_all(root) {
        Ok(sources) => sources,
        Err(error) => {
            eprintln!("{}: {error}", root.display());
            return false;
        }
    };
    let breaches = check(&sources);
    for breach in &breaches {
        println!("{breach}");
    }
    println!("tidy: {} files, {} breaches", sources.len(), breaches.len());
    breaches.is_empty()
}

/// All breaches in a repository of these files, in order.
fn check(sources: &[Source]) -> Vec<Breach> {
    let mut breaches = floors::check(sources);
    breaches.extend(documents::check(sources));
    for source in sources {
        breaches.extend(documents::check_places(source));
        if source.path.ends_with(".rs") {
            breaches.extend(rust::check(source));
        }
    }
    breaches.sort();
    breaches
}
