//! `status_zone` and `api`: the status in the form of nginx Plus's API.

use serde_json::{Value, json};

use super::start;
use crate::client::{Client, Response};
use crate::harness::{Server, eventually};

const LINES: &str = "status_zone whole; location / { return 200 hello; status_zone pages; \
    location /pages/none { return 404; status_zone off; } } \
    location /monitor/api/ { api; }";

fn get(server: &Server, path: &str) -> Response {
    Client::connect(server.port).get(path)
}

fn document(server: &Server, path: &str) -> Value {
    let response = get(server, &format!("/monitor/api/9/{path}"));
    assert_eq!(response.field("Content-Type"), Some("application/json"));
    serde_json::from_slice(&response.body).expect("it is JSON")
}

#[test]
fn zones_count_the_requests_of_servers_and_locations() {
    let server = start(LINES, &[]);
    assert_eq!(get(&server, "/").text(), "hello");
    assert_eq!(get(&server, "/pages/one").text(), "hello");
    assert_eq!(get(&server, "/pages/none").status, 404);
    let pages = || document(&server, "http/location_zones/pages");
    eventually(
        "the counts",
        || pages()["requests"] == 2,
        || pages().to_string(),
    );
    let pages = pages();
    assert_eq!(pages["responses"]["2xx"], 2);
    assert_eq!(
        (&pages["sent"], &pages["processing"]),
        (&json!(10), &Value::Null)
    );
    // The request for this document is one; those before it may end only after their responses.
    let processing = || document(&server, "http/server_zones")["whole"]["processing"].clone();
    eventually(
        "the end of the others",
        || processing() == 1,
        || processing().to_string(),
    );
    let zones = document(&server, "http/server_zones");
    assert_eq!(zones.as_object().map(serde_json::Map::len), Some(1));
    let whole = &zones["whole"];
    assert_eq!(whole["responses"]["4xx"], 1);
    let two = document(
        &server,
        "http/server_zones/whole?fields=processing,discarded",
    );
    assert_eq!(two.as_object().map(serde_json::Map::len), Some(2));
    assert_eq!(two["discarded"], 0);
    assert!(two["processing"].as_u64() >= Some(1), "{two}");
}

#[test]
fn the_api_describes_the_process_and_is_read_only() {
    let server = start(LINES, &[]);
    let nginx = document(&server, "nginx");
    assert_eq!(
        (&nginx["pid"], &nginx["build"]),
        (&json!(server.pid()), &json!("sluice"))
    );
    // The request for the document is one; those before it may end only after their responses.
    let current = || document(&server, "http/requests")["current"].clone();
    eventually("the others", || current() == 1, || current().to_string());
    let active = || document(&server, "connections")["active"].clone();
    eventually("their ends", || active() == 1, || active().to_string());
    let connections = document(&server, "connections");
    assert!(connections["accepted"].as_u64() >= Some(2), "{connections}");
    assert_eq!(connections["dropped"], 0);
    assert_eq!(
        document(&server, "workers").as_array().map(Vec::len),
        Some(2)
    );
    let versions = get(&server, "/monitor/api/");
    assert_eq!(versions.text(), "[1,2,3,4,5,6,7,8,9]");
    for (path, code) in [
        ("/monitor/api/9/stream", "PathNotFound"),
        ("/monitor/api/99/", "UnknownVersion"),
    ] {
        let response = get(&server, path);
        assert_eq!(response.status, 404, "{path}");
        let body: Value = serde_json::from_slice(&response.body).expect("it is JSON");
        assert_eq!(body["error"]["code"], code, "{path}");
    }
    let mut client = Client::connect(server.port);
    client.send("DELETE /monitor/api/9/http/server_zones/whole HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let refused = client.response();
    assert_eq!(
        (refused.status, refused.field("Allow")),
        (405, Some("GET, HEAD"))
    );
}

#[test]
fn the_status_page_has_the_names_of_zones() {
    let server = start(LINES, &[]);
    get(&server, "/");
    let host = format!("localhost:{}", server.admin);
    let status = || {
        let request = format!("GET /status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let response = crate::client::exchange(server.admin, request);
        serde_json::from_slice::<Value>(&response.body).expect("it is JSON")
    };
    eventually(
        "the count",
        || status()["sites"]["rows"][0]["requests"] == 1,
        || status().to_string(),
    );
    assert_eq!(status()["sites"]["rows"][0]["name"], "whole");
}
