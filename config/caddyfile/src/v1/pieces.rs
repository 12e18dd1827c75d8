//! Building blocks of a translated site: words and lines that point at their source.

use crate::tree::{Directive, Quote, Token};

/// A directive of the new language with what belongs in front of it.
pub(super) struct Piece {
    /// Comments, one line each.
    pub comments: Vec<String>,
    /// The named matchers that it uses.
    pub matchers: Vec<Directive>,
    /// The directive.
    pub line: Directive,
}

impl Piece {
    /// Whether it means the same wherever it stands among the others, unless paths are rewritten.
    pub fn is_free(&self) -> bool {
        matches!(self.line.name.text.as_str(), "header" | "encode")
    }

    /// Whether it is for all requests.
    pub fn is_unconditional(&self) -> bool {
        let first = self.line.args.first();
        self.matchers.is_empty() && first.is_none_or(|word| !word.text.starts_with(['/', '@']))
    }

    /// Whether it changes the path that later directives see.
    pub fn rewrites(&self) -> bool {
        ["rewrite", "try_files", "uri"].contains(&self.line.name.text.as_str())
    }
}

/// A word made from another.
pub(super) fn word(text: impl Into<String>, from: &Token) -> Token {
    Token {
        text: text.into(),
        span: from.span,
        quote: Quote::None,
        import: from.import,
    }
}

/// A line made from a word.
pub(super) fn line<S: Into<String>>(
    from: &Token,
    name: &str,
    args: impl IntoIterator<Item = S>,
) -> Directive {
    Directive {
        name: word(name, from),
        args: args.into_iter().map(|arg| word(arg, from)).collect(),
        block: None,
        span: from.span,
    }
}

/// A line of the same words under another name.
pub(super) fn renamed(old: &Directive, name: &str) -> Directive {
    Directive {
        name: word(name, &old.name),
        block: None,
        ..old.clone()
    }
}

/// A line without words behind its name.
pub(super) fn bare(from: &Token, name: &str) -> Directive {
    line(from, name, [""; 0])
}

/// A line with a block.
pub(super) fn block<S: Into<String>>(
    from: &Token,
    name: &str,
    args: impl IntoIterator<Item = S>,
    lines: Vec<Directive>,
) -> Directive {
    Directive {
        block: Some(lines),
        ..line(from, name, args)
    }
}

/// The path matcher for an old path, which is a prefix; `None` if that is every path.
pub(super) fn prefix(path: &str) -> Option<String> {
    match path {
        "" | "/" => None,
        path if path.starts_with('/') => Some(format!("{path}*")),
        path => Some(format!("/{path}*")),
    }
}

/// A text as a regular expression that matches it and nothing else.
pub(super) fn escape_regexp(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
