//! The actions of the dashboard: what the configuration allows, who may use them, and what they do.

use serde_json::{Value, json};

use super::{ask, status};
use crate::browser::{BROWSER_TIMEOUT, Page};
use crate::client::{Response, exchange};
use crate::harness::{Server, eventually};
use crate::nginx;
use crate::support::abilities::chromium;
use crate::support::wait::until;
use crate::upstream::Upstream;

/// Sends a request for an action with these headers.
fn post(server: &Server, action: &str, fields: &str, body: &str) -> Response {
    let (admin, length) = (server.admin, body.len());
    exchange(
        admin,
        format!(
            "POST /dashboard/actions/{action} HTTP/1.1\r\nHost: localhost:{admin}\r\nContent-Length: {length}\r\n\
             {fields}Connection: close\r\n\r\n{body}"
        ),
    )
}

/// Uses an action as the page does.
fn act(server: &Server, action: &str, body: &Value) -> (u16, Value) {
    let fields = format!(
        "Origin: http://localhost:{}\r\nContent-Type: application/json\r\n",
        server.admin
    );
    let response = post(server, action, &fields, &body.to_string());
    let value = serde_json::from_slice(&response.body);
    (response.status, value.expect("it is JSON"))
}

fn done(server: &Server, action: &str, body: &Value) -> Value {
    let (status, value) = act(server, action, body);
    assert_eq!(status, 200, "{value}");
    value
}

fn saying(name: &str) -> Upstream {
    Upstream::responding(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}",
        name.len()
    ))
}

/// A proxy to these upstreams whose dashboard may do this.
fn proxy(actions: &str, upstreams: &[Upstream]) -> String {
    let addresses: Vec<String> = upstreams.iter().map(address).collect();
    format!(
        "{{\n\tadmin localhost:{{admin}} {{\n\t\tdashboard {{\n\t\t\t{actions}\n\t\t}}\n\t}}\n}}\n\
         :{{port}} {{\n\treverse_proxy {} {{\n\t\tlb_policy round_robin\n\t}}\n}}\n",
        addresses.join(" ")
    )
}

fn address(upstream: &Upstream) -> String {
    format!("127.0.0.1:{}", upstream.port)
}

fn plain() -> String {
    "{\n\tadmin localhost:{admin}\n}\n:{port} {\n\trespond one\n}\n".to_owned()
}

/// The row of an upstream in the snapshot.
fn row(server: &Server, upstream: &Upstream) -> Value {
    let status = status(server);
    let rows = status["upstreams"]["rows"].as_array().expect("a list");
    let found = rows.iter().find(|row| row["address"] == *address(upstream));
    found.unwrap_or_else(|| panic!("{status}")).clone()
}

