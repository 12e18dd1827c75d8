//! The syntax tree of a file: directives with their arguments, and nested blocks.

use sluice_diag::{ImportId, Place, Span};

/// A word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// What it says, without quotes and escapes.
    pub text: String,
    /// Where it stands, quotes included.
    pub span: Span,
    /// The innermost include that brought it in.
    pub import: Option<ImportId>,
}

/// A directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Its name.
    pub name: Word,
    /// Its arguments.
    pub args: Vec<Word>,
    /// What stands between its braces, if it has any.
    pub block: Option<Vec<Directive>>,
}

impl Directive {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name.text
    }

    /// Its words, from the name to the last.
    pub fn span(&self) -> Span {
        match self.args.last() {
            Some(last) => self.name.span.to(last.span),
            None => self.name.span,
        }
    }

    /// Where it was written.
    pub fn place(&self) -> Place {
        Place {
            span: self.span(),
            import: self.name.import,
        }
    }

    /// The word at `index`, its name not counted.
    pub fn arg(&self, index: usize) -> Option<&str> {
        self.args.get(index).map(|word| word.text.as_str())
    }

    /// The directives in its block.
    pub fn body(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}
