//! The syntax tree that `parse` builds from a Caddyfile and `lower` translates to the model.
//!
//! Imports, arguments and environment variables are already expanded. Whether a directive exists and what it means is
//! decided in `lower`.

use sluice_diag::{Diagnostic, ImportId, Place, Span};

/// A whole configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// The global options block, if there is one.
    pub global: Option<Block>,
    /// The routes that `invoke` calls by name, in file order.
    pub named_routes: Vec<NamedRoute>,
    /// The sites, in file order.
    pub sites: Vec<Site>,
}

/// Lines between braces that belong to no directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The lines.
    pub body: Vec<Directive>,
    /// From the opening to the closing brace.
    pub span: Span,
}

/// `&(name) { … }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRoute {
    /// The text is the bare name, the span covers `&(name)`.
    pub name: Token,
    /// The lines.
    pub body: Vec<Directive>,
    /// From the name to the closing brace.
    pub span: Span,
}

/// One site block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The addresses, without the commas between them; at least one.
    pub addresses: Vec<Token>,
    /// The lines, named matchers (`@name …`) among them in their order.
    pub body: Vec<Directive>,
    /// From the first address to the closing brace, or to the last word of a file without braces.
    pub span: Span,
}

/// One line: a directive, a subdirective, an option, a matcher; its meaning depends on its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The first word.
    pub name: Token,
    /// The words behind it on the line, the opening brace excepted.
    pub args: Vec<Token>,
    /// The lines between braces; `Some` of nothing for an empty block.
    pub block: Option<Vec<Directive>>,
    /// From the first word to the last one, or to the closing brace.
    pub span: Span,
}

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The text with quotes and escapes resolved.
    pub text: String,
    /// Where it was written: inside the snippet or imported file, if it came from one.
    pub span: Span,
    /// How it was written.
    pub quote: Quote,
    /// The innermost import that brought it in.
    pub import: Option<ImportId>,
}

/// How a token was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quote {
    /// Without quotes.
    None,
    /// Between double quotes.
    Double,
    /// Between backticks.
    Backtick,
    /// As a heredoc.
    Heredoc,
}

impl Directive {
    /// The span of the words, without the block: what a message about the whole line underlines.
    pub fn line_span(&self) -> Span {
        self.args
            .iter()
            .fold(self.name.span, |span, arg| span.to(arg.span))
    }

    /// Where the words were written, without the block.
    pub fn place(&self) -> Place {
        Place {
            span: self.line_span(),
            import: self.name.import,
        }
    }

    /// The lines of the block; none if there is no block.
    pub fn lines(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}

impl Token {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Where it was written.
    pub fn place(&self) -> Place {
        Place {
            span: self.span,
            import: self.import,
        }
    }

    /// Whether this is the bare word `word`; a quoted one is not.
    pub fn is_bare(&self, word: &str) -> bool {
        self.quote == Quote::None && self.text == word
    }

    /// An error at this word, with the import chain that led to it.
    pub fn error(
        &self,
        slug: &'static str,
        title: impl Into<String>,
        label: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic::error(slug, title)
            .at(self.span, label)
            .imported(self.import)
    }

    /// A warning at this word, with the import chain that led to it.
    pub fn warning(
        &self,
        slug: &'static str,
        title: impl Into<String>,
        label: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic::warning(slug, title)
            .at(self.span, label)
            .imported(self.import)
    }
}
