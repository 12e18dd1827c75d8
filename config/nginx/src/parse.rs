//! Builds the tree from words, and resolves includes. Parsing never stops at the first mistake. `check` decides what is
//! allowed where.

use std::io::ErrorKind;

use sluice_caddyfile::{Loader, MemoryLoader};
use sluice_diag::{Diagnostic, ImportId, ImportStep, Label, Report, Span};

use crate::builtin;
use crate::glob;
use crate::hint::hint;
use crate::lex::{LexError, Lexer, Token};
use crate::limits::{BLOCK_DEPTH_MAX, INCLUDE_DEPTH_MAX, INCLUDES_MAX, WORD_BYTES_MAX, WORDS_MAX};
use crate::registry;
use crate::tree::{Directive, Word};

/// What [`parse`] made of a text.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The directives of the main context; what could not be read is missing, and the report says why.
    pub directives: Vec<Directive>,
    /// The mistakes found, and the texts they point into.
    pub report: Report,
    /// Directives that may lack a semicolon.
    pub continued: Vec<Continued>,
}

/// A directive of which a line behind the first begins with the name of a directive: either an argument of that name,
/// which is valid, or a missing semicolon.
#[derive(Clone, Debug)]
pub struct Continued {
    /// The words of the directive.
    directive: Span,
    /// The word that begins the line.
    word: Word,
}

impl Continued {
    /// Adds the likely cause to the errors about the directive.
    pub fn explain(&self, report: &mut Report) {
        for error in report.errors_within(self.directive) {
            error.secondary.push(Label {
                span: self.word.span,
                text: "perhaps the next directive".to_owned(),
            });
            let name = &self.word.text;
            error.help.push(format!(
                "if `{name}` is the next directive, add `;` in front of it"
            ));
        }
    }
}

/// Reads `text`, and the files that it includes from `loader`. Their paths are relative to the folder of `name`.
pub fn parse(name: &str, text: &str, loader: &dyn Loader) -> Parsed {
    parse_with(name, text, "", loader)
}

/// As [`parse`], with directives of the command line in front: those of nginx's `-g`.
pub fn parse_with(name: &str, text: &str, globals: &str, loader: &dyn Loader) -> Parsed {
    let mut report = Report::new();
    let folder = match name.rfind('/') {
        Some(slash) => &name[..=slash],
        None => "",
    };
    let mut reader = Reader {
        report: &mut report,
        loader,
        folder,
        files: 0,
        words: 0,
        continued: Vec::new(),
    };
    let mut directives = Vec::new();
    if !globals.is_empty() {
        reader.file(COMMAND_LINE, globals, None, 0, &mut directives);
    }
    reader.file(name, text, None, 0, &mut directives);
    let continued = reader.continued;
    Parsed {
        directives,
        report,
        continued,
    }
}

/// Reads a text of our own into a report that has texts already.
pub fn reparse(name: &str, text: &str, report: &mut Report) -> Vec<Directive> {
    let mut reader = Reader {
        report,
        loader: &MemoryLoader::default(),
        folder: "",
        files: 0,
        words: 0,
        continued: Vec::new(),
    };
    let mut directives = Vec::new();
    reader.file(name, text, None, 0, &mut directives);
    directives
}

/// What messages call the directives of the command line, as nginx does.
pub const COMMAND_LINE: &str = "command line";

struct Reader<'r> {
    report: &'r mut Report,
    loader: &'r dyn Loader,
    /// The folder of the main file, with its slash.
    folder: &'r str,
    files: usize,
    words: usize,
    continued: Vec<Continued>,
}

/// One file while it is read.
struct Cursor<'t> {
    lexer: Lexer<'t>,
    import: Option<ImportId>,
    depth: usize,
    includes: usize,
    /// Where the text ends.
    end: Span,
}

/// How a list of directives ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Text,
    Brace,
}

impl<'r> Reader<'r> {
    fn file(
        &mut self,
        name: &str,
        text: &str,
        import: Option<ImportId>,
        includes: usize,
        into: &mut Vec<Directive>,
    ) {
        // nginx passes over a byte order mark as well.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let source = self.report.sources.add(name, text);
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let mut cursor = Cursor {
            lexer: Lexer::new(text, source),
            import,
            depth: 0,
            includes,
            end: Span::new(source, length, length),
        };
        while self.directives(&mut cursor, into) == End::Brace {}
    }

