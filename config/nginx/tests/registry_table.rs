//! `docs/reference/nginx-directives.md` is generated from the registry: `BLESS=1` rewrites it; review the diff.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use sluice_nginx::registry::variables::{FAMILIES, NGINX_VERSION, VARIABLES, Variable};
use sluice_nginx::registry::{ENTRIES, Entry, Verdict};

use crate::proofs::{self, Kind, Test, UNTESTED};
use crate::support;

const PAGE: &str = "nginx-directives.md";

const HEAD: &str = "\
# Directives of nginx

Every documented directive of nginx, and whether sluice supports it. This page is generated from `config/nginx/src/registry` and
`config/nginx/src/modules` by `BLESS=1 cargo test -p sluice-nginx registry_table`.

- **works**: as nginx's documentation describes it.
- **in part**: what the note lists works.
- **automatic**: it is accepted without a warning, and its value is not used; the note says what sluice does in every case.
- **no effect**: it is accepted with a warning and changes nothing; the note says what happens instead.
- **only**: these values work; others are rejected.
- **not yet**: a file that uses it is rejected with the line.
- **refused**: it will not be supported, for the reason in the note.
- **ours**: a directive of sluice that nginx does not have.

Each row that works names a test that uses it: a **peer** test compares responses with those of nginx, an **e2e** test sends requests
to sluice, and a **golden** test covers syntax and the configuration it stands for, not the behaviour. A row without a test is
**untested**.

Defaults are those of nginx NGINX_VERSION. Relative paths start at the folder of the main file. Responses have the header `Server:
sluice`, and error pages show it at the bottom; `server_tokens \"nginx\";` replaces it by another text, for tools that compare
both.

## Patterns

Regular expressions have the syntax of PCRE, on bytes: with lookaround, backreferences, named groups, atomic groups and possessive
quantifiers; `$` also matches before a line feed at the end. Most run in linear time. Those with lookaround, backreferences or atomic
groups use backtracking, and a match that needs more than a million steps is aborted: the response is 500, a `map` gives its
default, and `sluice_patterns_given_up_total` counts it. Properties (`\\p{Lu}`) are those of the Latin-1 character with the number
of the byte, as with nginx. Recursion, conditions, callouts and verbs such as `(*UTF8)` are rejected
([why](../decisions/0017-patterns-of-nginx.md)).

## Directives
";

fn here(entry: &Entry) -> String {
    match entry.verdict() {
        Verdict::Works if entry.is_ours => "works: **ours**, nginx does not know it".to_owned(),
        Verdict::Works => "works".to_owned(),
        Verdict::Partly(which) => format!("**in part**: {which}"),
        Verdict::Always(why) => format!("automatic: {why}"),
        Verdict::Idle(holds) => format!("**no effect**: {holds}"),
        Verdict::OnlyAs(words) => format!("only `{}`", words.join("`, `")),
        Verdict::NotYet => "not yet".to_owned(),
        Verdict::Refused(reason) => format!("**refused**: {reason}"),
    }
}

/// A directive in a text, and the block around it; `None` if the text does not show that block.
#[derive(Debug, PartialEq, Eq)]
struct Use {
    name: String,
    block: Option<String>,
}

/// The directives in a text, if it is a part of an nginx.conf; none otherwise.
fn uses_of(text: &str, known: &BTreeSet<&str>) -> Vec<Use> {
    let mut found = Vec::new();
    let mut blocks: Vec<String> = Vec::new();
    let mut words = String::new();
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) => {
                words.push(c);
                quote = quote.filter(|_| open != c);
            }
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') if words.trim().is_empty() => {
                while chars.next_if(|c| *c != '\n').is_some() {}
            }
            // A variable or the place of a value that a test fills in.
            (None, '{')
                if words.ends_with('$') || chars.peek().is_some_and(|c| c.is_lowercase()) =>
            {
                words.push(c);
                while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    words.push(c);
                }
                chars.next_if(|c| *c == '}');
            }
            (None, ';' | '{' | '}') => {
                let name = words
                    .split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                if !name.is_empty() && c != '}' {
                    let block = blocks.last().cloned();
                    found.push(Use {
                        name: name.clone(),
                        block,
                    });
                }
                words.clear();
                match c {
                    '{' => blocks.push(name),
                    '}' => _ = blocks.pop(),
                    _ => {}
                }
            }
            (None, c) => words.push(c),
        }
    }
    let count = found
        .iter()
        .filter(|one| known.contains(&*one.name))
        .count();
    match count * 2 >= found.len() {
        true => found,
        false => Vec::new(),
    }
}

