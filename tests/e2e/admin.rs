//! The admin API over its socket: what it accepts, what it reports, and which requests it rejects.

use crate::client::{Client, Response, exchange};
use crate::harness::{Server, Setup, eventually, run_to_end, text};

const SITE: &str = "{\n\tadmin localhost:{admin}\n}\n:{port} {\n\trespond \"one\"\n}\n";

fn request(server: &Server, method: &str, path: &str, fields: &str, body: &str) -> Response {
    let (admin, length) = (server.admin, body.len());
    exchange(
        server.admin,
        format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:{admin}\r\nContent-Length: {length}\r\n\
             {fields}Connection: close\r\n\r\n{body}"
        ),
    )
}

fn start() -> Server {
    Server::start(SITE)
}

#[test]
fn a_configuration_is_loaded_in_either_language() {
    let server = start();
    let caddyfile = SITE
        .replace("{admin}", &server.admin.to_string())
        .replace("{port}", &server.port.to_string())
        .replace("one", "two");
    let response = request(
        &server,
        "POST",
        "/load",
        "Content-Type: text/caddyfile\r\n",
        &caddyfile,
    );
    assert_eq!((response.status, response.text().as_str()), (200, ""));
    assert_eq!(server.ask("/").text(), "two");
    let shown = request(&server, "GET", "/config/", "", "");
    assert_eq!(shown.field("Content-Type"), Some("application/json"));
    let json = shown.text().replace("two", "three");
    let response = request(
        &server,
        "POST",
        "/load",
        "Content-Type: application/json\r\n",
        &json,
    );
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(server.ask("/").text(), "three");
    let listen = request(
        &server,
        "GET",
        "/config/apps/http/servers/srv0/listen",
        "",
        "",
    );
    assert_eq!(listen.text().trim(), format!("[\":{}\"]", server.port));
}

#[test]
fn a_bad_configuration_is_refused_and_changes_nothing() {
    let server = start();
    let before = request(&server, "GET", "/config/", "", "").text();
    let caddyfile = "Content-Type: text/caddyfile\r\n";
    for (fields, body) in [
        (caddyfile, ":1 {\n\trespnd x\n}\n"),
        ("Content-Type: application/json\r\n", "{\"apps\":"),
        (
            "Content-Type: application/json\r\n",
            r#"{"apps":{"http":{"servers":{"a":{"lisen":[]}}}}}"#,
        ),
        (
            "Content-Type: application/json\r\n",
            r#"{"apps":{"http":{"servers":{"a":{"routes":[{"handle":[{"handler":"nonsense"}]}]}}}}}"#,
        ),
    ] {
        let response = request(&server, "POST", "/load", fields, body);
        assert_eq!(response.status, 400, "{body}");
        assert!(response.text().contains("\"error\""), "{}", response.text());
    }
    assert_eq!(request(&server, "GET", "/config/", "", "").text(), before);
    assert_eq!(server.ask("/").text(), "one");
}

#[test]
fn a_caddyfile_is_adapted() {
    let server = start();
    let response = request(
        &server,
        "POST",
        "/adapt",
        "Content-Type: text/caddyfile\r\n",
        ":8080 {\n\trespond hi\n}\n",
    );
    assert_eq!(response.status, 200);
    let value: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
    assert_eq!(
        value["result"]["apps"]["http"]["servers"]["srv0"]["listen"][0],
        ":8080"
    );
}

#[test]
fn requests_that_a_foreign_page_can_make_are_refused() {
    let server = start();
    let admin = server.admin;
    for (host, fields) in [
        ("attacker.test".to_owned(), ""),
        (format!("attacker.test:{admin}"), ""),
        (
            format!("localhost:{admin}"),
            "Origin: http://attacker.test\r\n",
        ),
        (format!("localhost:{admin}"), "Origin: null\r\n"),
        (
            format!("localhost:{admin}"),
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n",
        ),
    ] {
        let response = exchange(
            admin,
            format!(
                "POST /stop HTTP/1.1\r\nHost: {host}\r\n{fields}Content-Length: 0\r\nConnection: close\r\n\r\n"
            ),
        );
        assert_eq!(response.status, 403, "{host} {fields}");
    }
    let own = format!("Origin: http://localhost:{admin}\r\n");
    assert_eq!(request(&server, "GET", "/config/", &own, "").status, 200);
    assert_eq!(server.ask("/").text(), "one", "it still serves");
}

