use std::sync::Arc;

use serde_json::Value;

use super::super::file::tests::folder;
use super::super::{Encoder, Outputs};
use super::*;

/// Writes the entries of some requests to a real file and reads them back.
struct Bench {
    outputs: Outputs,
    plan: Arc<Plan>,
    path: std::path::PathBuf,
    _folder: super::super::file::tests::Folder,
}

impl Bench {
    fn new(include: &str) -> Bench {
        let folder = folder();
        let path = folder.join("access.log");
        let json = format!(
            r#"{{"logging":{{"logs":{{
                "default":{{"writer":{{"output":"discard"}}}},
                "a":{{"writer":{{"output":"file","filename":{path:?}}},"include":[{include:?}]}}}}}}}}"#
        );
        let config = sluice_model::Config::from_json(&json).expect("it is a configuration");
        let outputs = Outputs::start(Encoder::json()).expect("threads can be started");
        let plan = Plan::build(config.logging.as_ref(), &outputs).expect("it opens");
        Bench {
            outputs,
            plan: Arc::new(plan),
            path,
            _folder: folder,
        }
    }

    /// As `new`, with columns and without the fields that vary.
    fn console() -> Bench {
        let mut bench = Bench::new("http.log.access");
        let json = format!(
            r#"{{"logging":{{"logs":{{
                "default":{{"writer":{{"output":"discard"}}}},
                "a":{{"writer":{{"output":"file","filename":{:?}}},
                    "encoder":{{"format":"console","time_key":"","level_format":"upper"}}}}}}}}}}"#,
            bench.path
        );
        let config = sluice_model::Config::from_json(&json).expect("it is a configuration");
        let plan = Plan::build(config.logging.as_ref(), &bench.outputs).expect("it opens");
        bench.plan = Arc::new(plan);
        bench
    }

    fn access(&self, json: &str) -> AccessLog {
        let logs: ServerLogs = serde_json::from_str(json).expect("it is a server's logs");
        AccessLog::build(&logs, &self.plan)
    }

    fn write(&self, access: &AccessLog, facts: &RequestFacts<'_>, names: &[Arc<str>]) {
        access.write(facts, names, || self.plan.clone(), &mut Vec::new());
    }

    fn text(self) -> String {
        self.outputs.finish(Duration::from_secs(10));
        let bytes = std::fs::read(&self.path).expect("it was written");
        String::from_utf8(bytes).expect("lines are UTF-8")
    }

    fn lines(self) -> Vec<Value> {
        let text = self.text();
        text.lines()
            .map(|line| serde_json::from_str(line).expect("a line is JSON"))
            .collect()
    }
}

fn facts<'a>(request: &'a FieldLines, response: &'a FieldLines) -> RequestFacts<'a> {
    RequestFacts {
        remote: Remote::Ip("127.0.0.1:57858".parse().expect("an address")),
        client_ip: None,
        protocol: "HTTP/1.1",
        method: "POST",
        authority: b"Localhost:18081",
        host: b"localhost",
        target: b"/q?x=1",
        fields: request,
        tls: None,
        bytes_read: 3,
        user: "",
        duration: Duration::from_nanos(166_951),
        size: 6,
        status: 200,
        response_fields: response,
        extra: &[],
        level: None,
        timings: None,
    }
}

fn fields(lines: &[(&str, &[u8])]) -> FieldLines {
    let mut fields = FieldLines::new();
    for (name, value) in lines {
        fields.push_raw(FieldId::of(name.as_bytes()), name.as_bytes(), value);
    }
    fields
}

#[test]
fn stages_that_did_not_happen_have_no_time() {
    let bench = Bench::new("http.log.access");
    let access = bench.access("{}");
    let (request, response) = (FieldLines::new(), FieldLines::new());
    let timings = Timings {
        connect: Some(Duration::from_micros(1500)),
        handling: Duration::from_millis(3),
        ..Timings::default()
    };
    let facts = RequestFacts {
        timings: Some(timings),
        ..facts(&request, &response)
    };
    bench.write(&access, &facts, &[]);
    let line = bench.lines().remove(0);
    let expected = serde_json::json!({
        "idle": 0, "head": 0, "queue": 0, "connect": 0.0015, "handling": 0.003, "sending": 0
    });
    assert_eq!(line["timings"], expected);
}

