//! Tests as proofs of the reference tables: which tests there are, and which texts of configurations each one uses. The
//! tests that generate the tables in `config/` include this file, too, so it depends on nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How a test proves that a directive works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The same requests to sluice and to nginx or Caddy.
    Peer,
    /// Requests to sluice.
    EndToEnd,
    /// The configuration that a text is lowered to.
    Golden,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Peer => "peer",
            Kind::EndToEnd => "e2e",
            Kind::Golden => "golden",
        }
    }
}

/// A test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// What it proves.
    pub kind: Kind,
    /// The file and the function, or the file of a golden case.
    pub name: String,
    /// The texts in it and in what it uses.
    pub texts: Vec<String>,
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}`", self.kind.word(), self.name)
    }
}

/// The cell of a row without a test.
pub const UNTESTED: &str = "untested";

/// All tests that can prove a row: those that send requests in `tests/`, and golden cases without mistakes of the
/// package `config`; peer before end to end before golden. `files` has paths below the repository's folder and texts.
pub fn tests<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>, config: &str) -> Vec<Test> {
    let golden = format!("config/{config}/tests/golden/");
    let (peer, other) = match config {
        "nginx" => ("nginx", "caddy"),
        _ => ("caddy", "nginx"),
    };
    let (mut found, mut programs) = (Vec::new(), Programs::default());
    for (path, text) in files {
        if let Some(case) = path.strip_prefix(&golden) {
            found.extend(golden_case(path, case, text));
        } else if path.starts_with("tests/") && path.ends_with(".rs") {
            programs.by_path.insert(path, Program::read(text));
            programs
                .by_module
                .entry(module(path))
                .or_default()
                .push(path);
        } else if path.starts_with("tests/data/") {
            programs.data.push((path, text));
        }
    }
    for (path, program) in &programs.by_path {
        let folder = path.split('/').nth(1).unwrap_or_default();
        // Its configurations are refused.
        let is_about_messages = path.ends_with("/differences.rs");
        if is_about_messages || !["peer", "e2e"].contains(&folder) {
            continue;
        }
        for item in program.items.iter().filter(|item| item.is_test) {
            // A comparison has the name of the peer.
            let kind = match folder {
                "peer" if item.name.contains(peer) => Kind::Peer,
                "peer" if item.name.contains(other) => continue,
                _ => Kind::EndToEnd,
            };
            let mut used = Used::default();
            used.add(path, item, &programs);
            if used.sends_requests {
                let name = format!("{path}::{}", item.name);
                let texts = used.texts;
                found.push(Test { kind, name, texts });
            }
        }
    }
    found.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
    found
}

/// The test that a cell of a table names; `None` if it names none.
pub fn named(cell: &str) -> Option<(&str, &str)> {
    let (kind, name) = cell.split_once(": `")?;
    Some((kind, name.strip_suffix('`')?))
}

/// The proof of a row: the one in its `cell` today if it still is one, else the first.
pub fn proof<'t>(
    tests: &'t [Test],
    cell: Option<&str>,
    is_one: impl Fn(&Test) -> bool,
) -> Option<&'t Test> {
    let kept = cell.and_then(named).and_then(|(kind, name)| {
        let mut same = tests.iter();
        same.find(|test| test.name == name && test.kind.word() == kind && is_one(test))
    });
    kept.or_else(|| tests.iter().find(|test| is_one(test)))
}

/// The distinct texts of all tests, and for each test, by its name, the numbers of its own. Tests share most of them.
pub fn numbered(tests: &[Test]) -> (BTreeMap<String, Vec<usize>>, Vec<&str>) {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all = Vec::new();
    let mut of_tests = BTreeMap::new();
    for test in tests {
        let mut own = BTreeSet::new();
        for text in &test.texts {
            own.insert(*numbers.entry(text).or_insert_with(|| {
                all.push(&**text);
                all.len() - 1
            }));
        }
        of_tests.insert(test.name.clone(), own.into_iter().collect());
    }
    (of_tests, all)
}

/// The last cells of a table's rows by the other cells, from the page as it is.
pub fn cells(page: &str) -> BTreeMap<String, String> {
    let mut section = "";
    let mut found = BTreeMap::new();
    for line in page.lines() {
        if line.starts_with('#') {
            section = line;
        }
        let row = line
            .strip_prefix("| ")
            .and_then(|row| row.strip_suffix(" |"));
        if let Some((rest, last)) = row.and_then(|row| row.rsplit_once(" | ")) {
            found.insert(format!("{section}\n{rest}"), last.to_owned());
        }
    }
    found
}

fn golden_case(path: &str, case: &str, text: &str) -> Option<Test> {
    // These are not lowered.
    let is_other = ["parse/", "fmt/", "v1/"]
        .iter()
        .any(|folder| case.starts_with(folder));
    let (input, output) = text.split_once("\n----\n")?;
    (!is_other && !output.contains("error[")).then(|| Test {
        kind: Kind::Golden,
        name: path.to_owned(),
        texts: vec![input.to_owned()],
    })
}

