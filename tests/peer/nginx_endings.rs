//! Access log entries of requests that do not end with a complete response, and what their clients receive, compared
//! with an installed nginx.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::peer::nginx::{Running, run};
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::servers;

fn conf(dir: &Path, port: u16, upstream: u16, is_nginx: bool) -> String {
    let name = if is_nginx { "theirs" } else { "ours" };
    let own = match is_nginx {
        true => ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {}/nginx-temp;\n", dir.display()))
            .concat(),
        false => String::new(),
    };
    let (user, dir) = match is_nginx {
        true => ("user root;\n", dir.display()),
        false => ("", dir.display()),
    };
    format!(
        "{user}daemon off;\nworker_processes 1;\npid {dir}/endings-{name}.pid;\nerror_log {dir}/endings.log;\n\
         events {{ worker_connections 512; }}\nhttp {{\n{own}\
         log_format m '[$request] $status rl=$request_length cr=$connection_requests $request_completion $pipe $request_method $uri';\n\
         access_log {dir}/endings-{name} m;\n\
         client_header_timeout 1s; client_body_timeout 1s; large_client_header_buffers 2 8k;\n\
         server {{\nlisten 127.0.0.1:{port};\nserver_tokens off;\n\
         location / {{ return 200 hello; }}\n\
         location /up {{ proxy_pass http://127.0.0.1:{upstream}; }}\n\
         location /direct {{ proxy_request_buffering off; proxy_pass http://127.0.0.1:{upstream}; }}\n\
         location /444 {{ return 444; }}\n\
         location /last {{ keepalive_timeout 0; return 200 a; }}\n\
         location /two {{ keepalive_requests 2; return 200 a; }}\n\
         location /told {{ keepalive_timeout 60s 15s; return 200 a; }}\n\
         location /short {{ keepalive_timeout 1s; return 200 a; }}\n\
         location /quick {{ client_body_timeout 300ms; proxy_pass http://127.0.0.1:{upstream}; }}\n}}\n}}\n"
    )
}

/// What is sent, and how long the client then reads: a second longer than any timeout of the configuration, or until
/// the connection ends.
///
/// Not included: a body whose last transfer coding is not `chunked`, so that its end is unknown. sluice responds with
/// 400 (RFC 9112, section 6.3, item 4), nginx with 501.
const CASES: &[(&str, Duration)] = &[
    ("GET / HTT", LISTENS),
    ("GET /x HTTP/1.1\r\nHost: a.test\r\nX: y", LISTENS),
    ("", LISTENS),
    (
        "POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nabc",
        LISTENS,
    ),
    (
        "POST /direct HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nabc",
        LISTENS,
    ),
    (
        "POST /quick HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nabc",
        LISTENS,
    ),
    ("GET /up HTTP/1.1\r\nHost: a.test\r\n\r\n", LEAVES),
    (
        "POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nabc",
        LEAVES,
    ),
    (
        "POST /direct HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nabc",
        LEAVES,
    ),
    ("GET /444 HTTP/1.1\r\nHost: a.test\r\n\r\n", LISTENS),
    ("GET\u{1} / HTTP/1.1\r\nHost: a.test\r\n\r\n", LISTENS),
    ("GET / HTTP/2.5\r\nHost: a.test\r\n\r\n", LISTENS),
    ("GET /nh HTTP/1.1\r\n\r\n", LISTENS),
    (
        "GET /bf HTTP/1.1\r\nHost: a.test\r\nA B: c\r\n\r\n",
        LISTENS,
    ),
    (
        "GET /of HTTP/1.1\r\nHost: a.test\r\nA[1]: c\r\nB.c: d\r\nConnection: close\r\n\r\n",
        LISTENS,
    ),
    (
        "GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\nGET /2 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n",
        LISTENS,
    ),
    ("GET /last HTTP/1.1\r\nHost: a.test\r\n\r\n", LISTENS),
    (
        "GET /two HTTP/1.1\r\nHost: a.test\r\n\r\nGET /two HTTP/1.1\r\nHost: a.test\r\n\r\n",
        LISTENS,
    ),
    ("GET /short HTTP/1.1\r\nHost: a.test\r\n\r\n", LISTENS),
    (
        "GET /told HTTP/1.1\r\nHost: a.test\r\n\r\nGET /told HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n",
        LISTENS,
    ),
];

const LISTENS: Duration = Duration::from_secs(5);
const LEAVES: Duration = Duration::from_millis(300);

/// An upstream that never responds.
fn silent() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || stream.read_to_end(&mut Vec::new()));
        }
    });
    port
}

/// What a client receives, without the name and time of the server, and whether the connection ends.
fn hears(port: u16, sent: &str, time: Duration) -> (Vec<String>, bool) {
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    client
        .set_read_timeout(Some(time))
        .expect("a timeout can be set");
    client.write_all(sent.as_bytes()).expect("the server reads");
    let (mut heard, until) = (Vec::new(), Instant::now() + time);
    let ends = loop {
        let mut piece = [0; 4096];
        match client.read(&mut piece) {
            Ok(0) => break true,
            Ok(count) => heard.extend_from_slice(&piece[..count]),
            Err(_) => break false,
        }
        assert!(Instant::now() < until + LISTENS, "no end of it");
    };
    let text = String::from_utf8_lossy(&heard).into_owned();
    let kept = |line: &&str| {
        ["HTTP/", "Connection: close", "Keep-Alive"]
            .iter()
            .any(|start| line.contains(start))
    };
    (text.lines().filter(kept).map(str::to_owned).collect(), ends)
}

fn lines_of(site: &Site, program: &Path, upstream: u16, is_nginx: bool) -> Vec<String> {
    let port = free_port();
    let text = conf(site.dir(), port, upstream, is_nginx);
    let _running: Running = run(site, program, "endings", &text, port, is_nginx);
    let log = site.dir().join(if is_nginx {
        "endings-theirs"
    } else {
        "endings-ours"
    });
    let mut lines_of = Vec::new();
    for (sent, time) in CASES {
        let before = std::fs::read_to_string(&log).unwrap_or_default().len();
        let heard = hears(port, sent, *time);
        // A line may be logged a moment after the client has disconnected; if there is none, waiting longer does not
        // help.
        std::thread::sleep(Duration::from_millis(500));
        let lines = std::fs::read_to_string(&log).unwrap_or_default();
        lines_of.push(format!("{sent:?}: {heard:?} {:?}", &lines[before..]));
    }
    lines_of
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn requests_end_in_the_log_as_with_nginx() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    let upstream = silent();
    let theirs = lines_of(&site, &nginx, upstream, true);
    let ours = lines_of(&site, &sluice(), upstream, false);
    for (theirs, ours) in theirs.iter().zip(&ours) {
        if theirs != ours {
            println!("nginx:  {theirs}\nsluice: {ours}\n");
        }
    }
    assert!(theirs == ours, "see above");
}
