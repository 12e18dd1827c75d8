//! Every word of the registry has a golden test in which it is accepted and one in which a mistake on its line is
//! reported. Both are found by the lines of the cases and the positions of messages, so a new word without tests fails
//! here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use sluice_caddyfile::registry::placeholders::{EXACT, FAMILIES};
use sluice_caddyfile::registry::{directives, global_tables, site_tables};

/// A line of a Caddyfile.
#[derive(Debug)]
pub struct Line {
    words: Vec<String>,
    /// The first words of the lines around it, outermost first.
    around: Vec<Vec<String>>,
    fate: Fate,
}

/// What a case makes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The case is taken.
    Taken,
    /// A message points at the line, or into its block.
    Refused,
    /// Another line of the case is refused.
    Lost,
}

/// All lines of all cases that adapt a Caddyfile.
fn lines() -> Vec<Line> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut found = Vec::new();
    for topic in fs::read_dir(golden).expect("the cases are there").flatten() {
        let name = topic.file_name();
        if ["parse", "fmt", "v1"].iter().any(|other| name == *other) {
            continue;
        }
        for case in fs::read_dir(topic.path()).expect("a folder").flatten() {
            let text = fs::read_to_string(case.path()).expect("cases are UTF-8");
            let (input, output) = text.split_once("\n----\n").expect("a case has two parts");
            read_case(input, output, &mut found);
        }
    }
    found
}

/// The lines of a text that may be a Caddyfile: those inside of blocks of sites, or in the global options.
pub fn lines_of(text: &str) -> Vec<Line> {
    let mut found = Vec::new();
    read_case(text, "", &mut found);
    found.retain(|line| line.around.first().is_some_and(|block| is_site(block)));
    found
}

/// Whether these words open the block of a site, a snippet or the global options.
fn is_site(words: &[String]) -> bool {
    let is_address = |word: &String| {
        let marks = [":", ".", "localhost", "{port}"];
        word.starts_with(['(', '&']) || marks.iter().any(|mark| word.contains(mark))
    };
    match words {
        [brace] => brace == "{",
        [address, .., brace] => brace == "{" && is_address(address),
        [] => false,
    }
}

fn read_case(input: &str, output: &str, found: &mut Vec<Line>) {
    let has_errors = output.contains("error[");
    let refused = refused_lines(output);
    let file = input.split("=== ").next().unwrap_or_default();
    let fate = |at: usize| match has_errors {
        false => Fate::Taken,
        true if refused.contains(&(at + 1)) => Fate::Refused,
        true => Fate::Lost,
    };
    read_lines(file, fate, found);
}

/// Adds the lines of a Caddyfile; `fate_of` knows what becomes of each.
pub fn read_lines(file: &str, fate_of: impl Fn(usize) -> Fate, found: &mut Vec<Line>) {
    let mut around: Vec<Vec<String>> = Vec::new();
    let mut openers: Vec<usize> = Vec::new();
    for (at, line) in file.lines().enumerate() {
        let words: Vec<String> = line
            .split_whitespace()
            .take_while(|word| !word.starts_with('#'))
            .map(str::to_owned)
            .collect();
        match words.as_slice() {
            [] => continue,
            [brace] if brace == "}" => {
                around.pop();
                openers.pop();
                continue;
            }
            _ => {}
        }
        let fate = fate_of(at);
        if fate == Fate::Refused {
            // A mistake in the block of a line is one of that line.
            openers.iter().for_each(|opener| found[*opener].fate = fate);
        }
        let around_it = around.clone();
        if words.last().is_some_and(|word| word == "{") {
            around.push(words.clone());
            openers.push(found.len());
        }
        found.push(Line {
            words,
            around: around_it,
            fate,
        });
    }
}

/// The numbers of the lines that errors point at.
fn refused_lines(output: &str) -> BTreeSet<usize> {
    let mut numbers = BTreeSet::new();
    let mut is_error = false;
    for line in output.lines() {
        if line.starts_with("error[") || line.starts_with("warning[") {
            is_error = line.starts_with("error[");
        }
        let at = line.trim_start().strip_prefix("--> Caddyfile:");
        if let Some(number) = at.and_then(|at| at.split(':').next()).filter(|_| is_error) {
            numbers.extend(number.parse::<usize>());
        }
    }
    numbers
}

impl Line {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    /// The word of the line around this one, `0` being the innermost.
    fn outer(&self, depth: usize, at: usize) -> &str {
        let line = self.around.iter().rev().nth(depth);
        line.and_then(|line| line.get(at))
            .map_or("", String::as_str)
    }

    /// Whether the line stands directly in the global options.
    fn is_global(&self) -> bool {
        matches!(self.around.as_slice(), [block] if *block == ["{"])
    }

    /// Whether it stands somewhere in the global options.
    fn is_below_global(&self) -> bool {
        self.around.first().is_some_and(|block| *block == ["{"])
    }

