//! Starts, crashes, reloads: what the server does with processes, and that requests do not notice.

use sluice_net::sys::process::Signal;

use super::load::Load;
use super::ws_client::WebSocket;
use super::{
    applications, caddyfile, directive, kill, lives, metric, pid, refused, setup_with_copies, start,
};
use crate::harness::{Server, Setup, eventually, run_to_end, text};
use crate::support::python::Python;

#[test]
fn killed_processes_fail_no_idempotent_request() {
    kill_under_load(10);
}

/// Kills a process of two so many times, with WSGI and with ASGI.
pub(super) fn kill_under_load(rounds: u64) {
    for options in [
        "module_wsgi wsgi:app\nworkers 2",
        "module_asgi asgi:app\nworkers 2",
    ] {
        let Some(server) = start(options) else { return };
        let load = Load::start(server.port, "/pid", 8);
        for round in 0..rounds {
            load.wait_for(50);
            kill(pid(&server));
            let restarts = || metric(&server, "sluice_python_restarts_total");
            eventually(
                "it is replaced",
                || restarts() > round,
                || restarts().to_string(),
            );
        }
        let by_worker = || {
            let page = server.metrics();
            let lines = page.lines();
            let of_process = "sluice_python_process_restarts_total{";
            let values = lines.filter(|line| line.starts_with(of_process));
            let counts = values.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
            counts.sum::<u64>()
        };
        // Both workers have a process again.
        let is_whole = || by_worker() == rounds;
        eventually("each is counted", is_whole, || server.metrics());
        load.wait_for(50);
        load.end();
    }
}

#[test]
fn a_reload_that_leaves_the_application_alone_leaves_its_processes() {
    let Some(python) = Python::find() else { return };
    let text = caddyfile(&directive(&python, "module_wsgi wsgi:app"));
    let server = Server::start(&text);
    let before = pid(&server);
    server.write(&text.replace("\tlog {", "\theader X-New 1\n\tlog {"));
    server.signal(Signal::Hangup);
    let header = || server.ask("/pid").field("X-New").is_some();
    eventually("the new configuration serves", header, || server.stderr());
    assert_eq!(pid(&server), before);
}

#[test]
fn a_reload_replaces_the_application_under_load() {
    let Some(python) = Python::find() else { return };
    let text = caddyfile(&directive(&python, "module_wsgi wsgi:app\nenv_var ROUND 0"));
    let server = Server::start(&text);
    let load = Load::start(server.port, "/pid", 4);
    let mut seen = vec![pid(&server)];
    for round in 1..=5 {
        load.wait_for(20);
        server.write(&text.replace("ROUND 0", &format!("ROUND {round}")));
        server.signal(Signal::Hangup);
        let now = || server.ask("/variable?ROUND").text();
        eventually("the new one serves", || now() == round.to_string(), now);
        let process = pid(&server);
        assert!(!seen.contains(&process));
        seen.push(process);
    }
    load.wait_for(20);
    load.end();
    seen.pop();
    let gone = || seen.iter().all(|process| !lives(*process));
    eventually("the old ones end", gone, || format!("{seen:?}"));
}

#[test]
fn websockets_finish_on_the_processes_they_began_on() {
    let Some(python) = Python::find() else { return };
    let text = caddyfile(&directive(&python, "module_asgi asgi:app\nenv_var ROUND 0"));
    let server = Server::start(&text);
    let before = pid(&server);
    let mut socket = WebSocket::open(server.port, "/ws", "");
    server.write(&text.replace("ROUND 0", "ROUND 1"));
    server.signal(Signal::Hangup);
    let now = || pid(&server);
    eventually(
        "the new one serves",
        || now() != before,
        || now().to_string(),
    );
    socket.say("pid");
    assert_eq!(socket.hear(), before.to_string());
    drop(socket);
    eventually("the old one ends", || !lives(before), || before.to_string());
}

