//! The log lines of sluice and of an installed Caddy for the same requests under many log configurations. Times, ports
//! and server names are masked; all other members of a line must be equal.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::peer::peers;
use crate::support::servers;
use crate::support::wait::eventually;

/// A configuration and the requests that produce its log lines.
struct Case {
    name: &'static str,
    caddyfile: &'static str,
    /// Number of lines that the requests produce in all files together.
    lines: usize,
}

/// A site with `$` for the contents of its `log` block.
macro_rules! site {
    ($name:literal, $lines:literal, $log:literal) => {
        site!($name, $lines, "", $log)
    };
    ($name:literal, $lines:literal, $global:literal, $log:literal) => {
        Case {
            name: $name,
            lines: $lines,
            caddyfile: concat!(
                "{\nadmin off\nauto_https off\n",
                $global,
                "\n}\nhttp://localhost:PORT {\nlog {\noutput file FOLDER/a.log\n",
                $log,
                "\n}\nrespond /missing 404\nrespond /broken 500\nheader /cookie Set-Cookie s=1\n",
                "log_skip /skipped\nrespond hello\n}\n"
            ),
        }
    };
}

const CASES: &[Case] = &[
    site!("plain", 6, ""),
    site!("level", 1, "level ERROR"),
    site!("credentials", 6, "servers {\nlog_credentials\n}", ""),
    site!(
        "keys",
        6,
        "format json {\nmessage_key m\nlevel_key l\nname_key n\ntime_key t\nduration_format string\nlevel_format upper\n}"
    ),
    site!(
        "no_keys",
        6,
        "format json {\nmessage_key \"\"\nlevel_key \"\"\nname_key \"\"\n}"
    ),
    site!("colour", 6, "format json {\nlevel_format color\n}"),
    site!("console", 6, "format console"),
    site!("journald", 6, "format journald"),
    site!("journald_console", 6, "format journald {\nwrap console\n}"),
    site!(
        "filter",
        6,
        "format filter {\nrequest>headers>Authorization delete\nrequest>headers>X-Multi regexp [0-9]+ N\n\
         request>remote_ip ip_mask 16 32\nrequest>client_ip rename client\nsize replace big\nstatus hash\n\
         request>host hash\nlogger rename l\nresp_headers>Content-Type hash\nuser_id delete\n}"
    ),
    site!(
        "filter_query",
        6,
        "format filter {\nrequest>uri query {\nreplace token X\ndelete x\nreplace none Y\n}\n}"
    ),
    site!(
        "filter_cookie",
        6,
        "servers {\nlog_credentials\n}",
        "format filter {\nrequest>headers>Cookie cookie {\nreplace a X\ndelete b\nhash sess\n}\n}"
    ),
    site!(
        "filter_multi",
        6,
        "format filter {\nwrap console\nfields {\nrequest>headers>X-Multi multi_regexp {\nregexp one ONE\n\
         regexp ONE two\n}\nrequest>headers delete\n}\n}"
    ),
    site!(
        "append",
        6,
        "format append {\nos {system.os}\nnumber 5\ntruth true\nhost {http.request.host}\nwrap filter {\n\
         number delete\nsize delete\n}\n}"
    ),
    site!(
        "sampling",
        4,
        "sampling {\ninterval 60s\nfirst 2\nthereafter 3\n}"
    ),
    Case {
        name: "namespaces",
        lines: 6,
        caddyfile: "{\nadmin off\nauto_https off\nlog one {\noutput file FOLDER/one.log\ninclude http.log.access\n}\n\
                    log two {\noutput file FOLDER/two.log\ninclude http.log\nexclude http.log.error http.log.access\n\
                    }\nlog three {\noutput file FOLDER/three.log\ninclude nothing\n}\n}\n\
                    http://localhost:PORT {\nlog\nrespond hello\nlog_skip /skipped\n}\n",
    },
    Case {
        name: "names",
        lines: 7,
        caddyfile: "{\nadmin off\nauto_https off\nlog {\noutput discard\n}\n}\n\
                    http://localhost:PORT {\nlog first {\noutput file FOLDER/first.log\n}\n\
                    log second {\noutput file FOLDER/second.log\nno_hostname\n}\n\
                    @both path /missing /broken\nlog_name @both second\n@two path /two\nlog_name @two first second\n\
                    log_append <early {http.request.uri.path}\nlog_append late {http.response.header.Content-Type}\n\
                    log_append lone plain\nlog_skip /skipped\nrespond hello\n}\n",
    },
    Case {
        name: "hostnames",
        lines: 6,
        caddyfile: "{\nadmin off\nauto_https off\nlog {\noutput discard\n}\n}\n\
                    http://*:PORT, http://localhost:PORT {\nlog {\nhostnames localhost\noutput file FOLDER/a.log\n}\n\
                    log {\nhostnames other.test\noutput file FOLDER/b.log\n}\nlog_skip /skipped\nrespond hello\n}\n",
    },
];

