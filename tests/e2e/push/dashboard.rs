//! The whole fleet on the dashboard of one node.

use serde_json::{Value, json};

use super::engines::Etcd;
use super::nodes::{bad_site, fleet, nodes, push};
use crate::browser::Page;
use crate::client::exchange;
use crate::harness::{Folder, Server, eventually};
use crate::support::abilities::chromium;

/// A site with a certificate of its own.
const SECURE: &str = "{\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n\
    https://a.localhost:{$PORT:8080} {\n\ttls internal\n\trespond a\n}\n";

fn status(node: &Server) -> Value {
    let admin = node.admin;
    let request =
        format!("GET /status HTTP/1.1\r\nHost: localhost:{admin}\r\nConnection: close\r\n\r\n");
    serde_json::from_slice(&exchange(admin, request).body).expect("it is JSON")
}

#[test]
fn each_node_shows_the_whole_fleet() {
    let Some(etcd) = Etcd::start() else { return };
    let (url, configs) = (etcd.url(""), Folder::new());
    push(&url, SECURE, &[]);
    let servers = nodes(&url, 2, &configs);
    let of_fleet = || status(&servers[0])["fleet"].clone();
    let is_complete = || {
        let fleet = of_fleet();
        let rows = fleet["nodes"].as_array().cloned().unwrap_or_default();
        let has_facts = |row: &Value| {
            row["certificates"] == 1
                && row["expires_name"] == "a.localhost"
                && row["store_seconds"].is_number()
                && row["running"] == fleet["revision"]
        };
        fleet["nodes_total"] == 2 && rows.iter().all(has_facts)
    };
    eventually("the fleet", is_complete, || of_fleet().to_string());
    let shown = fleet(&url);
    assert_eq!(
        shown["nodes"][1]["report"]["certificates"]["total"], 1,
        "{shown}"
    );
    etcd.put(&bad_site());
    let refuse = || {
        let rows = of_fleet()["nodes"].as_array().cloned();
        rows.unwrap_or_default()
            .iter()
            .all(|row| row["state"] == "refuses" && row["refusal"].is_string())
    };
    eventually("the refusals", refuse, || of_fleet().to_string());
    let Some(program) = chromium() else { return };
    let mut page = Page::open(program);
    let address = format!("http://localhost:{}/", servers[1].admin);
    page.call("Page.navigate", &json!({ "url": address }));
    page.wait_for_words("2 of 2 nodes of the fleet refuse its configuration: n0, n1");
    let rows = "[...document.querySelectorAll('#fleet tbody tr')].map((row) => row.children[0].textContent).join()";
    assert_eq!(page.value(rows), "n0,n1");
    page.value("document.getElementById('fleet').scrollIntoView()");
    page.shows_both_schemes("fleet");
}
