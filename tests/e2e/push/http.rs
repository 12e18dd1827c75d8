//! A configuration on an HTTP server.

use std::sync::{Arc, Mutex};

use crate::harness::{Folder, eventually, text};
use crate::support::listen;

use super::nodes::{leave, node, push, run, site};

/// What the server has, and how often it was asked.
#[derive(Default)]
struct Page {
    text: String,
    /// Instead of the text.
    status: Option<u16>,
    sent: usize,
    unchanged: usize,
}

fn serve(page: Arc<Mutex<Page>>) -> u16 {
    listen(move |mut wire| {
        while let Some(head) = wire.head() {
            let mut page = page.lock().expect("nobody panics with it");
            let tag = format!("\"{:x}\"", page.text.len());
            let is_known = head.iter().any(|line| {
                let line = line.to_ascii_lowercase();
                line.strip_prefix("if-none-match:")
                    .is_some_and(|value| value.trim() == tag)
            });
            let common = format!("ETag: {tag}\r\nCache-Control: max-age=1\r\n");
            let response = match page.status {
                Some(status) => format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n"),
                None if is_known => {
                    page.unchanged += 1;
                    format!("HTTP/1.1 304 Not Modified\r\n{common}\r\n")
                }
                None => {
                    page.sent += 1;
                    let length = page.text.len();
                    let text = &page.text;
                    format!("HTTP/1.1 200 OK\r\n{common}Content-Length: {length}\r\n\r\n{text}")
                }
            };
            drop(page);
            if wire.try_send(response).is_err() {
                return;
            }
        }
    })
}

#[test]
fn an_http_server_is_polled_with_conditional_requests() {
    let page = Arc::new(Mutex::new(Page {
        text: site("a"),
        ..Page::default()
    }));
    let url = format!("http://127.0.0.1:{}/Caddyfile", serve(page.clone()));
    let edit = |edit: &dyn Fn(&mut Page)| edit(&mut page.lock().expect("nobody panics with it"));
    let configs = Folder::new();
    let server = node(&url, "n0", configs.path()).start();
    assert_eq!(server.ask("/").text(), "a");
    let unchanged = || page.lock().expect("nobody panics with it").unchanged;
    eventually("conditional requests", || unchanged() >= 2, String::new);
    edit(&|page| page.text = site("longer"));
    let shows =
        |word: &str| eventually(word, || server.ask("/").text() == word, || server.stderr());
    shows("longer");
    edit(&|page| page.text = "nonsense {".to_owned());
    server.wait_for_words("configuration rejected");
    assert_eq!(server.ask("/").text(), "longer");
    edit(&|page| page.status = Some(503));
    server.wait_for_words("the configuration source does not respond");
    assert_eq!(server.ask("/").text(), "longer");
    edit(&|page| (page.text, page.status) = (site("the longest"), None));
    shows("the longest");
    assert_eq!(
        page.lock().expect("nobody panics with it").sent,
        4,
        "each text once"
    );
    leave(server);
    // It starts from its copy.
    edit(&|page| page.status = Some(500));
    let server = node(&url, "n0", configs.path()).start();
    assert_eq!(server.ask("/").text(), "the longest");
    let failed = run(&["push", "x", "--to", &url, "--yes"], &[("x", &site("b"))]);
    assert!(
        text(&failed.stderr).contains("can only be read"),
        "{}",
        text(&failed.stderr)
    );
}

#[test]
fn a_url_that_is_not_one_is_refused() {
    let said = |args: &[&str]| {
        let output = run(args, &[("x", &site("a"))]);
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    let of_run = |url: &str| said(&["run", "--config", url]);
    assert!(of_run("consul://a/b").contains("`consul` is not a scheme of configurations"));
    assert!(of_run("etcd://127.0.0.1:1").contains("lacks a key"));
    assert!(said(&["run", "--node", "a", "--config", "x"]).contains("`--node` names a node"));
    assert!(said(&["run", "-r", "--config", "etcd://a/b/c"]).contains("`--resume` has no effect"));
    let named = ["run", "--node", "a/b", "--config", "etcd://a/b/c"];
    assert!(said(&named).contains("`a/b` is not a name for a node"));
    assert!(said(&["push", "x", "--to", "file"]).contains("is not the URL of a store"));
    let (_, said) = push("etcd://127.0.0.1:1/sluice/prod", &site("a"), &[]);
    assert!(said.contains("does not respond"), "{said}");
}