const REQUESTS: [&str; 7] = [
    "GET /a?token=abc&x=1&y=2&y=3 HTTP/1.1\r\nHost: localhost:PORT\r\nCookie: a=1; sess=secret; b=2\r\n\
     Authorization: Basic Zm9v\r\nX-Multi: one\r\nX-Multi: two 1234\r\nConnection: close\r\n\r\n",
    "GET /missing HTTP/1.1\r\nHost: localhost:PORT\r\nConnection: close\r\n\r\n",
    "GET /broken HTTP/1.1\r\nHost: localhost:PORT\r\nConnection: close\r\n\r\n",
    "GET /cookie HTTP/1.1\r\nHost: localhost:PORT\r\nConnection: close\r\n\r\n",
    "GET /skipped HTTP/1.1\r\nHost: localhost:PORT\r\nConnection: close\r\n\r\n",
    "POST /body HTTP/1.1\r\nHost: localhost:PORT\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
    "GET /two?%22=%0a HTTP/1.1\r\nHost: localhost:PORT\r\nx-oDD: a\tb\u{e9}\r\nConnection: close\r\n\r\n",
];

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn log_lines_equal_those_of_caddy() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    let site = peers::Site::new();
    let mut failures = Vec::new();
    for case in CASES {
        let theirs = lines(&site, &caddy, case, "caddy");
        let ours = lines(&site, &peers::sluice(), case, "sluice");
        if theirs.len() != case.lines {
            failures.push(format!("{}: Caddy wrote {} lines", case.name, theirs.len()));
        }
        if theirs.len() != ours.len() {
            failures.push(format!("{}: sluice wrote {}", case.name, ours.len()));
        }
        for (theirs, ours) in theirs.iter().zip(&ours).filter(|(one, other)| one != other) {
            failures.push(format!(
                "{}:\n  theirs {theirs}\n  ours   {ours}",
                case.name
            ));
        }
    }
    println!("the lines of {} configurations compared", CASES.len());
    assert!(CASES.len() >= 15, "the yardstick got shorter");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The masked lines that a program logs for the requests, each with the name of its file.
fn lines(site: &peers::Site, program: &Path, case: &Case, name: &str) -> Vec<Value> {
    let folder = site.dir().join(format!("logs-{}-{name}", case.name));
    std::fs::create_dir_all(&folder).expect("the folder is writable");
    let text = case
        .caddyfile
        .replace("FOLDER", &folder.display().to_string());
    let peer = site.start_text(program, &format!("{}-{name}", case.name), &text, name);
    for request in REQUESTS {
        send(
            peer.port(),
            &request.replace("PORT", &peer.port().to_string()),
        );
    }
    // The last line is written soon; a line that should not exist would be there by then, too.
    let lines = || read(&folder, peer.port());
    eventually(
        "the lines",
        || lines().len() >= case.lines,
        || format!("{:?}", lines()),
    );
    // For one line too many, which nothing announces.
    std::thread::sleep(Duration::from_millis(150));
    read(&folder, peer.port())
}

/// Sends a request verbatim and waits for the end of the response.
pub fn send(port: u16, request: &str) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("it closes");
    assert!(response.starts_with(b"HTTP/1.1 "), "{request}");
}

fn read(folder: &Path, port: u16) -> Vec<Value> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    let mut lines = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("logs are text");
        let name = file
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        for line in text.lines().filter(|line| line.contains("request")) {
            lines.push(json!([name, masked(line, port)]));
        }
    }
    lines
}

/// A line without what differs between runs: columns as strings, then the fields.
fn masked(line: &str, port: u16) -> Value {
    let start = line.find('{').unwrap_or(line.len());
    let (columns, fields) = line.split_at(start);
    let is_time = |column: &&str| column.contains(':') && column.contains('/');
    let columns: Vec<&str> = columns
        .split('\t')
        .filter(|column| !is_time(column))
        .collect();
    let fields = fields.replace(&port.to_string(), "PORT");
    let mut fields: Value = serde_json::from_str(&fields).unwrap_or(Value::String(fields));
    mask(&mut fields);
    json!([columns, fields])
}

/// Members whose values differ between runs, and headers that name the server.
const MASKED: [&str; 6] = ["ts", "t", "duration", "remote_port", "err_id", "Server"];

fn mask(value: &mut Value) {
    match value {
        Value::Object(members) => {
            // Caddy prevents its own server from guessing the type of an empty response with an empty header value
            // list, and logs that as an empty list. It is not sent.
            members.retain(|_, value| value.as_array().is_none_or(|lines| !lines.is_empty()));
            for (name, value) in members.iter_mut() {
                if MASKED.contains(&name.as_str()) {
                    // The type of the value must still be the same.
                    *value = match value {
                        Value::String(_) => "TEXT".into(),
                        Value::Number(_) => "NUMBER".into(),
                        _ => "OTHER".into(),
                    };
                }
                mask(value);
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(mask),
        Value::String(text) if is_hash_of_host(text) => *text = "HASH".into(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The hash of a host with its port, which differs.
fn is_hash_of_host(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