#[test]
fn a_body_beyond_the_limit_is_refused_before_it_is_sent() {
    let server = start();
    let mut client = Client::connect(server.admin);
    client.send(format!(
        "POST /load HTTP/1.1\r\nHost: localhost:{}\r\nContent-Length: 10000000000\r\n\r\n",
        server.admin
    ));
    assert_eq!(client.response().status, 413);
}

#[test]
fn a_chunked_body_beyond_the_limit_is_refused_while_it_is_sent() {
    let server = start();
    let mut client = Client::connect(server.admin);
    client.send(format!(
        "POST /load HTTP/1.1\r\nHost: localhost:{}\r\nTransfer-Encoding: chunked\r\n\r\n",
        server.admin
    ));
    let chunk = [&b"100000\r\n"[..], &vec![b' '; 0x10_0000], b"\r\n"].concat();
    // The limit is 64 MiB; the server responds and closes soon after it.
    let sent = (0..80)
        .take_while(|_| client.try_send(&chunk).is_ok())
        .count();
    assert!(sent >= 63, "refused after {sent} MiB");
    if let Ok(response) = client.try_response() {
        assert_eq!(response.status, 413);
    }
    assert!(server.peak() < 400 * 1024, "memory stays bounded");
    assert_eq!(server.ask("/").text(), "one");
}

#[test]
fn stop_ends_the_server() {
    let mut server = start();
    assert_eq!(request(&server, "POST", "/stop", "", "").status, 200);
    assert_eq!(server.wait_for_end().code(), Some(0));
}

#[test]
fn wrong_methods_and_paths_get_their_errors() {
    let server = start();
    assert_eq!(request(&server, "GET", "/stop", "", "").status, 405);
    let response = request(&server, "DELETE", "/metrics", "", "");
    assert_eq!(
        (response.status, response.field("Allow")),
        (405, Some("GET, HEAD"))
    );
    assert_eq!(request(&server, "GET", "/nothing", "", "").status, 404);
    assert_eq!(
        request(&server, "GET", "/config/nothing/nothing", "", "").status,
        400
    );
}

#[test]
fn the_interface_moves_with_the_configuration() {
    let mut server = start();
    let second = crate::harness::free_port();
    let moved = SITE
        .replace("{admin}", &second.to_string())
        .replace("{port}", &server.port.to_string());
    let response = request(
        &server,
        "POST",
        "/load",
        "Content-Type: text/caddyfile\r\n",
        &moved,
    );
    assert_eq!(response.status, 200, "{}", response.text());
    server.wait_for_port(second);
    let first = server.admin;
    eventually(
        "the old address to close",
        || std::net::TcpStream::connect(("127.0.0.1", first)).is_err(),
        || server.stderr(),
    );
    server.admin = second;
    assert_eq!(request(&server, "GET", "/config/", "", "").status, 200);
}

#[test]
fn the_last_configuration_is_resumed() {
    let server = start();
    eventually(
        "the saved configuration",
        || {
            server
                .folder
                .path()
                .join("config/sluice/autosave.json")
                .exists()
        },
        || server.stderr(),
    );
    let saved = server.folder.read("config/sluice/autosave.json");
    let setup = Setup::new(":1 {\n\trespond wrong\n}\n");
    let resumed = saved
        .replace(&format!(":{}", server.port), &setup.fill(":{port}"))
        .replace(&format!(":{}", server.admin), &setup.fill(":{admin}"));
    setup.folder().write("config/sluice/autosave.json", resumed);
    let second = setup.args(&["--resume"]).start();
    assert_eq!(second.ask("/").text(), "one");
}

#[test]
fn the_reload_command_shows_what_the_server_says() {
    let server = start();
    server.write(
        "{\n\tadmin localhost:{admin}\n}\n:{port} {\n\tlog {\n\t\toutput file /proc/none/x.log\n\t}\n}\n",
    );
    let output = run_to_end(&server.folder, &["reload"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("the server refused") && said.contains("/proc/none/x.log"),
        "{said}"
    );
    assert_eq!(server.ask("/").text(), "one");
}

#[test]
fn a_unix_socket_is_for_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let server =
        Server::start("{\n\tadmin unix/{folder}/admin.sock\n}\n:{port} {\n\trespond one\n}\n");
    let path = server.folder.path().join("admin.sock");
    // The file exists before its mode is set, but accepts connections only afterwards.
    let connects = || std::os::unix::net::UnixStream::connect(&path).is_ok();
    eventually("the socket", connects, || server.stderr());
    let mode = std::fs::metadata(&path)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let output = run_to_end(&server.folder, &["stop", "--config", "Caddyfile"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
