//! `sluice explain` on a file and against a running server. Each case of `explain/` has a command line, a Caddyfile and
//! the expected output; `BLESS=1` updates the output.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::exchange;
use crate::harness::{Folder, Server, Setup, finish, run_to_end, sluice, text};

const LINE: &str = "----\n";

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e/explain");
    let all = fs::read_dir(folder).expect("the folder is there").flatten();
    let mut all: Vec<PathBuf> = all.map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// A folder with the files that the cases use.
fn site() -> Folder {
    let folder = Folder::new();
    folder.write("site/index.html", "<h1>home</h1>\n");
    folder.write("site/new/page.html", "new\n");
    folder.write("site/app.txt", "app\n");
    folder.write("site/index.php", "<?php\n");
    folder.write(
        "security.caddy",
        "header X-Frame-Options DENY\nheader -Server\n",
    );
    folder
}

/// The output of the command, with the folder masked.
fn explain(folder: &Folder, args: &[&str]) -> String {
    let output = run_to_end(folder, args);
    let said = text(&output.stdout) + &text(&output.stderr);
    let said = said.replace(&*folder.path().to_string_lossy(), "FOLDER");
    // Lines that depend on when the files were written.
    let lasting = said.split_inclusive('\n').filter(|line| {
        !line.contains(" ETag: ") && !line.contains(" Etag: ") && !line.contains(" Last-Modified: ")
    });
    lasting.collect()
}

#[test]
fn the_text_is_as_expected() {
    let mut count = 0;
    let mut wrong = String::new();
    for path in cases() {
        let case = fs::read_to_string(&path).expect("cases are UTF-8");
        let mut parts = case.splitn(3, LINE);
        let (Some(args), Some(caddyfile)) = (parts.next(), parts.next()) else {
            panic!("{}: arguments and Caddyfile are missing", path.display());
        };
        let expected = parts.next().unwrap_or_default();
        let folder = site();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let file = match name.starts_with("nginx_") {
            true => "nginx.conf",
            false => "Caddyfile",
        };
        folder.write(file, caddyfile);
        let args: Vec<&str> = ["explain"].into_iter().chain(args.lines()).collect();
        let said = explain(&folder, &args);
        for line in said.lines() {
            assert!(line.chars().count() <= 80, "{}: {line}", path.display());
        }
        if std::env::var_os("BLESS").is_some() {
            let case = format!("{}\n{LINE}{caddyfile}{LINE}{said}", args[1..].join("\n"));
            fs::write(&path, case).expect("the case is writable");
        } else if said != expected {
            wrong.push_str(&format!("{}:\n{said}\n", path.display()));
        }
        count += 1;
    }
    assert_eq!(wrong, "");
    assert!(count >= 10, "only {count} cases were found");
}

/// The example in the reference is the actual output.
#[test]
fn the_reference_shows_the_truth() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/explain.md");
    let page = fs::read_to_string(page).expect("pages are UTF-8");
    let block = |kind: &str| {
        let (_, after) = page
            .split_once(&format!("```{kind}\n"))
            .expect("it has one");
        after
            .split_once("```")
            .expect("the block ends")
            .0
            .to_owned()
    };
    let folder = site();
    folder.write("Caddyfile", block("caddyfile"));
    let console = block("console");
    let mut examples = 0;
    for example in console.split("$ sluice ").skip(1) {
        let (command, expected) = example.split_once('\n').expect("a line and its output");
        let args: Vec<&str> = command.split(' ').collect();
        let expected = expected.replace("/srv/", "FOLDER/");
        assert_eq!(explain(&folder, &args).trim_end(), expected.trim_end());
        examples += 1;
    }
    assert_eq!(examples, 2);
}

