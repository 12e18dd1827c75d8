//! The options of `python`, each in a test that fails where the option has no effect. Those about the limits of processes
//! are in `limits`; `wsgi`, `asgi`, `websocket`, `dynamic` and `supervision` have those that belong to what they are about.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::load::Load;
use super::ws_client::WebSocket;
use super::{
    apps, caddyfile, digest, directive, kill, lives, metric, pattern, pid, post, refused,
    setup_with_copies, start,
};
use crate::client::Client;
use crate::harness::{Server, Setup, eventually};
use crate::support::executable::executable;
use crate::support::python::Python;
use crate::wire::Wire;

fn json(text: &[u8]) -> serde_json::Value {
    serde_json::from_slice(text).expect("it is JSON")
}

#[test]
fn module_detects_the_interface() {
    let Some(server) = start("module asgi:app") else {
        return;
    };
    assert_eq!(json(&server.ask("/").body)["type"], "http");
    let server = start("module wsgi:app").expect("there is Python");
    assert_eq!(json(&server.ask("/").body)["wsgi.url_scheme"], "http");
}

#[test]
fn module_rsgi() {
    let Some(server) = start("module_rsgi rsgi:app") else {
        return;
    };
    assert_eq!(server.ask("/x").text(), "http GET /x");
    assert_eq!(post(server.port, "/digest", b"abc").text(), "cba");
}

#[test]
fn runtime_chooses_the_event_loop() {
    for (runtime, module) in [
        ("", "uvloop"),
        ("runtime uvloop", "uvloop"),
        ("runtime native", "asyncio"),
    ] {
        let Some(server) = start(&format!("module_asgi asgi:app\n{runtime}")) else {
            return;
        };
        let said = server.ask("/loop").text();
        assert!(said.starts_with(module), "{runtime}: {said}");
    }
}

/// An application whose startup fails starts where it is not asked; `auto` asks it.
#[test]
fn lifespan_off_and_auto() {
    let app = "module_asgi asgi:app";
    let Some(server) = start(&format!("{app}\nlifespan off\nenv_var LIFESPAN fails")) else {
        return;
    };
    let scope = json(&server.ask("/").body);
    assert!(scope["state"]["greeting"].is_null(), "{scope}");
    let server = start(&format!("{app}\nlifespan auto")).expect("there is Python");
    let scope = json(&server.ask("/").body);
    assert_eq!(scope["state"]["greeting"], "from lifespan");
    // It knows HTTP only, and raises for everything else.
    let server = start("module_asgi checked:http_only\nlifespan auto").expect("there is Python");
    assert_eq!(server.ask("/").text(), "http");
}

#[test]
fn python_path_names_the_interpreter() {
    let Some(python) = Python::find() else { return };
    let site = directive(
        &python,
        "module_wsgi wsgi:app\npython_path {folder}/wrapped",
    );
    let setup = Setup::new(&caddyfile(&site));
    let text = format!(
        "#!/bin/sh\nexport WRAPPED=yes\nexec {} \"$@\"\n",
        python.program("python").display()
    );
    executable(setup.folder().path(), "wrapped", &text);
    let server = setup.start();
    assert_eq!(server.ask("/variable?WRAPPED").text(), "yes");
}

#[test]
fn an_application_that_takes_too_long_to_start_is_refused() {
    let Some(python) = Python::find() else { return };
    let app = "module_wsgi sleepy:app\nstart_timeout 1s";
    let site = directive(&python, app).replace(&apps().display().to_string(), "{folder}/app");
    let setup = Setup::new(&caddyfile(&site));
    setup
        .folder()
        .write("app/sleepy.py", "import time\ntime.sleep(1000)\n");
    let output = crate::harness::run_to_end(setup.folder(), &["run"]);
    let said = crate::harness::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("not ready within start_timeout"), "{said}");
}

