//! `docs/reference/caddyfile-directives.md` is generated from the registry: `BLESS=1` rewrites it; review the diff. `tests/e2e/documents.rs`
//! checks that the server does what the table says.

use std::fmt::Write;

use sluice_caddyfile::registry::placeholders::{EXACT, FAMILIES};
use sluice_caddyfile::registry::{
    DIRECTIVES, GLOBAL_OPTIONS, OPTIONS, OWN, OptionEntry, Running, Verdict, running,
};

use crate::support;

const HEAD: &str = "\
# What a Caddyfile can say

Every directive, option, matcher and short placeholder of Caddy 2.11, and what sluice makes of it. This page is made from
`config/caddyfile/src/registry` by `BLESS=1 cargo test -p sluice-caddyfile --test registry_table`.

- **works**: it does what it says.
- **in part**: it does what is named.
- **no effect**: it is read and changes nothing; what holds in its place is named.
- **refused**: the line is a mistake here, and the message says what to write instead.
";

const OURS: &str = "
## Not in Caddy itself

Our own words, and those of a plugin that people know. They are not counted.
";

const PLUGINS: &str = "
## Only with a plugin

Caddy as it is released refuses these lines: each names a module that a plugin has to bring. Here the message names the
line. They are not counted.
";

const UNRELEASED: &str = "
## Not in a released Caddy

Caddy 2.11.4 refuses these lines; they stand in documents about it, old or early ones. Here the message names the line
and says what to write instead. They are not counted.
";

fn verdict(place: &str, name: &str, verdict: Verdict) -> String {
    match verdict {
        Verdict::Renamed(new) => format!("works; its new name is `{new}`"),
        Verdict::Unsupported(instead) | Verdict::Unreleased(instead) | Verdict::Plugin(instead) => {
            format!("**refused**: {instead}")
        }
        Verdict::Lowered => match running(place, name) {
            Running::Whole => "works".to_owned(),
            Running::Partly(which) => format!("**in part**: {which}"),
            Running::Always(why) => format!("works, written or not: {why}"),
            Running::Idle(holds) => format!("**no effect**: {holds}"),
        },
    }
}

/// Whether Caddy itself does not have the word, nor does any early version of it.
fn is_own(place: &str, name: &str) -> bool {
    OWN.contains(&place) || OWN.contains(&name)
}

/// Whether a word is counted: whether Caddy as it is released takes it.
fn is_counted(place: &str, name: &str, verdict: Verdict) -> bool {
    verdict.is_counted() && !is_own(place, name)
}

/// A cell in code; a bar would end it.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

fn options(out: &mut String, entries: &[OptionEntry]) {
    let mut places: Vec<&str> = Vec::new();
    for entry in entries
        .iter()
        .filter(|entry| is_counted(entry.place, entry.name, entry.verdict))
    {
        if !places.contains(&entry.place) {
            places.push(entry.place);
        }
    }
    for place in places {
        writeln!(out, "\n### {place}\n\n| written | here |\n|---|---|").expect("text takes all");
        let counted = |entry: &&OptionEntry| {
            entry.place == place && is_counted(place, entry.name, entry.verdict)
        };
        for entry in entries.iter().filter(counted) {
            let here = verdict(place, entry.name, entry.verdict);
            writeln!(out, "| {} | {here} |", code(entry.usage)).expect("text takes all");
        }
    }
}

/// Every directive, option and matcher: the place it stands in, its name, how it is written, its verdict.
fn entries() -> impl Iterator<Item = (&'static str, &'static str, &'static str, Verdict)> {
    let directives = DIRECTIVES
        .iter()
        .map(|entry| ("", entry.name, entry.usage, entry.verdict));
    let options = OPTIONS.iter().chain(GLOBAL_OPTIONS);
    directives.chain(options.map(|entry| (entry.place, entry.name, entry.usage, entry.verdict)))
}

/// How many lines are counted, and how many of them work.
fn count() -> (usize, usize) {
    let counted: Vec<_> = entries()
        .filter(|(place, name, _, verdict)| is_counted(place, name, *verdict))
        .collect();
    let works = |(place, name, _, given): &&(&str, &str, &str, Verdict)| {
        verdict(place, name, *given).starts_with("works")
    };
    (counted.len(), counted.iter().filter(works).count())
}

/// What is not counted, with the place it would stand in.
fn others(out: &mut String, title: &str, is_one: fn(&str, &str, Verdict) -> bool) {
    out.push_str(title);
    out.push_str("\n| in | written | here |\n|---|---|---|\n");
    let ones = entries().filter(|(place, name, _, verdict)| is_one(place, name, *verdict));
    for (place, name, usage, given) in ones {
        let here = verdict(place, name, given);
        let place = if place.is_empty() { "a site" } else { place };
        writeln!(out, "| {place} | {} | {here} |", code(usage)).expect("text takes all");
    }
}

fn table() -> String {
    let mut out = HEAD.to_owned();
    let (all, works) = count();
    let tenths = works * 1000 / all;
    writeln!(
        out,
        "\n**{works} of {all} lines say works: {}.{} %.** Counted are the directives, options and matchers that Caddy \
         2.11.4 takes as it is\nreleased, each where it may stand; what it refuses stands at the end of this page.",
        tenths / 10,
        tenths % 10
    )
    .expect("text takes all");
    out.push_str("\n## Directives\n\n| directive | written | here |\n|---|---|---|\n");
    for entry in DIRECTIVES
        .iter()
        .filter(|entry| is_counted("", entry.name, entry.verdict))
    {
        let here = verdict("", entry.name, entry.verdict);
        writeln!(
            out,
            "| {} | {} | {here} |",
            code(entry.name),
            code(entry.usage)
        )
        .expect("text takes all");
    }
    out.push_str(
        "\n## Options and matchers\n\nThe heading names the directive or option around them.\n",
    );
    options(&mut out, OPTIONS);
    out.push_str("\n## Global options\n");
    options(&mut out, GLOBAL_OPTIONS);
    out.push_str("\n## Short placeholders\n\n| short | stands for |\n|---|---|\n");
    for (short, long) in EXACT {
        writeln!(out, "| `{{{short}}}` | `{{{long}}}` |").expect("text takes all");
    }
    for family in FAMILIES {
        let (prefix, long) = (family.prefix, family.long);
        writeln!(out, "| `{{{prefix}.*}}` | `{{{long}*}}` |").expect("text takes all");
    }
    others(&mut out, OURS, |place, name, _| is_own(place, name));
    others(&mut out, PLUGINS, |_, _, verdict| {
        matches!(verdict, Verdict::Plugin(_))
    });
    others(&mut out, UNRELEASED, |_, _, verdict| {
        matches!(verdict, Verdict::Unreleased(_))
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
