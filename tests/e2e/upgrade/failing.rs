//! Upgrades that fail: the old process goes on and says why, and nothing is lost.

use std::thread;

use sluice_net::sys::process::Signal;

use super::running::{Clients, Running};
use crate::harness::eventually;

const HELLO: &str = "{\n\tadmin localhost:{admin}\n}\n:{port} {\n\trespond \"hello\"\n}\n";

/// A program that never serves. The sockets that it inherits are closed with it.
const HANGS: &str = "#!/bin/sh\nexec sleep 1000\n";

/// The old process serves, and can be upgraded.
fn assert_goes_on(running: &Running) {
    let old = running.server.pid();
    assert_eq!(running.pid(), Some(old), "it has its PID file back");
    assert!(!running.server.folder.path().join("pid.oldbin").exists());
    assert_eq!(running.server.ask("/").text(), "hello");
}

#[test]
fn a_program_that_fails_changes_nothing() {
    let running = Running::start(HELLO);
    let clients = Clients::start(running.port(), "/", 3);
    let program = running.program("#!/bin/sh\nexit 7\n");
    let why = running.refusal(&["--binary", &program]);
    assert!(
        why.contains("the new process ended (exit status: 7)"),
        "{why}"
    );
    assert_goes_on(&running);
    let absent = running.server.folder.path().join("absent");
    let why = running.refusal(&["--binary", &absent.to_string_lossy()]);
    assert!(why.contains("No such file"), "{why}");
    let text = running.server.folder.path().join("Caddyfile");
    let why = running.refusal(&["--binary", &text.to_string_lossy()]);
    assert!(why.contains("not an executable file"), "{why}");
    assert_goes_on(&running);
    clients.wait_for(20);
    running.upgrade();
    clients.wait_for(20);
    clients.end();
}

#[test]
fn a_configuration_that_cannot_run_is_reported_and_changes_nothing() {
    let running = Running::start(HELLO);
    running.server.write(":{port} {\n\trespnd \"hello\"\n}\n");
    let why = running.refusal(&[]);
    assert!(why.contains("`respnd`"), "{why}");
    assert_goes_on(&running);
    // Found only when it is built.
    let bad = HELLO.replace(
        "respond",
        "log {\n\t\toutput file /proc/nothing/a.log\n\t}\n\trespond",
    );
    running.server.write(&bad);
    let why = running.refusal(&[]);
    assert!(why.contains("/proc/nothing/a.log"), "{why}");
    assert_goes_on(&running);
    // Of an upgrade by signal only the log knows.
    let words = "the new process of the binary upgrade has exited";
    let await_lines = |count: usize| {
        let are_there = || running.server.stderr().matches(words).count() == count;
        eventually("the log", are_there, || running.server.stderr());
    };
    await_lines(2);
    running.server.signal(Signal::User2);
    await_lines(3);
    assert_goes_on(&running);
}

#[test]
fn a_process_that_does_not_serve_in_time_is_killed() {
    let running = Running::start(HELLO);
    let program = running.program(HANGS);
    let why = running.refusal(&["--binary", &program, "--ready-timeout", "200ms"]);
    assert!(why.contains("did not serve within 200ms"), "{why}");
    assert_goes_on(&running);
}

#[test]
fn there_is_one_upgrade_at_a_time_and_a_killed_one_is_undone() {
    let running = Running::start(HELLO);
    let clients = Clients::start(running.port(), "/", 3);
    let program = running.program(HANGS);
    thread::scope(|scope| {
        let first = scope.spawn(|| running.refusal(&["--binary", &program]));
        running.server.wait_for_words("start new binary process");
        let second = running.refusal(&[]);
        let rest = second.split("already in progress (process ").nth(1);
        let pid = rest.and_then(|rest| rest.split(')').next());
        let pid = pid.unwrap_or_else(|| panic!("{second}"));
        // What was to be loaded meanwhile is refused, or done afterwards.
        assert_eq!(running.load(HELLO).status, 503);
        running.server.write(&HELLO.replace("hello", "other"));
        running.server.signal(Signal::Hangup);
        running
            .server
            .wait_for_words("reload after the binary upgrade");
        assert_eq!(running.server.ask("/").text(), "hello");
        let status = std::process::Command::new("sh")
            .args(["-c", "kill -9 $0", pid])
            .status();
        assert!(status.expect("a shell").success());
        let first = first.join().expect("it was refused");
        assert!(first.contains("signal: 9"), "{first}");
    });
    let is_reloaded = || running.server.ask("/").text() == "other";
    eventually("the reload", is_reloaded, || running.server.stderr());
    running.upgrade();
    clients.wait_for(20);
    clients.end();
}

/// A process that is stopped takes the one that would have replaced it along.
#[test]
fn stopping_ends_an_upgrade() {
    let mut running = Running::start(HELLO);
    let program = running.program(HANGS);
    thread::scope(|scope| {
        let upgrade = scope.spawn(|| running.refusal(&["--binary", &program]));
        running.server.wait_for_words("start new binary process");
        running.server.signal(Signal::Terminate);
        let why = upgrade.join().expect("it was refused");
        assert!(why.contains("the server is stopping"), "{why}");
    });
    assert!(running.server.wait_for_end().success());
}
