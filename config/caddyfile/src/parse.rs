//! Builds the tree from lines: the global block, snippets, named routes, sites and their bodies.
//!
//! Parsing never stops at the first mistake; what could not be parsed is omitted from the tree, and the report says
//! why. `lower` interprets directives.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use sluice_diag::{Diagnostic, ImportId, Report, Span, shown};

use crate::Parsed;
use crate::arguments::block_placeholder;
use crate::lex::lex;
use crate::limits::{BLOCK_DEPTH_MAX, FILE_BYTES_MAX, WORDS_MAX};
use crate::lines::{Body, Line, Start, lines, report_brace_on_new_line, report_too_deep};
use crate::loader::Loader;
use crate::substitute::substitute;
use crate::tree::{Block, Directive, File, NamedRoute, Quote, Site, Token};

/// Reads a configuration. `name` is its path, from which relative imports are found; imports and
/// environment variables come from `loader`.
pub fn parse(name: &str, text: &str, loader: &dyn Loader) -> Parsed {
    let mut parser = Parser {
        main: name.into(),
        loader,
        report: Report::new(),
        snippets: HashMap::new(),
        files: HashMap::new(),
        words_left: WORDS_MAX,
        exhausted: false,
        depth: 0,
        queue: VecDeque::new(),
        file: File::default(),
    };
    if text.len() > FILE_BYTES_MAX {
        let title = format!(
            "`{}` is larger than {} MiB",
            shown(name),
            FILE_BYTES_MAX >> 20
        );
        parser
            .report
            .push(Diagnostic::error("file-too-large", title));
    } else {
        parser.queue = parser.read_lines(name, text.as_bytes(), None).into();
        parser.top();
    }
    Parsed {
        file: parser.file,
        report: parser.report,
    }
}

pub(crate) struct Parser<'a> {
    pub main: String,
    pub loader: &'a dyn Loader,
    pub report: Report,
    pub snippets: HashMap<String, Snippet>,
    /// The lines of imported files by path.
    pub files: HashMap<String, Rc<Vec<Line>>>,
    /// Words that imports may still bring.
    pub words_left: usize,
    /// Whether imports have reached that limit. It is reported once, and no import is followed
    /// any more.
    pub exhausted: bool,
    /// Blocks around the line that is being read.
    depth: usize,
    /// Top-level lines that are still to be read.
    queue: VecDeque<Line>,
    file: File,
}

/// `(name) { … }`.
pub(crate) struct Snippet {
    pub lines: Rc<Vec<Line>>,
    name: Token,
}

