//! Changes of files show as `open_file_cache` says: by default at once.

use super::{site, start};
use crate::client::Client;
use crate::harness::Server;

/// The response to a path on a connection that stays, so that one worker serves all requests.
fn seen(client: &mut Client, path: &str) -> (u16, String) {
    let response = client.get(path);
    (response.status, response.text())
}

fn shows(client: &mut Client, path: &str, text: &str) {
    assert_eq!(seen(client, path), (200, text.to_owned()), "{path}");
}

fn path_of(server: &Server, name: &str) -> std::path::PathBuf {
    server.folder.path().join("www").join(name)
}

/// Each step begins right after the response to the step before it.
#[test]
fn each_change_shows_at_once() {
    let lines = "location /tried { try_files $uri.html $uri/index.html =404; }\n\
                 location /asked { if (-f $request_filename) { return 200 there; } return 200 missing; }\n\
                 location /indexed/ { index first.html second.html; }\n\
                 location /packed { gzip_static always; }";
    let setup = site(lines);
    setup.folder().write("www/a.txt", "one");
    let server = setup.start();
    let write = |name: &str, text: &str| {
        server.folder.write(&format!("www/{name}"), text);
    };
    let mut client = Client::connect(server.port);
    shows(&mut client, "/a.txt", "one");
    for round in ["two", "three", "four"] {
        write("a.txt", round);
        shows(&mut client, "/a.txt", round);
    }
    std::fs::remove_file(path_of(&server, "a.txt")).unwrap();
    assert_eq!(seen(&mut client, "/a.txt").0, 404);
    write("a.txt", "five");
    shows(&mut client, "/a.txt", "five");

    assert_eq!(seen(&mut client, "/tried").0, 404);
    std::fs::create_dir_all(path_of(&server, "tried")).unwrap();
    write("tried/index.html", "folder");
    shows(&mut client, "/tried", "folder");
    write("tried.html", "file");
    shows(&mut client, "/tried", "file");

    shows(&mut client, "/asked", "missing");
    write("asked", "");
    shows(&mut client, "/asked", "there");

    std::fs::create_dir_all(path_of(&server, "indexed")).unwrap();
    assert_eq!(seen(&mut client, "/indexed/").0, 403);
    write("indexed/second.html", "second");
    shows(&mut client, "/indexed/", "second");
    write("indexed/first.html", "first");
    shows(&mut client, "/indexed/", "first");

    write("packed", "plain");
    shows(&mut client, "/packed", "plain");
    write("packed.gz", "packed");
    shows(&mut client, "/packed", "packed");
}

/// A password file counts from the next request on.
#[test]
fn a_changed_password_file_counts_at_once() {
    let setup = site("location / { auth_basic x; auth_basic_user_file {folder}/users; }");
    setup.folder().write("www/a.txt", "secret");
    setup.folder().write("users", "anna:{PLAIN}old\n");
    let server = setup.start();
    let mut client = Client::connect(server.port);
    let mut status = |word: &str| {
        let code = match word {
            "old" => "YW5uYTpvbGQ=",
            _ => "YW5uYTpuZXc=",
        };
        client.send(format!(
            "GET /a.txt HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {code}\r\n\r\n"
        ));
        client.response().status
    };
    assert_eq!((status("old"), status("new")), (200, 401));
    server.folder.write("users", "anna:{PLAIN}new\n");
    assert_eq!((status("old"), status("new")), (401, 200));
}

/// With a validity of an hour nothing changes within this test; a 404 is cached only where `open_file_cache_errors` is on.
#[test]
fn an_open_file_cache_keeps_what_it_has_seen() {
    for (errors, later) in [("off", 200), ("on", 404)] {
        let lines = format!(
            "open_file_cache max=100;\nopen_file_cache_valid 1h;\nopen_file_cache_errors {errors};\n\
             location /off/ {{ open_file_cache off; }}"
        );
        let server = start(&lines, &[("a.txt", "one"), ("off/a.txt", "one")]);
        let mut client = Client::connect(server.port);
        shows(&mut client, "/a.txt", "one");
        shows(&mut client, "/off/a.txt", "one");
        assert_eq!(seen(&mut client, "/b.txt").0, 404);
        for name in ["a.txt", "b.txt", "off/a.txt"] {
            server.folder.write(&format!("www/{name}"), "another");
        }
        shows(&mut client, "/a.txt", "one");
        shows(&mut client, "/off/a.txt", "another");
        assert_eq!(seen(&mut client, "/b.txt").0, later, "{errors}");
    }
}