#[test]
fn a_line_has_caddys_fields() {
    let bench = Bench::new("http.log.access.log0");
    let access = bench.access(r#"{"logger_names":{"localhost":["log0"]}}"#);
    let request = fields(&[
        ("Host", b"localhost:18081"),
        ("Accept", b"*/*"),
        ("x-foo-BAR", b"1"),
        ("Cookie", b"a=b"),
        ("Transfer-Encoding", b"chunked"),
        ("X-Foo-Bar", b"2"),
    ]);
    let response = fields(&[
        ("Server", b"sluice"),
        ("Set-Cookie", b"s=1"),
        ("Set-Cookie", b"t=2"),
    ]);
    let tls = TlsInfo {
        version: "tls1.3",
        cipher: "TLS_AES_128_GCM_SHA256",
        server_name: "localhost".into(),
        alpn: b"http/1.1".to_vec(),
        ..TlsInfo::default()
    };
    let extra = [(Arc::from("tenant"), "blue".to_string())];
    bench.write(
        &access,
        &RequestFacts {
            tls: Some(&tls),
            extra: &extra,
            ..facts(&request, &response)
        },
        &[],
    );
    let mut line = bench.lines().remove(0);
    assert!(line["ts"].is_f64());
    line.as_object_mut().expect("an object").remove("ts");
    let expected: Value = serde_json::from_str(
        r#"{"level":"info","logger":"http.log.access.log0","msg":"handled request","request":{
            "remote_ip":"127.0.0.1","remote_port":"57858","client_ip":"127.0.0.1","proto":"HTTP/1.1",
            "method":"POST","host":"Localhost:18081","uri":"/q?x=1",
            "headers":{"Accept":["*/*"],"X-Foo-Bar":["1","2"],"Cookie":["REDACTED"]},
            "transfer_encoding":["chunked"],
            "tls":{"resumed":false,"version":772,"cipher_suite":4865,"proto":"http/1.1",
                   "server_name":"localhost"}},
            "bytes_read":3,"user_id":"","duration":0.000166951,"size":6,"status":200,
            "resp_headers":{"Server":["sluice"],"Set-Cookie":["REDACTED"]},"tenant":"blue"}"#,
    )
    .expect("JSON");
    assert_eq!(line, expected);
}

/// Programs that read logs may depend on the order of fields and on spaces.
#[test]
fn lines_are_the_same_byte_for_byte() {
    let request = fields(&[
        ("host", b"localhost"),
        (
            "user-agent",
            b"Mozilla/5.0 (X11; Linux x86_64) \"Quoted\" \\ \xe2\x82\xac \xff\x7f",
        ),
        ("sec-ch-ua", b""),
        ("ACCEPT", b"*/*"),
        ("x-two", b"a"),
        ("Accept", b"text/html"),
        ("transfer-encoding", b"chunked"),
        ("X-TWO", b"b"),
        ("cookie", b"a"),
        ("cookie", b"b"),
    ]);
    let response = fields(&[("content-type", b"text/plain; charset=utf-8")]);
    let fact = || RequestFacts {
        client_ip: Some("2001:db8::1".parse().expect("an address")),
        user: "ann\n",
        duration: Duration::from_millis(1_020),
        size: 123_456,
        ..facts(&request, &response)
    };
    let bare = FieldLines::new();
    let [compact, spaced] = [Bench::new("http.log.access"), Bench::console()].map(|bench| {
        let access = bench.access("{}");
        let none = RequestFacts {
            remote: Remote::Unix,
            ..facts(&bare, &bare)
        };
        bench.write(&access, &fact(), &[]);
        bench.write(&access, &none, &[]);
        bench.text()
    });
    let without_time: Vec<String> = compact
        .lines()
        .map(|line| {
            let (start, rest) = line.split_once("\"ts\":").expect("a time");
            let (_, rest) = rest.split_once(",\"logger\"").expect("a logger");
            format!("{start}\"logger\"{rest}")
        })
        .collect();
    assert_eq!(
        without_time,
        [
            concat!(
                r#"{"level":"info","logger":"http.log.access","msg":"handled request","request":{"#,
                r#""remote_ip":"127.0.0.1","remote_port":"57858","client_ip":"2001:db8::1","#,
                r#""proto":"HTTP/1.1","method":"POST","host":"Localhost:18081","uri":"/q?x=1","#,
                r#""headers":{"User-Agent":["Mozilla/5.0 (X11; Linux x86_64) \"Quoted\" \\ €"#,
                r#" \ufffd\u007f"],"Sec-Ch-Ua":[""],"Accept":["*/*","text/html"],"#,
                r#""X-Two":["a","b"],"Cookie":["REDACTED"]},"transfer_encoding":["chunked"]},"#,
                r#""bytes_read":3,"user_id":"ann\n","duration":1.02,"size":123456,"status":200,"#,
                r#""resp_headers":{"Content-Type":["text/plain; charset=utf-8"]}}"#,
            ),
            concat!(
                r#"{"level":"info","logger":"http.log.access","msg":"handled request","request":{"#,
                r#""remote_ip":"","remote_port":"0","client_ip":"","proto":"HTTP/1.1","#,
                r#""method":"POST","host":"Localhost:18081","uri":"/q?x=1","headers":{}},"#,
                r#""bytes_read":3,"user_id":"","duration":0.000166951,"size":6,"status":200,"#,
                r#""resp_headers":{}}"#,
            ),
        ]
    );
    assert_eq!(
        spaced.lines().collect::<Vec<_>>(),
        [
            concat!(
                "INFO\thttp.log.access\thandled request\t",
                r#"{"request": {"remote_ip": "127.0.0.1", "remote_port": "57858", "#,
                r#""client_ip": "2001:db8::1", "proto": "HTTP/1.1", "method": "POST", "#,
                r#""host": "Localhost:18081", "uri": "/q?x=1", "headers": {"User-Agent": "#,
                r#"["Mozilla/5.0 (X11; Linux x86_64) \"Quoted\" \\ € \ufffd\u007f"], "#,
                r#""Sec-Ch-Ua": [""], "Accept": ["*/*", "text/html"], "X-Two": ["a", "b"], "#,
                r#""Cookie": ["REDACTED"]}, "transfer_encoding": ["chunked"]}, "bytes_read": 3, "#,
                r#""user_id": "ann\n", "duration": 1.02, "size": 123456, "status": 200, "#,
                r#""resp_headers": {"Content-Type": ["text/plain; charset=utf-8"]}}"#,
            ),
            concat!(
                "INFO\thttp.log.access\thandled request\t",
                r#"{"request": {"remote_ip": "", "remote_port": "0", "client_ip": "", "#,
                r#""proto": "HTTP/1.1", "method": "POST", "host": "Localhost:18081", "#,
                r#""uri": "/q?x=1", "headers": {}}, "bytes_read": 3, "user_id": "", "#,
                r#""duration": 0.000166951, "size": 6, "status": 200, "resp_headers": {}}"#,
            ),
        ]
    );
}

