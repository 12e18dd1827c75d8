//! nginx's command line, as other programs use it, and the files they read.

use std::net::TcpListener;

use sluice_net::sys::process::{Signal, send};

use super::prefix::{Prefix, SITE, is_alive};
use crate::client::{Client, ask};
use crate::harness::{Folder, Setup, eventually, finish, run_to_end, text};

#[test]
fn versions_and_invalid_switches_are_reported_in_nginxs_wording() {
    let folder = Folder::new();
    let said = |words: &[&str]| {
        let mut all = vec!["nginx"];
        all.extend(words);
        let output = run_to_end(&folder, &all);
        assert!(output.stdout.is_empty(), "all of it is on standard error");
        (output.status.code(), text(&output.stderr))
    };
    let (code, version) = said(&["-v"]);
    assert_eq!(code, Some(0));
    assert!(
        version.starts_with("nginx version: nginx/1.31."),
        "{version}"
    );
    let (code, build) = said(&["-V"]);
    assert_eq!(code, Some(0));
    assert!(build.starts_with(&version), "{build}");
    assert!(build.contains("\nconfigure arguments: --prefix=/etc/nginx "));
    assert!(build.contains(" --with-http_ssl_module"));
    let (code, help) = said(&["-h"]);
    assert_eq!(code, Some(0));
    assert!(help.contains("\nUsage: nginx [-?hvVtTq]"), "{help}");
    let (code, wrong) = said(&["-x"]);
    assert_eq!(
        (code, wrong.as_str()),
        (Some(1), "nginx: invalid option: \"x\"\n")
    );
}

#[test]
fn a_configuration_is_tested_and_dumped() {
    let prefix = Prefix::new();
    let conf = prefix.conf();
    let good = format!(
        "nginx: the configuration file {conf} syntax is ok\nnginx: configuration file {conf} test is successful\n"
    );
    assert_eq!(prefix.said(&["-t"]), (Some(0), good.clone()));
    assert_eq!(prefix.said(&["-t", "-q"]), (Some(0), String::new()));
    prefix.folder.write("more.conf", "# more\n");
    prefix.configure(
        "include more.conf;\ninclude more.conf;\nevents { worker_connections 9; }\n",
        "",
    );
    let output = prefix.run(&["-T", "-g", "daemon off;"]);
    assert_eq!(text(&output.stderr), good);
    assert_eq!(
        text(&output.stdout),
        format!(
            "# configuration file {conf}:\ninclude more.conf;\ninclude more.conf;\nevents {{ worker_connections 9; }}\n\n\
             # configuration file {}:\n# more\n\n",
            prefix.folder.path().join("more.conf").display()
        )
    );
    assert!(prefix.pid().is_none(), "nothing was started");
}

#[test]
fn mistakes_end_with_the_line_that_programs_look_for() {
    let prefix = Prefix::new();
    let conf = prefix.conf();
    prefix.configure("events {}\nhttp {\nserver { listn 80; }\n}\n", "");
    for words in [&["-t"][..], &[], &["-s", "reload"]] {
        let (code, said) = prefix.said(words);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("error[unknown-directive]"), "{said}");
        let line = format!("\nnginx: [emerg] unknown directive \"listn\" in {conf}:3\n");
        assert!(said.contains(&line), "{said}");
        let failed = format!("nginx: configuration file {conf} test failed\n");
        assert_eq!(said.ends_with(&failed), words == ["-t"], "{said}");
    }
    let (code, said) = prefix.said(&["-t", "-g", "pid;"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("\" takes 1 word in command line\n"), "{said}");
    std::fs::remove_file(&conf).expect("it was written");
    let missing = format!(
        "nginx: [emerg] open() \"{conf}\" failed (2: No such file or directory)\n\
         nginx: configuration file {conf} test failed\n"
    );
    assert_eq!(prefix.said(&["-t"]), (Some(1), missing));
}

