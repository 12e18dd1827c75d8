//! The configuration changed while it runs: the API that Caddy documents (<https://caddyserver.com/docs/api>), by the
//! paths, methods and headers of its page.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};
use sluice_net::sys::process::Signal;

use crate::client::{Response, exchange};
use crate::harness::{Server, Setup, eventually, run_to_end, text};

/// A server whose routes have names.
const NAMED: &str = r#"{
    "admin": {"listen": "localhost:{admin}"},
    "apps": {"http": {"servers": {"myserver": {
        "listen": ["127.0.0.1:{port}"],
        "routes": [
            {
                "@id": "greeting",
                "match": [{"path": ["/hello"]}],
                "handle": [{"handler": "static_response", "@id": "text", "body": "hello"}]
            },
            {"handle": [{"handler": "static_response", "body": "rest"}]}
        ]
    }}}}
}"#;

const ROUTES: &str = "/config/apps/http/servers/myserver/routes";

/// A route that responds with the name of its path.
fn route(name: &str) -> Value {
    json!({
        "match": [{"path": [format!("/{name}")]}],
        "handle": [{"handler": "static_response", "body": name}],
    })
}

/// Sends a request with a JSON body and these header lines.
fn send(admin: u16, method: &str, path: &str, fields: &str, body: &str) -> Response {
    let length = body.len();
    exchange(
        admin,
        format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:{admin}\r\nContent-Length: {length}\r\n\
             Content-Type: application/json\r\n{fields}Connection: close\r\n\r\n{body}"
        ),
    )
}

/// A change that succeeds, with an empty response.
fn change(server: &Server, method: &str, path: &str, body: &Value) {
    let response = send(server.admin, method, path, "", &body.to_string());
    let said = (response.status, response.text());
    assert_eq!(said, (200, String::new()), "{method} {path}");
}

fn get(server: &Server, path: &str) -> Value {
    let response = send(server.admin, "GET", path, "", "");
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    serde_json::from_slice(&response.body).expect("JSON")
}

fn start() -> Server {
    named().start()
}

fn named() -> Setup {
    let setup = Setup::bare();
    setup.folder().write("sluice.json", setup.fill(NAMED));
    setup.args(&["run", "--config", "sluice.json"])
}

#[test]
fn parts_are_created_replaced_and_removed() {
    let server = start();
    assert_eq!(server.ask("/hello").text(), "hello");
    // POST appends, PUT inserts, PATCH replaces, DELETE removes.
    change(&server, "PUT", &format!("{ROUTES}/0"), &route("first"));
    change(
        &server,
        "POST",
        &format!("{ROUTES}/..."),
        &json!([route("a"), route("b")]),
    );
    assert_eq!(server.ask("/first").text(), "first");
    assert_eq!(server.ask("/a").text(), "rest", "the route before takes it");
    change(&server, "DELETE", &format!("{ROUTES}/2"), &Value::Null);
    for name in ["first", "a", "b"] {
        assert_eq!(server.ask(&format!("/{name}")).text(), name);
    }
    change(
        &server,
        "PATCH",
        &format!("{ROUTES}/0/handle/0/body"),
        &json!("second"),
    );
    assert_eq!(server.ask("/first").text(), "second");
    change(&server, "POST", ROUTES, &route("c"));
    assert_eq!(server.ask("/c").text(), "c");
    assert_eq!(get(&server, &format!("{ROUTES}/4/match/0/path/0")), "/c");
    assert_eq!(get(&server, ROUTES).as_array().map(Vec::len), Some(5));
    assert_eq!(get(&server, "/config/apps/http/servers/none"), Value::Null);
}

