//! A server's life cycle: start, signals, stop.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use sluice_net::sys::process::Signal;

use crate::client::Client;
use crate::harness::{
    Folder, Server, Setup, eventually, finish, free_port, run_to_end, sluice, text,
};
use crate::service::Listener;
use crate::support::wait::happens;

const HELLO: &str = "{\n\tadmin off\n}\n:{port} {\n\trespond \"hello\"\n}\n";

#[test]
fn a_caddyfile_in_the_folder_is_served() {
    let server = Server::start(HELLO);
    let response = server.ask("/");
    assert_eq!((response.status, response.text().as_str()), (200, "hello"));
    assert_eq!(response.field("Server"), Some("sluice"));
}

#[test]
fn json_is_served_too() {
    let setup = Setup::bare();
    let json = setup.fill(
        r#"{"admin":{"disabled":true},"apps":{"http":{"servers":{"a":{"listen":[":{port}"],
            "routes":[{"handle":[{"handler":"static_response","body":"json"}]}]}}}}}"#,
    );
    setup.folder().write("config.json", json);
    let server = setup.args(&["run", "--config", "config.json"]).start();
    assert_eq!(server.ask("/").text(), "json");
}

/// A connection on which the server has received the beginning of a request: it came together with a whole one, which
/// has its response.
fn begun(port: u16) -> Client {
    let mut client = Client::connect(port);
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHost: local");
    assert_eq!(client.response().status, 200);
    client
}

#[test]
fn signals_to_end_let_requests_finish() {
    for signal in [Signal::Terminate, Signal::Interrupt] {
        let mut server = Server::start(
            "{\n\tadmin off\n\tgrace_period 10s\n}\n:{port} {\n\trespond \"hello\"\n}\n",
        );
        // The request has begun, so it gets a response even though the rest arrives after the signal.
        let mut slow = begun(server.port);
        let mut idle = Client::connect(server.port);
        assert_eq!(idle.get("/").status, 200);
        server.signal(signal);
        server.wait_for_words("stopping");
        assert!(idle.is_closed(), "an idle connection is closed at once");
        assert!(!server.has_ended(), "it waits for the request");
        slow.send("host\r\n\r\n");
        let response = slow.response();
        assert_eq!(
            (response.status, response.field("Connection")),
            (200, Some("close"))
        );
        assert_eq!(server.wait_for_end().code(), Some(0));
    }
}

/// The kernel completes connections before the server knows of them.
#[test]
fn connections_in_the_backlog_are_served_before_exit() {
    let mut server = Server::start(HELLO);
    let pid = server.pid().to_string();
    let kill = |signal: &str| {
        // It is a shell builtin; a program `kill` does not exist everywhere.
        let done = std::process::Command::new("sh")
            .args(["-c", "kill $0 $1", signal, &pid])
            .status();
        assert!(done.expect("a shell is there").success());
    };
    kill("-STOP");
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(server.port)).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    // It sees the signal and all connections at once.
    kill("-TERM");
    kill("-CONT");
    for client in &mut clients {
        assert_eq!(client.response().text(), "hello");
    }
    assert_eq!(server.wait_for_end().code(), Some(0));
}

#[test]
fn the_grace_period_ends() {
    let mut server = Server::start(
        "{\n\tadmin off\n\tgrace_period 300ms\n}\n:{port} {\n\trespond \"hello\"\n}\n",
    );
    let _slow = begun(server.port);
    let begun = Instant::now();
    server.signal(Signal::Terminate);
    assert_eq!(server.wait_for_end().code(), Some(0));
    assert!(
        begun.elapsed() >= Duration::from_millis(300),
        "it did not wait"
    );
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "it waited too long"
    );
}

#[test]
fn requests_are_served_while_a_stop_is_delayed() {
    let mut server = Server::start(
        "{\n\tadmin off\n\tshutdown_delay 1s\n}\n:{port} {\n\t\
         respond \"{http.shutting_down} {http.time_until_shutdown}\"\n}\n",
    );
    assert_eq!(server.ask("/").text(), "false ");
    server.signal(Signal::Terminate);
    server.wait_for_words("stopping after a delay");
    let begun = Instant::now();
    crate::harness::eventually(
        "the announcement",
        || server.ask("/").text().starts_with("true "),
        || server.stderr(),
    );
    let text = server.ask("/").text();
    let left = text.strip_prefix("true ").unwrap_or_default();
    assert!(left.ends_with("ms"), "less than a second is left: {text}");
    assert_eq!(server.wait_for_end().code(), Some(0));
    assert!(
        begun.elapsed() > Duration::from_millis(500),
        "it did not wait"
    );
}