/// The files of tests, and the files that they read.
#[derive(Default)]
struct Programs<'a> {
    by_path: BTreeMap<&'a str, Program>,
    /// The paths by the names of their modules.
    by_module: BTreeMap<&'a str, Vec<&'a str>>,
    data: Vec<(&'a str, &'a str)>,
}

/// A file of tests: its items and what it imports.
#[derive(Default)]
struct Program {
    items: Vec<Item>,
    by_name: BTreeMap<String, Vec<usize>>,
    /// The words of its `use` lines.
    imported: BTreeSet<String>,
}

/// A function or constant, or anything else that stands at the margin.
#[derive(Default)]
struct Item {
    name: String,
    is_test: bool,
    words: BTreeSet<String>,
    texts: Vec<String>,
}

/// What a test uses, itself and by the items it names.
#[derive(Default)]
struct Used {
    seen: BTreeSet<*const Item>,
    texts: Vec<String>,
    sends_requests: bool,
}

/// Calls that send requests.
const CALLS: &[&str] = &[
    "ask", "get", "send", "fetch", "request", "get_text", "exchange", "try_send",
];

impl Used {
    fn add(&mut self, path: &str, item: &Item, programs: &Programs<'_>) {
        if !self.seen.insert(std::ptr::from_ref(item)) {
            return;
        }
        self.texts.extend(item.texts.iter().cloned());
        // A folder with a file for each case.
        let folders = item
            .texts
            .iter()
            .filter_map(|text| text.strip_prefix("../../tests/data/"));
        for folder in folders {
            let inside = programs.data.iter().filter(|(path, _)| {
                let path = path.strip_prefix("tests/data/").unwrap_or_default();
                path == folder
                    || path
                        .strip_prefix(folder)
                        .is_some_and(|rest| rest.starts_with('/'))
            });
            self.texts
                .extend(inside.map(|(_, text)| (*text).to_owned()));
        }
        let has_request = |text: &String| {
            let methods = [
                "GET /",
                "POST /",
                "HEAD /",
                "PUT /",
                "DELETE /",
                "OPTIONS /",
            ];
            methods.iter().any(|method| text.starts_with(method))
        };
        self.sends_requests |= CALLS.iter().any(|call| item.words.contains(*call));
        self.sends_requests |= item.texts.iter().any(has_request);
        let Some(program) = programs.by_path.get(path) else {
            return;
        };
        for word in &item.words {
            let mut is_own = false;
            for one in program.named(word) {
                is_own = true;
                self.add(path, one, programs);
            }
            if is_own || !program.imported.contains(word) {
                continue;
            }
            let modules = program.imported.iter();
            let others = modules.filter_map(|module| programs.by_module.get(&**module));
            for other in others.flatten() {
                for one in programs.by_path[other].named(word) {
                    self.add(other, one, programs);
                }
            }
        }
    }
}

/// The name of the module in a file.
fn module(path: &str) -> &str {
    let file = path.strip_suffix(".rs").unwrap_or(path);
    let file = file.strip_suffix("/mod").unwrap_or(file);
    file.rsplit('/').next().unwrap_or(file)
}

impl Program {
    /// The items of this name.
    fn named(&self, name: &str) -> impl Iterator<Item = &Item> {
        let at = self.by_name.get(name).into_iter().flatten();
        at.map(|at| &self.items[*at])
    }

    fn read(text: &str) -> Program {
        let mut program = Program::default();
        let mut item = Item::default();
        let mut is_use = false;
        for token in tokens(text) {
            match token {
                Token::Margin => {
                    // Attributes stand before the item that they are for.
                    if !item.name.is_empty() || is_use {
                        program.items.push(std::mem::take(&mut item));
                    }
                    is_use = false;
                }
                Token::Word(word) => match word.as_str() {
                    "use" if item.name.is_empty() => is_use = true,
                    _ if is_use => _ = program.imported.insert(word),
                    _ => item.note(word),
                },
                Token::Text(text) => item.texts.push(text),
            }
        }
        program.items.push(item);
        for (at, item) in program.items.iter().enumerate() {
            program
                .by_name
                .entry(item.name.clone())
                .or_default()
                .push(at);
        }
        program
    }
}

impl Item {
    fn note(&mut self, word: String) {
        let is_kind =
            |word: &str| ["fn", "const", "static", "struct", "impl", "mod"].contains(&word);
        if self.name.is_empty() {
            if word == "test" && self.words.is_empty() {
                self.is_test = true;
            } else if self.words.iter().any(|word| is_kind(word)) && word != "fn" {
                self.name = word;
                return;
            }
        }
        self.words.insert(word);
    }
}

enum Token {
    /// A line that begins at the margin, outside of literals and comments, and is not a closing bracket.
    Margin,
    Word(String),
    Text(String),
}