    /// Whether this is the word `name` of `place`.
    pub fn is(&self, place: &str, name: &str) -> bool {
        if place == "matcher" {
            return self.is_matcher(name);
        }
        self.word(0) == name && self.is_in(place, name)
    }

    fn is_in(&self, place: &str, name: &str) -> bool {
        let outer = |word: &str| self.outer(0, 0) == word;
        let outer_two = |first: &[&str], second: &str| {
            first.contains(&self.outer(0, 0)) && self.outer(0, 1) == second
        };
        match place {
            "" => !self.is_global() && !self.around.is_empty(),
            "global options" => self.is_global(),
            "log" => outer("log"),
            "encode" => outer("encode") || outer("zstd"),
            "acme_server" => outer("acme_server") || outer("allow") || outer("deny"),
            "metrics option" => outer("metrics") && self.is_below_global(),
            "format" => outer("format") || outer("wrap") || outer("json") || outer("console"),
            "output file" => outer_two(&["output"], "file"),
            "storage etcd" => outer_two(&["storage"], "etcd"),
            "storage postgres" => outer_two(&["storage"], "postgres"),
            "storage redis" => outer_two(&["storage"], "redis"),
            "permission python_dir" => outer_two(&["permission"], "python_dir"),
            "events exec" => outer("on") && self.outer(0, 2) == "exec",
            "events webhook" => outer("on") && self.outer(0, 2) == "webhook",
            "output net" => outer_two(&["output"], "net"),
            "browse" => outer("browse"),
            "in_flight distributed" => outer("distributed") && self.outer(1, 0) == "in_flight",
            "dynamic" => outer("dynamic") || outer("source"),
            "transport http" => outer_two(&["transport"], "http"),
            "transport fastcgi" => outer_two(&["transport"], "fastcgi"),
            "transport scgi" => outer_two(&["transport"], "scgi"),
            "transport uwsgi" => outer_two(&["transport"], "uwsgi"),
            "issuer acme" => outer_two(&["issuer", "cert_issuer"], "acme"),
            "issuer zerossl" => outer_two(&["issuer", "cert_issuer"], "zerossl"),
            "issuer internal" => outer_two(&["issuer", "cert_issuer"], "internal"),
            "verifier leaf" => {
                outer_two(&["verifier"], "leaf") || self.words_behind("verifier", "leaf", name)
            }
            "trust_pool" => {
                let pools = ["trust_pool", "tls_trust_pool", "source", "ca", "tls"];
                pools.contains(&self.outer(0, 0))
            }
            "response matcher" => outer("match") || self.outer(0, 0).starts_with('@'),
            "file matcher" => outer("file") || self.outer(0, 1) == "file",
            "url_pattern matcher" => outer("url_pattern") || self.outer(0, 1) == "url_pattern",
            "key pair" => outer("root") || outer("intermediate"),
            place => outer(place) || self.outer(0, 0) == format!("{place}:"),
        }
    }

    /// Whether the line itself is `first second name …`.
    fn words_behind(&self, first: &str, second: &str, name: &str) -> bool {
        [self.word(0), self.word(1), self.word(2)] == [first, second, name]
    }

    fn is_matcher(&self, name: &str) -> bool {
        let in_block = self.outer(0, 0).starts_with('@') || self.outer(0, 0) == "not";
        let inline = self.word(0).starts_with('@') || (in_block && self.word(0) == "not");
        (in_block && self.word(0) == name) || (inline && self.word(1) == name)
    }
}

/// Whether a line that Caddy counts as this word is in a case, with this fate.
fn has(lines: &[Line], place: &str, name: &str, fate: Fate) -> bool {
    lines
        .iter()
        .any(|line| line.fate == fate && line.is(place, name))
}

#[test]
fn every_word_has_a_case_and_one_with_a_mistake() {
    let lines = lines();
    assert!(lines.len() > 2000, "only {} lines were found", lines.len());
    let directives = directives().map(|known| ("", &known.entry));
    let tables = site_tables().into_iter().chain(global_tables());
    let options = tables.flat_map(|table| table.entries().map(|entry| (table.name(), entry)));
    let mut missing = Vec::new();
    for (place, entry) in directives.chain(options) {
        let name = entry.name;
        let is_taken = entry.verdict.refused().is_none();
        if is_taken && !has(&lines, place, name, Fate::Taken) {
            missing.push(format!("`{name}` of `{place}` is in no case that is taken"));
        }
        if !has(&lines, place, name, Fate::Refused) {
            missing.push(format!("`{name}` of `{place}` has no case with a mistake"));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_short_placeholder_has_a_case() {
    let lines = lines();
    let taken: String = lines
        .iter()
        .filter(|line| line.fate == Fate::Taken)
        .flat_map(|line| line.words.iter().map(|word| format!("{word} ")))
        .collect();
    let exact = EXACT.iter().map(|(short, _)| format!("{{{short}}}"));
    let families = FAMILIES
        .iter()
        .map(|family| format!("{{{}.", family.prefix));
    let missing: Vec<String> = exact
        .chain(families)
        .filter(|word| !taken.contains(word))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