#[test]
fn a_signal_without_a_process_is_refused() {
    let prefix = Prefix::new();
    let pid = prefix.folder.path().join("logs/nginx.pid");
    let pid = pid.display();
    assert_eq!(
        prefix.said(&["-s", "stop"]),
        (
            Some(1),
            format!("nginx: [error] open() \"{pid}\" failed (2: No such file or directory)\n")
        )
    );
    prefix.folder.write("logs/nginx.pid", "none\n");
    assert_eq!(
        prefix.said(&["-s", "reload"]),
        (
            Some(1),
            format!("nginx: [error] invalid PID number \"none\" in \"{pid}\"\n")
        )
    );
    // Above the largest possible PID.
    prefix.folder.write("logs/nginx.pid", "4194305\n");
    assert_eq!(
        prefix.said(&["-s", "quit"]),
        (
            Some(1),
            "nginx: [alert] kill(4194305, 3) failed (3: No such process)\n".to_owned()
        )
    );
    prefix.folder.write("logs/nginx.pid", "");
}

#[test]
fn it_serves_in_the_background_until_a_stop_signal() {
    let prefix = Prefix::new();
    assert_eq!(prefix.said(&[]), (Some(0), String::new()));
    // It serves when the command returns, and its PID file exists.
    assert_eq!(ask(prefix.port, "/").text(), "one");
    assert_eq!(ask(prefix.port, "/files/a.txt").text(), "a file");
    let pid = prefix.pid().expect("the number is there");
    assert!(is_alive(pid));
    let (code, said) = prefix.said(&[]);
    assert_eq!(code, Some(1));
    let line = format!(
        "nginx: [emerg] bind() to 127.0.0.1:{} failed (98: Address already in use)\n",
        prefix.port
    );
    assert!(said.ends_with(&line), "{said}");
    assert_eq!(prefix.pid(), Some(pid), "the second leaves the file alone");
    prefix.configure(SITE, "two");
    assert_eq!(prefix.said(&["-s", "reload"]), (Some(0), String::new()));
    eventually(
        "the reload",
        || ask(prefix.port, "/").text() == "two",
        || prefix.errors(),
    );
    // With an invalid file the old configuration stays in effect, and the error is logged.
    prefix.configure("events {}\nhttp { foo; }\n", "");
    send(pid, Signal::Hangup).expect("it runs");
    eventually(
        "the refusal",
        || prefix.errors().contains("foo"),
        || prefix.errors(),
    );
    assert_eq!(ask(prefix.port, "/").text(), "two");
    prefix.configure(SITE, "two");
    assert_eq!(prefix.said(&["-s", "quit"]).0, Some(0));
    prefix.wait_for_end(pid);
    assert!(prefix.pid().is_none(), "the file is removed");
}

/// What logrotate does: move the file, then send SIGUSR1.
#[test]
fn logs_are_opened_again() {
    let prefix = Prefix::new();
    assert_eq!(prefix.said(&[]).0, Some(0));
    let logs = prefix.folder.path().join("logs");
    let lines = |name: &str| prefix.folder.read(&format!("logs/{name}")).lines().count();
    assert_eq!(ask(prefix.port, "/first").status, 200);
    eventually("a line", || lines("access.log") == 1, || prefix.errors());
    for name in ["access.log", "error.log"] {
        std::fs::rename(logs.join(name), logs.join(format!("{name}.1"))).expect("it is there");
    }
    assert_eq!(prefix.said(&["-s", "reopen"]), (Some(0), String::new()));
    // Both files exist again before any line is written.
    eventually(
        "new files",
        || logs.join("access.log").exists() && logs.join("error.log").exists(),
        || prefix.errors(),
    );
    assert_eq!(ask(prefix.port, "/second").status, 200);
    eventually(
        "a line",
        || prefix.folder.read("logs/access.log").contains("/second"),
        || prefix.errors(),
    );
    assert_eq!(lines("access.log.1"), 1);
}

#[test]
fn quit_waits_for_requests_and_term_does_not() {
    for (signals, responses) in [
        (&[Signal::Quit][..], true),
        (&[Signal::Terminate], false),
        (&[Signal::Quit, Signal::Terminate], false),
    ] {
        let setup = Setup::bare().args(&[
            "nginx",
            "-p",
            "{folder}",
            "-c",
            "nginx.conf",
            "-g",
            "daemon off; error_log stderr notice;",
        ]);
        let conf = SITE.replace("error_log logs/error.log notice;\n", "");
        setup
            .folder()
            .write("nginx.conf", setup.fill(&conf.replace("{response}", "one")));
        let mut server = setup.start();
        let mut slow = Client::connect(server.port);
        slow.send("GET / HTTP/1.1\r\nHost: local");
        // The server has read the partial request once it responds to one of a later connection.
        assert_eq!(server.ask("/").text(), "one");
        for signal in signals {
            server.signal(*signal);
            if *signal == Signal::Quit {
                server.wait_for_words("stopping");
            }
        }
        if responses {
            slow.send("host\r\n\r\n");
            assert_eq!(slow.response().status, 200);
        }
        assert_eq!(server.wait_for_end().code(), Some(0));
        let path = server.folder.path().join("logs/nginx.pid");
        assert!(!path.exists(), "the file is removed");
    }
}

