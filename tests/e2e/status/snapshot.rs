//! `GET /status`: what it shows, its forms, and who may read it.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};

use serde_json::{Value, json};

use super::{admin, ask, site, status};
use crate::client::exchange;
use crate::harness::{Server, eventually, free_port};

const SITES: &str = "{\n\tadmin localhost:{admin}\n\thttp_port {port}\n}\n\
    http://one.test:{port}, http://www.one.test:{port} {\n\trate_limit {\n\t\tzone z {\n\t\t\tkey static\n\
    \t\t\tevents 1000\n\t\t\twindow 1m\n\t\t}\n\t}\n\tin_flight 7\n\trespond /bad 503\n\trespond one\n}\n\
    http://two.test:{port} {\n\trespond two\n}\n";

#[test]
fn requests_count_at_their_sites() {
    let server = Server::start(SITES);
    for (host, path, code) in [
        ("one.test", "/", 200),
        ("www.one.test", "/bad", 503),
        ("WWW.ONE.TEST", "/", 200),
        ("two.test", "/", 200),
        ("other.test", "/", 200),
    ] {
        assert_eq!(ask(&server, host, path).status, code, "{host}{path}");
    }
    // A response is counted once it has been sent.
    let shown = std::cell::RefCell::new(Value::Null);
    eventually(
        "the counts",
        || {
            *shown.borrow_mut() = status(&server);
            shown.borrow()["requests"]["requests"] == 5
        },
        || shown.borrow().to_string(),
    );
    let shown = shown.into_inner();
    assert_eq!(shown["sites"]["total"], 3);
    let one = site(&shown, "one.test, www.one.test");
    assert_eq!(
        (&one["requests"], &one["errors"], &one["in_flight"]),
        (&json!(3), &json!(1), &json!(0))
    );
    assert_eq!(
        (&one["responses"]["2xx"], &one["responses"]["5xx"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(one["bytes_sent"], 6);
    assert_eq!(site(&shown, "two.test")["requests"], 1);
    assert_eq!(site(&shown, &format!(":{}", server.port))["requests"], 1);
    assert_eq!(shown["requests"]["responses"]["2xx"], 4);
    assert_eq!(shown["server"]["pid"], server.pid());
    assert!(shown["process"]["resident_bytes"].as_u64() > Some(1 << 20));
    assert_eq!(shown["workers"].as_array().map(Vec::len), Some(2));
    assert!(shown["connections"]["accepted"].as_u64() >= Some(5));
    let zone = &shown["rate_limits"]["rows"][0];
    assert_eq!((&zone["name"], &zone["requests"]), (&json!("z"), &json!(3)));
    assert_eq!(shown["concurrency_limits"]["rows"][0]["max"], 7);
    // Not an error of the server: the configuration asks for this response.
    assert_eq!(shown["failures"], json!([]));
}

#[test]
fn rates_and_percentiles_appear_after_a_sample() {
    let server = Server::start(SITES);
    eventually(
        "a sample before",
        || {
            status(&server)["latest"]
                .as_array()
                .is_some_and(|point| !point.is_empty())
        },
        || server.stderr(),
    );
    for _ in 0..20 {
        ask(&server, "two.test", "/");
    }
    eventually(
        "a sample after",
        || {
            let shown = status(&server);
            let two = site(&shown, "two.test");
            two["rate_10s"].as_f64() > Some(0.0)
                && two["rate_1m"].as_f64() > Some(0.0)
                && two["error_share_1m"] == 0.0
                && two["p50_1m"].as_f64() > Some(0.0)
                && two["p99_1m"].as_f64() >= two["p50_1m"].as_f64()
                && site(&shown, "one.test, www.one.test")["p50_1m"].is_null()
        },
        || status(&server).to_string(),
    );
    let history = admin(&server, "/status/history", "");
    let history: Value = serde_json::from_slice(&history.body).expect("it is JSON");
    let columns = history["columns"].as_array().expect("a list");
    let point = history["points"][0].as_array().expect("a point");
    assert_eq!(columns.len(), point.len());
    assert_eq!(columns[1], "request_rate");
}

#[test]
fn a_request_in_flight_counts_at_its_site() {
    let server = Server::start(
        "{\n\tadmin localhost:{admin}\n}\nhttp://a.test:{port} {\n\trequest_body {\n\t\tmax_size 1MB\n\t}\n\
         \treverse_proxy localhost:{folder}\n}\n"
            .replace("localhost:{folder}", "unix/{folder}/upstream")
            .as_str(),
    );
    let socket = server.folder.path().join("upstream");
    let upstream = std::os::unix::net::UnixListener::bind(socket).expect("it is free");
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).expect("it listens");
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
        .expect("it is read");
    let (held, _) = upstream.accept().expect("the proxy connects");
    eventually(
        "the request",
        || site(&status(&server), "a.test")["in_flight"] == 1,
        || status(&server).to_string(),
    );
    drop((held, client));
    eventually(
        "its end",
        || site(&status(&server), "a.test")["in_flight"] == 0,
        || status(&server).to_string(),
    );
}

#[test]
fn upstreams_and_failures_say_why() {
    let dead = free_port();
    let server = Server::start(&format!(
        "{{\n\tadmin localhost:{{admin}}\n}}\nhttp://a.test:{{port}} {{\n\treverse_proxy localhost:{dead} {{\n\
         \t\thealth_uri /up\n\t\thealth_interval 50ms\n\t}}\n}}\n\
         http://b.test:{{port}} {{\n\treverse_proxy localhost:{dead}\n}}\n"
    ));
    // Health checks start with the first request.
    assert_eq!(ask(&server, "a.test", "/").status, 502);
    let failed = ask(&server, "b.test", "/some/path?secret=word");
    assert_eq!(failed.status, 502);
    eventually(
        "the upstream to be down",
        || status(&server)["upstreams"]["rows"][0]["healthy"] == false,
        || status(&server).to_string(),
    );
    let shown = status(&server);
    let reasons = shown["upstreams"]["rows"][0]["reasons"].to_string();
    assert!(
        reasons.contains("health check: ") && reasons.contains("refused"),
        "{reasons}"
    );
    let failures = shown["failures"].as_array().expect("a list");
    let failure = failures.iter().find(|one| one["host"] == "b.test");
    let failure = failure.unwrap_or_else(|| panic!("no failure in {shown}"));
    assert_eq!(failure["path"], "/some/path", "without the query");
    assert_eq!(
        (&failure["status"], &failure["method"]),
        (&json!(502), &json!("GET"))
    );
    assert_eq!(failure["upstream"], format!("localhost:{dead}"));
    // The log has the same ID.
    let id = failure["id"].as_str().expect("a text");
    server.wait_for_words(&format!("\"err_id\":\"{id}\""));
}

#[test]
fn counters_survive_reloads_and_a_rejected_one_is_shown() {
    let server = Server::start(SITES);
    ask(&server, "two.test", "/");
    let two = |requests: u64| site(&status(&server), "two.test")["requests"] == requests;
    eventually("the count", || two(1), || status(&server).to_string());
    assert!(status(&server)["reloads"]["last"].is_null());
    let load = |kind: &str, body: &str| {
        let (admin, length) = (server.admin, body.len());
        exchange(
            admin,
            format!(
                "POST /load HTTP/1.1\r\nHost: localhost:{admin}\r\nContent-Type: {kind}\r\n\
                 Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            ),
        )
    };
    let bad = r#"{"apps":{"http":{"servers":{"a":{"listen":[":1:nowhere"]}}}}}"#;
    let refused = load("application/json", bad);
    assert_eq!(refused.status, 400, "{}", refused.text());
    let shown = status(&server);
    let last = &shown["reloads"]["last"];
    assert_eq!(
        (&last["ok"], &shown["reloads"]["failed"]),
        (&json!(false), &json!(1))
    );
    assert!(
        last["error"]
            .as_str()
            .is_some_and(|error| error.contains("nowhere")),
        "{last}"
    );
    assert_eq!(server.metric("caddy_config_last_reload_successful"), 0);
    let text = SITES.replace("respond two", "respond \"two again\"");
    let text = text.replace("{admin}", &server.admin.to_string());
    let taken = load(
        "text/caddyfile",
        &text.replace("{port}", &server.port.to_string()),
    );
    assert_eq!(taken.status, 200, "{}", taken.text());
    assert_eq!(ask(&server, "two.test", "/").text(), "two again");
    eventually("both counts", || two(2), || status(&server).to_string());
    let shown = status(&server);
    let last = &shown["reloads"]["last"];
    assert_eq!(
        (&last["ok"], &last["trigger"]),
        (&json!(true), &json!("admin"))
    );
    assert_eq!(shown["reloads"]["succeeded"], 1);
}

#[test]
fn a_file_that_cannot_be_adapted_is_a_rejected_reload() {
    let server = Server::start(SITES);
    server.write("nonsense {{{");
    server.signal(sluice_net::sys::process::Signal::User1);
    eventually(
        "the outcome",
        || status(&server)["reloads"]["last"]["ok"] == false,
        || status(&server).to_string(),
    );
    assert_eq!(server.metric("caddy_config_last_reload_successful"), 0);
    assert_eq!(ask(&server, "two.test", "/").text(), "two");
}

#[test]
fn certificates_have_their_expiry() {
    let server = Server::start(
        "{\n\tadmin localhost:{admin}\n\thttps_port {port}\n\tauto_https disable_redirects\n\
         \tskip_install_trust\n}\nhttps://a.test:{port} {\n\ttls internal\n\trespond a\n}\n",
    );
    let shown = status(&server);
    let certificate = &shown["certificates"]["rows"][0];
    assert_eq!(certificate["names"], json!(["a.test"]));
    assert_eq!(
        (&certificate["managed"], &certificate["failures"]),
        (&json!(true), &json!(0))
    );
    assert!(certificate["expires"].as_f64() > shown["at"].as_f64());
    assert!(certificate["valid_from"].as_f64() < shown["at"].as_f64());
}

#[test]
fn the_form_is_the_one_asked_for() {
    let server = Server::start(SITES);
    for (path, accept, kind) in [
        ("/status", "", "application/json"),
        ("/status", "Accept: text/csv\r\n", "text/csv; charset=utf-8"),
        ("/status?format=csv", "", "text/csv; charset=utf-8"),
        (
            "/status?format=json",
            "Accept: text/csv\r\n",
            "application/json",
        ),
    ] {
        let response = admin(&server, path, accept);
        assert_eq!(
            response.field("Content-Type"),
            Some(kind),
            "{path} {accept}"
        );
        assert_eq!(response.field("Cache-Control"), Some("no-store"));
    }
    let csv = admin(&server, "/status?format=csv", "").text();
    assert!(csv.starts_with("# pxname,svname,"), "{csv}");
    assert!(
        csv.contains("\n\"one.test, www.one.test\",FRONTEND,0,"),
        "{csv}"
    );
    let refused = admin(&server, "/status?format=xml", "");
    assert_eq!(refused.status, 400);
    assert!(
        refused.text().contains("`json` or `csv`"),
        "{}",
        refused.text()
    );
}

#[test]
fn only_pages_of_the_endpoint_may_read_it_and_nobody_may_write() {
    let server = Server::start(SITES);
    let own = server.admin;
    for path in [
        "/",
        "/dashboard/",
        "/status",
        "/status/history",
        "/status/events",
    ] {
        for (host, fields, code) in [
            ("attacker.test".to_owned(), "", 403),
            (
                format!("localhost:{own}"),
                "Origin: http://attacker.test\r\n",
                403,
            ),
            (
                format!("localhost:{own}"),
                "Sec-Fetch-Site: cross-site\r\n",
                403,
            ),
        ] {
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
            assert_eq!(
                exchange(own, request).status,
                code,
                "{path} {host} {fields}"
            );
        }
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost:{own}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let refused = exchange(own, request);
        assert_eq!(
            (refused.status, refused.field("Allow")),
            (405, Some("GET, HEAD")),
            "{path}"
        );
    }
}
