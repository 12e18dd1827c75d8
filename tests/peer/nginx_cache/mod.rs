//! Compares caches: the same `proxy_cache` and `fastcgi_cache` and the same requests for sluice and for an installed
//! nginx, each with its own origin that sends the same responses.

mod accepted;
mod cases;
mod origin;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use crate::peer::http::{Response, differences};
use crate::peer::nginx::{EVERYWHERE, Running, run};
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::php::Fpm;
use crate::support::servers;
use crate::support::wait::eventually;
use accepted::ACCEPTED;
use cases::{CASES, Case, SCRIPT};
use origin::Origin;

/// A running cache and its origin.
struct Cache {
    running: Running,
    origin: Origin,
}

impl Cache {
    fn start(site: &Site, program: &Path, case: &Case, is_nginx: bool) -> Cache {
        let origin = Origin::start(case.responses);
        let who = if is_nginx { "theirs" } else { "ours" };
        let folder = site.dir().display().to_string();
        let php = format!("unix:{folder}/fpm.sock");
        let lines = case
            .lines
            .replace("ORIGIN", &format!("127.0.0.1:{}", origin.port))
            .replace("FOLDER", &folder)
            .replace("PHP", &php)
            .replace("WHO", who);
        let own = match is_nginx {
            true => ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                .map(|name| format!("{name}_temp_path {folder}/nginx-temp;\n"))
                .concat(),
            false => String::new(),
        };
        let (process, tokens) = match is_nginx {
            true => (
                "user root;\ndaemon off;\nmaster_process off;\n",
                "server_tokens off;\nproxy_set_header Connection \"\";",
            ),
            false => ("", "server_tokens \"nginx\";"),
        };
        let port = free_port();
        let name = case.name;
        let text = format!(
            "{process}worker_processes 1;\npid {folder}/{name}-{who}.pid;\nerror_log {folder}/nginx-error.log;\nevents {{}}\nhttp {{\n\
             access_log off;\n{own}{tokens}\nproxy_http_version 1.1;\nproxy_cache one;\n\
             proxy_cache_path {folder}/cache-{name}-{who} levels=1:2 keys_zone=one:1m;\n\
             fastcgi_cache_path {folder}/php-{name}-{who} keys_zone=php:1m;\n\
             server {{\nlisten 127.0.0.1:{port};\nserver_name site.test;\n\
             add_header X-Cache \"$upstream_cache_status\" always;\n{lines}\n}}\n}}\n"
        );
        Cache {
            running: run(site, program, name, &text, port, is_nginx),
            origin,
        }
    }

    /// Performs one step; returns the responses in a defined order.
    fn step(&self, step: &str) -> Vec<Response> {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        match word {
            "wait" | "asked" => Vec::new(),
            "count" => {
                let count = self.origin.count(rest).to_string();
                vec![Response {
                    status: count,
                    ..Response::default()
                }]
            }
            "all" => {
                let (count, request) = rest.split_once(' ').expect("a number and a request");
                self.all(count.parse().expect("a number"), request)
            }
            _ => {
                let response = self.running.ask(step);
                // The cached response is complete a moment after the client has received all of it.
                std::thread::sleep(Duration::from_millis(20));
                vec![response]
            }
        }
    }

    /// Several requests, each started a moment after the previous one.
    fn all(&self, count: u64, request: &str) -> Vec<Response> {
        let mut responses = std::thread::scope(|scope| {
            let ask = |number: u64| {
                // Their order decides which of them the others wait for.
                std::thread::sleep(Duration::from_millis(number * 100));
                self.running.ask(request)
            };
            let waiting: Vec<_> = (0..count)
                .map(|number| scope.spawn(move || ask(number)))
                .collect();
            let responses = waiting
                .into_iter()
                .map(|one| one.join().expect("an answer"));
            responses.collect::<Vec<_>>()
        });
        responses.sort_by_key(|response| {
            (
                response.fields.get("x-cache").cloned(),
                response.body.clone(),
            )
        });
        responses
    }

    /// Waits until the origin has received this many requests.
    fn until_asked(&self, target: &str, count: usize) {
        let is_asked = || self.origin.count(target) >= count;
        eventually("the origin to be asked", is_asked, || target.to_owned());
    }
}