#[test]
fn every_byte_in_every_field_makes_one_valid_line() {
    let bench = Bench::new("http.log.access");
    let access = bench.access(r#"{"should_log_credentials":true}"#);
    let all: Vec<u8> = (0..=255).collect();
    let request = fields(&[("X-All", &all), ("Cookie", &all)]);
    let mut odd_name = FieldLines::new();
    odd_name.push_raw(FieldId::Other, &all, &all);
    let tls = TlsInfo {
        server_name: (0..=255u8).map(char::from).collect(),
        alpn: all.clone(),
        ..TlsInfo::default()
    };
    let user: String = (0..=255u8).map(char::from).collect();
    let hostile = RequestFacts {
        client_ip: Some("2001:db8::1".parse().expect("an address")),
        authority: &all,
        host: &all,
        target: &all,
        tls: Some(&tls),
        user: &user,
        ..facts(&request, &odd_name)
    };
    bench.write(&access, &hostile, &[]);
    let text = bench.text();
    let body = text.strip_suffix('\n').expect("a line ends");
    let line: Value = serde_json::from_str(body).expect("a line is JSON");
    assert!(line["request"]["headers"]["Cookie"][0].is_string());
    assert!(
        !body.chars().any(char::is_control),
        "no control character is left as it is"
    );
}

#[test]
fn hosts_choose_their_logger() {
    let bench = Bench::new("http.log.access");
    let access = bench.access(
        r#"{"default_logger_name":"rest","logger_names":{"a.test":["one","two"],"*.wild.test":["w"]},
            "skip_hosts":["quiet.test","*.quiet.test"]}"#,
    );
    let none = FieldLines::new();
    for host in [
        "a.test",
        "x.wild.test",
        "other",
        "quiet.test",
        "b.quiet.test",
        "",
    ] {
        bench.write(
            &access,
            &RequestFacts {
                host: host.as_bytes(),
                ..facts(&none, &none)
            },
            &[],
        );
    }
    let chosen = [Arc::from("chosen")];
    bench.write(
        &access,
        &RequestFacts {
            status: 503,
            ..facts(&none, &none)
        },
        &chosen,
    );
    let lines = bench.lines();
    let loggers: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["logger"].as_str())
        .collect();
    let expected = ["one", "two", "w", "rest", "rest", "chosen"].map(|n| format!("{ACCESS}.{n}"));
    assert_eq!(loggers, expected);
    assert_eq!(lines[5]["level"], "error");
}

#[test]
fn unmapped_hosts_can_be_left_out() {
    let bench = Bench::new("http.log.access");
    let access = bench.access(r#"{"logger_names":{"a.test":"one"},"skip_unmapped_hosts":true}"#);
    let none = FieldLines::new();
    for host in ["a.test", "b.test"] {
        bench.write(
            &access,
            &RequestFacts {
                host: host.as_bytes(),
                ..facts(&none, &none)
            },
            &[],
        );
    }
    assert_eq!(bench.lines().len(), 1);
}
