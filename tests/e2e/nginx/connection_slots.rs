//! `worker_connections`: the behaviour at the limit is that of nginx. The numbers for six hundred clients are those of
//! nginx 1.22; `tests/peer/nginx_connection_slots.rs` compares them again.

use super::setup;
use crate::client::ask;
use crate::harness::{Server, eventually};
use crate::support::client_load::{Fate, Holding, count, fate, gather};

/// A server with this many connection slots, and an upstream that responds on demand.
fn start(places: usize) -> (Server, Holding) {
    let holding = Holding::default();
    let conf = "
error_log {folder}/error.log warn;
worker_processes 1;
events { worker_connections PLACES; }
http {
upstream kept { server 127.0.0.1:{upstream}; keepalive 4; }
server {
listen 127.0.0.1:{port};
root {folder}/www;
location / { return 200 \"here\"; }
location = /rated { limit_rate 200; }
location = /held { proxy_pass http://127.0.0.1:{upstream}; }
location = /kept { proxy_pass http://kept; proxy_http_version 1.1; proxy_set_header Connection \"\"; }
}
}
";
    let conf = conf.replace("PLACES", &places.to_string());
    let conf = conf.replace("{upstream}", &holding.start().to_string());
    let setup = setup(&conf).env("SLUICE_WORKERS", "1");
    setup.folder().write("www/rated", "x".repeat(100_000));
    (setup.start(), holding)
}

/// One listening socket and the channel between worker and master use a slot each.
#[test]
fn as_many_of_600_clients_are_served_as_by_nginx() {
    let (server, _) = start(512);
    let clients = gather(server.port, 600, "/rated", None);
    assert_eq!(count(&clients, Fate::Responded(200)), 510);
    assert_eq!(count(&clients, Fate::Gone), 90);
    let errors = || server.folder.read("error.log");
    let alert = "512 worker_connections are not enough\n";
    let is_logged = || errors().contains(" [alert] ") && errors().contains(alert);
    eventually("the alert", is_logged, errors);
}

#[test]
fn a_proxied_client_takes_two_places() {
    let (server, holding) = start(512);
    let mut clients = gather(server.port, 600, "/held", Some(&holding));
    assert_eq!(count(&clients, Fate::Waits), 255);
    assert_eq!(count(&clients, Fate::Gone), 345);
    holding.free();
    for (stream, known) in &mut clients {
        if *known == Fate::Waits {
            assert_eq!(fate(stream, || false), Fate::Responded(200));
        }
    }
    // All slots but those of the clients are free again.
    assert_eq!(ask(server.port, "/").status, 200);
}

#[test]
fn idle_clients_make_room() {
    let (server, _) = start(64);
    let clients = gather(server.port, 600, "/", None);
    assert_eq!(count(&clients, Fate::Responded(200)), 600);
    let errors = || server.folder.read("error.log");
    let warning = "64 worker_connections are not enough, reusing connections\n";
    let is_logged = || errors().contains(" [warn] ") && errors().contains(warning);
    eventually("the warning", is_logged, errors);
    assert!(!errors().contains("[alert]"), "{}", errors());
}

#[test]
fn clients_that_ask_for_nothing_make_room() {
    let (server, _) = start(64);
    let silent: Vec<_> = (0..200)
        .map(|_| crate::client::Client::connect(server.port))
        .collect();
    assert_eq!(ask(server.port, "/").status, 200);
    drop(silent);
}

/// Without a slot for the upstream connection a request ends with 500, as in nginx.
#[test]
fn a_request_without_a_place_upstream_fails() {
    let (server, holding) = start(2 + 7);
    let clients = gather(server.port, 4, "/held", Some(&holding));
    let fates: Vec<Fate> = clients.iter().map(|(_, fate)| *fate).collect();
    assert_eq!(
        fates,
        [Fate::Waits, Fate::Waits, Fate::Waits, Fate::Responded(500)]
    );
    let errors = || server.folder.read("error.log");
    let message =
        "9 worker_connections are not enough while connecting to upstream, client: 127.0.0.1";
    eventually("the error", || errors().contains(message), errors);
}

/// An idle upstream connection is closed in favour of a client.
#[test]
fn kept_connections_to_upstreams_make_room() {
    let (server, holding) = start(2 + 4);
    holding.free();
    for _ in 0..2 {
        assert_eq!(ask(server.port, "/kept").status, 200);
    }
    let clients = gather(server.port, 4, "/rated", None);
    assert_eq!(count(&clients, Fate::Responded(200)), 4);
}
