//! `docs/reference/caddyfile-directives.md` is generated from the definitions: `BLESS=1` rewrites it; review the diff. `tests/e2e/documents.rs`
//! checks that the server does what the table says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use sluice_caddyfile::registry::placeholders::{EXACT, FAMILIES};
use sluice_caddyfile::registry::{Entry, Table, Verdict, directives, global_tables, site_tables};

use crate::coverage::{Line, lines_of};
use crate::proofs::{self, Kind, Test, UNTESTED};
use crate::support;

const PAGE: &str = "caddyfile-directives.md";

const HEAD: &str = "\
# Caddyfile directives

Every directive, option, matcher and short placeholder of Caddy 2.11, and whether sluice supports it. This page is generated from
the definitions in `config/caddyfile/src/lower` by `BLESS=1 cargo test -p sluice-caddyfile registry_table`.

- **works**: supported as Caddy documents it.
- **in part**: the listed part is supported.
- **no effect**: accepted with a warning and ignored; the table says what applies instead.
- **refused**: an error, and the message says what to write instead.

Each line that works names a test that uses it: a **peer** test compares responses with those of Caddy, an **e2e** test sends requests
to sluice, and a **golden** test covers syntax and the configuration it stands for, not the behaviour. A line without a test is
**untested**.
";

const OURS: &str = "
## Not in Caddy itself

sluice's own directives and options, and those of a well-known plugin. They are not counted.
";

const PLUGINS: &str = "
## Only with a plugin

Caddy without plugins rejects these lines: each names a module that only a plugin provides. sluice rejects them as well and names
the line. They are not counted.
";

const UNRELEASED: &str = "
## Not in a released Caddy

Caddy 2.11.9 rejects these lines; they occur in documents about older or unreleased versions. sluice names the line and says what
to write instead. They are not counted.
";

fn verdict(entry: &Entry) -> String {
    match entry.verdict {
        Verdict::Works => "works".to_owned(),
        Verdict::Partly(which) => format!("**in part**: {which}"),
        Verdict::Always(why) => format!("works (always on): {why}"),
        Verdict::NoEffect(instead) => format!("**no effect**: {instead}"),
        Verdict::Renamed(new) => format!("works; its new name is `{new}`"),
        Verdict::Unsupported(instead) | Verdict::Unreleased(instead) | Verdict::Plugin(instead) => {
            format!("**refused**: {instead}")
        }
    }
}

/// The tests that prove lines, and what the page says today.
struct Proofs {
    tests: Vec<Test>,
    /// The texts of each test by its name.
    texts: BTreeMap<String, Vec<usize>>,
    /// The words and the lines of each text.
    lines: Vec<(BTreeSet<String>, Vec<Line>)>,
    cells: BTreeMap<String, String>,
    /// How many lines each kind of test proves, and how many none.
    counts: [usize; 4],
}

impl Proofs {
    fn read() -> Proofs {
        let sources = support::test_sources("caddyfile");
        let files = sources.iter().map(|(path, text)| (&path[..], &text[..]));
        let tests = proofs::tests(files, "caddyfile");
        let (texts, all) = proofs::numbered(&tests);
        let lines = all.iter().map(|text| {
            let words = text.split_whitespace().map(str::to_owned).collect();
            (words, lines_of(text))
        });
        Proofs {
            lines: lines.collect(),
            texts,
            tests,
            cells: proofs::cells(&support::page(PAGE)),
            counts: [0; 4],
        }
    }

    /// The row with its last cell; `before` has the others, and `section` is the heading above.
    fn row(&mut self, section: &str, before: &str, (table, entry): Row) -> String {
        let here = verdict(entry);
        let cells = format!("{before} | {here}");
        if !here.starts_with("works") {
            return format!("| {cells} | |");
        }
        let place = table.map_or("", |table| table.name());
        let today = self.cells.get(&format!("{section}\n{cells}"));
        let uses = |test: &Test| {
            let texts = self.texts[&test.name].iter().map(|at| &self.lines[*at]);
            let mut near = texts.filter(|(words, _)| words.contains(entry.name));
            near.any(|(_, lines)| lines.iter().any(|line| line.is(place, entry.name)))
        };
        let found = proofs::proof(&self.tests, today.map(String::as_str), uses);
        self.counts[found.map_or(3, |test| match test.kind {
            Kind::Peer => 0,
            Kind::EndToEnd => 1,
            Kind::Golden => 2,
        })] += 1;
        let proof = found.map_or(UNTESTED.to_owned(), ToString::to_string);
        format!("| {cells} | {proof} |")
    }
}