impl Use {
    /// Whether it is this directive, in a place where that may stand.
    fn is(&self, entry: &Entry) -> bool {
        let is_there = |block: &str| {
            let mut contexts = entry.contexts.split(',').map(str::trim);
            contexts.any(|context| context == block || block == "if" && context.contains("if in"))
        };
        self.name == entry.name && self.block.as_deref().is_none_or(is_there)
    }
}

/// The tests that prove rows, and what the page says today.
struct Proofs {
    tests: Vec<Test>,
    /// The texts of each test by its name.
    texts: BTreeMap<String, Vec<usize>>,
    /// The directives in each text by their names.
    uses: Vec<BTreeMap<String, Vec<Use>>>,
    cells: BTreeMap<String, String>,
    /// How many rows each kind of test proves, and how many none.
    counts: [usize; 4],
}

impl Proofs {
    fn read() -> Proofs {
        let sources = support::test_sources("nginx");
        let files = sources.iter().map(|(path, text)| (&path[..], &text[..]));
        let tests = proofs::tests(files, "nginx");
        let known: BTreeSet<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
        let (texts, all) = proofs::numbered(&tests);
        let uses = all.iter().map(|text| {
            let mut by_name: BTreeMap<String, Vec<Use>> = BTreeMap::new();
            for one in uses_of(text, &known) {
                by_name.entry(one.name.clone()).or_default().push(one);
            }
            by_name
        });
        Proofs {
            uses: uses.collect(),
            texts,
            tests,
            cells: proofs::cells(&support::page(PAGE)),
            counts: [0; 4],
        }
    }

    /// The row with its last cell; `before` has the others, and `section` is the heading above.
    fn row(
        &mut self,
        section: &str,
        before: &str,
        is_proof: impl Fn(&Self, &Test) -> bool,
    ) -> String {
        let works = before
            .split(" | ")
            .any(|cell| cell == "works" || cell.starts_with("works:"));
        if !works {
            return format!("| {before} | |");
        }
        let today = self.cells.get(&format!("{section}\n{before}"));
        let is_one = |test: &Test| is_proof(self, test);
        let found = proofs::proof(&self.tests, today.map(String::as_str), is_one);
        self.counts[found.map_or(3, |test| match test.kind {
            Kind::Peer => 0,
            Kind::EndToEnd => 1,
            Kind::Golden => 2,
        })] += 1;
        let proof = found.map_or(UNTESTED.to_owned(), ToString::to_string);
        format!("| {before} | {proof} |")
    }

