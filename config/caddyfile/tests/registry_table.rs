//! `docs/caddyfile.md` is made from the registry: `BLESS=1` rewrites it, and the diff is to be read. Whether the
//! server does what the table says is left to `tests/e2e/registry.rs`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use sluice_caddyfile::registry::placeholders::{EXACT, FAMILIES};
use sluice_caddyfile::registry::{
    DIRECTIVES, GLOBAL_OPTIONS, OPTIONS, OWN, OptionEntry, Running, Verdict, running,
};

const HEAD: &str = "\
# What a Caddyfile can say

Every directive, option, matcher and short placeholder of Caddy 2.11, and what sluice makes of it. This page is made from
`config/caddyfile/src/registry` by `BLESS=1 cargo test -p sluice-caddyfile --test registry_table`.

- **works**: it does what it says.
- **in part**: it does what is named.
- **not yet**: `sluice adapt` shows it; a server does not start with it and says so by name.
- **no effect**: it is read and changes nothing; what holds in its place is named.
- **refused**: the line is a mistake here, and the message says what to write instead.
";

fn verdict(place: &str, name: &str, verdict: Verdict) -> String {
    match verdict {
        Verdict::Renamed(new) => format!("works; its new name is `{new}`"),
        Verdict::Unsupported(instead) => format!("**refused**: {instead}"),
        Verdict::Lowered => match running(place, name) {
            Running::Whole if is_own(place, name) => "works; not in Caddy itself".to_owned(),
            Running::Whole => "works".to_owned(),
            Running::Partly(which) => format!("**in part**: {which}"),
            Running::Refused(instead) => format!("**not yet**: {instead}"),
            Running::Idle(holds) => format!("**no effect**: {holds}"),
        },
    }
}

fn is_own(place: &str, name: &str) -> bool {
    OWN.contains(if place.is_empty() { &name } else { &place })
}

/// A cell in code; a bar would end it.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

fn options(out: &mut String, entries: &[OptionEntry]) {
    let mut places: Vec<&str> = Vec::new();
    for entry in entries {
        if !places.contains(&entry.place) {
            places.push(entry.place);
        }
    }
    for place in places {
        writeln!(out, "\n### {place}\n\n| written | here |\n|---|---|").expect("text takes all");
        for entry in entries.iter().filter(|entry| entry.place == place) {
            let here = verdict(place, entry.name, entry.verdict);
            writeln!(out, "| {} | {here} |", code(entry.usage)).expect("text takes all");
        }
    }
}

fn table() -> String {
    let mut out = HEAD.to_owned();
    out.push_str("\n## Directives\n\n| directive | written | here |\n|---|---|---|\n");
    for entry in DIRECTIVES {
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
    out
}

#[test]
fn the_table_is_that_of_the_registry() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/caddyfile.md");
    let made = table();
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, made).expect("the page can be written");
        return;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differ = made
        .lines()
        .zip(kept.lines())
        .find(|(made, kept)| made != kept);
    assert!(
        made == kept,
        "docs/caddyfile.md is stale, BLESS=1 rewrites it: {differ:?}"
    );
}
