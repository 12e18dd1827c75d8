//! `docs/reference/nginx-directives.md` is generated from the registry: `BLESS=1` rewrites it; review the diff.

use std::fmt::Write;

use sluice_nginx::registry::variables::{FAMILIES, NGINX_VERSION, VARIABLES, Variable};
use sluice_nginx::registry::{ENTRIES, Entry, Verdict};

use crate::proofs::Proofs;
use crate::support;

const HEAD: &str = "\
# Directives of nginx

Every documented directive of nginx, and whether sluice supports it. This page is generated from `config/nginx/src/registry` and
`config/nginx/src/modules` by `BLESS=1 cargo test -p sluice-nginx --test registry_table`.

- **works**: as nginx's documentation describes it. In parentheses stands a test that runs a server with it, below `tests/e2e/nginx`
  or, beside nginx, `tests/peer`; **untested** where no such test has it, only those of its lowering.
- **in part**: what the note lists works.
- **automatic**: it is accepted, and its effect is always there.
- **no effect**: it is accepted with a warning and changes nothing; the note says what happens instead.
- **only**: these values work; others are rejected.
- **not yet**: a file that uses it is rejected with the line.
- **refused**: it will not be supported, for the reason in the note.
- **ours**: a directive of sluice that nginx does not have.

Defaults are those of nginx NGINX_VERSION. Relative paths start at the folder of the main file. Responses have the header `Server:
sluice`, and error pages show it at the bottom; `server_tokens \"nginx\";` replaces it by another text, for tools that compare
both.

## Patterns

Regular expressions have the syntax of PCRE, on bytes: with lookaround, backreferences, named groups, atomic groups and possessive
quantifiers; `$` also matches before a line feed at the end. Most run in linear time. Those with lookaround, backreferences or atomic
groups use backtracking, and a match that needs more than a million steps is aborted: the response is 500, a `map` gives its
default, and `sluice_patterns_given_up_total` counts it. Recursion, conditions, callouts, verbs such as `(*UTF8)` and Unicode
properties are rejected ([why](../decisions/0017-patterns-of-nginx.md)).

## Directives
";

fn here(entry: &Entry, proofs: &Proofs) -> String {
    let proof = match proofs.find(entry.name) {
        Some(test) => format!("(`{test}`)"),
        None => "(untested)".to_owned(),
    };
    match entry.verdict() {
        Verdict::Works if entry.is_ours => {
            format!("works: **ours**, nginx does not know it {proof}")
        }
        Verdict::Works => format!("works {proof}"),
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
         are not supported yet, {refused} are refused.",
        ENTRIES.len()
    )
    .expect("text takes all");
}

fn table() -> String {
    let mut out = HEAD.replace("NGINX_VERSION", NGINX_VERSION);
    count(&mut out);
    let proofs = Proofs::collect();
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
            writeln!(
                out,
                "| {name} | {places} | {syntax} | {} |",
                here(entry, &proofs)
            )
            .expect("text takes all");
        }
    }
    out.push_str("\n## Variables\n\n| variable | here |\n|---|---|\n");
    for (name, variable) in VARIABLES {
        let here = match variable {
            Variable::Placeholder(placeholder) => format!("works: `{{{placeholder}}}`"),
            Variable::Text(text) => format!("works: `{text}`"),
            Variable::OfPlace(_) => "works: the value of the context".to_owned(),
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