#[test]
fn isolation_in_containers_is_refused_with_what_to_use() {
    let Some(server) = start("module_wsgi wsgi:app\nisolation none") else {
        return;
    };
    assert_eq!(server.ask("/unread").status, 200);
    let said = refused("python {\nmodule_wsgi wsgi:app\nisolation docker\n}");
    assert!(
        said.contains("docker") && said.contains("`rlimit`"),
        "{said}"
    );
}

/// A request that holds the only place of its process.
fn occupied(server: &Server, path: &str) -> Wire {
    let mut wire = Wire::connect(server.port);
    wire.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    wire.head().expect("a response");
    wire
}

#[test]
fn concurrency_and_queue_size_bound_what_runs_and_what_waits() {
    let options = "module_asgi asgi:app\nconcurrency 1\nqueue_size 1\nqueue_timeout 60s";
    let Some(server) = start(options) else { return };
    let first = occupied(&server, "/events");
    let mut second = Client::connect(server.port);
    second.send("GET /pid HTTP/1.1\r\nHost: a\r\n\r\n");
    let queued = || metric(&server, "sluice_python_queued_requests");
    eventually("it waits", || queued() == 1, || queued().to_string());
    let third = server.ask("/pid");
    assert_eq!(third.status, 503, "the queue is full");
    assert!(third.field("Retry-After").is_some(), "{}", third.head);
    drop(first);
    assert_eq!(second.response().status, 200, "its turn has come");
}

#[test]
fn queue_timeout_ends_the_wait() {
    let options = "module_asgi asgi:app\nconcurrency 1\nqueue_timeout 1s";
    let Some(server) = start(options) else { return };
    let _first = occupied(&server, "/events");
    let began = Instant::now();
    let second = server.ask("/pid");
    assert_eq!(second.status, 503);
    assert!(second.field("Retry-After").is_some(), "{}", second.head);
    // The usual timeout is 10 s.
    let waited = began.elapsed().as_secs();
    assert!(waited < 9, "{waited} s");
}

