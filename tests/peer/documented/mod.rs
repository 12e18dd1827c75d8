//! What the Examples section of each directive's page in Caddy's documentation shows, as sites of our own with requests,
//! served by Caddy and sluice. One file for each group of directives; a table of sheets, one server start each.

mod handlers;
mod matchers;
pub(super) mod options;
mod options_list;
mod proxies;
mod responders;

use crate::peer::cases::{Difference, Seen};
use crate::peer::http;
use crate::peer::peers::{self, Site};
use crate::support::servers;

/// What the examples of one directive exercise.
struct Sheet {
    /// Its name; `matcher <name>` for a matcher.
    directive: &'static str,
    /// Sites, with `PORT`, `ROOT`, `UPSTREAM` and `FASTCGI` filled in.
    caddyfile: &'static str,
    /// As in `Case`, with the host before the path: `GET a.test/path | X-A: b`.
    requests: &'static [&'static str],
    accepted: &'static [Difference],
}

/// Directives without a sheet, and where they are compared instead.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "acme_server",
        "tests/e2e/acme_server.rs: clients obtain certificates from it",
    ),
    (
        "fs",
        "without a plugin there is only the default file system",
    ),
    ("log", "logs: tests/peer/logs.rs"),
    ("log_append", "logs: tests/peer/logs.rs"),
    ("log_level", "logs: tests/e2e/caddy_parity.rs"),
    ("log_name", "logs: tests/peer/logs.rs"),
    ("log_skip", "logs: tests/peer/logs.rs"),
    (
        "matcher tls",
        "early data: tests/e2e/handshakes.rs::early_data_goes_over_http_2_too",
    ),
    ("metrics", "counters: tests/peer/metrics.rs"),
    ("push", "it has no effect"),
    ("timeouts", "slow clients: tests/e2e/slow_clients.rs"),
    ("tls", "handshakes: tests/peer/certificates.rs"),
    ("tracing", "spans: tests/e2e/tracing.rs"),
];

fn sheets() -> impl Iterator<Item = &'static Sheet> {
    let groups = [
        responders::SHEETS,
        handlers::SHEETS,
        proxies::SHEETS,
        matchers::SHEETS,
    ];
    groups.into_iter().flatten()
}

/// `GET a.test/path` as a request line with a `Host`.
pub(super) fn request(line: &str) -> String {
    let (first, rest) = line.split_once(" | ").unwrap_or((line, ""));
    let (method, target) = first.split_once(' ').expect("a method and a target");
    let at = target.find('/').expect("a path");
    let bar = if rest.is_empty() { "" } else { " | " };
    format!(
        "{method} {} | Host: {}{bar}{rest}",
        &target[at..],
        &target[..at]
    )
}

/// The names in the rows of a table of the reference.
fn names_of(page: &str, title: &str) -> Vec<String> {
    let section = page.split(title).nth(1).expect("the table is there");
    let section = section.split("\n#").next().expect("it ends");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.filter_map(|row| row.split(['`', ' ']).next());
    names.map(str::to_owned).collect()
}

#[test]
fn every_directive_has_a_sheet_or_a_reason() {
    let page = include_str!("../../../docs/reference/caddyfile-directives.md");
    let directives = names_of(page, "\n## Directives\n");
    let matchers = names_of(page, "\n### matcher\n");
    assert!(directives.len() > 40 && matchers.len() > 15);
    let matchers = matchers.iter().map(|name| format!("matcher {name}"));
    for name in directives.into_iter().chain(matchers) {
        let has_sheet = sheets().any(|sheet| sheet.directive == name);
        let is_elsewhere = ELSEWHERE.iter().any(|(known, _)| *known == name);
        let is_old_name = ["basicauth", "skip_log"].contains(&&*name);
        assert!(
            has_sheet || is_elsewhere || is_old_name,
            "`{name}` has no sheet"
        );
    }
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn documented_uses_of_directives_equal_those_of_caddy() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    let site = Site::new();
    let (mut equal, mut with_reason, mut failures) = (0, 0, Vec::new());
    for sheet in sheets() {
        let name = sheet.directive;
        let options = "{\n\tadmin off\n\tauto_https off\n}\n";
        let text = site.fill(&format!("{options}{}", sheet.caddyfile));
        let theirs = site.start_text(&caddy, name, &text, "caddy");
        let ours = site.start_text(&peers::sluice(), name, &text, "sluice");
        let mut seen = vec![false; sheet.accepted.len()];
        for line in sheet.requests {
            let asked = request(line);
            let found = http::differences(&theirs.ask(&asked), &ours.ask(&asked));
            let mut unknown = 0;
            for difference in &found {
                let covers = |accepted: &Difference| accepted.covers(line, difference);
                match sheet.accepted.iter().position(covers) {
                    Some(at) => seen[at] = true,
                    None => {
                        unknown += 1;
                        failures.push(format!("{name}: {line}\n    {difference}"));
                    }
                }
            }
            equal += usize::from(found.is_empty());
            with_reason += usize::from(!found.is_empty() && unknown == 0);
        }
        let gone = sheet.accepted.iter().zip(seen);
        let gone = gone.filter(|(known, seen)| known.seen == Seen::Always && !seen);
        for (accepted, _) in gone {
            failures.push(format!(
                "{name}: {} {} has gone away",
                accepted.request, accepted.what
            ));
        }
    }
    println!(
        "{} directives and matchers, {} requests: {equal} equal, {with_reason} different with a reason, {} different without",
        sheets().count(),
        sheets().map(|sheet| sheet.requests.len()).sum::<usize>(),
        failures.len()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
