//! `rewrite` and `redir`.

use super::conditions::{is_condition, pattern_below};
use super::pieces::{block, line, prefix};
use super::placeholders::Setting;
use super::translation::Translation;
use crate::tree::{Directive, Token};

/// What `redir` does without a code. Caddy 2 would send 302.
const DEFAULT_CODE: &str = "permanent";

impl Translation<'_> {
    pub(super) fn rewrites(&mut self, lines: &[&Directive]) {
        let is_only = lines.len() == 1;
        for line in lines {
            match line.block {
                Some(_) => self.rewrite_block(line, is_only),
                None => self.simple_rewrite(line),
            }
        }
    }

    /// `rewrite [not] <from> <to...>`, where `from` is a path or a regular expression.
    fn simple_rewrite(&mut self, old: &Directive) {
        let (negated, words) = match old.args.split_first() {
            Some((first, rest)) if first.text == "not" => (true, rest),
            _ => (false, old.args.as_slice()),
        };
        let Some((from, to @ [_, ..])) = words.split_first() else {
            return self.malformed(old, "rewrite <from> <to>");
        };
        let is_pattern = from
            .text
            .contains(['^', '$', '*', '+', '?', '(', '[', '|', '\\']);
        if !negated
            && !is_pattern
            && let [only] = to
        {
            let to = self.text_in(only, self.setting());
            let path = from.text.clone();
            return self.step(Vec::new(), line(&old.name, "rewrite", [path, to]));
        }
        let name = self.next_pattern();
        let words = match is_pattern {
            true => vec!["path_regexp".to_owned(), name.clone(), from.text.clone()],
            false => vec!["path".to_owned(), from.text.clone()],
        };
        let condition = match negated {
            true => line(from, "not", words),
            false => line(from, &words[0].clone(), words.into_iter().skip(1)),
        };
        let setting = Setting {
            groups: Some(&name),
            ..self.setting()
        };
        self.rewrite_to(&old.name, vec![condition], to, setting);
    }

    /// A name for the groups of the next pattern.
    fn next_pattern(&mut self) -> String {
        self.globals.patterns += 1;
        format!("rw{}", self.globals.patterns)
    }

    fn rewrite_block(&mut self, old: &Directive, is_only: bool) {
        let base = old.args.first().map_or("/", Token::as_str);
        let (mut pattern, mut to, mut exts) = (None, None, None);
        for inner in old.lines().iter().filter(|inner| !is_condition(inner)) {
            match (inner.name.as_str(), inner.args.as_slice()) {
                ("r" | "regexp", [only]) => pattern = Some(only),
                ("to", words @ [_, ..]) => to = Some(words),
                ("ext", words @ [_, ..]) => exts = Some(words),
                ("status", [code]) => return self.error_on(code, base, code.as_str()),
                _ => return self.malformed(inner, "regexp, ext, if, if_op, to or status"),
            }
        }
        let Some(to) = to else {
            return self.malformed(old, "rewrite { regexp <pattern> to <path> }");
        };
        let name = self.next_pattern();
        let mut conditions = Vec::new();
        match pattern {
            Some(pattern) => {
                let below = pattern_below(base, pattern.as_str());
                let words = [name.clone(), below];
                conditions.push(line(pattern, "path_regexp", words));
            }
            None => conditions.extend(prefix(base).map(|path| line(&old.name, "path", [path]))),
        }
        let taken: Vec<&str> = match (conditions.first(), exts) {
            (Some(first), _) if first.name.text == "path" => vec!["path"],
            (Some(_), Some(_)) => vec!["path", "path_regexp"],
            (Some(_), None) => vec!["path_regexp"],
            (None, Some(_)) => vec!["path"],
            (None, None) => Vec::new(),
        };
        let ifs = self.conditions(old.lines(), &taken);
        let exts = exts.map_or(Vec::new(), |exts| extensions(exts, base));
        if exts.iter().any(|line| line.name.text == "path") {
            // Their paths begin with the base, too.
            conditions.retain(|line| line.name.text != "path");
        }
        conditions.extend(exts);
        conditions.extend(ifs);
        if conditions.is_empty() && is_only && to.len() > 1 {
            let files: Vec<String> = to
                .iter()
                .map(|to| self.text_in(to, self.setting()))
                .collect();
            return self.step(Vec::new(), line(&old.name, "try_files", files));
        }
        let setting = Setting {
            groups: Some(&name),
            ..self.setting()
        };
        self.rewrite_to(&old.name, conditions, to, setting);
    }

    /// Rewrites to the first of some files that exists, or else to the last.
    fn rewrite_to(
        &mut self,
        from: &Token,
        conditions: Vec<Directive>,
        to: &[Token],
        setting: Setting<'_>,
    ) {
        let Some((last, tried)) = to.split_last() else {
            return;
        };
        if !tried.is_empty() {
            let files: Vec<String> = tried.iter().map(|to| self.text_in(to, setting)).collect();
            let file = block(from, "file", [""; 0], vec![line(from, "try_files", files)]);
            let mut with_files = conditions.clone();
            with_files.push(file);
            let (name, matcher) = self.matcher(from, "existing", with_files);
            let target = "{file_match.relative}".to_owned();
            self.step(vec![matcher], line(from, "rewrite", [name, target]));
        }
        let target = self.text_in(last, setting);
        if conditions.is_empty() {
            return self.step(Vec::new(), line(from, "rewrite", ["*".to_owned(), target]));
        }
        let (name, matcher) = self.matcher(from, "rewritten", conditions);
        self.step(vec![matcher], line(from, "rewrite", [name, target]));
    }

    pub(super) fn redirs(&mut self, lines: &[&Directive]) {
        for old in lines {
            if old.block.is_none() {
                self.redir(&old.name, &old.args, None, &[]);
                continue;
            }
            let code = old.args.first();
            let conditions: Vec<Directive> = old
                .lines()
                .iter()
                .filter(|inner| is_condition(inner))
                .cloned()
                .collect();
            for inner in old.lines().iter().filter(|inner| !is_condition(inner)) {
                let words: Vec<Token> = std::iter::once(&inner.name)
                    .chain(&inner.args)
                    .cloned()
                    .collect();
                self.redir(&inner.name, &words, code, &conditions);
            }
        }
    }

    /// One rule: `[<from>] <to> [<code>]`.
    fn redir(
        &mut self,
        at: &Token,
        words: &[Token],
        block_code: Option<&Token>,
        conditions: &[Directive],
    ) {
        let (from, to, code) = match words {
            [to] => (None, to, block_code),
            [to, code] if is_code(code.as_str()) => (None, to, Some(code)),
            [from, to] => (Some(from), to, block_code),
            [from, to, code] if is_code(code.as_str()) => (Some(from), to, Some(code)),
            _ => {
                let title = "`redir` does not have the form of Caddy 1";
                return self.cannot(at, title, "write it as `redir [<from>] <to> [<code>]`");
            }
        };
        let target = self.text(to);
        let from = from.filter(|from| from.text != "/");
        let code = match code.map(Token::as_str) {
            None | Some("301") => DEFAULT_CODE.to_owned(),
            Some("302") => "temporary".to_owned(),
            Some("meta") => "html".to_owned(),
            Some(code) => code.to_owned(),
        };
        let path = from.map(|from| line(from, "path", [from.as_str()]));
        let mut lines: Vec<Directive> = path.into_iter().collect();
        lines.extend(self.conditions(conditions, &["path"]));
        match (from, lines.len()) {
            (_, 0) => self.step(Vec::new(), line(at, "redir", [target, code])),
            (Some(from), 1) if from.text.starts_with('/') => {
                let words = [from.text.clone(), target, code];
                self.step(Vec::new(), line(at, "redir", words));
            }
            _ => {
                let (name, matcher) = self.matcher(at, "redirected", lines);
                self.step(vec![matcher], line(at, "redir", [name, target, code]));
            }
        }
    }
}

fn is_code(word: &str) -> bool {
    word == "meta" || (word.len() == 3 && word.starts_with('3') && word.parse::<u16>().is_ok())
}

/// Matchers for `ext`: names with a dot, `/` for folders, `!` in front of those not wanted.
fn extensions(exts: &[Token], base: &str) -> Vec<Directive> {
    let glob = |ext: &str| format!("{}{ext}", prefix(base).unwrap_or_else(|| "*".to_owned()));
    let (mut wanted, mut unwanted) = (Vec::new(), vec!["path".to_owned()]);
    for ext in exts {
        match ext.text.strip_prefix('!') {
            Some(ext) => unwanted.push(glob(ext)),
            None => wanted.push(glob(ext.as_str())),
        }
    }
    let wanted = (!wanted.is_empty()).then(|| line(&exts[0], "path", wanted));
    let unwanted = (unwanted.len() > 1).then(|| line(&exts[0], "not", unwanted));
    wanted.into_iter().chain(unwanted).collect()
}