/// The differences, and which accepted ones occurred.
#[derive(Default)]
struct Found {
    requests: usize,
    failures: Vec<String>,
    seen: BTreeSet<usize>,
}

/// Compares both servers. The age of cached responses is in whole seconds of each server's own clock, so on a busy
/// machine they can differ by one: a difference counts only if it occurs again with fresh servers.
fn compare(case: &Case, site: &Site, nginx: &Path, found: &Mutex<Found>) {
    const ATTEMPTS: usize = 3;
    let mut attempt = compare_once(case, site, nginx);
    for _ in 1..ATTEMPTS {
        if attempt.failures.is_empty() {
            break;
        }
        let again = compare_once(case, site, nginx);
        attempt.failures.retain(|one| again.failures.contains(one));
    }
    let mut found = found.lock().expect("nobody panics with it");
    found.requests += attempt.requests;
    found.failures.append(&mut attempt.failures);
    found.seen.append(&mut attempt.seen);
}

fn compare_once(case: &Case, site: &Site, nginx: &Path) -> Found {
    let mut found = Found::default();
    let theirs = Cache::start(site, nginx, case, true);
    let ours = Cache::start(site, &sluice(), case, false);
    for (number, step) in case.steps.iter().enumerate() {
        if let Some(seconds) = step.strip_prefix("wait ") {
            let seconds = seconds.parse().expect("a number");
            // Until what is cached is stale: both servers count in seconds of their own clock.
            std::thread::sleep(Duration::from_secs(seconds));
        }
        if let Some(rest) = step.strip_prefix("asked ") {
            let (target, count) = rest.split_once(' ').expect("a target and a number");
            let count = count.parse().expect("a number");
            theirs.until_asked(target, count);
            ours.until_asked(target, count);
            // The slow responses take this long before they are cached.
            std::thread::sleep(Duration::from_millis(1000));
        }
        let (expected, had) = std::thread::scope(|scope| {
            let theirs = scope.spawn(|| theirs.step(step));
            let ours = ours.step(step);
            (theirs.join().expect("answers"), ours)
        });
        found.requests += expected.len();
        for (expected, had) in expected.iter().zip(&had) {
            for difference in differences(expected, had) {
                let everywhere = EVERYWHERE
                    .iter()
                    .any(|(what, theirs)| difference.what == *what && difference.theirs == *theirs);
                let meant = ACCEPTED.iter().position(|(name, request, what, _)| {
                    (name.is_empty() || *name == case.name)
                        && step.starts_with(request)
                        && (what.is_empty() || difference.what == *what)
                });
                match meant {
                    _ if everywhere => {}
                    Some(index) => _ = found.seen.insert(index),
                    None => found.failures.push(format!(
                        "{} {number}: {step}\n    {difference:.300}",
                        case.name
                    )),
                }
            }
        }
    }
    found
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn cached_responses_equal_those_of_nginx() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    std::fs::write(site.dir().join("app.php"), SCRIPT).expect("the folder is writable");
    let socket = site.dir().join("fpm.sock").display().to_string();
    let php = Fpm::start(site.dir(), &socket, "");
    let found = Mutex::new(Found::default());
    let is_run = |case: &&Case| php.is_some() || case.name != "php";
    let cases: Vec<&Case> = CASES.iter().filter(is_run).collect();
    for some in cases.chunks(4) {
        std::thread::scope(|scope| {
            for case in some {
                scope.spawn(|| compare(case, &site, &nginx, &found));
            }
        });
    }
    let mut found = found.into_inner().expect("nobody panicked");
    for (index, (case, request, what, _)) in ACCEPTED.iter().enumerate() {
        if !found.seen.contains(&index) {
            let gone = format!("{case}: {request}: {what} has gone away");
            found.failures.push(gone);
        }
    }
    println!(
        "{} requests in {} files compared with {}",
        found.requests,
        cases.len(),
        nginx.display()
    );
    assert!(found.requests >= 300, "the yardstick got shorter");
    assert!(
        found.failures.is_empty(),
        "{} differences:\n{}",
        found.failures.len(),
        found.failures.join("\n")
    );
}