#[test]
fn the_log_names_every_address_that_is_listened_on() {
    let other = crate::harness::free_port();
    let server = Server::start(&format!(
        "{{\n\tadmin off\n\thttp_port {other}\n\thttps_port {{port}}\n}}\nlocalhost {{\n\trespond ok\n}}\n"
    ));
    server.wait_for_words("serving");
    let said = server.stderr();
    let serving = said.lines().find(|line| line.contains("\"serving\""));
    let serving = serving.expect("it is logged");
    for port in [server.port, other] {
        assert!(serving.contains(&format!("\":{port}\"")), "{serving}");
    }
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let mut server =
        Server::start("{\n\tadmin off\n\tgrace_period 1h\n}\n:{port} {\n\trespond \"hello\"\n}\n");
    let _slow = begun(server.port);
    server.signal(Signal::Terminate);
    server.wait_for_words("stopping");
    assert!(!server.has_ended());
    server.signal(Signal::Terminate);
    assert_eq!(server.wait_for_end().code(), Some(2));
}

#[test]
fn sigquit_ends_the_process_at_once() {
    let mut server = Server::start(HELLO);
    server.signal(Signal::Quit);
    assert_eq!(server.wait_for_end().code(), Some(2));
}

#[test]
fn a_port_in_use_is_reported() {
    let setup = Setup::new(HELLO);
    let taken = TcpListener::bind(setup.fill("0.0.0.0:{port}")).expect("it is free");
    let output = run_to_end(setup.folder(), &["run"]);
    drop(taken);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("in use") && said.contains(&setup.fill(":{port}")),
        "{said}"
    );
    assert!(said.contains("stop what listens there"), "{said}");
}

#[test]
fn the_help_fits_the_reason_why_an_address_cannot_be_listened_on() {
    for (listen, expected) in [
        // TEST-NET-1 (RFC 5737).
        ("192.0.2.1", "does not have that address"),
        (
            "unix/{folder}/missing/socket",
            "create the folder of the socket",
        ),
    ] {
        let caddyfile = format!("{{\n\tadmin off\n}}\n:{{port}} {{\n\tbind {listen}\n}}\n");
        let setup = Setup::new(&caddyfile);
        let output = run_to_end(setup.folder(), &["run"]);
        assert_eq!(output.status.code(), Some(1));
        let stderr = text(&output.stderr);
        assert!(stderr.contains(expected), "{stderr}");
        assert!(!stderr.contains("stop what listens there"), "{stderr}");
    }
}

#[test]
fn a_second_server_does_not_share_the_port_in_silence() {
    let first = Server::start(HELLO);
    let folder = Folder::new();
    folder.write(
        "Caddyfile",
        HELLO.replace("{port}", &first.port.to_string()),
    );
    let output = run_to_end(&folder, &["run"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("in use"));
    assert_eq!(first.ask("/").status, 200);
}

#[test]
fn the_pidfile_lives_as_long_as_the_server() {
    let mut server = Setup::new(HELLO).args(&["--pidfile", "pid"]).start();
    crate::harness::eventually(
        "the pidfile",
        || server.folder.read("pid").trim() == server.pid().to_string(),
        || server.stderr(),
    );
    server.signal(Signal::Terminate);
    assert_eq!(server.wait_for_end().code(), Some(0));
    assert!(!server.folder.path().join("pid").exists());
}

#[test]
fn variables_of_an_envfile_reach_the_configuration() {
    let setup =
        Setup::new("{\n\tadmin off\n}\n:{port} {\n\trespond \"{$GREETING} {env.NAME}\"\n}\n");
    setup.folder().write(
        "env",
        "# words\nexport GREETING=hello\nNAME=\"big world\"\n",
    );
    let server = setup.args(&["--envfile", "env"]).start();
    assert_eq!(server.ask("/").text(), "hello big world");
}

#[test]
fn as_many_workers_run_as_were_asked_for() {
    let server = Setup::new(HELLO).env("SLUICE_WORKERS", "3").start();
    let workers = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid()));
        let tasks = tasks.expect("the process is there").filter_map(Result::ok);
        let names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")));
        names
            .filter(|name| name.as_ref().is_ok_and(|name| name.starts_with("worker-")))
            .count()
    };
    // A thread sets its name only when it runs.
    crate::harness::eventually("three workers", || workers() == 3, || workers().to_string());
}