#[test]
fn threads_bound_what_runs_at_once() {
    let Some(server) = start("module_wsgi wsgi:app\nthreads 2") else {
        return;
    };
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(server.port)).collect();
    for client in &mut clients {
        client.send("GET /slow?0.2 HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let mut seen = std::collections::BTreeSet::new();
    for client in &mut clients {
        seen.insert(client.response().text());
    }
    assert_eq!(seen.len(), 2, "{seen:?}");
}

#[test]
fn jitter_spreads_the_ends_of_processes() {
    let Some(python) = Python::find() else { return };
    let app = |limit: &str| {
        let options = format!(
            "module_wsgi wsgi:app\nname {}\nmax_requests {limit}",
            limit.len()
        );
        directive(&python, &options)
    };
    // One in a hundred thousand processes ends after its first request; one without jitter shows when it would have.
    let site = format!(
        "handle_path /even/* {{\n{}\n}}\n{}",
        app("1"),
        app("1 100000")
    );
    let server = Server::start(&caddyfile(&site));
    let (first, even) = (pid(&server), server.ask("/even/pid").text());
    let is_replaced = || {
        assert_eq!(pid(&server), first);
        server.ask("/even/pid").text() != even
    };
    eventually("the other one ends", is_replaced, || server.stderr());
    assert_eq!(pid(&server), first);
}

#[test]
fn root_path_is_a_prefix() {
    let Some(server) = start("module_wsgi wsgi:app\nroot_path /api") else {
        return;
    };
    let environ = json(&server.ask("/x").body);
    assert_eq!(
        (&environ["SCRIPT_NAME"], &environ["PATH_INFO"]),
        (&"/api".into(), &"/x".into())
    );
    let server = start("module_asgi asgi:app\nroot_path /api").expect("there is Python");
    assert_eq!(json(&server.ask("/x").body)["root_path"], "/api");
}

/// The processes of `preload` share one import.
#[test]
fn preloaded_processes_share_an_import() {
    let options = "module_wsgi greedy:app\nworkers 2\npreload";
    let Some(server) = start(options) else { return };
    let loaded = || -> (u32, u32) {
        let text = server.ask("/loaded").text();
        let (by, own) = text.split_once(' ').expect("two PIDs");
        (by.parse().expect("a PID"), own.parse().expect("a PID"))
    };
    let (parent, first) = loaded();
    assert_ne!(parent, first, "a parent imported it");
    kill(first);
    // Whichever responds was forked by the same parent, also the one that replaces the first.
    let restarts = || metric(&server, "sluice_python_restarts_total");
    eventually("it is replaced", || restarts() == 1, || server.stderr());
    for _ in 0..20 {
        let (by, own) = loaded();
        assert_eq!(by, parent);
        assert_ne!(own, first);
    }
}

#[test]
fn preload_with_asgi() {
    let Some(server) = start("module_asgi asgi:app\npreload\nlifespan on") else {
        return;
    };
    let scope = json(&server.ask("/").body);
    assert_eq!(scope["state"]["greeting"], "from lifespan");
    let mut socket = WebSocket::open(server.port, "/ws", "");
    socket.say("hello");
    assert_eq!(socket.hear(), "hello");
}

/// A site on a Unix socket has no addresses: PEP 3333 wants texts, ASGI the path and None.
#[test]
fn a_site_on_a_unix_socket() {
    let Some(python) = Python::find() else { return };
    let ask = |app: &str| {
        let bound = format!(
            "bind unix/{{folder}}/site.sock\n{}",
            directive(&python, app)
        );
        // The plain port stays, since the server is ready when it listens.
        let text = caddyfile("respond 204").replacen(
            ":{port} {",
            &format!("http:// {{\n{bound}\n}}\n:{{port}} {{"),
            1,
        );
        let server = Server::start(&text);
        let path = server.folder.path().join("site.sock");
        let mut stream = UnixStream::connect(path).expect("it listens");
        stream
            .write_all(b"GET /x HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
            .expect("it reads");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("a response");
        let at = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        json(&bytes[at.expect("a head") + 4..])
    };
    let environ = ask("module_wsgi wsgi:app");
    assert_eq!(environ["PATH_INFO"], "/x");
    assert_eq!(environ["SERVER_NAME"], "example.com");
    for name in ["SERVER_PORT", "REMOTE_ADDR"] {
        assert!(environ[name].is_string(), "{name} of {environ}");
    }
    let scope = ask("module_asgi asgi:app");
    assert_eq!(scope["path"], "/x");
    assert!(scope["client"].is_null(), "{scope}");
    let server = &scope["server"];
    assert!(
        server.is_null() || server[0].is_string() && server[1].is_null(),
        "{scope}"
    );
}

#[test]
fn dynamic_idle_timeout_ends_idle_applications() {
    let Some(python) = Python::find() else { return };
    let site = format!(
        "python {{\nmodule_asgi asgi:app\nworking_dir {{folder}}/{{http.request.host.labels.2}}\nvenv {}\n\
         workers 1\ndynamic_idle_timeout 1s\n}}",
        python.folder().display()
    );
    let setup = setup_with_copies(&["asgi.py"], &site);
    let server = setup.start();
    let ask = || -> u32 {
        let mut client = Client::connect(server.port);
        client.send("GET /pid HTTP/1.1\r\nHost: app.example.org\r\nConnection: close\r\n\r\n");
        client.response().text().parse().expect("a PID")
    };
    let first = ask();
    eventually("it ends", || !lives(first), || server.stderr());
    server.wait_for_words("idle application is stopped");
    assert_ne!(ask(), first);
}

#[test]
fn drain_timeout_ends_what_does_not_finish() {
    let Some(python) = Python::find() else { return };
    let options = "module_asgi asgi:app\ndrain_timeout 1s\nenv_var ROUND 0";
    let text = caddyfile(&directive(&python, options));
    let server = Server::start(&text);
    let before = pid(&server);
    let mut socket = WebSocket::open(server.port, "/ws", "");
    server.write(&text.replace("ROUND 0", "ROUND 1"));
    server.signal(sluice_net::sys::process::Signal::Hangup);
    eventually("the old one ends", || !lives(before), || server.stderr());
    // The WebSocket was on it.
    assert!(matches!(socket.next(), None | Some((8, _))));
    assert_ne!(pid(&server), before);
}

/// The open files of the server below a folder, also those without a name.
fn files_below(server: &Server, folder: &str) -> usize {
    let path = format!("/proc/{}/fd", server.pid());
    let all = std::fs::read_dir(path).expect("the server runs").flatten();
    let links = all.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|link| link.starts_with(folder)).count()
}

#[test]
fn buffer_folder_has_what_does_not_fit_into_memory() {
    let Some(python) = Python::find() else { return };
    let options = "module_wsgi wsgi:app\nbuffer_folder {folder}/buffers";
    let server = Server::start(&caddyfile(&directive(&python, options)));
    let folder = server.folder.path().join("buffers").display().to_string();
    let body = pattern(400_000);
    let mut client = Client::connect(server.port);
    client.send(format!(
        "POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    client.send(&body[..300_000]);
    let count = || files_below(&server, &folder);
    eventually("a file", || count() == 1, || count().to_string());
    client.send(&body[300_000..]);
    assert_eq!(client.response().text(), digest(&body));
    let mut slow = Wire::connect(server.port);
    slow.send("GET /large?60000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("a file", || count() == 1, || count().to_string());
    drop(slow);
    eventually("it is closed", || count() == 0, || count().to_string());
}

/// A server whose files cannot grow beyond half a megabyte or one, so that bodies that do not fit into memory are logged.
fn without_files(options: &str) -> Option<Server> {
    let python = Python::find()?;
    let site = directive(&python, &format!("module_wsgi wsgi:app\n{options}"));
    Some(Setup::new(&caddyfile(&site)).blocks_max(1024).start())
}

const NO_FILE: &str = "a body is forwarded without a temporary file";

#[test]
fn request_buffers_is_the_memory_for_a_request_body() {
    let Some(server) = without_files("request_buffers 8MiB") else {
        return;
    };
    let body = pattern(6_000_000);
    assert_eq!(post(server.port, "/digest", &body).text(), digest(&body));
    assert!(!server.stderr().contains(NO_FILE), "{}", server.stderr());
    let server = without_files("").expect("there is Python");
    assert_eq!(post(server.port, "/digest", &body).text(), digest(&body));
    server.wait_for_words(NO_FILE);
}

/// The whole response is in memory, and the only thread free for others.
#[test]
fn response_buffers_is_the_memory_for_a_response() {
    let options = "threads 1\nqueue_timeout 1s\nresponse_buffers";
    let Some(server) = without_files(&format!("{options} 80MiB")) else {
        return;
    };
    let mut slow = occupied(&server, "/large?60000000");
    let load = Load::start(server.port, "/pid", 1);
    load.wait_for(5);
    load.end();
    assert!(!server.stderr().contains(NO_FILE), "{}", server.stderr());
    assert_eq!(slow.take(60_000_000).len(), 60_000_000);
    // Neither memory nor file: the thread waits for the client.
    let server = without_files(&format!("{options} off")).expect("there is Python");
    let slow = occupied(&server, "/large?60000000");
    assert_eq!(server.ask("/pid").status, 503);
    drop(slow);
    let status = || server.ask("/pid").status;
    eventually("it is free", || status() == 200, || status().to_string());
    assert!(!server.stderr().contains(NO_FILE), "{}", server.stderr());
    // The usual 64 KiB, and no file.
    let server = without_files("threads 1\nqueue_timeout 1s").expect("there is Python");
    let _slow = occupied(&server, "/large?60000000");
    server.wait_for_words(NO_FILE);
}
