//! Cached responses over reloads and restarts, and without their directory.

use sluice_net::sys::process::Signal;

use super::{caching, get, is_cached, reported};
use crate::harness::{Server, Setup, eventually};
use crate::nginx::cache::counted;
use crate::temp_folder::TempFolder;

const UUID: &str = "cache\n\trespond \"{http.request.uuid}\"";

#[test]
fn cached_responses_survive_reloads() {
    let server = caching("", UUID).start();
    is_cached(&server, "/a");
    let before = get(&server, "/a").text();
    let other = super::caddyfile("cache_name other", UUID);
    server.write(&other);
    server.signal(Signal::Hangup);
    server.wait_for_words("configuration loaded");
    let after = get(&server, "/a");
    assert_eq!((reported(&after).as_str(), after.text()), ("hit", before));
    let status = after.field("Cache-Status").unwrap_or_default();
    assert!(status.starts_with("other; hit; ttl="), "{status}");
}

/// A server that caches in a folder which outlives it, and always listens on the same port.
fn at(folder: &TempFolder, port: u16) -> Server {
    let path = folder.path().join("cache").display().to_string();
    let text = format!(
        "{{\n\tadmin localhost:{{admin}}\n}}\n:{port} {{\n\tcache {{\n\t\tdisk {{\n\t\t\tpath {path}\n\t\t\tmax_size 10MiB\n\t\t}}\n\t}}\n\t\
         respond \"{{http.request.uuid}}\"\n}}\n"
    );
    let mut server = Setup::new(&text).start();
    server.port = port;
    eventually(
        "a loaded index",
        || counted(&server, "sluice_cache_loading") == 0,
        || server.stderr(),
    );
    server
}

#[test]
fn cached_responses_survive_restarts() {
    let folder = TempFolder::new();
    let port = crate::harness::free_port();
    let mut server = at(&folder, port);
    is_cached(&server, "/a");
    let before = get(&server, "/a").text();
    server.signal(Signal::Terminate);
    server.wait_for_end();
    let server = at(&folder, port);
    let after = get(&server, "/a");
    assert_eq!((reported(&after).as_str(), after.text()), ("hit", before));
}

#[test]
fn requests_are_served_without_the_directory() {
    let server = caching("", UUID).start();
    is_cached(&server, "/a");
    let cache = server.folder.path().join("cache");
    std::fs::remove_dir_all(&cache).expect("it is there");
    // A file in its place keeps the server from creating it again, also one that root runs.
    std::fs::write(&cache, "").expect("the folder is writable");
    for path in ["/b", "/c"] {
        let response = get(&server, path);
        assert_eq!(
            (response.status, reported(&response).as_str()),
            (200, "fwd=miss")
        );
    }
    assert!(counted(&server, "sluice_cache_failures_total") >= 2);
    server.wait_for_words("cannot store a response in the cache");
    std::fs::remove_file(&cache).expect("it is there");
    is_cached(&server, "/b");
}

#[test]
fn a_directory_that_cannot_be_used_is_refused() {
    let folder = TempFolder::new();
    let file = folder.write("file", "");
    let text = format!(
        ":{{port}} {{\n\tcache {{\n\t\tdisk {}/cache\n\t}}\n}}\n",
        file.display()
    );
    let setup = Setup::new(&text);
    let output = crate::harness::run_to_end(setup.folder(), &["run"]);
    let said = crate::harness::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot be opened"), "{said}");
}