/// The words and texts of a Rust program, which is formatted as all of ours.
fn tokens(program: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = program;
    let mut is_margin = true;
    let mut is_format = false;
    while let Some(c) = rest.chars().next() {
        let was_margin = std::mem::replace(&mut is_margin, c == '\n');
        if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            rest = &rest[end..];
        } else if let Some((text, after)) = literal(rest, is_format) {
            tokens.push(Token::Text(text));
            rest = after;
            is_format = false;
        } else if c == '\'' {
            rest = after_quote(rest);
        } else if c.is_alphabetic() || c == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            if was_margin {
                tokens.push(Token::Margin);
            }
            is_format = after.starts_with('!') && word.ends_with("format");
            tokens.push(Token::Word(word.to_owned()));
            rest = after;
        } else {
            if was_margin && c == '#' {
                tokens.push(Token::Margin);
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    tokens
}

/// What follows a character or the mark of a lifetime.
fn after_quote(rest: &str) -> &str {
    let mut chars = rest[1..].chars();
    match (chars.next(), chars.next()) {
        (Some('\\'), Some(escaped)) => {
            let inner = &rest[2 + escaped.len_utf8()..];
            inner.split_once('\'').map_or("", |(_, after)| after)
        }
        (Some(c), Some('\'')) => &rest[2 + c.len_utf8()..],
        _ => &rest[1..],
    }
}

/// A string literal at the start of `rest`, and what follows it. In a format string doubled braces are single ones.
fn literal(rest: &str, is_format: bool) -> Option<(String, &str)> {
    let text;
    let after;
    let plain = rest.strip_prefix('b').unwrap_or(rest);
    if let Some(inner) = plain.strip_prefix('"') {
        let mut end = None;
        let mut is_escaped = false;
        for (at, c) in inner.char_indices() {
            if c == '"' && !is_escaped {
                end = Some(at);
                break;
            }
            is_escaped = c == '\\' && !is_escaped;
        }
        let end = end?;
        text = unescaped(&inner[..end]);
        after = &inner[end + 1..];
    } else {
        let inner = plain.strip_prefix('r')?;
        let hashes = inner.len() - inner.trim_start_matches('#').len();
        let inner = inner[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let (raw, rest) = inner.split_once(&end)?;
        text = raw.to_owned();
        after = rest;
    }
    let text = match is_format {
        true => text.replace("{{", "{").replace("}}", "}"),
        false => text,
    };
    Some((text, after))
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('\n') => while chars.next_if(|c| c.is_whitespace()).is_some() {},
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: &str = "//! A.\n\npub const CASES: &[&str] = &[\"root * x; \\\n    y\"];\n";
    const PROGRAM: &str = "use crate::peer::cases::CASES;\n\n/// A \"quote.\nfn helper() -> String {\n    \
        format!(\"{{\\n\\tadmin off {}\\n}}\", 'x')\n}\n\n#[test]\n#[ignore = \"slow\"]\nfn sends() {\n    \
        let a = helper();\n    let b = CASES[0];\n    let c = \"../../tests/data/sites\";\n    server.ask(\"/\");\n}\n\n\
        #[test]\nfn only_validates() {\n    check(r#\"a \"b\"\"#);\n}\n";

    fn found() -> Vec<Test> {
        tests(
            [
                ("tests/peer/cases.rs", CASES),
                ("tests/e2e/b.rs", PROGRAM),
                ("config/a/tests/golden/x/ok.txt", "line\n----\n{}\n"),
                (
                    "config/a/tests/golden/x/no.txt",
                    "line\n----\nerror[x]: no\n",
                ),
                ("config/b/tests/golden/x/ok.txt", "line\n----\n{}\n"),
                ("tests/data/sites/a.conf", "etag on;"),
            ],
            "a",
        )
    }

    #[test]
    fn tests_have_their_own_texts_and_those_of_what_they_use() {
        let found = found();
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "e2e: `tests/e2e/b.rs::sends`",
                "golden: `config/a/tests/golden/x/ok.txt`"
            ]
        );
        let texts = &found[0].texts;
        assert!(
            texts.contains(&"{\n\tadmin off {}\n}".to_owned()),
            "{texts:?}"
        );
        assert!(texts.contains(&"root * x; y".to_owned()), "{texts:?}");
        assert!(texts.contains(&"etag on;".to_owned()), "{texts:?}");
    }

    #[test]
    fn a_named_proof_is_kept_while_it_is_one() {
        let found = found();
        let golden = "golden: `config/a/tests/golden/x/ok.txt`";
        let first = proof(&found, None, |_| true).map(ToString::to_string);
        assert_eq!(first.as_deref(), Some("e2e: `tests/e2e/b.rs::sends`"));
        let kept = proof(&found, Some(golden), |_| true).map(ToString::to_string);
        assert_eq!(kept.as_deref(), Some(golden));
        let lost = proof(&found, Some("e2e: `tests/e2e/b.rs::gone`"), |_| true);
        assert_eq!(lost, Some(&found[0]));
        assert_eq!(proof(&found, Some(golden), |_| false), None);
    }
}
