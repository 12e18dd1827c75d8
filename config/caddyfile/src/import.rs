//! `import`: finds the snippet or the files that a line names.
//!
//! `arguments` expands arguments, `parse` interprets the lines.

use std::io;
use std::rc::Rc;

use sluice_diag::{ImportId, ImportStep, closest, shown};

use crate::arguments::{Arguments, Growth, Refused};
use crate::limits::{FILE_BYTES_MAX, IMPORT_DEPTH_MAX, WORDS_MAX};
use crate::lines::{Line, Start, depth, report_too_deep};
use crate::parse::Parser;
use crate::tree::Token;

/// What an import names.
enum Target {
    /// The lines of a snippet.
    Snippet(Rc<Vec<Line>>),
    /// A file.
    File(String),
}

impl Parser<'_> {
    /// The lines that an `import` line stands for. Mistakes are reported and bring nothing.
    pub(crate) fn import(&mut self, line: &Line) -> Vec<Line> {
        let [keyword, name, words @ ..] = line.words.as_slice() else {
            let word = &line.words[0];
            let title = "`import` without a name";
            let found = word.error("import-without-name", title, "no name follows");
            let help = "write `import <snippet>`, `import <file>` or `import <folder>/*`";
            self.report.push(found.help(help));
            return Vec::new();
        };
        if self.exhausted {
            return Vec::new();
        }
        let mut block = line
            .block
            .as_ref()
            .map_or(Vec::new(), |body| body.lines.clone());
        if let Some(first) = block.first_mut() {
            // `import a { b }` on one line is customary.
            first.start = Start::OfLine;
        }
        let block_depth = depth(&block);
        let mut out = Vec::new();
        for target in self.targets(name) {
            // The description is also the identity by which cycles are found.
            let what = match &target {
                Target::Snippet(_) => format!("snippet `{}`", shown(&name.text)),
                Target::File(path) => format!("file `{}`", shown(path)),
            };
            if self.refuses_depth(name, &what) {
                continue;
            }
            let step = ImportStep {
                at: keyword.span.to(name.span),
                what,
                parent: keyword.import,
            };
            let import = self.report.sources.add_import(step);
            let lines = match target {
                Target::Snippet(lines) => lines,
                Target::File(path) => self.file_lines(name, path, import),
            };
            let arguments = Arguments {
                words,
                block: &block,
                block_depth,
                import,
            };
            let mut growth = Growth {
                words_left: &mut self.words_left,
                report: &mut self.report,
            };
            match arguments.instantiate(&lines, &mut growth) {
                Ok(lines) => out.extend(lines),
                Err(Refused::TooManyWords) => self.report_too_many_words(name),
                Err(Refused::TooDeep) => report_too_deep(name, &mut self.report),
            }
            if self.exhausted {
                break;
            }
        }
        out
    }

    /// A snippet goes before files of the same name.
    fn targets(&mut self, name: &Token) -> Vec<Target> {
        if let Some(snippet) = self.snippets.get(&name.text) {
            return vec![Target::Snippet(snippet.lines.clone())];
        }
        let base = folder(self.report.sources.source(name.span.source).name());
        let pattern = join(base, &name.text);
        let wild = |c: char| name.text.matches(c).count();
        let has_class = wild('[') > 0 && wild(']') > 0;
        if has_class || wild('*') > 1 || wild('?') > 1 {
            let title = format!("import pattern `{}` cannot be used", shown(&name.text));
            let label = if has_class {
                "`[…]` is not supported in imports"
            } else {
                "more than one `*` or `?`"
            };
            let found = name.error("import-pattern", title, label);
            let help = "use at most one `*` and one `?`, on several lines if need be";
            self.report.push(found.help(help));
            return Vec::new();
        }
        let found = match self.loader.glob(&pattern) {
            Ok(found) => found,
            Err(error) => {
                self.report_unreadable(name, &pattern, &error);
                return Vec::new();
            }
        };
        // As a shell has it, `*` does not stand for hidden files.
        let shows_hidden = base_name(&pattern).starts_with('.');
        let is_meant = |path: &String| shows_hidden || !base_name(path).starts_with('.');
        let targets: Vec<Target> = found
            .into_iter()
            .filter(is_meant)
            .map(Target::File)
            .collect();
        if targets.is_empty() {
            self.report_missing(name, &pattern);
        }
        targets
    }

    /// The lines of a file, which is read once however often it is imported.
    fn file_lines(&mut self, name: &Token, path: String, import: ImportId) -> Rc<Vec<Line>> {
        if let Some(lines) = self.files.get(&path) {
            return lines.clone();
        }
        let lines = match self.loader.read(&path) {
            Ok(bytes) if bytes.len() > FILE_BYTES_MAX => {
                self.report_unreadable(name, &path, &io::ErrorKind::FileTooLarge.into());
                Vec::new()
            }
            Ok(bytes) => self.read_lines(&path, &bytes, Some(import)),
            Err(error) => {
                self.report_unreadable(name, &path, &error);
                Vec::new()
            }
        };
        let lines = Rc::new(lines);
        self.files.insert(path, lines.clone());
        lines
    }

    /// Reports an import of what is being imported already, or one too deep.
    fn refuses_depth(&mut self, name: &Token, what: &str) -> bool {
        let sources = &self.report.sources;
        let chain: Vec<_> = sources.import_chain(name.import).collect();
        let is_main = what == format!("file `{}`", shown(&self.main));
        let earlier = chain
            .iter()
            .find(|step| step.what == what)
            .map(|step| step.at);
        if is_main || earlier.is_some() {
            let title = format!("{what} imports itself");
            let mut found = name.error("import-cycle", title, "imported from inside it");
            if let Some(at) = earlier.filter(|at| *at != name.span) {
                found = found.also(at, "imported here before");
            }
            self.report.push(found.help("remove one of the imports"));
            return true;
        }
        if chain.len() >= IMPORT_DEPTH_MAX {
            let title = format!("imports are nested more than {IMPORT_DEPTH_MAX} levels deep");
            let found = name.error("import-too-deep", title, "not followed any further");
            self.report
                .push(found.help("import the innermost part directly"));
            return true;
        }
        false
    }

    fn report_missing(&mut self, name: &Token, pattern: &str) {
        let shown_name = shown(&name.text);
        if name.text.contains(['*', '?']) {
            let title = format!("no file matches the import pattern `{shown_name}`");
            let found = name.warning("import-matches-nothing", title, "imports nothing");
            return self.report.push(found);
        }
        let title = format!("no snippet or file is named `{shown_name}`");
        let mut found = name.error("import-not-found", title, "not found");
        if let Some(later) = self.snippet_below(&name.text) {
            found = found.also(later.span, "defined only here");
            found = found.help(format!("move `({shown_name})` above its first import"));
        } else {
            let names = self.snippets.keys().map(String::as_str);
            found = found.did_you_mean(closest(&name.text, names));
        }
        if pattern != name.text {
            found = found.note(format!("looked for the file `{}`", shown(pattern)));
        }
        self.report.push(found);
    }

    fn report_unreadable(&mut self, name: &Token, path: &str, error: &io::Error) {
        let title = format!("file `{}` cannot be imported", shown(path));
        let found = match error.kind() {
            io::ErrorKind::FileTooLarge => {
                let label = format!("larger than {} MiB", FILE_BYTES_MAX >> 20);
                name.error("file-too-large", title, label)
            }
            _ => name.error("import-unreadable", title, error.to_string()),
        };
        self.report.push(found);
    }

    fn report_too_many_words(&mut self, name: &Token) {
        self.exhausted = true;
        let title = format!("imports add up to more than {WORDS_MAX} words");
        let found = name.error(
            "too-many-words",
            title,
            "this import is omitted: the limit is reached here",
        );
        self.report
            .push(found.help("look for snippets that import each other more than once"));
    }
}

/// `path` as seen from `base`.
fn join(base: &str, path: &str) -> String {
    match path.strip_prefix("./") {
        _ if path.starts_with('/') || base.is_empty() => path.into(),
        Some(path) => format!("{base}{path}"),
        None => format!("{base}{path}"),
    }
}

/// The part of a path up to and with its last slash.
fn folder(path: &str) -> &str {
    path.rfind('/').map_or("", |slash| &path[..=slash])
}

fn base_name(path: &str) -> &str {
    path.rfind('/').map_or(path, |slash| &path[slash + 1..])
}
