//! Compares sluice with an installed Caddy: the same file, the same requests, header by header. Accepted differences
//! are listed with their reasons; one that no longer occurs fails the run, so the list stays true.

mod acme_validation;
mod adapt_cases;
mod adapt_random;
mod adapt_table;
mod admin_api;
mod cases;
mod certificates;
mod documented;
mod fastcgi;
mod http;
mod incremental;
mod logs;
mod matchers;
mod metrics;
mod nginx;
mod nginx_after_requests;
mod nginx_bodies;
mod nginx_cache;
mod nginx_connection_slots;
mod nginx_documented;
mod nginx_endings;
mod nginx_examples;
mod nginx_inherit;
mod nginx_pages;
mod nginx_parity;
mod nginx_raw;
mod nginx_settings;
mod nginx_sites;
mod nginx_status_lines;
mod nginx_tls;
mod origins;
mod peers;
mod placeholders;
mod quic;
mod redirects;
mod reloads_and_upgrades;
mod sites;
mod storage;
mod templates;
mod upstream;
mod url_patterns;

use cases::{CASES, EVERYWHERE, Seen};

use crate::support::servers;

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn responses_equal_those_of_caddy() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    let site = peers::Site::new();
    let (mut requests, mut failures) = (0, Vec::new());
    let mut seen = std::collections::BTreeSet::new();
    for case in CASES.iter().chain(fastcgi::CASES) {
        if case.known == Seen::Sometimes && !site.is_known(&caddy, case) {
            println!(
                "{}: passed over, this Caddy does not know the language of the file",
                case.name
            );
            continue;
        }
        let theirs = site.start(&caddy, case, "caddy");
        let ours = site.start(&peers::sluice(), case, "sluice");
        for request in case.requests {
            requests += 1;
            let (expected, found) = (theirs.ask(request), ours.ask(request));
            for difference in http::differences(&expected, &found) {
                let accepted = case
                    .accepted
                    .iter()
                    .position(|a| a.covers(request, &difference));
                let everywhere = || EVERYWHERE.iter().any(|a| a.covers(request, &difference));
                match accepted {
                    Some(index) => _ = seen.insert((case.name, index)),
                    None if everywhere() => {}
                    None => failures.push(format!("{}: {request}\n    {difference}", case.name)),
                }
            }
        }
    }
    for case in CASES.iter().chain(fastcgi::CASES) {
        for (index, difference) in case.accepted.iter().enumerate() {
            if difference.seen == Seen::Always && !seen.contains(&(case.name, index)) {
                failures.push(format!(
                    "{}: accepted difference {index} has gone away",
                    case.name
                ));
            }
        }
    }
    println!(
        "{requests} requests in {} files compared with {}",
        CASES.len() + fastcgi::CASES.len(),
        caddy.display()
    );
    assert!(requests >= 60, "the yardstick got shorter");
    assert!(
        failures.is_empty(),
        "{} differences:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
