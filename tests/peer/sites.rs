//! The sites of `tests/data/sites`, served by both servers.

use std::path::Path;
use std::process::Command;

use crate::peer::http::{self, Response};
use crate::peer::peers::{free_port, sluice};
use crate::support::program::Program;
use crate::support::servers;
use crate::support::sites::{Doubles, SITES, Site, bytes};

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn sites_respond_as_in_caddy() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    let base = std::env::temp_dir().join(format!("sluice-peer-sites-{}", std::process::id()));
    let mut failures = Vec::new();
    let (mut requests, mut different) = (0, 0);
    for name in SITES {
        let site = Site::read(name);
        let doubles = Doubles::start(free_port());
        // Both serve the same folder, one after the other.
        let theirs = responses(&caddy, &site, &doubles, &base.join(format!("{name}-caddy")));
        let ours = responses(
            &sluice(),
            &site,
            &doubles,
            &base.join(format!("{name}-sluice")),
        );
        for (step, (theirs, ours)) in site.steps.iter().zip(theirs.iter().zip(&ours)) {
            requests += 1;
            let found = http::differences(theirs, ours);
            let is_known = |what: &str| step.differs.iter().any(|(known, _)| known == what);
            for difference in found.iter().filter(|found| !is_known(&found.what)) {
                failures.push(format!("{name}: {}\n    {difference}", step.request));
            }
            for (what, _) in &step.differs {
                different += 1;
                if !found.iter().any(|found| found.what == *what) {
                    failures.push(format!(
                        "{name}: {}\n    {what} no longer differs",
                        step.request
                    ));
                }
            }
        }
    }
    let _ = std::fs::remove_dir_all(&base);
    println!(
        "{requests} requests to {} sites, {different} differences with their reasons",
        SITES.len()
    );
    assert!(
        failures.is_empty(),
        "{} differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// The responses of one program to all requests.
fn responses(program: &Path, site: &Site, doubles: &Doubles, folder: &Path) -> Vec<Response> {
    std::fs::create_dir_all(folder).expect("the folder is writable");
    let port = free_port();
    let text = site.prepare(folder, port, doubles);
    let server = start(program, &with_admin_off(&text), folder, port);
    let responses = site.steps.iter().map(|step| {
        let mut response = http::exchange(port, &bytes(&step.request));
        for value in response.fields.values_mut().flatten() {
            *value = value.replace(&port.to_string(), "PORT");
        }
        response
    });
    let responses = responses.collect();
    drop(server);
    responses
}

/// The file with the admin endpoint disabled, which the two programs could not share.
fn with_admin_off(text: &str) -> String {
    match text.strip_prefix("{\n") {
        Some(rest) if rest.contains("\tadmin off\n") => format!("{{\n{rest}"),
        Some(rest) => format!("{{\n\tadmin off\n{rest}"),
        None => format!("{{\n\tadmin off\n}}\n{text}"),
    }
}

/// Starts a server and waits until it listens.
fn start(program: &Path, text: &str, folder: &Path, port: u16) -> Program {
    std::fs::write(folder.join("Caddyfile"), text).expect("the folder is writable");
    let mut command = Command::new(program);
    command
        .args(["run", "--adapter", "caddyfile", "--config", "Caddyfile"])
        .current_dir(folder)
        .env("HOME", folder)
        .env("XDG_DATA_HOME", folder)
        .env("XDG_CONFIG_HOME", folder);
    Program::start(&mut command, folder.join("stderr")).listening(port)
}
