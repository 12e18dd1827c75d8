//! Golden cases of the Caddyfile that `caddy adapt` gives the same JSON for, and cases that it refuses as well; and the
//! modules that both programs list.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::{Folder, run_to_end, text};
use crate::support::servers;

/// Cases of `config/caddyfile/tests/golden` with the same JSON.
const ALIKE: [&str; 23] = [
    "acme_server/lifetime_fits",
    "file_server/hide_twice",
    "file_server/plain_time_format",
    "global/idle_timeouts",
    "global/tls_automate_names",
    "handle_errors/order",
    "handle_errors/statuses",
    "header/block",
    "header/default_and_match",
    "header/match_alone",
    "invoke/nested",
    "log_level/forms",
    "matcher/url_pattern",
    "map/quoted",
    "php_fastcgi/options",
    "reverse_proxy/proxy_status_name",
    "reverse_proxy/port_range_after_placeholder",
    "site/order",
    "timeouts/forms",
    "tls/client_auth_and_catch_all",
    "tls/client_auth_beside_wildcard",
    "vars/order_of_variables",
    "vars/quoted",
];

/// Cases that both refuse; Caddy refuses the last four when it loads the configuration.
const REFUSED: [&str; 11] = [
    "forward_auth/uri_twice",
    "global/mistakes_in_tls_automate_names",
    "header/default_of_its_own_match",
    "invoke/defined_twice",
    "site/directive_among_addresses",
    "site/only_a_directive",
    "tls/dns_without_provider",
    "acme_server/default_lifetime_too_long",
    "acme_server/lifetime",
    "map/not_placeholders",
    "timeouts/mistakes",
];

/// Modules of Caddy that sluice does not have, and why.
const ABSENT: [(&str, &str); 2] = [
    ("caddy.logging.cores.mock", "it is for Caddy's own tests"),
    ("tls.ech.publishers.dns", "the TLS library cannot serve ECH"),
];

fn input(case: &str) -> String {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/caddyfile/tests/golden");
    let text = std::fs::read_to_string(golden.join(format!("{case}.txt"))).expect("a case");
    let (input, _) = text.split_once("----\n").expect("a case has two parts");
    input.to_owned()
}

fn caddy_on(caddy: &PathBuf, folder: &Folder, command: &str) -> Output {
    Command::new(caddy)
        .args([command, "--adapter", "caddyfile", "--config", "Caddyfile"])
        .env("XDG_DATA_HOME", folder.path().join("data"))
        .current_dir(folder.path())
        .output()
        .expect("it starts")
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn cases_adapt_as_in_caddy() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    for case in ALIKE {
        let folder = Folder::new();
        folder.write("Caddyfile", input(case));
        let theirs = caddy_on(&caddy, &folder, "adapt");
        let ours = run_to_end(&folder, &["adapt"]);
        let json = |output: &Output| serde_json::from_slice::<Value>(&output.stdout);
        let expected = json(&theirs).unwrap_or_else(|_| panic!("{case}: {}", text(&theirs.stderr)));
        let found = json(&ours).unwrap_or_else(|_| panic!("{case}: {}", text(&ours.stderr)));
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn what_caddy_refuses_is_refused() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    for case in REFUSED {
        let folder = Folder::new();
        folder.write("Caddyfile", input(case));
        let theirs = caddy_on(&caddy, &folder, "validate");
        assert!(!theirs.status.success(), "{case}: {}", text(&theirs.stderr));
        let ours = run_to_end(&folder, &["validate"]);
        assert_eq!(
            ours.status.code(),
            Some(1),
            "{case}: {}",
            text(&ours.stderr)
        );
    }
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn the_modules_of_caddy_are_listed() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    let theirs = Command::new(caddy).arg("list-modules").output();
    let theirs = text(&theirs.expect("it starts").stdout);
    let ours = text(&run_to_end(&Folder::new(), &["list-modules"]).stdout);
    let names = |shown: &str| -> Vec<String> {
        let lines = shown.lines().take_while(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    };
    let ours = names(&ours);
    let missing: Vec<String> = names(&theirs)
        .into_iter()
        .filter(|name| !ours.contains(name))
        .collect();
    assert_eq!(missing, ABSENT.map(|(name, _)| name));
}