#[test]
fn a_link_named_nginx_is_nginx() {
    let prefix = Prefix::new();
    let link = prefix.folder.path().join("nginx");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sluice"), &link).expect("writable");
    let mut command = std::process::Command::new(&link);
    command.env_clear().current_dir(prefix.folder.path());
    let output = finish(command.args(["-t", "-p", ".", "-c", "nginx.conf"]));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("test is successful"));
}

/// If the error log cannot be opened, nginx reports it and continues.
#[test]
fn a_log_that_cannot_be_opened_is_an_alert() {
    let prefix = Prefix::new();
    prefix.configure(&SITE.replace("error_log logs/error.log notice;\n", ""), "");
    let (code, said) = prefix.said(&["-t", "-e", "none/error.log"]);
    assert_eq!(code, Some(0), "{said}");
    let path = prefix.folder.path().join("none/error.log");
    let line = format!(
        "nginx: [alert] could not open error log file: open() \"{}\" failed (2: No such file or directory)\n",
        path.display()
    );
    assert!(said.starts_with(&line), "{said}");
}

#[test]
fn a_port_in_use_is_reported_before_the_command_returns() {
    let prefix = Prefix::new();
    let taken = TcpListener::bind(("127.0.0.1", prefix.port)).expect("it is free");
    let (code, said) = prefix.said(&[]);
    drop(taken);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("failed (98: Address already in use)"),
        "{said}"
    );
    assert!(prefix.pid().is_none());
    // No process is left behind. Programs that other tests start may hold our socket for a moment.
    let is_free = || TcpListener::bind(("127.0.0.1", prefix.port)).is_ok();
    eventually("a free port", is_free, || prefix.errors());
}

/// The messages in the error log that people and programs look for.
#[test]
fn the_process_lifecycle_is_logged_in_nginxs_wording() {
    let prefix = Prefix::new();
    assert_eq!(prefix.said(&["-e", "logs/early.log"]).0, Some(0));
    let pid = prefix.pid().expect("it serves");
    let errors = || prefix.errors();
    let count = |words: &str| errors().matches(words).count();
    eventually("a start", || count("start worker processes") == 1, errors);
    for (order, words) in [
        ("reload", "configuration loaded"),
        ("reopen", ": signal 10 (SIGUSR1) received, reopening logs"),
        ("quit", ": exit\n"),
    ] {
        let words_before = ["-e", "logs/early.log", "-s", order];
        assert_eq!(prefix.said(&words_before), (Some(0), String::new()));
        let has_come = || format!("{}\n", errors()).contains(words);
        eventually(order, has_come, errors);
    }
    prefix.wait_for_end(pid);
    let log = errors();
    let mut rest = log.as_str();
    for line in [
        "[notice] PID#PID: nginx/1.",
        "OS: Linux ",
        "using the \"epoll\" event method",
        "start worker processes",
        "signal 1 (SIGHUP) received, reconfiguring",
        ": reconfiguring",
        "start worker processes",
        "signal 10 (SIGUSR1) received, reopening logs",
        "signal 3 (SIGQUIT) received, shutting down",
        ": gracefully shutting down",
        ": exit",
    ] {
        let line = line.replace("PID#PID", &format!("{pid}#{pid}"));
        let at = rest.find(&line);
        rest = &rest[at.unwrap_or_else(|| panic!("no {line} in its place in {log}"))..];
    }
    let early = prefix.folder.read("logs/early.log");
    assert_eq!(
        early.matches("signal process started").count(),
        3,
        "{early}"
    );
    assert!(!log.contains("signal process started"), "{log}");
}