#[test]
fn nothing_is_allowed_that_is_not_configured() {
    let server = Server::start(&plain());
    assert_eq!(status(&server)["actions"], json!([]));
    for action in ["reload", "drain", "eject", "purge"] {
        let (status, value) = act(&server, action, &json!({}));
        assert_eq!(status, 403, "{value}");
        let why = value["error"].as_str().expect("a reason");
        assert!(why.contains(&format!("actions {action}")), "{why}");
    }
    let upstreams = [saying("one")];
    let server = Server::start(&proxy("actions drain", &upstreams));
    assert_eq!(status(&server)["actions"], json!(["drain"]));
    let upstream = address(&upstreams[0]);
    assert_eq!(act(&server, "eject", &json!({"upstream": upstream})).0, 403);
    assert_eq!(server.ask("/").text(), "one");
    done(&server, "drain", &json!({"upstream": upstream}));
    assert_eq!(server.ask("/").status, 503);
    // The API itself is not limited by the option.
    let body = r#"{"state": "ready"}"#;
    let admin = server.admin;
    let ready = exchange(
        admin,
        format!(
            "PATCH /reverse_proxy/upstreams/{upstream} HTTP/1.1\r\nHost: localhost:{admin}\r\nContent-Length: {}\r\n\
             Content-Type: application/json\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ),
    );
    assert_eq!(ready.status, 200, "{}", ready.text());
    assert_eq!(server.ask("/").text(), "one");
}

#[test]
fn only_the_page_may_use_them() {
    let upstreams = [saying("one")];
    let server = Server::start(&proxy("actions", &upstreams));
    let body = json!({"upstream": address(&upstreams[0])}).to_string();
    let ours = format!("Origin: http://localhost:{}\r\n", server.admin);
    let json_type = "Content-Type: application/json\r\n";
    let too_large = format!(r#"{{"upstream": "{}"}}"#, "a".repeat(20_000));
    for (action, fields, body, expected) in [
        // No form of a page elsewhere can send this type, and no page elsewhere has this origin.
        (
            "drain",
            format!("Origin: http://attacker.test\r\n{json_type}"),
            &body,
            403,
        ),
        ("drain", format!("Origin: null\r\n{json_type}"), &body, 403),
        ("drain", json_type.to_owned(), &body, 403),
        (
            "drain",
            format!("{ours}Sec-Fetch-Site: same-origin\r\n"),
            &body,
            415,
        ),
        (
            "drain",
            format!("{ours}Content-Type: text/plain\r\n"),
            &body,
            415,
        ),
        ("drain", format!("{ours}{json_type}"), &too_large, 413),
        ("drain", format!("{ours}{json_type}"), &"{".to_owned(), 400),
        (
            "drain",
            format!("{ours}{json_type}"),
            &r#"{"upstream": "nobody:1"}"#.to_owned(),
            404,
        ),
        ("restart", format!("{ours}{json_type}"), &body, 404),
    ] {
        let response = post(&server, action, &fields, body);
        let said = response.text();
        assert_eq!(response.status, expected, "{fields}{said}");
        let value: Value = serde_json::from_str(&said).expect("it is JSON");
        assert!(value["error"].is_string(), "{value}");
    }
    let read = super::admin(&server, "/dashboard/actions/drain", &ours);
    assert_eq!((read.status, read.field("Allow")), (405, Some("POST")));
    // Nothing has happened.
    assert_eq!(row(&server, &upstreams[0])["draining"], false);
    assert_eq!(server.ask("/").text(), "one");
}

#[test]
fn a_drained_upstream_gets_requests_again() {
    let upstreams = [saying("one"), saying("two")];
    let server = Server::start(&proxy("actions drain", &upstreams));
    let upstream = address(&upstreams[0]);
    let value = done(&server, "drain", &json!({"upstream": upstream}));
    assert_eq!(value["upstream"]["state"], "draining");
    assert_eq!(row(&server, &upstreams[0])["draining"], true);
    let all: Vec<String> = (0..4).map(|_| server.ask("/").text()).collect();
    assert_eq!(all, ["two"; 4]);
    let body = json!({"upstream": upstream, "drain": false});
    let value = done(&server, "drain", &body);
    assert_eq!(value["upstream"]["state"], "ready");
    let mut both: Vec<String> = (0..4).map(|_| server.ask("/").text()).collect();
    both.sort();
    assert_eq!(both, ["one", "one", "two", "two"]);
    // Who did what is in the log, also what was refused.
    server.wait_for_words("dashboard action");
    act(&server, "reload", &json!({}));
    server.wait_for_words("dashboard action failed");
    let log = server.stderr();
    let line = log
        .lines()
        .find(|line| line.contains("\"dashboard action\""))
        .expect("it is there");
    for part in [
        "\"action\":\"drain\"",
        &format!("\"object\":\"{upstream}\""),
        "\"remote\":\"127.0.0.1:",
        "\"result\":\"no new requests from now on\"",
    ] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn an_ejected_upstream_gets_no_requests_until_that_ends() {
    let upstreams = [saying("one"), saying("two")];
    let server = Server::start(&proxy("actions eject", &upstreams));
    let upstream = address(&upstreams[0]);
    let body = json!({"upstream": upstream, "seconds": 3600});
    let value = done(&server, "eject", &body);
    assert!(
        value["upstream"]["ejected_for"].as_f64() > Some(3500.0),
        "{value}"
    );
    let shown = row(&server, &upstreams[0]);
    assert!(shown["ejected"].as_f64() > Some(3500.0), "{shown}");
    assert_eq!(shown["draining"], false);
    let reason = shown["reasons"][0].as_str().expect("a reason");
    assert!(reason.starts_with("ejected by an operator: "), "{shown}");
    assert!(
        server.metric(&format!(
            "sluice_upstream_ejected_seconds{{upstream=\"{upstream}\"}}"
        )) > 3500
    );
    let all: Vec<String> = (0..4).map(|_| server.ask("/").text()).collect();
    assert_eq!(all, ["two"; 4]);
    // At once, and by itself.
    done(
        &server,
        "eject",
        &json!({"upstream": upstream, "seconds": 0}),
    );
    assert_eq!(row(&server, &upstreams[0])["ejected"], Value::Null);
    done(
        &server,
        "eject",
        &json!({"upstream": upstream, "seconds": 1}),
    );
    let back = || (0..2).any(|_| server.ask("/").text() == "one");
    eventually("its return", back, || status(&server).to_string());
    let too_long = json!({"upstream": upstream, "seconds": 3601});
    assert_eq!(act(&server, "eject", &too_long).0, 400);
}

#[test]
fn the_servers_of_a_group_are_ejected_as_well() {
    let upstreams = [saying("one"), saying("two")];
    let [one, two] = [address(&upstreams[0]), address(&upstreams[1])];
    let server = nginx::setup(&format!(
        "dashboard_actions eject;\nevents {{}}\nhttp {{\nupstream app {{\nserver {one};\nserver {two};\n}}\nserver {{\n\
         listen 127.0.0.1:{{port}};\nlocation / {{ proxy_pass http://app; }}\n}}\n}}\n"
    ))
    .start();
    assert_eq!(status(&server)["actions"], json!(["eject"]));
    done(&server, "eject", &json!({"upstream": one}));
    let all: Vec<String> = (0..4).map(|_| server.ask("/").text()).collect();
    assert_eq!(all, ["two"; 4]);
    done(&server, "eject", &json!({"upstream": one, "seconds": 0}));
    let mut both: Vec<String> = (0..4).map(|_| server.ask("/").text()).collect();
    both.sort();
    assert_eq!(both, ["one", "one", "two", "two"]);
}

#[test]
fn the_configuration_is_read_again_and_mistakes_leave_the_old_one() {
    let with = |word: &str| {
        format!(
            "{{\n\tadmin localhost:{{admin}} {{\n\t\tdashboard {{\n\t\t\tactions reload\n\t\t}}\n\t}}\n}}\n:{{port}} {{\n\t{word}\n}}\n"
        )
    };
    let server = Server::start(&with("respond one"));
    server.write(&with("respnd two"));
    let (code, value) = act(&server, "reload", &json!({}));
    assert_eq!(code, 400, "{value}");
    let diagnostic = &value["diagnostics"][0];
    assert_eq!(diagnostic["slug"], "unknown-directive");
    assert_eq!(diagnostic["place"]["line"], 9);
    assert!(
        value["error"]
            .as_str()
            .is_some_and(|why| why.contains("respnd"))
    );
    assert_eq!(server.ask("/").text(), "one");
    let last = status(&server)["reloads"]["last"].clone();
    assert_eq!(
        (&last["ok"], &last["trigger"]),
        (&json!(false), &json!("dashboard"))
    );
    server.write(&with("respond two"));
    let value = done(&server, "reload", &json!({}));
    assert_eq!(value["result"], "the configuration was read again");
    assert_eq!(server.ask("/").text(), "two");
    // A configuration without the option takes the action away.
    server.write(&plain());
    done(&server, "reload", &json!({}));
    assert_eq!(status(&server)["actions"], json!([]));
    assert_eq!(act(&server, "reload", &json!({})).0, 403);
}

#[test]
fn a_file_that_is_gone_is_named() {
    let server = Server::start(&proxy("actions reload", &[saying("one")]));
    std::fs::remove_file(server.folder.path().join("Caddyfile")).expect("it is there");
    let (code, value) = act(&server, "reload", &json!({}));
    assert_eq!(code, 400, "{value}");
    let why = value["error"].as_str().expect("a reason");
    assert!(why.contains("Caddyfile"), "{why}");
    assert_eq!(status(&server)["actions"], json!(["reload"]));
}

/// A cache of an upstream's responses, by their paths.
fn caching(origin: u16) -> String {
    format!(
        "dashboard_actions purge;\nevents {{}}\nhttp {{\nproxy_cache_path {{folder}}/cache keys_zone=one:1m;\nserver {{\n\
         listen 127.0.0.1:{{port}};\nadd_header X-Cache $upstream_cache_status always;\nproxy_cache one;\n\
         proxy_cache_key $uri;\nproxy_cache_valid 1h;\nlocation / {{ proxy_pass http://127.0.0.1:{origin}; }}\n}}\n}}\n"
    )
}

#[test]
fn cached_responses_are_purged_by_key_and_by_prefix() {
    let origin = saying("cached");
    let server = nginx::setup(&caching(origin.port)).start();
    let cache = |path: &str| {
        let response = ask(&server, "a.test", path);
        response.field("X-Cache").unwrap_or("-").to_owned()
    };
    for path in ["/a/1", "/a/2", "/b"] {
        assert_eq!(
            (cache(path), cache(path)),
            ("MISS".to_owned(), "HIT".to_owned()),
            "{path}"
        );
    }
    let name = status(&server)["caches"]["rows"][0]["name"].clone();
    let purge = |key: &str, text: &str| done(&server, "purge", &json!({"cache": name, key: text}));
    let value = purge("key", "/b");
    assert_eq!(
        (&value["removed"], &value["result"]),
        (&json!(1), &json!("1 response was removed"))
    );
    assert_eq!(cache("/b"), "MISS");
    assert_eq!(purge("prefix", "/a/")["removed"], 2);
    assert_eq!(
        (cache("/a/1"), cache("/b")),
        ("MISS".to_owned(), "HIT".to_owned())
    );
    assert_eq!(purge("key", "/nothing")["removed"], 0);
    let (code, value) = act(&server, "purge", &json!({"cache": "/nowhere", "key": "/a"}));
    assert_eq!(code, 404, "{value}");
}

/// Waits until an expression in the page is true.
fn holds(page: &mut Page, what: &str, expression: &str) {
    let seen = std::cell::RefCell::new(String::new());
    let find = || {
        *seen.borrow_mut() = page
            .value("document.body ? document.body.innerText : ''")
            .to_string();
        page.value(expression).as_bool().filter(|holds| *holds)
    };
    until(BROWSER_TIMEOUT, what, find, || seen.borrow().clone());
}

fn press(page: &mut Page, key: &str, text: Option<&str>) {
    let code = match key {
        "Enter" => 13,
        "Escape" => 27,
        "Tab" => 9,
        _ => 0,
    };
    for kind in ["keyDown", "keyUp"] {
        let mut event =
            json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
        if let Some(text) = text.filter(|_| kind == "keyDown") {
            event["text"] = json!(text);
        }
        page.call("Input.dispatchKeyEvent", &event);
    }
}

fn open(program: &str, server: &Server) -> Page {
    let mut page = Page::open(program);
    let url = format!("http://localhost:{}/", server.admin);
    page.call("Page.navigate", &json!({ "url": url }));
    holds(
        &mut page,
        "a live page",
        "document.getElementById('link')?.textContent === 'live'",
    );
    page
}

/// The row of an upstream in the page.
fn row_of(upstream: &Upstream) -> String {
    let address = address(upstream);
    format!(
        "[...document.querySelectorAll('#upstreams tbody tr')].find((row) => row.children[0].textContent === '{address}')"
    )
}

#[test]
fn the_page_has_no_buttons_for_what_is_not_allowed() {
    let Some(program) = chromium() else { return };
    let upstreams = [saying("one")];
    let server = Server::start(&proxy("actions purge", &upstreams));
    let mut page = open(program, &server);
    holds(
        &mut page,
        "the upstream",
        "document.querySelectorAll('#upstreams tbody tr').length === 1",
    );
    assert_eq!(
        page.value("document.querySelectorAll('.panel button').length"),
        0
    );
    assert_eq!(
        page.value("document.querySelector('#upstreams th.actions').hidden"),
        true
    );
}

#[test]
fn buttons_ask_first_and_show_what_has_happened() {
    let Some(program) = chromium() else { return };
    let upstreams = [saying("one"), saying("two")];
    let server = Server::start(&proxy("actions reload drain eject", &upstreams));
    let mut page = open(program, &server);
    let cell = row_of(&upstreams[0]);
    holds(
        &mut page,
        "the buttons",
        &format!("({cell})?.querySelectorAll('.offers button').length === 2"),
    );
    // With the mouse.
    let click = |page: &mut Page, selector: &str| {
        page.value(&format!("({cell}).querySelector('{selector}').click()"));
    };
    click(&mut page, ".offers button");
    let focused = format!("document.activeElement === ({cell}).querySelector('.ask')");
    assert_eq!(page.value(&focused), true);
    // Escape changes nothing, and gives the focus back.
    press(&mut page, "Escape", None);
    assert_eq!(page.value("document.activeElement.textContent"), "Drain");
    assert_eq!(row(&server, &upstreams[0])["draining"], false);
    click(&mut page, ".offers button");
    click(&mut page, ".ask .yes");
    holds(
        &mut page,
        "the result",
        &format!("({cell}).querySelector('.said').textContent === 'no new requests from now on'"),
    );
    holds(
        &mut page,
        "its state",
        &format!("({cell}).children[1].textContent === 'draining'"),
    );
    holds(
        &mut page,
        "the way back",
        &format!("({cell}).querySelector('.offers button').textContent === 'End draining'"),
    );
    assert_eq!(row(&server, &upstreams[0])["draining"], true);
    // With the keyboard: Tab from the question to its first button.
    page.value(&format!("({cell}).querySelector('.offers button').focus()"));
    press(&mut page, "Enter", Some("\r"));
    holds(&mut page, "the question", &focused);
    shows_both_schemes(&mut page, "dashboard-actions-question");
    press(&mut page, "Tab", None);
    assert_eq!(
        page.value("document.activeElement.textContent"),
        "Send requests"
    );
    press(&mut page, "Enter", Some("\r"));
    holds(
        &mut page,
        "its return",
        &format!("({cell}).children[1].textContent === 'up'"),
    );
}

#[test]
fn the_page_ejects_for_a_time_and_shows_why_a_reload_fails() {
    let Some(program) = chromium() else { return };
    let upstreams = [saying("one"), saying("two")];
    let server = Server::start(&proxy("actions reload eject", &upstreams));
    let mut page = open(program, &server);
    let cell = row_of(&upstreams[0]);
    holds(
        &mut page,
        "the button",
        &format!("({cell})?.querySelector('.offers button')?.textContent === 'Eject'"),
    );
    // A field: the letters in it are none of the page's keys.
    page.value(&format!("({cell}).querySelector('.offers button').click()"));
    assert_eq!(page.value("document.activeElement.type"), "number");
    page.value("document.activeElement.select()");
    page.call("Input.insertText", &json!({"text": "3000"}));
    press(&mut page, "Enter", Some("\r"));
    holds(
        &mut page,
        "the ejection",
        &format!("({cell}).children[1].textContent === 'ejected'"),
    );
    let is_closed = format!("({cell}).querySelector('.ask').hidden");
    assert_eq!(page.value(&is_closed), true);
    assert!(row(&server, &upstreams[0])["ejected"].as_f64() > Some(2000.0));
    shows_both_schemes(&mut page, "dashboard-actions-result");
    // A rejected configuration is shown with its mistake beside the button.
    server.write(":{port} {\n\trespnd two\n}\n");
    page.value("document.querySelector('#server-actions .offers button').click()");
    page.value("document.querySelector('#server-actions .ask .yes').click()");
    let said = "document.querySelector('#server-actions .said.bad')?.textContent.includes('respnd') === true";
    holds(&mut page, "the mistake", said);
    shows_both_schemes(&mut page, "dashboard-actions");
}

#[test]
fn the_page_purges_a_key_or_all_that_begin_so() {
    let Some(program) = chromium() else { return };
    let origin = saying("cached");
    let server = nginx::setup(&caching(origin.port)).start();
    for path in ["/a/1", "/a/2", "/b"] {
        assert_eq!(ask(&server, "a.test", path).status, 200);
    }
    let mut page = open(program, &server);
    let row = "document.querySelector('#caches tbody tr')";
    holds(
        &mut page,
        "the cache",
        &format!("{row}?.querySelector('.offers button')?.textContent === 'Purge'"),
    );
    for (key, words) in [
        ("/b", "1 response was removed"),
        ("/a/*", "2 responses were removed"),
        ("/b", "no response was cached there"),
    ] {
        page.value(&format!("{row}.querySelector('.offers button').click()"));
        // An empty key is not sent.
        page.value(&format!("{row}.querySelector('.ask .yes').click()"));
        assert_eq!(page.value("document.activeElement.type"), "text");
        page.call("Input.insertText", &json!({ "text": key }));
        if words.starts_with('2') {
            shows_both_schemes(&mut page, "dashboard-actions-purge");
        }
        press(&mut page, "Enter", Some("\r"));
        holds(
            &mut page,
            words,
            &format!("{row}.querySelector('.said').textContent === '{words}'"),
        );
        assert_eq!(
            page.value(&format!("{row}.querySelector('.ask').hidden")),
            true
        );
    }
}

/// Keeps pictures of the page in light and dark for people.
fn shows_both_schemes(page: &mut Page, name: &str) {
    for scheme in ["light", "dark"] {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        page.call("Emulation.setEmulatedMedia", &json!({"features": features}));
        page.screenshot(&format!("{name}-{scheme}"));
    }
}
