//! The house rules that can be checked automatically (those marked ✓ in CONTRIBUTING.md). rustfmt and clippy check
//! others.

mod cycles;
mod documents;
mod floors;
mod links;
mod proven;
mod rust;
mod scan;
mod source;
mod test_code;
mod words;

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
    /// What was found, and what the rule requires.
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

/// Checks the repository and prints all breaches. Returns whether there are none.
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

/// Prints the import cycles of all packages. With `BLESS` in the environment it lowers their ceilings. True if no
/// package exceeds its ceiling.
pub fn print_cycles(root: &Path) -> bool {
    let done = source::read_all(root)
        .map_err(|error| error.to_string())
        .and_then(|mut sources| {
            if std::env::var_os("BLESS").is_some() {
                let text = cycles::lowered(&sources)?;
                let path = root.join(cycles::CEILINGS);
                std::fs::write(path, text).map_err(|error| error.to_string())?;
                sources = source::read_all(root).map_err(|error| error.to_string())?;
            }
            print!("{}", cycles::table(&sources));
            let breaches = cycles::check(&sources);
            for breach in &breaches {
                println!("{breach}");
            }
            Ok(breaches.is_empty())
        });
    done.unwrap_or_else(|error| {
        eprintln!("{error}");
        false
    })
}

/// Prints how often each phrase of the glossary occurs, and the locations of those above a ceiling. With `BLESS` in the
/// environment it lowers the ceilings to the counts. True if no count exceeds its ceiling.
pub fn print_words(root: &Path) -> bool {
    let sources = match source::read_all(root) {
        Ok(sources) => sources,
        Err(error) => {
            eprintln!("{}: {error}", root.display());
            return false;
        }
    };
    if std::env::var_os("BLESS").is_some() {
        let lowered = words::lowered(&sources).and_then(|text| {
            std::fs::write(root.join(words::CEILINGS), text).map_err(|e| e.to_string())
        });
        if let Err(error) = lowered {
            eprintln!("{}: {error}", words::CEILINGS);
            return false;
        }
        return print_words_of(&source::read_all(root).unwrap_or_default());
    }
    print_words_of(&sources)
}

/// Prints the locations of the glossary's phrases in one context.
pub fn print_occurrences(root: &Path, context: &str) -> bool {
    let found = source::read_all(root).map_err(|error| error.to_string());
    match found.and_then(|sources| words::occurrences(&sources, context)) {
        Ok(lines) => {
            print!("{lines}");
            true
        }
        Err(error) => {
            eprintln!("{error}");
            false
        }
    }
}

fn print_words_of(sources: &[Source]) -> bool {
    match words::table(sources) {
        Ok(table) => print!("{table}"),
        Err(error) => println!("{error}"),
    }
    let breaches = words::check(sources);
    for breach in &breaches {
        println!("{breach}");
    }
    breaches.is_empty()
}

/// All breaches in a repository of these files, sorted.
fn check(sources: &[Source]) -> Vec<Breach> {
    let mut breaches = floors::check(sources);
    breaches.extend(documents::check(sources));
    breaches.extend(links::check(sources));
    breaches.extend(words::check(sources));
    breaches.extend(proven::check(sources));
    breaches.extend(cycles::check(sources));
    breaches.extend(test_code::check_programs(sources));
    breaches.extend(test_code::check_doctests(sources));
    for source in sources {
        breaches.extend(documents::check_places(source));
        if source.path.ends_with(".rs") {
            breaches.extend(rust::check(source));
            breaches.extend(test_code::check_pauses(source));
        }
    }
    breaches.sort();
    breaches
}