#[test]
fn a_broken_configuration_keeps_the_application_and_shows_why() {
    let Some(python) = Python::find() else { return };
    let text = caddyfile(&directive(&python, "module_wsgi wsgi:app"));
    let server = Server::start(&text);
    let before = pid(&server);
    server.write(&text.replace("wsgi:app", "wsgi:nothing"));
    server.signal(Signal::Hangup);
    server.wait_for_words("nothing");
    assert_eq!(pid(&server), before);
}

#[test]
fn autoreload_replaces_the_application_under_load() {
    reload_under_load(5);
}

/// Changes the application so many times.
pub(super) fn reload_under_load(versions: u32) {
    let Some(python) = Python::find() else { return };
    let site = format!(
        "python {{\nmodule_wsgi changing:app\nworking_dir {{folder}}/app\nvenv {}\nworkers 1\nautoreload\n}}",
        python.folder().display()
    );
    let app = |version: u32| {
        format!(
            "def app(environ, start_response):\n    start_response('200 OK', [])\n    return [b'version {version}']\n"
        )
    };
    let setup = setup_with_copies(&[], &site);
    setup.folder().write("app/changing.py", app(0));
    let server = setup.start();
    let load = Load::start(server.port, "/", 4);
    for version in 1..=versions {
        load.wait_for(20);
        server.folder.write("app/changing.py", app(version));
        let now = || server.ask("/").text();
        let expected = format!("version {version}");
        eventually("the new version serves", || now() == expected, now);
    }
    // A broken edit keeps what runs, and says why.
    server.folder.write("app/changing.py", "def app(:\n");
    server.wait_for_words("SyntaxError");
    load.wait_for(20);
    assert_eq!(server.ask("/").text(), format!("version {versions}"));
    server.folder.write("app/changing.py", app(versions + 1));
    let now = || server.ask("/").text();
    let expected = format!("version {}", versions + 1);
    eventually("the mended version serves", || now() == expected, now);
    load.end();
}

#[test]
fn no_process_outlives_the_server() {
    let Some(mut server) = start("module_wsgi wsgi:app\nworkers 3") else {
        return;
    };
    let children = || -> Vec<u32> {
        let text = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.pid()));
        let all = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
        let of_threads = all
            .flatten()
            .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        let text = text
            .into_iter()
            .chain(of_threads)
            .collect::<Vec<_>>()
            .join(" ");
        let mut pids: Vec<u32> = text
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    };
    let pids = children();
    assert!(pids.len() >= 3, "{pids:?}");
    server.kill();
    let gone = || pids.iter().all(|pid| !lives(*pid));
    eventually("all end", gone, || format!("{pids:?}"));
}

#[test]
fn a_stop_ends_the_processes() {
    let Some(mut server) = start("module_wsgi wsgi:app") else {
        return;
    };
    let process = pid(&server);
    server.signal(Signal::Terminate);
    assert!(server.wait_for_end().success());
    assert!(!lives(process));
}

#[test]
fn requests_after_which_a_process_is_replaced() {
    let Some(server) = start("module_wsgi wsgi:app\nmax_requests 20") else {
        return;
    };
    let first = pid(&server);
    let load = Load::start(server.port, "/pid", 2);
    eventually(
        "it is replaced",
        || pid(&server) != first,
        || first.to_string(),
    );
    load.end();
    eventually("it ends", || !lives(first), || first.to_string());
}

#[test]
fn applications_that_do_not_start_are_refused_at_their_line() {
    let Some(python) = Python::find() else { return };
    let said = refused(&directive(&python, "module_wsgi no_such_module:app"));
    assert!(
        said.contains("there is no module `no_such_module`"),
        "{said}"
    );
    assert!(
        said.contains("--> ") && said.contains("Caddyfile:11"),
        "{said}"
    );
    let said = refused(&directive(&python, "module_wsgi wsgi:no_such_variable"));
    assert!(said.contains("no_such_variable"), "{said}");
    let said = refused(&directive(&python, "module_wsgi wsgi:app\naccelerator on"));
    let reason = "cannot load the accelerator: it is not installed for Python 3.";
    assert!(said.contains(reason), "{said}");
    assert!(said.contains("install the wheel `sluice-worker`"), "{said}");
    assert!(said.contains("Caddyfile:11"), "{said}");
    let said = refused("python {\nmodule_wsgi wsgi:app\nvenv /no/such/venv\n}");
    assert!(said.contains("/no/such/venv"), "{said}");
    let said = refused("python {\nmodule_wsgi wsgi:app\nworking_dir /no/such/folder\n}");
    assert!(said.contains("/no/such/folder"), "{said}");
    let said = refused("python {\nmodule_wsgi wsgi:app\npython_path /no/such/python\n}");
    assert!(said.contains("/no/such/python"), "{said}");
}

