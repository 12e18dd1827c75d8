//! The status of a running server: the snapshot, the event stream, the dashboard, and the commands that show it.

mod actions;
mod commands;
mod dashboard;
mod events;
mod snapshot;

use serde_json::Value;

use crate::client::{Response, exchange};
use crate::harness::Server;

/// Requests a path of the admin endpoint with more header lines.
fn admin(server: &Server, path: &str, fields: &str) -> Response {
    let admin = server.admin;
    exchange(
        admin,
        format!(
            "GET {path} HTTP/1.1\r\nHost: localhost:{admin}\r\n{fields}Connection: close\r\n\r\n"
        ),
    )
}

/// The snapshot.
fn status(server: &Server) -> Value {
    let response = admin(server, "/status", "");
    assert_eq!(response.status, 200, "{}", response.text());
    serde_json::from_slice(&response.body).expect("it is JSON")
}

/// Requests a path from a site.
fn ask(server: &Server, host: &str, path: &str) -> Response {
    exchange(
        server.port,
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
    )
}

/// The row of a site in a snapshot.
fn site<'s>(status: &'s Value, name: &str) -> &'s Value {
    let rows = status["sites"]["rows"].as_array().expect("a list");
    let found = rows.iter().find(|row| row["name"] == name);
    found.unwrap_or_else(|| panic!("no site {name} in {status}"))
}
