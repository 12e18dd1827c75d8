//! Traces of connections in qlog's format.

use std::fs;

use sluice_net::sys::process::Signal;

use super::limits::with;
use super::peer::Peer;
use crate::harness::{Setup, run_to_end, text};

/// The records of a trace: each is JSON behind a record separator (RFC 7464).
fn records(trace: &str) -> Vec<serde_json::Value> {
    let lines = trace.split('\u{1e}').skip(1);
    lines
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect()
}

#[test]
fn a_trace_shows_the_packets_of_a_connection() {
    let setup = Setup::new(&with("\t\t\tqlog {folder}/traces/qlog", "respond hello"));
    let folder = setup.folder().path().join("traces/qlog");
    let mut server = setup.start();
    assert_eq!(Peer::connect(server.port).fetch("/").text(), "hello");
    assert_eq!(server.metric("sluice_quic_traces_total"), 1);
    // A trace is whole when its connection has ended.
    server.signal(Signal::Terminate);
    server.wait_for_end();
    let traces: Vec<_> = fs::read_dir(folder).expect("a folder").flatten().collect();
    let [trace] = &traces[..] else {
        panic!("{traces:?}");
    };
    let name = trace.file_name().into_string().expect("digits");
    let id = name.strip_suffix(".sqlog").expect("its ending");
    assert!(id.len() >= 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let records = records(&fs::read_to_string(trace.path()).expect("a file"));
    for event in ["transport:packet_received", "transport:packet_sent"] {
        assert!(
            records
                .iter()
                .any(|record| record["name"] == event && record["group_id"] == id),
            "no {event} in {records:?}"
        );
    }
}

#[test]
fn requests_are_served_where_no_trace_can_be_written() {
    let setup = Setup::new(&with("\t\t\tqlog {folder}/traces", "respond hello"));
    let folder = setup.folder().path().join("traces");
    let server = setup.start();
    fs::remove_dir(folder).expect("an empty folder");
    assert_eq!(Peer::connect(server.port).fetch("/").text(), "hello");
    assert_eq!(server.metric("sluice_quic_traces_failed_total"), 1);
}

#[test]
fn a_folder_for_traces_that_cannot_be_created_is_reported() {
    let setup = Setup::new(&with("\t\t\tqlog {folder}/file/qlog", "respond hello"));
    setup.folder().write("file", "not a folder");
    let output = run_to_end(setup.folder(), &["run"]);
    let said = text(&output.stderr);
    assert!(!output.status.success(), "{said}");
    for words in ["cannot create `", "file/qlog`", "Caddyfile:"] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
}