#[test]
fn objects_are_found_by_their_ids() {
    let server = start();
    assert_eq!(get(&server, "/id/text")["body"], "hello");
    assert_eq!(get(&server, "/id/greeting/handle/0/@id"), "text");
    change(&server, "PUT", &format!("{ROUTES}/0"), &route("first"));
    change(
        &server,
        "PATCH",
        "/id/text/body",
        &json!("found wherever it is"),
    );
    assert_eq!(server.ask("/hello").text(), "found wherever it is");
    change(&server, "DELETE", "/id/greeting", &Value::Null);
    assert_eq!(server.ask("/hello").text(), "rest");
    assert_eq!(
        send(server.admin, "GET", "/id/greeting", "", "").status,
        404
    );
    // A new name changes nothing else, and is known from then on.
    change(&server, "PUT", &format!("{ROUTES}/1/@id"), &json!("last"));
    assert_eq!(get(&server, "/id/last/handle/0/body"), "rest");
}

#[test]
fn bad_changes_get_their_errors_and_change_nothing() {
    let server = start();
    let before = get(&server, "/config/");
    let site = "/config/apps/http/servers/myserver";
    for (method, path, body, status) in [
        ("PUT", site, "{}", 409),
        ("PATCH", "/config/apps/none", "{}", 404),
        ("DELETE", "/config/apps/none", "", 404),
        ("POST", "/config/none/none", "{}", 400),
        ("PATCH", &format!("{ROUTES}/9"), "{}", 400),
        ("POST", &format!("{ROUTES}/..."), "{}", 400),
        ("POST", ROUTES, "{", 400),
        ("POST", ROUTES, "", 400),
        ("POST", ROUTES, "{\"@id\": \"text\"}", 400),
        (
            "POST",
            ROUTES,
            "{\"handle\": [{\"handler\": \"nonsense\"}]}",
            400,
        ),
        ("POST", &format!("{site}/lisen"), "[]", 400),
        ("POST", &format!("{site}/listen"), "\"256.0.0.1:1\"", 400),
        ("POST", "/id/none", "{}", 404),
        ("OPTIONS", ROUTES, "", 405),
    ] {
        let response = send(server.admin, method, path, "", body);
        let said = response.text();
        assert_eq!(response.status, status, "{method} {path} {body}: {said}");
        assert!(said.contains("\"error\""), "{said}");
    }
    let response = send(
        server.admin,
        "POST",
        ROUTES,
        "",
        "{\"handle\": [{\"handler\": \"nonsense\"}]}",
    );
    let said: Value = serde_json::from_slice(&response.body).expect("JSON");
    assert_eq!(
        said["diagnostics"][0]["at"],
        "apps.http.servers.myserver.routes[2].handle[0]"
    );
    let other = "Content-Type: text/plain\r\n";
    let text = format!(
        "POST {ROUTES} HTTP/1.1\r\nHost: localhost:{0}\r\nContent-Length: 2\r\n{other}Connection: close\r\n\r\n{{}}",
        server.admin
    );
    assert_eq!(exchange(server.admin, text).status, 415);
    assert_eq!(get(&server, "/config/"), before);
    assert_eq!(server.ask("/hello").text(), "hello");
}

#[test]
fn of_concurrent_changes_none_is_lost() {
    const CLIENTS: usize = 6;
    const CHANGES: usize = 5;
    let server = start();
    let admin = server.admin;
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for at in 0..CHANGES {
                    let body = route(&format!("{client}-{at}")).to_string();
                    let response = send(admin, "PUT", &format!("{ROUTES}/0"), "", &body);
                    assert_eq!(response.status, 200, "{}", response.text());
                }
            });
        }
    });
    for client in 0..CLIENTS {
        for at in 0..CHANGES {
            let name = format!("{client}-{at}");
            assert_eq!(server.ask(&format!("/{name}")).text(), name);
        }
    }
}