#[test]
fn a_nonsensical_number_of_workers_is_refused() {
    let setup = Setup::new(HELLO);
    for workers in ["0", "many", "-1", "1000000"] {
        let output = finish(
            sluice(setup.folder())
                .arg("run")
                .env("SLUICE_WORKERS", workers),
        );
        assert_eq!(output.status.code(), Some(1), "{workers}");
        assert!(text(&output.stderr).contains("SLUICE_WORKERS"), "{workers}");
    }
}

/// The scheduling class of each thread of a process, by name (proc(5), /proc/PID/stat, field 41).
pub fn classes(pid: u32) -> Vec<(String, u32)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there");
    let texts =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let class = |text: String| {
        let (start, rest) = text.rsplit_once(") ").expect("a name in parentheses");
        let (_, name) = start.split_once(" (").expect("a name in parentheses");
        // The field behind the name is the third one.
        let policy = rest
            .split(' ')
            .nth(41 - 3)
            .and_then(|text| text.parse().ok());
        (name.to_owned(), policy.expect("a number"))
    };
    texts.map(class).collect()
}

#[test]
fn workers_have_the_scheduling_class_that_was_asked_for() {
    const SCHED_BATCH: u32 = 3;
    for (asked, expected) in [("batch", SCHED_BATCH), ("normal", 0), ("", 0)] {
        let setup = Setup::new(HELLO).env("SLUICE_WORKERS", "3");
        let server = setup.env("SLUICE_SCHEDULING", asked).start();
        let is_worker = |class: &(String, u32)| class.0.starts_with("worker-");
        let found = || classes(server.pid());
        let all = || {
            let workers: Vec<_> = found().into_iter().filter(is_worker).collect();
            workers.len() == 3 && workers.iter().all(|(_, class)| *class == expected)
        };
        // A thread sets both only when it runs.
        crate::harness::eventually("three workers", all, || format!("{:?}", found()));
        let others = found().into_iter().filter(|class| !is_worker(class));
        assert!(
            others.into_iter().all(|(_, class)| class == 0),
            "{:?}",
            found()
        );
    }
    let setup = Setup::new(HELLO);
    let output = finish(
        sluice(setup.folder())
            .arg("run")
            .env("SLUICE_SCHEDULING", "idle"),
    );
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("invalid SLUICE_SCHEDULING `idle`"), "{said}");
}

#[test]
fn a_server_in_the_background_is_started_reloaded_and_stopped() {
    let setup = Setup::new("{\n\tadmin localhost:{admin}\n}\n:{port} {\n\trespond \"one\"\n}\n");
    let folder = setup.folder();
    let port: u16 = setup.fill("{port}").parse().expect("a port");
    let run = |args: &[&str]| {
        let log = |name| {
            let path = folder.path().join(name);
            std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(path)
                .expect("writable")
        };
        // The server inherits these, so they must not be pipes that are read to the end.
        let status = sluice(folder)
            .args(args)
            .stdout(log("stdout"))
            .stderr(log("stderr"))
            .status();
        status.expect("it starts").code()
    };
    assert_eq!(
        run(&["start", "--pidfile", "pid"]),
        Some(0),
        "{}",
        folder.read("stderr")
    );
    assert_eq!(crate::client::ask(port, "/").text(), "one");
    let pid: u32 = folder.read("pid").trim().parse().expect("a number");
    folder.write(
        "Caddyfile",
        setup.fill("{\n\tadmin localhost:{admin}\n}\n:{port} {\n\trespond \"two\"\n}\n"),
    );
    let reloaded = run(&["reload"]);
    let response = crate::client::ask(port, "/").text();
    let stopped = run(&["stop", "--config", "Caddyfile"]);
    let gone = || !std::path::Path::new(&format!("/proc/{pid}")).exists();
    let ended = happens(gone);
    if !ended {
        let _ = sluice_net::sys::process::send(pid, Signal::Quit);
    }
    assert_eq!(
        (reloaded, response.as_str(), stopped, ended),
        (Some(0), "two", Some(0), true)
    );
}

