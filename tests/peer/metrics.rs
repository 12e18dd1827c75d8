//! Request metrics of sluice and of an installed Caddy for the same requests: names, labels and counts. Durations
//! differ and are ignored, and so is the scrape itself, whose size does.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::peer::peers::{self, Peer};
use crate::peer::{http, logs};
use crate::support::servers;

const CASES: [(&str, &str); 3] = [
    (
        "one_site",
        "{\nadmin off\nauto_https off\nmetrics\n}\nhttp://site.test:PORT {\nmetrics /metrics\n\
         error /boom 503\nrespond /ok hello\n}\n",
    ),
    (
        "any_host",
        "{\nadmin off\nauto_https off\nmetrics\n}\n:PORT {\nmetrics /metrics\nvars a b\n\
         error /boom 503\nrespond /ok hello\n}\n",
    ),
    (
        "hosts",
        "{\nadmin off\nauto_https off\nservers {\nmetrics {\nper_host\n}\n}\n}\n:PORT {\n\
         metrics /metrics\nerror /boom 503\nrespond /ok hello\n}\n",
    ),
];

const REQUESTS: [&str; 6] = [
    "GET /ok",
    "GET /ok|X-A: b",
    "POST /ok|body=abc",
    "BREW /ok",
    "GET /boom",
    "GET /nothing",
];

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn series_of_requests_equal_those_of_caddy() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    let site = peers::Site::new();
    for (case, text) in CASES {
        let theirs = series(&site, &caddy, case, text, "caddy");
        let ours = series(&site, &peers::sluice(), case, text, "sluice");
        assert!(theirs.len() > 50, "{case}: {theirs:#?}");
        for (name, value) in &theirs {
            assert_eq!(ours.get(name), Some(value), "{case}: {name}");
        }
        let more: Vec<_> = ours
            .keys()
            .filter(|name| !theirs.contains_key(*name))
            .collect();
        assert!(more.is_empty(), "{case}: {more:#?}");
    }
}

fn series(
    site: &peers::Site,
    program: &Path,
    case: &str,
    text: &str,
    name: &str,
) -> BTreeMap<String, String> {
    let peer = site.start_text(program, &format!("metrics-{case}-{name}"), text, name);
    // The harness's check that a server listens is not a request, but may look like one.
    logs::send(
        peer.port(),
        "GET /ok HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n",
    );
    for request in REQUESTS {
        http::ask(peer.port(), request);
    }
    // The last request is counted soon after its response; scraping twice would count the first scrape.
    std::thread::sleep(Duration::from_millis(500));
    page(&peer)
}

fn page(peer: &Peer) -> BTreeMap<String, String> {
    let response = http::ask(peer.port(), "GET /metrics");
    let text = String::from_utf8(response.body).expect("the page is text");
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("caddy_http_")) {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let measured = series.contains("duration_seconds") && !series.contains("_count");
        if !measured && !series.contains("handler=\"metrics\"") {
            found.insert(series.to_owned(), value.to_owned());
        }
    }
    found
}