#[test]
fn a_change_may_depend_on_what_was_read() {
    const CLIENTS: usize = 4;
    const SUCCESSES: usize = 5;
    let server = start();
    let (admin, refused) = (server.admin, AtomicUsize::new(0));
    change(&server, "PATCH", "/id/text/body", &json!("0"));
    // Each client counts one up a few times; a client that was overtaken reads again.
    let count_up = || {
        loop {
            let read = send(admin, "GET", "/id/text/body", "", "");
            let tag = read.field("Etag").expect("a tag").to_owned();
            let count: String = serde_json::from_slice(&read.body).expect("JSON");
            let next = json!((count.parse::<usize>().expect("a number") + 1).to_string());
            let condition = format!("If-Match: {tag}\r\n");
            let response = send(
                admin,
                "PATCH",
                "/id/text/body",
                &condition,
                &next.to_string(),
            );
            match response.status {
                200 => return,
                412 => refused.fetch_add(1, Ordering::Relaxed),
                other => panic!("{other}: {}", response.text()),
            };
        }
    };
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| (0..SUCCESSES).for_each(|_| count_up()));
        }
    });
    assert_eq!(
        server.ask("/hello").text(),
        (CLIENTS * SUCCESSES).to_string()
    );
    // The condition names the part that was read, whichever part is changed.
    let tag = |path: &str| {
        let read = send(admin, "GET", path, "", "");
        read.field("Etag").expect("a tag").to_owned()
    };
    let (whole, other) = (tag("/config/"), tag("/config/admin"));
    change(&server, "PATCH", "/id/text/body", &json!("changed"));
    for (condition, status) in [
        (whole.as_str(), 412),
        (other.as_str(), 200),
        ("*", 200),
        ("\"x\"", 400),
        ("x", 400),
    ] {
        let condition = format!("If-Match: {condition}\r\n");
        let response = send(admin, "PATCH", "/id/text/body", &condition, "\"again\"");
        assert_eq!(response.status, status, "{condition}");
    }
}

#[test]
fn changes_survive_a_restart_with_resume() {
    let server = start();
    change(&server, "PATCH", "/id/text/body", &json!("changed"));
    let saved = server.folder.read("config/sluice/autosave.json");
    let found: Value = serde_json::from_str(&saved).expect("JSON");
    assert_eq!(found, get(&server, "/config/"));
    let setup = Setup::bare();
    let resumed = saved
        .replace(&format!(":{}", server.port), &setup.fill(":{port}"))
        .replace(&format!(":{}", server.admin), &setup.fill(":{admin}"));
    setup.folder().write("config/sluice/autosave.json", resumed);
    let second = setup.args(&["run", "--resume"]).start();
    assert_eq!(second.ask("/hello").text(), "changed");
    assert_eq!(get(&second, "/id/text/body"), "changed");
}

#[test]
fn a_reload_of_the_file_discards_changes_and_says_so() {
    let server = start();
    change(&server, "PATCH", "/id/text/body", &json!("changed"));
    assert_eq!(server.ask("/hello").text(), "changed");
    server.signal(Signal::Hangup);
    server.wait_for_words("changes made through the admin endpoint are discarded");
    assert_eq!(server.ask("/hello").text(), "hello");
    // Nothing was changed since.
    server.signal(Signal::Hangup);
    eventually(
        "the second reload",
        || server.stderr().matches("SIGHUP").count() >= 2,
        || server.stderr(),
    );
    assert_eq!(server.stderr().matches("are discarded").count(), 1);
}