/// A directive, option or matcher, and the table it stands in; `None` for a directive.
type Row = (Option<Table>, &'static Entry);

/// Whether Caddy itself does not have the line, nor does any early version of it.
fn is_own((table, entry): &Row) -> bool {
    entry.is_own || table.is_some_and(|table| table.is_own())
}

/// Whether a line is counted: whether Caddy as it is released takes it.
fn is_counted(row: &Row) -> bool {
    row.1.verdict.is_counted() && !is_own(row)
}

/// A cell in code; a bar would end it.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

fn rows_of(table: Table) -> impl Iterator<Item = Row> {
    table.entries().map(move |entry| (Some(table), entry))
}

fn options(out: &mut String, tables: &[Table], proofs: &mut Proofs) {
    for table in tables {
        let rows: Vec<Row> = rows_of(*table).filter(is_counted).collect();
        if rows.is_empty() {
            continue;
        }
        let place = table.name();
        let section = format!("### {place}");
        writeln!(
            out,
            "\n{section}\n\n| written | here | test |\n|---|---|---|"
        )
        .expect("text takes all");
        for row in rows {
            let line = proofs.row(&section, &code(row.1.syntax), row);
            writeln!(out, "{line}").expect("text takes all");
        }
    }
}

/// Every directive, option and matcher.
fn rows() -> impl Iterator<Item = Row> {
    let directives = directives().map(|known| (None, &known.entry));
    let tables = site_tables().into_iter().chain(global_tables());
    directives.chain(tables.flat_map(rows_of))
}

/// How many lines are counted, and how many of them work.
fn count() -> (usize, usize) {
    let counted: Vec<_> = rows().filter(is_counted).collect();
    let works = |(_, entry): &&Row| verdict(entry).starts_with("works");
    (counted.len(), counted.iter().filter(works).count())
}

/// What is not counted, with the place it would stand in.
fn others(out: &mut String, title: &str, is_one: fn(&Row) -> bool, proofs: &mut Proofs) {
    out.push_str(title);
    out.push_str("\n| in | written | here | test |\n|---|---|---|---|\n");
    let section = title.trim_start().lines().next().unwrap_or_default();
    for row in rows().filter(is_one) {
        let place = row.0.map_or("a site", |table| table.name());
        let before = format!("{place} | {}", code(row.1.syntax));
        let line = proofs.row(section, &before, row);
        writeln!(out, "{line}").expect("text takes all");
    }
}

/// The top of the page; `proven` has the numbers of lines that each kind of test proves.
fn head(proven: [usize; 4]) -> String {
    let mut out = HEAD.to_owned();
    let (all, works) = count();
    let tenths = works * 1000 / all;
    let [peer, e2e, golden, untested] = proven;
    writeln!(
        out,
        "\n**{works} of {all} lines say works: {}.{} %.** The count covers the directives, options and matchers that Caddy \
         2.11.9 accepts without plugins,\neach in every place where it is allowed; what it rejects is at the end of this page. \
         Of those that work\n{peer} have a peer test, {e2e} an e2e test, {golden} a golden test, and {untested} are untested.",
        tenths / 10,
        tenths % 10
    )
    .expect("text takes all");
    out
}

fn table() -> String {
    let mut proofs = Proofs::read();
    let mut lines = String::new();
    lines.push_str("\n## Directives\n\n| directive | written | here | test |\n|---|---|---|---|\n");
    let directives = directives().map(|known| (None, &known.entry));
    for row in directives.filter(is_counted) {
        let before = format!("{} | {}", code(row.1.name), code(row.1.syntax));
        let line = proofs.row("## Directives", &before, row);
        writeln!(lines, "{line}").expect("text takes all");
    }
    lines.push_str(
        "\n## Options and matchers\n\nThe heading names the directive or option around them.\n",
    );
    options(&mut lines, &site_tables(), &mut proofs);
    lines.push_str("\n## Global options\n");
    options(&mut lines, &global_tables(), &mut proofs);
    let mut out = head(proofs.counts);
    out.push_str(&lines);
    out.push_str("\n## Short placeholders\n\n| short | stands for |\n|---|---|\n");
    for (short, long) in EXACT {
        writeln!(out, "| `{{{short}}}` | `{{{long}}}` |").expect("text takes all");
    }
    for family in FAMILIES {
        let (prefix, long) = (family.prefix, family.long);
        writeln!(out, "| `{{{prefix}.*}}` | `{{{long}*}}` |").expect("text takes all");
    }
    others(&mut out, OURS, is_own, &mut proofs);
    let is_plugin = |(_, entry): &Row| matches!(entry.verdict, Verdict::Plugin(_));
    others(&mut out, PLUGINS, is_plugin, &mut proofs);
    let is_unreleased = |(_, entry): &Row| matches!(entry.verdict, Verdict::Unreleased(_));
    others(&mut out, UNRELEASED, is_unreleased, &mut proofs);
    out
}

/// The page says itself how it counts; this counts its lines once more.
#[test]
fn the_count_at_its_head_is_that_of_its_lines() {
    let page = table();
    let (counted, _) = page.split_once("## Short placeholders").expect("a heading");
    let is_line = |line: &&str| line.starts_with("| `");
    let all = counted.lines().filter(is_line).count();
    let is_verdict =
        |cell: &str| cell == "works" || cell.starts_with("works ") || cell.starts_with("works;");
    let works = counted
        .lines()
        .filter(is_line)
        .filter(|line| line.split(" | ").any(is_verdict))
        .count();
    assert_eq!((all, works), count());
    let head = format!("**{works} of {all} lines say works: ");
    assert!(page.contains(&head), "{head}");
}

#[test]
fn the_table_is_that_of_the_registry() {
    support::is_fresh(PAGE, &table());
}
