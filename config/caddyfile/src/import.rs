//! `import`: finds the snippet or the files that a line names.
//!
//! Putting the arguments in is left to `arguments`, understanding the lines to `parse`.

use std::io;
use std::rc::Rc;

use sluice_diag::{ImportStep, closest, shown};

use crate::arguments::{Arguments, TooManyWords};
use crate::limits::{FILE_BYTES_MAX, IMPORT_DEPTH_MAX, WORDS_MAX};
use crate::lines::{Line, Start};
use crate::parse::Parser;
use crate::tree::Token;

/// What an import brings, before its arguments are put in.
struct Target {
    /// As messages name it; also its identity when looking for cycles.
    what: String,
    lines: Rc<Vec<Line>>,
}

impl Parser<'_> {
    /// The lines that an `import` line stands for. Mistakes are reported and bring nothing.
    pub(crate) fn import(&mut self, line: &Line) -> Vec<Line> {
        let [keyword, name, arguments @ ..] = line.words.as_slice() else {
            let word = &line.words[0];
            let found = word.error(
                "import-without-name",
                "import of nothing",
                "no name follows",
            );
            let help = "write `import <snippet>`, `import <file>` or `import <folder>/*`";
            self.report.push(found.help(help));
            return Vec::new();
        };
        let mut block = line
            .block
            .as_ref()
            .map_or(Vec::new(), |body| body.lines.clone());
        if let Some(first) = block.first_mut() {
            // `import a { b }` on one line is customary.
            first.start = Start::LineStart;
        }
        let mut out = Vec::new();
        for target in self.targets(name) {
            if self.refuses_depth(name, &target) {
                continue;
            }
            let at = keyword.span.to(name.span);
            let step = ImportStep {
                at,
                what: target.what,
                parent: keyword.import,
            };
            let import = self.report.sources.add_import(step);
            let arguments = Arguments {
                words: arguments,
                block: &block,
                import,
            };
            match arguments.instantiate(&target.lines, &mut self.words_left, &mut self.report) {
                Ok(lines) => out.extend(lines),
                Err(TooManyWords) => self.report_too_many_words(name),
            }
        }
        out
    }

    /// A snippet goes before files of the same name.
    fn targets(&mut self, name: &Token) -> Vec<Target> {
        if let Some(snippet) = self.snippets.get(&name.text) {
            let what = format!("snippet `{}`", shown(&name.text));
            return vec![Target {
                what,
                lines: snippet.lines.clone(),
            }];
        }
        let base = folder(self.report.sources.source(name.span.source).name());
        let pattern = join(base, &name.text);
        let wild = |c: char| name.text.matches(c).count();
        if wild('*') > 1 || wild('?') > 1 || (wild('[') > 0 && wild(']') > 0) {
            let title = format!(
                "import pattern `{}` has several wildcards",
                shown(&name.text)
            );
            let found = name.error("import-pattern", title, "one `*` and one `?` are allowed");
            self.report
                .push(found.help("import each folder on a line of its own"));
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
        let hidden = |path: &String| base_name(path).starts_with('.');
        let shows_hidden = base_name(&pattern).starts_with('.');
        let paths: Vec<String> = found
            .into_iter()
            .filter(|path| shows_hidden || !hidden(path))
            .collect();
        if paths.is_empty() {
            self.report_missing(name, wild('*') + wild('?') > 0);
        }
        paths
            .into_iter()
            .filter_map(|path| self.file_target(name, path))
            .collect()
    }

    fn file_target(&mut self, name: &Token, path: String) -> Option<Target> {
        let what = format!("file `{}`", shown(&path));
        if let Some(lines) = self.files.get(&path) {
            return Some(Target {
                what,
                lines: lines.clone(),
            });
        }
        let bytes = match self.loader.read(&path) {
            Ok(bytes) if bytes.len() > FILE_BYTES_MAX => {
                Err(io::Error::from(io::ErrorKind::FileTooLarge))
            }
            read => read,
        };
        match bytes {
            Ok(bytes) => {
                let lines = Rc::new(self.read_lines(&path, &bytes));
                self.files.insert(path, lines.clone());
                Some(Target { what, lines })
            }
            Err(error) => {
                self.report_unreadable(name, &path, &error);
                None
            }
        }
    }

    /// Reports an import of what is being imported already, or one too deep.
    fn refuses_depth(&mut self, name: &Token, target: &Target) -> bool {
        let sources = &self.report.sources;
        let chain: Vec<_> = sources.import_chain(name.import).collect();
        let is_main = target.what == format!("file `{}`", shown(&self.main));
        let earlier = chain
            .iter()
            .find(|step| step.what == target.what)
            .map(|step| step.at);
        if is_main || earlier.is_some() {
            let title = format!("{} imports itself", target.what);
            let mut found = name.error("import-cycle", title, "imported from inside it");
            if let Some(at) = earlier.filter(|at| *at != name.span) {
                found = found.also(at, "imported here before");
            }
            self.report.push(found.help("remove one of the imports"));
            return true;
        }
        if chain.len() >= IMPORT_DEPTH_MAX {
            let title = format!("more than {IMPORT_DEPTH_MAX} imports inside each other");
            let found = name.error("import-too-deep", title, "not followed any further");
            self.report
                .push(found.help("import the innermost part directly"));
            return true;
        }
        false
    }

    fn report_missing(&mut self, name: &Token, is_pattern: bool) {
        let shown_name = shown(&name.text);
        if is_pattern {
            let title = format!("no file matches the import pattern `{shown_name}`");
            let found = name.warning("import-matches-nothing", title, "brings nothing");
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
        let title = format!("imports bring more than {WORDS_MAX} words");
        let found = name.error(
            "too-many-words",
            title,
            "left out, as the limit is reached here",
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