#[test]
fn the_reload_command_keeps_the_names_of_objects() {
    let server = start();
    let again = server
        .folder
        .read("sluice.json")
        .replace("\"hello\"", "\"reloaded\"");
    server.folder.write("sluice.json", again);
    let output = run_to_end(&server.folder, &["reload", "--config", "sluice.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(get(&server, "/id/text/body"), "reloaded");
}

#[test]
fn a_reload_can_be_forced() {
    let server = start();
    let whole = get(&server, "/config/").to_string();
    let force = "Cache-Control: must-revalidate\r\n";
    for fields in ["", force] {
        let response = send(server.admin, "POST", "/load", fields, &whole);
        assert_eq!(response.status, 200);
    }
    for fields in ["", force] {
        let response = send(server.admin, "PATCH", "/id/text/body", fields, "\"hello\"");
        assert_eq!(response.status, 200);
    }
    change(&server, "PATCH", "/id/text/body", &json!("last"));
    // The start, the two that were forced, and the change. Lines keep their order.
    let servings = || server.stderr().matches("serving").count();
    eventually("the last load", || servings() >= 4, || server.stderr());
    assert_eq!(servings(), 4);
}

#[test]
fn an_nginx_conf_is_read_only() {
    let setup = Setup::bare();
    let conf = "events {}\nhttp {\nserver {\nlisten 127.0.0.1:{port};\nreturn 200 nginx;\n}\n}\n";
    setup.folder().write("nginx.conf", setup.fill(conf));
    let admin = setup.fill("localhost:{admin}");
    let server = setup
        .env("SLUICE_ADMIN", &admin)
        .args(&["run", "--config", "nginx.conf"])
        .start();
    assert_eq!(server.ask("/").text(), "nginx");
    assert!(get(&server, "/config/apps/http/servers").is_object());
    let response = send(server.admin, "DELETE", "/config/apps", "", "");
    assert_eq!(response.status, 405, "{}", response.text());
    assert!(
        response.text().contains("nginx.conf"),
        "{}",
        response.text()
    );
    assert_eq!(server.ask("/").text(), "nginx");
}

#[test]
fn warnings_come_with_the_response() {
    let server = start();
    let admin = server.admin;
    let ask = |path: &str, body: &str| {
        let length = body.len();
        let response = exchange(
            admin,
            format!(
                "POST {path} HTTP/1.1\r\nHost: localhost:{admin}\r\nContent-Length: {length}\r\n\
                 Content-Type: text/caddyfile\r\nConnection: close\r\n\r\n{body}"
            ),
        );
        let value: Value = serde_json::from_slice(&response.body).expect("JSON");
        (response.status, value)
    };
    let site = format!(
        "{{\n\tadmin localhost:{admin}\n}}\nhttp://localhost:{} {{\n\trespond new\n\theader X-A {{$SLUICE_NEVER_SET}}\n}}\n",
        server.port
    );
    let (status, adapted) = ask("/adapt", &site);
    assert_eq!(status, 200);
    let warning = &adapted["warnings"][0];
    assert_eq!(
        (&warning["file"], &warning["line"]),
        (&json!("Caddyfile"), &json!(6)),
        "{adapted}"
    );
    let (status, loaded) = ask("/load", &site);
    assert_eq!(status, 200);
    assert_eq!(loaded["warnings"], adapted["warnings"]);
    assert_eq!(server.ask("/").text(), "new");
    let (status, refused) = ask("/load", ":1 {\n\trespnd\n}\n");
    assert_eq!(status, 400);
    assert_eq!(refused["diagnostics"][0]["place"]["line"], 2, "{refused}");
}

#[test]
fn the_certificates_of_local_authorities_are_shown() {
    let server = Server::start(
        "{\n\tadmin localhost:{admin}\n\tpki {\n\t\tca other {\n\t\t\tname Other\n\t\t\troot_cn \"Other Root\"\n\t\t}\n\t}\n}\n\
         http://127.0.0.1:{port} {\n\trespond one\n}\n",
    );
    for (id, name) in [("local", "Sluice Local Authority"), ("other", "Other")] {
        let shown = get(&server, &format!("/pki/ca/{id}"));
        assert_eq!((&shown["id"], &shown["name"]), (&json!(id), &json!(name)));
        let root = shown["root_certificate"].as_str().expect("PEM");
        let path = format!("data/sluice/pki/authorities/{id}/root.crt");
        assert_eq!(server.folder.read(&path), root);
        let intermediate = shown["intermediate_certificate"].as_str().expect("PEM");
        let chain = send(
            server.admin,
            "GET",
            &format!("/pki/ca/{id}/certificates"),
            "",
            "",
        );
        assert_eq!(chain.text(), format!("{intermediate}{root}"));
    }
    assert_eq!(
        get(&server, "/pki/ca/other")["root_common_name"],
        "Other Root"
    );
    for path in ["/pki/ca/none", "/pki/ca/..%2f..", "/pki/ca/"] {
        assert_eq!(
            send(server.admin, "GET", path, "", "").status,
            404,
            "{path}"
        );
    }
}

#[test]
fn profiles_of_go_are_refused_by_name() {
    let server = start();
    let response = send(server.admin, "GET", "/debug/pprof/heap", "", "");
    assert_eq!(response.status, 501);
    assert!(
        response.text().contains("perf record"),
        "{}",
        response.text()
    );
}
