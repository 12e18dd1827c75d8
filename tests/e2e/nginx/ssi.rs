//! Server-side includes.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::start;
use crate::client::{Client, exchange};
use crate::harness::Server;
use crate::upstream::Upstream;

fn get(server: &Server, path: &str) -> String {
    exchange(
        server.port,
        format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
    )
    .text()
}

const MISTAKE: &str = "[an error occurred while processing the directive]";

#[test]
fn pages_are_put_together() {
    let server = start(
        "ssi on; types { text/html html; text/plain txt; } set $mine own; \
         location /silent/ { alias {folder}/www/; ssi_silent_errors on; } location /gone { return 404; }",
        &[
            (
                "part.html",
                "(<!--# echo var=\"uri\" --> <!--# echo var=\"args\" --> <!--# echo var=\"request_uri\" -->)",
            ),
            (
                "page.html",
                "a<!--# include virtual=\"/part.html?x=$arg_n\" -->b<!--# include file=\"part.html\" -->c",
            ),
            (
                "vars.html",
                "<!--# echo var=\"mine\" -->|<!--# echo var=\"host\" -->|<!--# echo var=\"document_root\" encoding=\"none\" -->|<!--# echo var=\"http_x_y\" default=\"-\" -->|<!--# set var=\"s\" value=\"${mine}ed\" --><!--# echo var=\"s\" -->",
            ),
            (
                "if.html",
                "<!--# if expr=\"$arg_n = /^(?P<word>[a-z]+)([0-9]+)/\" --><!--# echo var=\"word\" -->-<!--# echo var=\"2\" --><!--# elif expr=\"$arg_n\" -->some<!--# else -->none<!--# endif -->.",
            ),
            (
                "stub.html",
                "<!--# block name=\"b\" -->[no <!--# echo var=\"uri\" -->]<!--# endblock --><!--# include virtual=\"/gone\" stub=\"b\" --><!--# include virtual=\"/part.html\" stub=\"b\" -->",
            ),
            (
                "kept.html",
                "<!--# include virtual=\"/part.html\" set=\"body\" --><!--# echo var=\"body\" -->|<!--# include virtual=\"/gone\" set=\"none\" --><!--# echo var=\"none\" default=\"D\" -->",
            ),
            (
                "bad.html",
                "1<!--# nosuch -->2<!--# echo -->3<!--# config errmsg=\"E\" --><!--# if -->4<!--# include virtual=\"/../x\" -->5",
            ),
            ("text.txt", "<!--# echo var=\"uri\" -->"),
            (
                "esc.html",
                "<!--# set var=\"h\" value=\"<b>\" --><!--# echo var=\"h\" --><!--# echo var=\"h\" encoding=\"none\" -->",
            ),
        ],
    );
    let root = server.folder.path().join("www").display().to_string();
    for (path, expected) in [
        (
            "/page.html?n=1",
            "a(/part.html x=1 /page.html?n=1)b(/part.html (none) /page.html?n=1)c".to_owned(),
        ),
        ("/vars.html", format!("own|a|{root}|-|owned")),
        ("/if.html?n=abc12", "abc-12.".to_owned()),
        ("/if.html?n=12", "some.".to_owned()),
        ("/if.html", "none.".to_owned()),
        (
            "/stub.html",
            "[no /gone](/part.html (none) /stub.html)".to_owned(),
        ),
        ("/kept.html", "(/part.html (none) /kept.html)|".to_owned()),
        ("/bad.html", format!("1{MISTAKE}2{MISTAKE}3E4E5")),
        ("/silent/bad.html", "12345".to_owned()),
        ("/text.txt", "<!--# echo var=\"uri\" -->".to_owned()),
        ("/esc.html", "&lt;b&gt;<b>".to_owned()),
    ] {
        assert_eq!(get(&server, path), expected, "{path}");
    }
    let mut client = Client::connect(server.port);
    client.send("HEAD /page.html HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head().expect("a head");
    assert!(
        !head.contains("Content-Length") && !head.contains("ETag"),
        "{head}"
    );
    assert_eq!(client.get("/text.txt").text(), "<!--# echo var=\"uri\" -->");
}

#[test]
fn includes_are_asked_for_side_by_side() {
    // Each waits until all of them have been requested.
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let known = arrived.clone();
    let upstream = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            let (sender, signal) = sync_channel::<()>(1);
            let path = head[0].split(' ').nth(1).unwrap_or_default().to_owned();
            {
                let mut known = known.lock().expect("nobody panics with it");
                known.push(sender);
                if known.len() == 4 {
                    known.drain(..).for_each(drop);
                }
            }
            // It ends when the others are dropped; nothing is ever sent.
            let _ = signal.recv_timeout(Duration::from_secs(60));
            let response = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}",
                path.len()
            );
            if wire.try_send(response).is_err() {
                return;
            }
        }
    });
    let include = |number: usize| format!("<!--# include virtual=\"/up/{number}\" -->,");
    let page: String = (0..4).map(include).collect();
    let waits = "a<!--# include virtual=\"/set.html\" wait=\"yes\" -->b<!--# echo var=\"v\" -->";
    let server = start(
        &format!(
            "ssi on; location /up/ {{ proxy_pass http://127.0.0.1:{}; }}",
            upstream.port
        ),
        &[
            ("page.html", &*page),
            ("waits.html", waits),
            ("set.html", "<!--# set var=\"v\" value=\"set\" -->(inner)"),
        ],
    );
    assert_eq!(get(&server, "/page.html"), "/up/0,/up/1,/up/2,/up/3,");
    assert_eq!(get(&server, "/waits.html"), "a(inner)bset");
    assert!(arrived.lock().expect("nobody panics with it").is_empty());
}

#[test]
fn pages_that_include_themselves_end() {
    let server = start(
        "ssi on;",
        &[
            ("one.html", "x<!--# include virtual=\"/one.html\" -->"),
            (
                "two.html",
                "x<!--# include virtual=\"/two.html\" --><!--# include virtual=\"/two.html\" -->",
            ),
            (
                "grow.html",
                "<!--# set var=\"v\" value=\"$v$v$v$v$v$v$v$v$v$v$v$v$v$v$v$v.\" --><!--# include virtual=\"/grow.html\" -->",
            ),
        ],
    );
    let one = get(&server, "/one.html");
    assert_eq!(one, format!("{}{MISTAKE}", "x".repeat(21)));
    let two = get(&server, "/two.html");
    assert_eq!(
        two.matches('x').count(),
        1001,
        "a thousand includes in one answer"
    );
    assert!(get(&server, "/grow.html").contains(MISTAKE));
    assert_eq!(get(&server, "/one.html"), one, "the server goes on");
}

#[test]
fn a_long_page_is_sent_while_it_is_read() {
    let text = "y".repeat(300_000);
    let page = format!(
        "<!--# if expr=\"$arg_a\" -->{text}<!--# endif -->{text}<!--# include virtual=\"/part.html\" -->{text}<!--# echo var="
    );
    let server = start("ssi on;", &[("page.html", &*page), ("part.html", &*text)]);
    assert_eq!(get(&server, "/page.html?a=1").len(), 4 * text.len());
    assert_eq!(get(&server, "/page.html").len(), 3 * text.len());
}