#[test]
fn tools_get_json() {
    let folder = site();
    folder.write("Caddyfile", ":80 {\n\trespond /a* \"hello\" 418\n}\n");
    let said = explain(&folder, &["explain", "/abc", "--json"]);
    let value: Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!(value["url"], "http://localhost/abc");
    assert_eq!(value["listener"]["server"], "srv0");
    let taken = &value["steps"][0];
    assert_eq!(taken["kind"], "taken");
    assert_eq!(taken["place"], "apps.http.servers.srv0.routes[0]");
    let met = &taken["remarks"][0];
    assert_eq!(
        (&met["kind"], &met["name"]),
        (&json!("met"), &json!("path"))
    );
    assert_eq!(met["at"]["line"], 2);
    assert_eq!(value["outcome"]["status"], 418);
    assert_eq!(value["outcome"]["body_begins"], "hello");
}

#[test]
fn a_running_server_explains_what_it_runs_without_doing_it() {
    let setup = Setup::new(
        "{\n\tadmin localhost:{admin}\n}\n:{port} {\n\tlog\n\thandle /api/* {\n\t\t\
         reverse_proxy 127.0.0.1:{port} {\n\t\t\thealth_uri /up\n\t\t}\n\t}\n\trespond two\n}\n",
    );
    let server = setup.start();
    // The file has changed since and is not what the server runs.
    server.write(":{port} {\n\trespond three\n}\n");
    let address = format!("localhost:{}", server.admin);
    let port = server.port;
    let ask = |path: &str| {
        let url = format!("http://localhost:{port}{path}");
        explain(&server.folder, &["explain", &url, "--address", &address])
    };
    let said = ask("/x");
    assert!(said.contains("respond two\n"), "{said}");
    assert!(said.contains("handle /api/* {\n"), "{said}");
    assert!(said.contains("✗ path is `/x`"), "{said}");
    let said = ask("/api/x");
    let proxied = format!("would be proxied to 127.0.0.1:{port}");
    assert!(said.contains(&proxied), "{said}");
    let log = server.stderr();
    assert!(
        !log.contains("handled request"),
        "nothing was requested: {log}"
    );
}

/// A reload transfers the source texts, with the files and variables that the reloading process has read.
#[test]
fn a_server_that_was_reloaded_knows_the_lines_of_its_new_configuration() {
    let first = "{\n\tadmin localhost:{admin}\n}\n:{port} {\n\trespond one\n}\n";
    let server = Server::start(first);
    server
        .folder
        .write("parts/a.conf", "respond /new* {$WORD}\n");
    server.write(
        "{\n\tadmin localhost:{admin}\n}\n\n:{port} {\n\timport parts/*.conf\n\trespond one\n}\n",
    );
    let mut reload = sluice(&server.folder);
    reload.args(["reload"]).env("WORD", "two");
    let reloaded = finish(&mut reload);
    assert!(reloaded.status.success(), "{}", text(&reloaded.stderr));
    assert_eq!(server.ask("/new").text(), "two");
    let url = format!("http://localhost:{}/new", server.port);
    let address = format!("localhost:{}", server.admin);
    let said = explain(
        &server.folder,
        &["explain", &url, "--address", &address, "--json"],
    );
    let value: Value = serde_json::from_str(&said).expect("it is JSON");
    let places = value["steps"].to_string();
    assert!(places.contains("parts/a.conf"), "{said}");
    assert!(places.contains("\"line\":1"), "{said}");
}

#[test]
fn an_invalid_explain_request_gets_an_error_response() {
    let server = Server::start("{\n\tadmin localhost:{admin}\n}\n:{port} {\n\trespond ok\n}\n");
    let admin = server.admin;
    for (body, words) in [
        ("{", "EOF"),
        (r#"{"verb":"GET"}"#, "unknown field"),
        (r#"{"authority":"localhost:1"}"#, "nobody listens on port 1"),
        (r#"{"method":"G T"}"#, "`G T` is not a valid method"),
        (r#"{"target":"/ x"}"#, "space"),
        (r#"{"fields":[["A","b\r\nC: d"]]}"#, "is not a valid header"),
    ] {
        let response = exchange(
            admin,
            format!(
                "POST /explain HTTP/1.1\r\nHost: localhost:{admin}\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{body}",
                body.len()
            ),
        );
        assert_eq!(response.status, 400, "{body}");
        assert!(
            response.text().contains(words),
            "{body}: {}",
            response.text()
        );
    }
}