    /// Reads up to the brace that closes the block, or the end of the file.
    fn directives(&mut self, cursor: &mut Cursor<'_>, into: &mut Vec<Directive>) -> End {
        let mut words: Vec<Word> = Vec::new();
        while let Some((token, span)) = cursor.lexer.next() {
            match token {
                Err(error) => {
                    self.refuse_token(error, span, cursor.import);
                    if error == LexError::OpenQuote {
                        return End::Text;
                    }
                }
                Ok(Token::Word(text)) => {
                    self.words += 1;
                    if self.words > WORDS_MAX {
                        self.too_much(span, cursor.import, "words", WORDS_MAX);
                        return End::Text;
                    }
                    self.check_length(&text, span, cursor.import);
                    words.push(Word {
                        text,
                        span,
                        import: cursor.import,
                    });
                }
                Ok(Token::Semicolon) => self.finish(cursor, span, &mut words, into),
                Ok(Token::Open) => {
                    if let Some(end) = self.block(cursor, span, &mut words, into) {
                        return end;
                    }
                }
                Ok(Token::Close) => {
                    self.unfinished(&words, cursor.import);
                    if cursor.depth == 0 {
                        self.report.push(
                            Diagnostic::error("unexpected-brace", "`}` closes no block")
                                .at(span, "no block is open here")
                                .imported(cursor.import)
                                .help("remove it, or look for a block above that was closed too early"),
                        );
                    }
                    return End::Brace;
                }
            }
        }
        self.unfinished(&words, cursor.import);
        if cursor.depth > 0 {
            self.report.push(
                Diagnostic::error("unclosed-brace", "a block is not closed")
                    .at(cursor.end, "the file ends here")
                    .imported(cursor.import)
                    .help("add `}`"),
            );
        }
        End::Text
    }

    /// A directive that ended with a semicolon.
    fn finish(
        &mut self,
        cursor: &Cursor<'_>,
        span: Span,
        words: &mut Vec<Word>,
        into: &mut Vec<Directive>,
    ) {
        let mut words = words.drain(..);
        let Some(name) = words.next() else {
            self.report.push(
                Diagnostic::error("unexpected-semicolon", "`;` ends no directive")
                    .at(span, "nothing stands in front of it")
                    .imported(cursor.import)
                    .help("remove it"),
            );
            return;
        };
        let directive = Directive {
            name,
            args: words.collect(),
            block: None,
        };
        self.note_continued(&directive);
        if directive.name() == "include" {
            self.include(&directive, cursor.includes, into);
        } else {
            into.push(directive);
        }
    }

    /// A directive with a block, whose brace was just read. Gives how the list ended if the file ended in the block.
    fn block(
        &mut self,
        cursor: &mut Cursor<'_>,
        span: Span,
        words: &mut Vec<Word>,
        into: &mut Vec<Directive>,
    ) -> Option<End> {
        let mut words = words.drain(..);
        let name = words.next();
        let args: Vec<Word> = words.collect();
        if name.is_none() {
            self.report.push(
                Diagnostic::error("unexpected-brace", "`{` opens a block without a name")
                    .at(span, "nothing stands in front of it")
                    .imported(cursor.import),
            );
        }
        if cursor.depth >= BLOCK_DEPTH_MAX {
            self.too_much(
                span,
                cursor.import,
                "blocks inside of blocks",
                BLOCK_DEPTH_MAX,
            );
            return Some(End::Text);
        }
        cursor.depth += 1;
        let mut block = Vec::new();
        let end = self.directives(cursor, &mut block);
        cursor.depth -= 1;
        if let Some(name) = name {
            let directive = Directive {
                name,
                args,
                block: Some(block),
            };
            self.note_continued(&directive);
            into.push(directive);
        }
        (end == End::Text).then_some(End::Text)
    }

    /// Words at the end of a block or file that no semicolon ended.
    fn unfinished(&mut self, words: &[Word], import: Option<ImportId>) {
        let (Some(first), Some(last)) = (words.first(), words.last()) else {
            return;
        };
        let title = format!("`{}` is not ended", first.text);
        self.report.push(
            Diagnostic::error("missing-semicolon", title)
                .at(first.span.to(last.span), "no semicolon follows")
                .imported(import)
                .help(hint(&first.text).unwrap_or("add `;`")),
        );
    }

    /// Notes a directive of several lines, one of which begins with the name of another directive. It is valid where
    /// its own words are; see [`Continued`].
    fn note_continued(&mut self, directive: &Directive) {
        let sources = &self.report.sources;
        let line = |word: &Word| {
            sources
                .source(word.span.source)
                .position(word.span.start)
                .line
        };
        let mut before = &directive.name;
        for word in &directive.args {
            if line(word) != line(before) && registry::is_known(&word.text) {
                self.continued.push(Continued {
                    directive: directive.span(),
                    word: word.clone(),
                });
                return;
            }
            before = word;
        }
    }

