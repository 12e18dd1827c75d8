//! `sluice status` and `sluice top`.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{ask, status};
use crate::harness::{Folder, Server, TIMEOUT, eventually, free_port, run_to_end, text};
use crate::support::abilities::can_run;
use crate::support::wait::until;

const SITE: &str = "{\n\tadmin localhost:{admin}\n}\nhttp://shop.test:{port} {\n\trespond a\n}\n";

#[test]
fn the_status_is_printed_in_three_forms() {
    let server = Server::start(SITE);
    ask(&server, "shop.test", "/");
    eventually(
        "the count",
        || status(&server)["requests"]["requests"] == 1,
        || server.stderr(),
    );
    let address = format!("localhost:{}", server.admin);
    let run = |more: &[&str]| {
        let args = [&["status", "--address", &address], more].concat();
        let output = run_to_end(&server.folder, &args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let page = run(&[]);
    assert!(page.starts_with("sluice "), "{page}");
    assert!(page.contains("\nshop.test   "), "{page}");
    let json: Value = serde_json::from_str(&run(&["--json"])).expect("it is JSON");
    assert_eq!(json["requests"]["requests"], 1);
    assert!(run(&["--csv"]).contains("\nshop.test,FRONTEND,0,1,"));
    // The address can come from the configuration as well.
    let output = run_to_end(
        &server.folder,
        &["status", "--config", "Caddyfile", "--json"],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_server_that_does_not_run_is_a_clear_error() {
    let folder = Folder::new();
    let address = format!("localhost:{}", free_port());
    for command in ["status", "top"] {
        let output = run_to_end(&folder, &[command, "--address", &address]);
        assert_eq!(output.status.code(), Some(1), "{command}");
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains(&format!("cannot reach the admin endpoint at {address}")),
            "{stderr}"
        );
        assert!(stderr.contains("help: start the server first"), "{stderr}");
    }
    let server = Server::start(SITE);
    let address = format!("localhost:{}", server.admin);
    let output = run_to_end(&folder, &["top", "--address", &address]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("not a terminal") && stderr.contains("`sluice status`"),
        "{stderr}"
    );
}

#[test]
fn top_draws_in_a_terminal_until_q_is_pressed() {
    if !can_run("script", &["--version"]) {
        return;
    }
    let server = Server::start(SITE);
    ask(&server, "shop.test", "/");
    for (no_color, colors) in [("", true), ("1", false)] {
        let command = format!(
            "stty cols 80 rows 24; '{}' top --address localhost:{}; stty -a | grep -o '.icanon'",
            env!("CARGO_BIN_EXE_sluice"),
            server.admin
        );
        let screen = server.folder.path().join(format!("screen{no_color}"));
        let mut child = Command::new("script")
            .args(["-qefc", &command, "/dev/null"])
            .env("NO_COLOR", no_color)
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(std::fs::File::create(&screen).expect("it is writable"))
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let seen = || text(&std::fs::read(&screen).expect("it is readable"));
        eventually(
            "two screens",
            || seen().matches("shop.test").count() >= 2,
            seen,
        );
        let mut keys = child.stdin.take().expect("it is piped");
        keys.write_all(b"s").expect("it reads");
        eventually(
            "another order",
            || seen().contains("sort (by errors)"),
            seen,
        );
        keys.write_all(b"jq").expect("it reads");
        let ended = || child.try_wait().expect("it can be waited for");
        let status = until(TIMEOUT, "its end", ended, seen);
        assert!(status.success(), "{}", seen());
        let seen = seen();
        assert_eq!(seen.contains("\x1b[1m"), colors, "{seen:?}");
        // The screen and the settings of the terminal are as before.
        assert!(seen.contains("\x1b[?1049l"), "{seen:?}");
        assert!(seen.ends_with(" icanon\r\n"), "{seen:?}");
        // Each screen begins at the top left corner.
        let screens = seen.replace("\x1b[H", "\n");
        for line in screens.lines().filter(|line| !line.contains("\x1b[?1049")) {
            let line = line.trim_end_matches('\r');
            let bare = line
                .replace("\x1b[K", "")
                .replace("\x1b[0m", "")
                .replace("\x1b[1m", "");
            let bare = bare
                .replace("\x1b[2m", "")
                .replace("\x1b[H", "")
                .replace("\x1b[J", "");
            assert!(bare.chars().count() <= 80, "{bare:?}");
        }
    }
}