    fn variable(&mut self, before: &str, name: &str) -> String {
        let dollar = format!("${name}");
        let braces = format!("${{{name}}}");
        let is_family = name.ends_with('_');
        let has = |text: &String| {
            text.contains(&braces)
                || text.match_indices(&dollar).any(|(at, _)| {
                    let next = text[at + dollar.len()..].chars().next();
                    is_family == next.is_some_and(|c| c.is_alphanumeric() || c == '_')
                })
        };
        self.row("## Variables", before, |_, test| test.texts.iter().any(has))
    }
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

fn count(out: &mut String) {
    let is = |test: fn(&Verdict) -> bool| {
        ENTRIES
            .iter()
            .filter(|entry| test(&entry.verdict()))
            .count()
    };
    let works = is(|verdict| matches!(verdict, Verdict::Works));
    let partly = is(|verdict| matches!(verdict, Verdict::Partly(_) | Verdict::OnlyAs(_)));
    let always = is(|verdict| matches!(verdict, Verdict::Always(_)));
    let idle = is(|verdict| matches!(verdict, Verdict::Idle(_)));
    let not_yet = is(|verdict| matches!(verdict, Verdict::NotYet));
    let refused = is(|verdict| matches!(verdict, Verdict::Refused(_)));
    writeln!(
        out,
        "\nOf {} directives {works} work, {partly} work in part, {always} are automatic, {idle} have no effect, {not_yet} \
         are not supported yet, {refused} are refused.",
        ENTRIES.len()
    )
    .expect("text takes all");
}

fn table() -> String {
    let mut proofs = Proofs::read();
    let mut rows = String::new();
    let mut modules: Vec<&str> = ENTRIES.iter().map(|entry| entry.module).collect();
    modules.dedup();
    for module in modules {
        let section = format!("## {module}");
        writeln!(
            rows,
            "\n{section}\n\n| directive | in | written | here | test |\n|---|---|---|---|---|"
        )
        .expect("text takes all");
        for entry in ENTRIES.iter().filter(|entry| entry.module == module) {
            let places = entry.contexts.replace(',', ", ");
            let (name, syntax) = (code(entry.name), code(entry.syntax));
            let before = format!("{name} | {places} | {syntax} | {}", here(entry));
            let row = proofs.row(&section, &before, |proofs, test| {
                let texts = proofs.texts[&test.name].iter();
                let mut uses = texts
                    .filter_map(|at| proofs.uses[*at].get(entry.name))
                    .flatten();
                // A table of directives beside nginx has the name by itself.
                let is_named = || test.texts.iter().any(|text| text == entry.name);
                let is_beside = test.kind == Kind::Peer && !entry.is_ours;
                uses.any(|one| one.is(entry)) || is_beside && is_named()
            });
            writeln!(rows, "{row}").expect("text takes all");
        }
    }
    let directives = proofs.counts;
    proofs.counts = [0; 4];
    variables(&mut rows, &mut proofs);
    let mut out = HEAD.replace("NGINX_VERSION", NGINX_VERSION);
    count(&mut out);
    for (what, [peer, e2e, golden, untested]) in
        [("directives", directives), ("variables", proofs.counts)]
    {
        writeln!(
            out,
            "Of the {what} that work {peer} have a peer test, {e2e} an e2e test, {golden} a golden test, and {untested} are \
             untested."
        )
        .expect("text takes all");
    }
    out + &rows
}

fn variables(out: &mut String, proofs: &mut Proofs) {
    out.push_str("\n## Variables\n\n| variable | here | test |\n|---|---|---|\n");
    for (name, variable) in VARIABLES {
        let here = match variable {
            Variable::Placeholder(placeholder) => format!("works: `{{{placeholder}}}`"),
            Variable::Text(text) => format!("works: `{text}`"),
            Variable::OfPlace(_) => "works: the value of the context".to_owned(),
            Variable::NotYet => "not yet".to_owned(),
        };
        let row = proofs.variable(&format!("`${name}` | {here}"), name);
        writeln!(out, "{row}").expect("text takes all");
    }
    for (prefix, placeholder) in FAMILIES {
        let here = match placeholder {
            Some(placeholder) => format!("works: `{{{placeholder}…}}`"),
            None => "not yet".to_owned(),
        };
        let row = proofs.variable(&format!("`${prefix}…` | {here}"), prefix);
        writeln!(out, "{row}").expect("text takes all");
    }
}

#[test]
fn uses_have_the_block_around_them() {
    let known = BTreeSet::from(["listen", "location", "proxy_pass", "server", "http"]);
    let text = "http {\nserver { listen 127.0.0.1:{port}; location /a{2} { proxy_pass \"http://a;b\"; } }\n}";
    let one = |name: &str, block: Option<&str>| Use {
        name: name.to_owned(),
        block: block.map(str::to_owned),
    };
    let found = uses_of("listen ${x}80; location / { proxy_pass http://a; }", &known);
    let inner = one("proxy_pass", Some("location"));
    assert_eq!(found, [one("listen", None), one("location", None), inner]);
    let names: Vec<_> = uses_of(text, &known)
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert_eq!(names[..3], ["http", "server", "listen"]);
    assert!(uses_of("a; b; it is { no } listen", &known).is_empty());
}

#[test]
fn the_table_is_that_of_the_registry() {
    support::is_fresh(PAGE, &table());
}