    fn check_length(&mut self, text: &str, span: Span, import: Option<ImportId>) {
        if text.len() > WORD_BYTES_MAX {
            let title = format!("a word of {} bytes", text.len());
            self.report.push(
                Diagnostic::error("too-long", title)
                    .at(span, format!("at most {WORD_BYTES_MAX} are read"))
                    .imported(import)
                    .help("a quote may be missing in front of it"),
            );
        }
    }

    fn refuse_token(&mut self, error: LexError, span: Span, import: Option<ImportId>) {
        let found = match error {
            LexError::OpenQuote => Diagnostic::error("unterminated-quote", "a quote is not closed")
                .at(span, "it begins here")
                .help("add the same quote behind the word"),
            LexError::AfterQuote => Diagnostic::error(
                "quote-needs-space",
                "a word in quotes does not end with them",
            )
            .at(
                span,
                "only a blank, `;`, `{` or `)` may follow a closing quote",
            )
            .help("put the quotes around the whole word"),
        };
        self.report.push(found.imported(import));
    }

    fn too_much(&mut self, span: Span, import: Option<ImportId>, what: &str, max: usize) {
        self.report.push(
            Diagnostic::error("too-much", format!("more than {max} {what}"))
                .at(span, "here it is too much")
                .imported(import),
        );
    }

    fn include(&mut self, directive: &Directive, depth: usize, into: &mut Vec<Directive>) {
        let [word] = directive.args.as_slice() else {
            self.report.push(
                Diagnostic::error("argument-count", "`include` takes one path")
                    .at(
                        directive.span(),
                        format!("{} are given", directive.args.len()),
                    )
                    .imported(directive.name.import),
            );
            return;
        };
        if depth >= INCLUDE_DEPTH_MAX {
            let what = "includes inside of includes";
            return self.too_much(word.span, word.import, what, INCLUDE_DEPTH_MAX);
        }
        let path = match word.text.starts_with('/') {
            true => word.text.clone(),
            false => format!("{}{}", self.folder, word.text),
        };
        for found in self.paths(word, &path) {
            self.files += 1;
            if self.files > INCLUDES_MAX {
                return self.too_much(word.span, word.import, "included files", INCLUDES_MAX);
            }
            let import = self.report.sources.add_import(ImportStep {
                at: directive.span(),
                what: format!("file `{found}`"),
                parent: directive.name.import,
            });
            match self.loader.read(&found).map(String::from_utf8) {
                Ok(Ok(text)) => self.file(&found, &text, Some(import), depth + 1, into),
                Ok(Err(_)) => self.unreadable(word, &found, "it is not UTF-8"),
                Err(error)
                    if error.kind() == ErrorKind::NotFound
                        && let Some(text) = builtin::text(&found) =>
                {
                    self.warn_of_builtin(word, &found);
                    let name = format!("{found} (built-in)");
                    self.file(&name, text, Some(import), depth + 1, into);
                }
                Err(error) => self.unreadable(word, &found, &reason(error.kind(), &error)),
            }
        }
    }

    fn warn_of_builtin(&mut self, word: &Word, path: &str) {
        let name = path.rsplit('/').next().unwrap_or(path);
        let title = format!("`{path}` is missing; the built-in `{name}` is used");
        self.report.push(
            Diagnostic::warning("built-in-include", title)
                .at(word.span, "file not found")
                .imported(word.import)
                .note("nginx refuses a configuration whose include is missing")
                .help("paths are relative to the folder of the main file"),
        );
    }

    /// The files that a path names. As with nginx, a pattern may find none.
    fn paths(&mut self, word: &Word, path: &str) -> Vec<String> {
        if !glob::is_pattern(path) {
            return vec![path.to_owned()];
        }
        match self.loader.glob(&glob::widened(path)) {
            Ok(mut found) => {
                found.retain(|found| glob::fits(path, found));
                found
            }
            Err(error) => {
                self.unreadable(word, path, &reason(error.kind(), &error));
                Vec::new()
            }
        }
    }

    fn unreadable(&mut self, word: &Word, path: &str, why: &str) {
        self.report.push(
            Diagnostic::error("unreadable-file", format!("cannot include `{path}`"))
                .at(word.span, why)
                .imported(word.import)
                .help("paths are relative to the folder of the main file"),
        );
    }
}

fn reason(kind: ErrorKind, error: &std::io::Error) -> String {
    match kind {
        ErrorKind::NotFound => "file not found".to_owned(),
        _ => error.to_string(),
    }
}
