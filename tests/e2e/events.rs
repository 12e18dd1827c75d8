//! Events and their handlers: commands and webhooks that run when something happens to the server.

use sluice_net::sys::process::Signal;

use crate::client::exchange;
use crate::harness::{Folder, Server, Setup, eventually, free_port, run_to_end, text};
use crate::support::wire::Wire;
use crate::upstream::Upstream;

/// A line of the `events` block whose command appends a line with these words to `{folder}/out`.
fn noting(event: &str, words: &str) -> String {
    format!(
        "\t\ton {event} exec sh -c `echo \"$0\" >> {{folder}}/out` \"{words}\" {{\n\t\t\tforeground\n\t\t}}\n"
    )
}

fn out(folder: &Folder) -> Vec<String> {
    let path = folder.path().join("out");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn wait_for(server: &Server, line: &str) {
    let is_there = || out(&server.folder).iter().any(|known| known == line);
    let shown = || format!("{:?} {}", out(&server.folder), server.stderr());
    eventually(line, is_there, shown);
}

#[test]
fn configurations_begin_and_end() {
    let events = [
        noting("started", "{event.name} one"),
        noting("stopping", "{event.name} one {event.module}"),
        noting("config_reloaded", "{event.name} one"),
    ];
    let caddyfile = format!(
        "{{\n\tadmin off\n\tevents {{\n{}\t}}\n}}\n:{{port}} {{\n\trespond one\n}}\n",
        events.concat()
    );
    let mut server = Server::start(&caddyfile);
    wait_for(&server, "started one");
    server.write(&caddyfile.replace("one", "two"));
    server.signal(Signal::Hangup);
    wait_for(&server, "config_reloaded two");
    // A configuration that is refused begins nothing.
    server.write(&caddyfile.replace("respond one", "respnd three"));
    server.signal(Signal::Hangup);
    server.wait_for_words("configuration rejected");
    server.signal(Signal::Terminate);
    assert!(server.wait_for_end().success());
    // The last handler was awaited.
    assert_eq!(
        out(&server.folder),
        [
            "started one",
            "started two",
            "stopping one ",
            "config_reloaded two",
            "stopping two ",
        ]
    );
}

#[test]
fn certificates_of_the_local_ca_are_announced() {
    let events = [
        noting(
            "cert_obtaining",
            "{event.name} {event.module} {event.data.identifier} {event.data.renewal}",
        ),
        noting(
            "cert_obtained",
            "{event.name} {event.data.identifier} {event.data.issuer} {event.data.certificate_path}",
        ),
        noting("cached_managed_cert", "{event.name} {event.data.sans}"),
    ];
    let caddyfile = format!(
        "{{\n\tadmin off\n\thttp_port 0\n\thttps_port {{port}}\n\tskip_install_trust\n\tauto_https disable_redirects\n\
         \tevents {{\n{}\t}}\n}}\nlocalhost {{\n\ttls internal\n\trespond ok\n}}\n",
        events.concat()
    );
    let server = Server::start(&caddyfile);
    wait_for(&server, "cached_managed_cert [\"localhost\"]");
    assert_eq!(
        out(&server.folder),
        [
            "cert_obtaining tls localhost false",
            "cert_obtained localhost local certificates/local/localhost/localhost.crt",
            "cached_managed_cert [\"localhost\"]",
        ]
    );
    let file = "data/sluice/certificates/local/localhost/localhost.crt";
    assert!(server.folder.path().join(file).exists());
}

#[test]
fn a_ca_that_cannot_be_reached_is_announced() {
    let dead = free_port();
    let events = noting("cert_failed", "{event.name} {event.data.identifier}");
    let caddyfile = format!(
        "{{\n\tadmin off\n\thttp_port 0\n\thttps_port {{port}}\n\tacme_ca https://127.0.0.1:{dead}/directory\n\
         \tauto_https disable_redirects\n\tevents {{\n{events}\t}}\n}}\na.test {{\n\trespond ok\n}}\n"
    );
    let server = Server::start(&caddyfile);
    wait_for(&server, "cert_failed a.test");
}

#[test]
fn upstreams_that_fail_and_recover_are_announced() {
    let health = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let is_well = health.clone();
    let upstream = Upstream::start(move |mut wire| {
        while wire.head().is_some() {
            let status = match is_well.load(std::sync::atomic::Ordering::Relaxed) {
                true => "200 OK",
                false => "500 Internal Server Error",
            };
            wire.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
        }
    });
    let words = "{event.name} {event.module} {event.data.host}";
    let events = [noting("healthy", words), noting("unhealthy", words)].concat();
    let caddyfile = format!(
        "{{\n\tadmin off\n\tevents {{\n{events}\t}}\n}}\n:{{port}} {{\n\treverse_proxy 127.0.0.1:{} {{\n\
         \t\thealth_uri /\n\t\thealth_interval 10ms\n\t}}\n}}\n",
        upstream.port
    );
    let server = Server::start(&caddyfile);
    assert_eq!(server.ask("/").status, 200);
    let line = |word: &str| {
        format!(
            "{word} http.handlers.reverse_proxy 127.0.0.1:{}",
            upstream.port
        )
    };
    health.store(false, std::sync::atomic::Ordering::Relaxed);
    wait_for(&server, &line("unhealthy"));
    health.store(true, std::sync::atomic::Ordering::Relaxed);
    wait_for(&server, &line("healthy"));
    assert_eq!(out(&server.folder), [line("unhealthy"), line("healthy")]);
}

/// Reads a webhook's request: its head and its JSON.
fn read(wire: &mut Wire) -> Option<(Vec<String>, serde_json::Value)> {
    let head = wire.head()?;
    let body = wire.body(&head)?;
    Some((head, serde_json::from_slice(&body).expect("it is JSON")))
}

#[test]
fn webhooks_get_the_event_as_json() {
    let (sender, received) = std::sync::mpsc::channel();
    let hook = Upstream::start(move |mut wire| {
        while let Some(request) = read(&mut wire) {
            let status = match request.0[0].contains("/refuse") {
                true => "403 Forbidden",
                false => "204 No Content",
            };
            wire.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
            let _ = sender.send(request);
        }
    });
    let port = hook.port;
    let caddyfile = format!(
        "{{\n\tadmin localhost:{{admin}}\n\tevents {{\n\t\ton config_reloaded webhook http://127.0.0.1:{port}/hook {{\n\
         \t\t\theader Authorization \"Bearer {{env.TOKEN}} {{event.name}}\"\n\t\t}}\n\
         \t\ton config_reloaded webhook http://127.0.0.1:{port}/refuse\n\t}}\n}}\n:{{port}} {{\n\trespond one\n}}\n"
    );
    let server = Setup::new(&caddyfile).env("TOKEN", "secret").start();
    let changed = caddyfile
        .replace("one", "two")
        .replace("{port}", &server.port.to_string())
        .replace("{admin}", &server.admin.to_string());
    let admin = server.admin;
    let request = format!(
        "POST /load HTTP/1.1\r\nHost: localhost:{admin}\r\nContent-Type: text/caddyfile\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{changed}",
        changed.len()
    );
    assert_eq!(exchange(admin, request).status, 200);
    let mut requests: Vec<_> = received.iter().take(2).collect();
    requests.sort_by(|a, b| a.0[0].cmp(&b.0[0]));
    let (head, event) = &requests[0];
    assert!(head[0].starts_with("POST /hook HTTP/1.1"), "{head:?}");
    let field = |name| crate::wire::field(head, name);
    assert_eq!(
        field("Authorization"),
        Some("Bearer secret config_reloaded")
    );
    assert_eq!(field("Content-Type"), Some("application/json"));
    assert_eq!(event["name"], "config_reloaded");
    assert_eq!(event["module"], "");
    assert_eq!(event["data"]["trigger"], "admin");
    assert_eq!(event["id"].as_str().map(str::len), Some(36));
    // Both are of the same event, and the refusal is logged.
    assert_eq!(requests[1].1["id"], event["id"]);
    server.wait_for_words("event handler failed");
    assert!(server.stderr().contains("403"), "{}", server.stderr());
}

#[test]
fn handlers_that_cannot_be_are_refused() {
    let setup = Setup::bare();
    let json = r#"{"admin":{"disabled":true},"apps":{"events":{"subscriptions":[
        {"events":["started"],"handlers":[{"handler":"nats"}]},
        {"events":["started"],"handlers":[{"handler":"webhook","url":"mailto:a@a.test"}]}]}}}"#;
    setup.folder().write("a.json", json);
    let output = run_to_end(setup.folder(), &["validate", "--config", "a.json"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    for part in [
        "event handler `nats` is a plugin",
        "apps.events.subscriptions[0].handlers[0]",
        "`mailto:a@a.test` is not a URL",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
