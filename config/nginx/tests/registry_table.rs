//! `docs/reference/nginx-directives.md` is generated from the registry: `BLESS=1` rewrites it; review the diff.

use std::fmt::Write;

use sluice_nginx::registry::variables::{FAMILIES, NGINX_VERSION, VARIABLES, Variable};
use sluice_nginx::registry::{ENTRIES, Entry, Verdict};

use crate::support;

const HEAD: &str = "\
# What an nginx.conf can say

Every documented directive of nginx, and what sluice makes of it. This page is made from `config/nginx/src/registry` and
`config/nginx/src/modules` by `BLESS=1 cargo test -p sluice-nginx --test registry_table`.

- **works**: it does what nginx's documentation says.
- **in part**: it does what is named.
- **automatic**: it is taken, and its effect is always there.
- **no effect**: it is read, changes nothing and is warned of; what holds in its place is named.
- **only**: it works with these words and is refused by name with others.
- **not yet**: the file is refused, and the message names the line.
- **refused**: it will not come; the reason is named.
- **ours**: nginx does not know it.

Defaults are those of nginx NGINX_VERSION. Paths that do not begin with a slash begin in the folder of the main file. Responses say
`Server: sluice`, and the pages of errors say so at their foot; `server_tokens \"nginx\";` puts any other text there, which is how
tools that compare both are satisfied.

## Patterns

Patterns are those of PCRE, on bytes: with look arounds, references to groups, named groups, atomic groups and possessive
repetitions; `$` also holds before a line feed at the end. Most run in linear time. Those that look around, refer back or do not
give back are tried step by step, and a match that takes more than a million of them is given up: the response is
500, a `map` gives its default, and `sluice_patterns_given_up_total` counts it. Recursions, conditions, callouts, verbs such as
`(*UTF8)` and properties of characters are refused by name ([why](../decisions/0017-patterns-of-nginx.md)).

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
         are not built yet, {refused} are refused.",
        ENTRIES.len()
    )
    .expect("text takes all");
}

fn table() -> String {
    let mut out = HEAD.replace("NGINX_VERSION", NGINX_VERSION);
    count(&mut out);
    let mut modules: Vec<&str> = ENTRIES.iter().map(|entry| entry.module).collect();
    modules.dedup();
    for module in modules {
        writeln!(
            out,
            "\n## {module}\n\n| directive | in | written | here |\n|---|---|---|---|"
        )
        .expect("text takes all");
        for entry in ENTRIES.iter().filter(|entry| entry.module == module) {
            let places = entry.contexts.replace(',', ", ");
            let (name, syntax) = (code(entry.name), code(entry.syntax));
            writeln!(out, "| {name} | {places} | {syntax} | {} |", here(entry))
                .expect("text takes all");
        }
    }
    out.push_str("\n## Variables\n\n| variable | here |\n|---|---|\n");
    for (name, variable) in VARIABLES {
        let here = match variable {
            Variable::Placeholder(placeholder) => format!("works: `{{{placeholder}}}`"),
            Variable::Text(text) => format!("works: `{text}`"),
            Variable::OfPlace(_) => "works: that of the place where it stands".to_owned(),
            Variable::NotYet => "not yet".to_owned(),
        };
        writeln!(out, "| `${name}` | {here} |").expect("text takes all");
    }
    for (prefix, placeholder) in FAMILIES {
        let here = match placeholder {
            Some(placeholder) => format!("works: `{{{placeholder}…}}`"),
            None => "not yet".to_owned(),
        };
        writeln!(out, "| `${prefix}…` | {here} |").expect("text takes all");
    }
    out
}

#[test]
fn the_table_is_that_of_the_registry() {
    support::is_fresh("nginx-directives.md", &table());
}