#[test]
fn a_server_that_cannot_start_in_the_background_says_why() {
    let folder = Folder::new();
    folder.write(
        "Caddyfile",
        format!(":{} {{\n\trespnd hello\n}}\n", free_port()),
    );
    let output = run_to_end(&folder, &["start"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("`respnd`") && said.contains("did not start"),
        "{said}"
    );
}

#[test]
fn stop_and_reload_without_a_server_are_failures() {
    let setup = Setup::new("{\n\tadmin localhost:{admin}\n}\n:{port}\n");
    let address = setup.fill("localhost:{admin}");
    for args in [&["stop", "--address", &address][..], &["reload"]] {
        let output = run_to_end(setup.folder(), args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(
            text(&output.stderr).contains("cannot reach the admin endpoint"),
            "{args:?}"
        );
    }
}

#[test]
fn an_inherited_socket_is_served_and_survives_reloads() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = socket.local_addr().expect("it is bound").port();
    let site = "{\n\tadmin localhost:{admin}\n\thttp_port {port}\n}\n\
        http:// {\n\tbind fd/{$LISTEN_FD}\n\trespond hello\n}\n";
    let setup = Setup::new(site).env("LISTEN_FD", "3");
    let server = setup.inherits(socket).start();
    assert_eq!(crate::client::ask(port, "/").text(), "hello");
    for (number, said) in [("4", "fd/4"), ("0", "from 3 on")] {
        server.write(&site.replace("{$LISTEN_FD}", number));
        let output = run_to_end(&server.folder, &["reload"]);
        assert!(!output.status.success());
        assert!(
            text(&output.stderr).contains(said),
            "{}",
            text(&output.stderr)
        );
        assert_eq!(crate::client::ask(port, "/").text(), "hello");
    }
    // The address is removed and added again.
    for (listen, response) in [("bind 127.0.0.1", None), ("bind fd/3", Some("again"))] {
        let site = site.replace("bind fd/{$LISTEN_FD}", listen);
        server.write(&site.replace("hello", "again"));
        let output = run_to_end(&server.folder, &["reload"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        if let Some(response) = response {
            assert_eq!(crate::client::ask(port, "/").text(), response);
        }
    }
}

#[test]
fn systemd_is_notified_of_the_state() {
    let mut server = Server::start(HELLO);
    let own = format!("MAINPID={}", server.pid());
    // A new configuration, then an invalid one: it is ready after both.
    let mut expected = vec!["READY=1", &own];
    assert_eq!(server.listener.heard(), expected);
    for text in [&HELLO.replace("hello", "other"), "nonsense {"] {
        server.write(text);
        server.signal(Signal::Hangup);
        expected.extend(["RELOADING=1", "MONOTONIC_USEC", "READY=1", &own]);
        let heard = || -> Vec<String> {
            let heard = server.listener.heard().into_iter();
            // The time is not predictable.
            heard
                .map(|line| match line.strip_prefix("MONOTONIC_USEC=") {
                    Some(time) if time.parse::<u64>().is_ok_and(|time| time > 0) => {
                        "MONOTONIC_USEC".to_owned()
                    }
                    _ => line,
                })
                .collect()
        };
        eventually(
            "it is ready again",
            || heard() == expected,
            || format!("{:?}", heard()),
        );
        assert_eq!(server.ask("/").text(), "other");
    }
    server.signal(Signal::Terminate);
    assert!(server.wait_for_end().success());
    eventually(
        "it tells that it stops",
        || {
            server
                .listener
                .heard()
                .last()
                .is_some_and(|line| line == "STOPPING=1")
        },
        || format!("{:?}", server.listener.heard()),
    );
}

#[test]
fn that_nobody_hears_how_far_it_is_stops_nothing() {
    let mut server = Server::start(HELLO);
    // The previous listener is gone.
    server.listener = Listener::start();
    server.write(&HELLO.replace("hello", "other"));
    server.signal(Signal::Hangup);
    server.wait_for_words("cannot notify the service manager");
    server.wait_for_words("configuration loaded");
    assert_eq!(server.ask("/").text(), "other");
}
