//! A server without a configuration.

use std::net::TcpListener;
use std::sync::{Mutex, MutexGuard};

use crate::client::ask;
use crate::harness::{Setup, eventually, run_to_end, text};
use crate::support::abilities::skipped;

/// The page has one fixed port, so only one test at a time may use it.
fn port() -> Option<(MutexGuard<'static, ()>, u16)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let guard = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let is_free = TcpListener::bind("0.0.0.0:8080").is_ok();
    if !is_free {
        skipped("another program listens on port 8080");
    }
    is_free.then_some((guard, 8080))
}

#[test]
fn the_welcome_page_says_what_to_do_and_a_caddyfile_replaces_it() {
    let Some((_guard, port)) = port() else { return };
    let setup = Setup::bare();
    let server = setup.start();
    let page = ask(port, "/");
    assert_eq!(page.status, 200);
    assert_eq!(page.field("Content-Type"), Some("text/html; charset=utf-8"));
    let shown = page.text();
    let folder = server.folder.path().to_string_lossy().into_owned();
    for word in [
        &folder,
        "Caddyfile",
        ":8080",
        "reverse_proxy",
        env!("CARGO_PKG_VERSION"),
    ] {
        assert!(shown.contains(word), "{word}");
    }
    assert!(
        shown.contains("body {") && !shown.contains("\\{"),
        "braces arrive as they are"
    );
    assert!(server.stdout().contains("http://localhost:8080"));
    assert!(
        !server
            .folder
            .path()
            .join("config/sluice/autosave.json")
            .exists()
    );
    // A first attempt with a mistake has no effect.
    server
        .folder
        .write("Caddyfile", ":8080 {\n\trespnd mine\n}\n");
    server.wait_for_words("configuration rejected");
    assert_eq!(ask(port, "/").text(), shown);
    // The address is that of the page, as in the example it shows.
    server
        .folder
        .write("Caddyfile", ":8080 {\n\trespond mine\n}\n");
    eventually(
        "the own site",
        || ask(port, "/").text() == "mine",
        || server.stderr(),
    );
}

#[test]
fn a_port_in_use_is_reported_with_help() {
    let Some((_guard, port)) = port() else { return };
    let taken = TcpListener::bind(("0.0.0.0", port)).expect("it was free above");
    let setup = Setup::bare();
    let output = run_to_end(setup.folder(), &["run"]);
    drop(taken);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    for word in [":8080", "in use", "Caddyfile"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}
