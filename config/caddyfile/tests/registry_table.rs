//! `docs/reference/caddyfile-directives.md` is generated from the definitions: `BLESS=1` rewrites it; review the diff. `tests/e2e/documents.rs`
//! checks that the server does what the table says.

use std::fmt::Write;

use sluice_caddyfile::registry::placeholders::{EXACT, FAMILIES};
use sluice_caddyfile::registry::{Entry, Table, Verdict, directives, global_tables, site_tables};

use crate::evidence::Evidence;
use crate::support;

const HEAD: &str = "\
# Caddyfile directives

Every directive, option, matcher and short placeholder of Caddy 2.11, and whether sluice supports it. This page is generated from
the definitions in `config/caddyfile/src/lower` by `BLESS=1 cargo test -p sluice-caddyfile --test registry_table`.

- **works**: supported as Caddy documents it.
- **in part**: the listed part is supported.
- **no effect**: accepted with a warning and ignored; the table says what applies instead.
- **refused**: an error, and the message says what to write instead.

Behind the verdict stands the first end-to-end or peer test (`file::function` in `tests/`) that runs a server with the line;
**untested** means that none does, and that only the adaptation to JSON is tested.
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

/// The verdict, with the test that runs a server with the line.
fn shown(place: &str, entry: &Entry, evidence: &Evidence) -> String {
    let verdict = verdict(entry);
    if entry.verdict.refused().is_some() || matches!(entry.verdict, Verdict::NoEffect(_)) {
        return verdict;
    }
    match evidence.find(place, entry.name) {
        Some(test) => format!("{verdict} (`{test}`)"),
        None => format!("{verdict} (untested)"),
    }
}

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

fn options(out: &mut String, tables: &[Table], evidence: &Evidence) {
    for table in tables {
        let rows: Vec<Row> = rows_of(*table).filter(is_counted).collect();
        if rows.is_empty() {
            continue;
        }
        let place = table.name();
        writeln!(out, "\n### {place}\n\n| written | here |\n|---|---|").expect("text takes all");
        for (_, entry) in rows {
            let here = shown(place, entry, evidence);
            writeln!(out, "| {} | {here} |", code(entry.syntax)).expect("text takes all");
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
fn others(out: &mut String, title: &str, evidence: &Evidence, is_one: fn(&Row) -> bool) {
    out.push_str(title);
    out.push_str("\n| in | written | here |\n|---|---|---|\n");
    for (table, entry) in rows().filter(is_one) {
        let here = shown(table.map_or("", |table| table.name()), entry, evidence);
        let place = table.map_or("a site", |table| table.name());
        writeln!(out, "| {place} | {} | {here} |", code(entry.syntax)).expect("text takes all");
    }
}

fn table() -> String {
    let mut out = HEAD.to_owned();
    let evidence = Evidence::collect();
    let (all, works) = count();
    let tenths = works * 1000 / all;
    writeln!(
        out,
        "\n**{works} of {all} lines say works: {}.{} %.** The count covers the directives, options and matchers that Caddy \
         2.11.9 accepts without plugins,\neach in every place where it is allowed; what it rejects is at the end of this page.",
        tenths / 10,
        tenths % 10
    )
    .expect("text takes all");
    out.push_str("\n## Directives\n\n| directive | written | here |\n|---|---|---|\n");
    let directives = directives().map(|known| (None, &known.entry));
    for (_, entry) in directives.filter(is_counted) {
        let (name, syntax) = (code(entry.name), code(entry.syntax));
        let here = shown("", entry, &evidence);
        writeln!(out, "| {name} | {syntax} | {here} |").expect("text takes all");
    }
    out.push_str(
        "\n## Options and matchers\n\nThe heading names the directive or option around them.\n",
    );
    options(&mut out, &site_tables(), &evidence);
    out.push_str("\n## Global options\n");
    options(&mut out, &global_tables(), &evidence);
    out.push_str("\n## Short placeholders\n\n| short | stands for |\n|---|---|\n");
    for (short, long) in EXACT {
        writeln!(out, "| `{{{short}}}` | `{{{long}}}` |").expect("text takes all");
    }
    for family in FAMILIES {
        let (prefix, long) = (family.prefix, family.long);
        writeln!(out, "| `{{{prefix}.*}}` | `{{{long}*}}` |").expect("text takes all");
    }
    others(&mut out, OURS, &evidence, is_own);
    others(&mut out, PLUGINS, &evidence, |(_, entry)| {
        matches!(entry.verdict, Verdict::Plugin(_))
    });
    others(&mut out, UNRELEASED, &evidence, |(_, entry)| {
        matches!(entry.verdict, Verdict::Unreleased(_))
    });
    out
}

/// The page says itself how it counts; this counts its lines once more.
#[test]
fn the_count_at_its_head_is_that_of_its_lines() {
    let page = table();
    let (counted, _) = page.split_once("## Short placeholders").expect("a heading");
    let is_line = |line: &&str| line.starts_with("| `");
    let all = counted.lines().filter(is_line).count();
    let cells = |line: &str| line.rsplit(" | ").next().map(str::to_owned);
    let works = counted
        .lines()
        .filter(is_line)
        .filter(|line| cells(line).is_some_and(|here| here.starts_with("works")))
        .count();
    assert_eq!((all, works), count());
    let head = format!("**{works} of {all} lines say works: ");
    assert!(page.contains(&head), "{head}");
}

#[test]
fn the_table_is_that_of_the_registry() {
    support::is_fresh("caddyfile-directives.md", &table());
}
