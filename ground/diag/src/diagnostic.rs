//! A diagnostic: one error or warning with its labels, notes and help.
//!
//! `render` formats it for a terminal.

use alloc::string::String;
use alloc::vec::Vec;

use crate::source::{ImportId, Span};

/// Whether the configuration is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// The configuration is accepted, and does something the author should know.
    Warning,
}

/// A span with the few words that stand under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// What is underlined.
    pub span: Span,
    /// What we saw there; may be empty.
    pub text: String,
}

/// One message about a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the configuration is refused.
    pub severity: Severity,
    /// The stable name in brackets, which `sluice explain` takes.
    pub slug: &'static str,
    /// Stands alone and names the thing.
    pub title: String,
    /// Where it is; none for mistakes without a place, such as a missing main file.
    pub primary: Option<Label>,
    /// Other places that explain it, such as the first of two definitions.
    pub secondary: Vec<Label>,
    /// The import through which the primary place was reached.
    pub import: Option<ImportId>,
    /// Further facts, one line each.
    pub notes: Vec<String>,
    /// What to type instead, one line each.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// A mistake that refuses the configuration.
    pub fn error(slug: &'static str, title: impl Into<String>) -> Self {
        Diagnostic::new(Severity::Error, slug, title.into())
    }

    /// Something the author should know.
    pub fn warning(slug: &'static str, title: impl Into<String>) -> Self {
        Diagnostic::new(Severity::Warning, slug, title.into())
    }

    fn new(severity: Severity, slug: &'static str, title: String) -> Self {
        Diagnostic {
            severity,
            slug,
            title,
            primary: None,
            secondary: Vec::new(),
            import: None,
            notes: Vec::new(),
            help: Vec::new(),
        }
    }

    /// Points at the place and says what we saw there.
    pub fn at(mut self, span: Span, label: impl Into<String>) -> Self {
        self.primary = Some(Label {
            span,
            text: label.into(),
        });
        self
    }

    /// Names the import through which the place was reached.
    pub fn imported(mut self, import: Option<ImportId>) -> Self {
        self.import = import;
        self
    }

    /// Points at another place that explains this one.
    pub fn also(mut self, span: Span, label: impl Into<String>) -> Self {
        self.secondary.push(Label {
            span,
            text: label.into(),
        });
        self
    }

    /// Adds a fact.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Says what to type.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Offers `guess`, if there is one: ``did you mean `…`?``
    pub fn did_you_mean(self, guess: Option<&str>) -> Self {
        match guess {
            Some(guess) => self.help(alloc::format!("did you mean `{guess}`?")),
            None => self,
        }
    }
}