impl Parser<'_> {
    /// The lines of one file that `import` brought in, its own imports not yet followed.
    pub(crate) fn read_lines(
        &mut self,
        name: &str,
        bytes: &[u8],
        import: Option<ImportId>,
    ) -> Vec<Line> {
        let text = String::from_utf8_lossy(bytes);
        let source = self.report.sources.add(name, &*text);
        if let Err(error) = std::str::from_utf8(bytes) {
            let at = u32::try_from(error.valid_up_to()).expect("files are shorter than 4 GiB");
            let title = format!("`{}` is not UTF-8 text", shown(name));
            let found = Diagnostic::error("invalid-utf8", title)
                .at(
                    Span::new(source, at, at + 3),
                    format!("byte {:#04x}", bytes[at as usize]),
                )
                .imported(import)
                .help("save the file as UTF-8");
            self.report.push(found);
        }
        let text = substitute(source, &text, self.loader);
        let lexed = lex(&text, import, &mut self.report);
        lines(lexed, &mut self.report)
    }

    /// A snippet of this name further down.
    pub(crate) fn snippet_below(&self, name: &str) -> Option<&Token> {
        let first_words = self.queue.iter().filter_map(|line| line.words.first());
        first_words
            .into_iter()
            .find(|word| enclosed(word, "(") == Some(name))
    }

    fn top(&mut self) {
        while let Some(line) = self.queue.pop_front() {
            let Some(first) = line.words.first() else {
                if let Some(body) = line.block {
                    self.global(body);
                }
                continue;
            };
            if first.is_bare("import") {
                self.put_first(line);
            } else if line.words.len() == 1 && enclosed(first, "(").is_some() {
                self.snippet(line);
            } else if line.words.len() == 1 && enclosed(first, "&(").is_some() {
                self.named_route(line);
            } else if first.quote == Quote::None && first.text.starts_with('@') {
                let title = format!("matcher `{}` is defined outside a site", shown(&first.text));
                let found = first.error("matcher-outside-site", title, "not a site address");
                self.report
                    .push(found.help("move it into the site block that uses it"));
            } else {
                self.site(line);
            }
        }
    }

    /// Puts the lines of an import at the head of the queue.
    fn put_first(&mut self, import: Line) {
        for line in self.import(&import).into_iter().rev() {
            self.queue.push_front(line);
        }
    }

    /// The body of a line that needs one: its own, or the one that starts the next line.
    fn own_or_next_body(&mut self, line: &mut Line) -> Option<Body> {
        if let Some(body) = line.block.take() {
            return Some(body);
        }
        let is_headless = self.queue.front().is_some_and(|next| next.words.is_empty());
        let next = if is_headless {
            self.queue.pop_front()
        } else {
            None
        };
        next.and_then(|next| next.block)
    }

    fn global(&mut self, body: Body) {
        let is_first = self.file.global.is_none()
            && self.file.sites.is_empty()
            && self.file.named_routes.is_empty();
        let span = body_span(&body);
        if !is_first {
            let title = "the global options are not the first block";
            let label = "a block without an address";
            let found = body.opening.error("global-block-not-first", title, label);
            let first = self.file.global.as_ref().map(|global| global.span);
            let found = match first {
                Some(first) => found
                    .also(
                        Span::new(first.source, first.start, first.start + 1),
                        "the first one",
                    )
                    .help("put all global options into the first one"),
                None => found.help("move it to the top, or put a site address before its `{`"),
            };
            return self.report.push(found);
        }
        let body = self.body(body, Opening::MayShareLine);
        self.file.global = Some(Block { body, span });
    }

    fn snippet(&mut self, mut line: Line) {
        let body = self.own_or_next_body(&mut line);
        let name = line.words.swap_remove(0);
        let Some(body) = body else {
            return self.report_no_block(&name, "snippet");
        };
        let key = enclosed(&name, "(").unwrap_or_default().to_owned();
        if let Some(first) = self.snippets.get(&key) {
            let title = format!("snippet `{}` is defined twice", shown(&key));
            let found = name.error("duplicate-snippet", title, "defined again");
            let found = found.also(first.name.span, "defined here first");
            return self
                .report
                .push(found.help("give one of them another name"));
        }
        let mut lines = body.lines;
        if let Some(first) = lines.first_mut() {
            // `(name) { one line }` is customary.
            first.start = Start::OfLine;
        }
        self.snippets.insert(
            key,
            Snippet {
                lines: Rc::new(lines),
                name,
            },
        );
    }

    fn named_route(&mut self, mut line: Line) {
        let body = self.own_or_next_body(&mut line);
        let mut name = line.words.swap_remove(0);
        let Some(body) = body else {
            return self.report_no_block(&name, "named route");
        };
        let span = name.span.to(body_span(&body));
        let body = self.body(body, Opening::MayShareLine);
        name.text = enclosed(&name, "&(").unwrap_or_default().to_owned();
        if let Some(first) = self
            .file
            .named_routes
            .iter()
            .position(|r| r.name.text == name.text)
        {
            let title = format!("named route `{}` is defined twice", shown(&name.text));
            let first = &self.file.named_routes[first];
            let found = name.error("duplicate-named-route", title, "the second one");
            let found = found.also(first.name.span, "the first one");
            self.report
                .push(found.help("remove one of them, or rename it"));
            return;
        }
        self.file.named_routes.push(NamedRoute { name, body, span });
    }

    fn report_no_block(&mut self, name: &Token, kind: &str) {
        let title = format!("{kind} `{}` has no block", shown(&name.text));
        let found = name.error("missing-block", title, "no `{` follows");
        self.report
            .push(found.help(format!("write `{} {{`", shown(&name.text))));
    }

    fn site(&mut self, first: Line) {
        let mut addresses = Vec::new();
        let mut line = first;
        let body = loop {
            let comma = self.addresses(&line.words, &mut addresses);
            match (comma, self.own_or_next_body(&mut line)) {
                (None, body) => break body,
                (Some(comma), Some(body)) => {
                    self.report_missing_address(&comma, "a `{` follows instead");
                    break Some(body);
                }
                (Some(comma), None) => match self.next_address_line() {
                    Some(next) => line = next,
                    None => {
                        self.report_missing_address(&comma, "nothing follows");
                        break None;
                    }
                },
            }
        };
        let Some(start) = addresses.first().map(|address: &Token| address.span) else {
            return;
        };
        match body {
            Some(body) => {
                let span = start.to(body_span(&body));
                let body = self.body(body, Opening::MayShareLine);
                self.file.sites.push(Site {
                    addresses,
                    body,
                    span,
                });
            }
            None => {
                let body = self.rest_as_body(&addresses);
                let last = addresses
                    .iter()
                    .map(|a| a.span)
                    .chain(body.iter().map(|d| d.span));
                let span = last.fold(start, Span::to);
                self.file.sites.push(Site {
                    addresses,
                    body,
                    span,
                });
            }
        }
    }

    /// The line on which a list of addresses goes on.
    fn next_address_line(&mut self) -> Option<Line> {
        loop {
            let line = self.queue.pop_front()?;
            if line
                .words
                .first()
                .is_some_and(|word| word.is_bare("import"))
            {
                self.put_first(line);
            } else {
                return Some(line);
            }
        }
    }

    /// Collects the addresses of a line. Gives the last word if its comma asks for more.
    fn addresses(&mut self, words: &[Token], addresses: &mut Vec<Token>) -> Option<Token> {
        for word in words {
            let parts = word.text.split(',').filter(|part| !part.is_empty());
            addresses.extend(parts.map(|part| Token {
                text: part.into(),
                ..word.clone()
            }));
            if word.text.trim_end_matches(',').contains(',') {
                let title = format!(
                    "comma without a space in site address `{}`",
                    shown(&word.text)
                );
                let found = word.error("comma-needs-space", title, "read as one address");
                self.report.push(found.help("put a space after each comma"));
            }
            if word.quote == Quote::None && word.text.ends_with('{') {
                let title = format!("site address `{}` ends with a brace", shown(&word.text));
                let found = word.error("brace-needs-space", title, "read as one word");
                self.report
                    .push(found.help("remove the brace, or put a space before it"));
                self.report.silence(word.span);
            }
        }
        words
            .last()
            .filter(|word| word.text.ends_with(','))
            .cloned()
    }

    fn report_missing_address(&mut self, comma: &Token, label: &str) {
        let found = comma.error("missing-address", "no address follows a comma", label);
        self.report.push(found.help("remove the comma"));
    }

    /// The rest of a file whose only site has no braces.
    fn rest_as_body(&mut self, addresses: &[Token]) -> Vec<Directive> {
        let mut body = Vec::new();
        while let Some(line) = self.queue.pop_front() {
            match line.words.first() {
                Some(word) if word.is_bare("import") => self.put_first(line),
                Some(word) if looks_like_address(word) => {
                    self.report_second_site(word.clone(), addresses);
                    self.queue.push_front(line);
                    break;
                }
                _ => self.push_directive(line, Opening::EndsLine, &mut body),
            }
        }
        body
    }

    fn report_second_site(&mut self, word: Token, addresses: &[Token]) {
        let title = format!(
            "a second site `{}` needs braces around the first",
            shown(&word.text)
        );
        let mut found = word.error("sites-need-braces", title, "looks like a site address");
        if let Some(first) = addresses.first() {
            let help = format!("write `{} {{` … `}}` around each site", shown(&first.text));
            found = found
                .also(first.span, "the first site has no braces")
                .help(help);
        }
        self.report
            .push(found.help("or put a comma between the addresses of one site"));
    }

    /// The directives of a block.
    fn body(&mut self, body: Body, opening: Opening) -> Vec<Directive> {
        self.report_closing(&body);
        let mut out = Vec::with_capacity(body.lines.len());
        for line in body.lines {
            self.push_directive(line, opening, &mut out);
        }
        out
    }

    fn push_directive(&mut self, line: Line, opening: Opening, out: &mut Vec<Directive>) {
        self.report_shared_line(&line, opening);
        let Some(first) = line.words.first() else {
            return self.headless(line, out);
        };
        if first.is_bare("import") {
            for line in self.import(&line) {
                self.push_directive(line, Opening::EndsLine, out);
            }
            return;
        }
        if self.report_misplaced(&line, opening) {
            return;
        }
        let mut words = line.words.into_iter();
        let name = words
            .next()
            .expect("the line has a first word, looked at above");
        let args: Vec<Token> = words.collect();
        let mut span = args.iter().fold(name.span, |span, arg| span.to(arg.span));
        let block = line.block.map(|body| {
            span = span.to(body_span(&body));
            self.inner_body(body)
        });
        out.push(Directive {
            name,
            args,
            block,
            span,
        });
    }

    /// The directives of a block inside a site. Imports may bring blocks into blocks, so the depth
    /// that `lines` has seen in each file is looked at again.
    fn inner_body(&mut self, body: Body) -> Vec<Directive> {
        if self.depth >= BLOCK_DEPTH_MAX {
            report_too_deep(&body.opening, &mut self.report);
            return Vec::new();
        }
        self.depth += 1;
        let directives = self.body(body, Opening::EndsLine);
        self.depth -= 1;
        directives
    }

    /// A brace at the start of a line, inside a site: meant for the line before, if that has none.
    fn headless(&mut self, line: Line, out: &mut [Directive]) {
        let Some(body) = line.block else {
            return;
        };
        report_brace_on_new_line(&body.opening, &mut self.report);
        let directives = self.inner_body(body);
        if let Some(before) = out.last_mut().filter(|before| before.block.is_none()) {
            before.block = Some(directives);
        }
    }

    /// Reports lines that are good elsewhere only; true if there is nothing more to say.
    fn report_misplaced(&mut self, line: &Line, opening: Opening) -> bool {
        let first = &line.words[0];
        if let Some(key) = block_placeholder(first) {
            let title = format!(
                "`{}` is used outside a snippet or imported file",
                shown(&first.text)
            );
            let found = first.error("block-outside-import", title, "no import passes a block");
            let wanted = if key.is_empty() {
                "the block"
            } else {
                "the lines"
            };
            self.report
                .push(found.help(format!("write {wanted} here, or move this into a snippet")));
            return true;
        }
        let definition = ["(", "&("]
            .iter()
            .find(|open| enclosed(first, open).is_some());
        let (Some(open), Some(_), 1) = (definition, &line.block, line.words.len()) else {
            return false;
        };
        let kind = if *open == "(" {
            "snippet"
        } else {
            "named route"
        };
        let title = format!("{kind} `{}` is defined inside a block", shown(&first.text));
        let mut found = first.error("definition-in-block", title, "not a directive");
        found = found.help("move it out of the block, above its first use");
        if opening == Opening::EndsLine && first.import.is_some() {
            found = found.help("or import it outside of blocks");
        }
        self.report.push(found);
        true
    }

    fn report_shared_line(&mut self, line: &Line, opening: Opening) {
        let title = match (line.start, opening) {
            (Start::OfLine, _) | (Start::BehindOpening, Opening::MayShareLine) => return,
            (Start::BehindOpening, Opening::EndsLine) => "words follow an opening brace",
            (Start::BehindClosing, _) => "words follow a closing brace",
        };
        let first = line
            .words
            .first()
            .or(line.block.as_ref().map(|body| &body.opening));
        if let Some(first) = first {
            let found = first.error("words-behind-brace", title, "on the same line");
            self.report.push(found.help("put them on the next line"));
        }
    }

    fn report_closing(&mut self, body: &Body) {
        if let (true, Some(closing)) = (body.closes_behind_words, body.closing) {
            let title = "a closing brace must stand alone on its line";
            let found = Diagnostic::error("brace-not-alone", title)
                .at(closing, "after other words")
                .imported(body.opening.import)
                .help("put the `}` on the next line");
            self.report.push(found);
        }
    }
}

/// Whether words may follow the opening brace of a block on its line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    EndsLine,
    /// Caddy allows it at the top of a file only.
    MayShareLine,
}

/// The name in `(name)` or `&(name)`.
fn enclosed<'a>(word: &'a Token, open: &str) -> Option<&'a str> {
    let name = word.text.strip_prefix(open)?.strip_suffix(')')?;
    (word.quote == Quote::None).then_some(name)
}

/// Whether a word in the place of a directive is rather the address of another site. No directive
/// has a dot or a colon in its name.
fn looks_like_address(word: &Token) -> bool {
    let text = word.text.as_str();
    let begins = text.starts_with(|c: char| c.is_alphanumeric() || c == ':' || c == '*');
    word.quote == Quote::None
        && begins
        && (text.contains(['.', ':']) || text.trim_end_matches(',') == "localhost")
}

fn body_span(body: &Body) -> Span {
    let last = body
        .lines
        .last()
        .and_then(last_span)
        .unwrap_or(body.opening.span);
    body.opening.span.to(body.closing.unwrap_or(last))
}

fn last_span(line: &Line) -> Option<Span> {
    match &line.block {
        Some(body) => Some(body_span(body)),
        None => line.words.last().map(|word| word.span),
    }
}