/// Nothing is started to check a configuration.
#[test]
fn validation_starts_nothing() {
    let Some(python) = Python::find() else { return };
    let setup = Setup::new(&caddyfile(&directive(
        &python,
        "module_wsgi no_such_module:app",
    )));
    let output = run_to_end(setup.folder(), &["validate"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let bad = caddyfile(&directive(
        &python,
        "module_wsgi wsgi:app\nuser no-such-user",
    ));
    setup.folder().write("Caddyfile", setup.fill(&bad));
    let output = run_to_end(setup.folder(), &["validate"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

#[test]
fn metrics_and_explanations_name_the_application() {
    let Some(server) = start("module_wsgi wsgi:app\nname shop") else {
        return;
    };
    for _ in 0..5 {
        assert_eq!(server.ask("/pid").status, 200);
    }
    let page = server.metrics();
    let has = |start: &str| page.lines().any(|line| line.starts_with(start));
    for sample in [
        "sluice_python_ready{app=\"shop\"",
        "sluice_python_requests_total{app=\"shop\"",
        "sluice_python_queued_requests{app=\"shop\"",
        "sluice_python_websocket_inbound_bytes{app=\"shop\"",
        "sluice_python_websocket_outbound_bytes{app=\"shop\"",
        "sluice_python_websockets_shed_total{app=\"shop\"",
        "sluice_python_restarts_total{app=\"shop\"",
        "sluice_python_in_flight_requests{app=\"shop\"",
        "sluice_python_resident_bytes{app=\"shop\"",
        "sluice_python_busy_seconds_total{app=\"shop\"",
        "sluice_python_request_duration_seconds_bucket{app=\"shop\"",
        "sluice_python_request_duration_seconds_count{app=\"shop\"} 5",
    ] {
        assert!(has(sample), "{sample} is missing:\n{page}");
    }
    assert_eq!(metric(&server, "sluice_python_requests_total"), 5);
    let shown = applications(&server);
    assert_eq!(shown[0]["app"], "shop");
    assert_eq!(shown[0]["interface"], "wsgi");
    assert_eq!(shown[0]["state"], "ready");
    assert_eq!(shown[0]["processes"][0]["pid"], pid(&server));
    let url = format!("http://localhost:{}/pid", server.port);
    let output = run_to_end(&server.folder, &["explain", &url]);
    let said = text(&output.stdout);
    assert!(
        said.contains("wsgi:app") && said.contains("wsgi)"),
        "{said}{}",
        text(&output.stderr)
    );
}

#[test]
fn processes_have_the_normal_scheduling_class_whatever_that_of_workers_is() {
    let Some(python) = Python::find() else { return };
    let text = caddyfile(&directive(&python, "module_wsgi wsgi:app\nworkers 2"));
    let setup = Setup::new(&text).env("SLUICE_SCHEDULING", "batch");
    let server = setup.start();
    let first = pid(&server);
    kill(first);
    // One that is started later, too.
    let other = || pid(&server);
    let shown = || other().to_string();
    eventually("another process serves", || other() != first, shown);
    for process in applications(&server)[0]["processes"]
        .as_array()
        .expect("a list")
    {
        let pid = process["pid"].as_u64().expect("a number") as u32;
        if pid != 0 && pid != first {
            let classes = crate::process::classes(pid);
            assert!(classes.iter().all(|(_, class)| *class == 0), "{classes:?}");
        }
    }
}
