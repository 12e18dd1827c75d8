//! Redirects from the plain HTTP port compared with Caddy's: which hosts are redirected, and where to.

use crate::peer::http;
use crate::peer::peers::{self, Site};
use crate::support::ports::free_port;
use crate::support::servers;

const OPTIONS: &str = "{
	admin off
	http_port PORT
	https_port SECURE
	local_certs
	skip_install_trust
}
";

/// Sites, and hosts to ask for at the plain HTTP port.
const SITES: &[(&str, &[&str])] = &[
    (
        "localhost {\n\trespond named\n}\nhttps://a.localhost:OTHER {\n\trespond other\n}\n",
        &["localhost", "a.localhost", "unknown.test", "127.0.0.1"],
    ),
    (
        "localhost {\n\trespond named\n}\nhttp://plain.test {\n\trespond plain\n}\n",
        &["localhost", "plain.test", "unknown.test"],
    ),
    (
        "localhost, *.localhost {\n\trespond named\n}\nhttp:// {\n\trespond any\n}\n",
        &["localhost", "x.localhost", "unknown.test"],
    ),
    (
        "https://:SECURE {\n\ttls internal {\n\t\ton_demand\n\t}\n\trespond secure\n}\n",
        &["localhost", "unknown.test"],
    ),
    (
        "localhost {\n\tbind 127.0.0.1\n\trespond named\n}\nhttps://:OTHER {\n\ttls internal {\n\t\ton_demand\n\t}\n\trespond x\n}\n",
        &["localhost", "unknown.test"],
    ),
];

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn plain_http_is_redirected_as_caddy_does() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    let site = Site::new();
    let (mut asked, mut failures) = (0, Vec::new());
    for (sites, hosts) in SITES {
        let (secure, other) = (free_port(), free_port());
        let fill = |text: String| {
            let text = text.replace("SECURE", &secure.to_string());
            text.replace("OTHER", &other.to_string())
        };
        let text = fill(format!("{OPTIONS}{sites}"));
        let mut seen = Vec::new();
        for (program, name) in [(caddy.clone(), "caddy"), (peers::sluice(), "sluice")] {
            let peer = site.start_text(&program, "redirects", &text, name);
            let responses = hosts.iter().map(|host| {
                let response = http::ask(peer.port(), &format!("GET /x?y=1 | Host: {host}"));
                let location = response.fields.get("location").cloned().unwrap_or_default();
                let body = String::from_utf8_lossy(&response.body).into_owned();
                (response.status, location, body)
            });
            seen.push(responses.collect::<Vec<_>>());
        }
        for (at, host) in hosts.iter().enumerate() {
            asked += 1;
            if seen[0][at] != seen[1][at] {
                let [theirs, ours] = [&seen[0][at], &seen[1][at]];
                failures.push(format!(
                    "{sites}{host}\n    caddy {theirs:?}\n    sluice {ours:?}"
                ));
            }
        }
    }
    println!("{asked} hosts compared with {}", caddy.display());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
