//! What follows a request or belongs to it, beside nginx: requests that follow others (`post_action`), log lines of
//! subrequests, and request bodies in files. Compared is what the upstream receives, and what the log has.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::peer::nginx::{Running, run};
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::wait::eventually;
use crate::support::{listen, servers};

/// In `http`; `WHICH` is the folder of one program, `UP` its upstream.
const CONF: &str = "
log_format own '$request_method $uri $status';
server {
    listen 127.0.0.1:PORT;
    root ROOT;
    location = /plain { post_action /done; return 201 hello; }
    location = /file { post_action /done; try_files /note.txt =404; }
    location = /gone { post_action /done; return 410; }
    location = /proxied { post_action /done; proxy_pass http://UP; }
    location = /named { post_action @after; return 202 named; }
    location = /inner { post_action /done; internal; return 203; }
    location = /loop { post_action /loop; proxy_pass http://UP; }
    location = /missing { post_action @after; try_files /none =404; }
    location /done { internal; proxy_pass http://UP/count?$request_uri,$status,$body_bytes_sent,$request_completion; }
    location @after { proxy_method PUT; proxy_pass http://UP; }
}
server {
    listen 127.0.0.1:SECOND;
    root ROOT;
    access_log DIR/WHICH-own.log own;
    location / { auth_request /auth; }
    location = /auth { internal; log_subrequest on; return 204; }
    location = /quiet/note.txt { alias ROOT/note.txt; auth_request /silent; }
    location = /silent { internal; return 204; }
    location = /refused { auth_request /no; }
    location = /no { internal; log_subrequest on; return 403; }
    location = /ssi.html { ssi on; log_subrequest on; }
    location = /part { log_subrequest on; return 200 part; }
}
server {
    listen 127.0.0.1:THIRD;
    client_body_temp_path DIR/WHICH-bodies;
    proxy_set_header X-File $request_body_file;
    location /on { client_body_in_file_only on; proxy_pass http://UP; }
    location /clean { client_body_in_file_only clean; proxy_pass http://UP; }
    location /off { proxy_pass http://UP; }
    location /only { client_body_in_file_only on; proxy_pass_request_body off; proxy_set_header Content-Length \"\"; proxy_pass http://UP; }
    location /small { client_body_in_file_only clean; client_body_buffer_size 8k; proxy_pass http://UP; }
}
";

/// The requests, in order: to the first server, to the second one, to the third one.
const REQUESTS: [&[&str]; 3] = [
    &[
        "GET /plain?b",
        "HEAD /plain",
        "GET /file",
        "GET /gone",
        "GET /proxied",
        "POST /proxied | body=hello",
        "GET /named?y",
        "GET /inner",
        "GET /missing",
        "GET /none",
    ],
    &[
        "GET /note.txt",
        "GET /quiet/note.txt",
        "GET /refused",
        "GET /ssi.html",
        "GET /none",
    ],
    &[
        "POST /on/a | body=hello",
        "PUT /on/b | body=x",
        "GET /on/c",
        "POST /clean/a | body=hello",
        "POST /off/a | body=hello",
        "POST /only/a | body=hello",
        "POST /small/a | body=LONG",
    ],
];

/// To the first server, last of all: nginx makes ten requests in a row, as the location of the first one says that another
/// follows; here a request that follows another has none after it.
const LOOP: &str = "GET /loop";

type Lines = Arc<Mutex<Vec<String>>>;

/// An upstream that records requests, and what is in the file that `X-File` names.
fn recording() -> (u16, Lines) {
    let seen = Lines::default();
    let heard = seen.clone();
    let port = listen(move |mut wire| {
        while let Some(head) = wire.head() {
            let Some(body) = wire.body(&head) else { return };
            let file = head.iter().find_map(|line| line.strip_prefix("X-File: "));
            let content = file.map(|path| std::fs::read_to_string(path).unwrap_or_default());
            let mut text = format!(
                "{} body {:?} file {:?}",
                head[0].replace(" HTTP/1.0", "").replace(" HTTP/1.1", ""),
                short(&String::from_utf8_lossy(&body)),
                content.map(|content| short(&content))
            );
            // nginx sends the body with the request that follows, too. Here it has gone to the upstream as it arrived.
            if let (true, Some(at)) = (text.starts_with("POST /count"), text.find(" body")) {
                text.truncate(at);
            }
            heard.lock().expect("no test panicked").push(text);
            let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            if wire.try_send(response).is_err() {
                return;
            }
        }
    });
    (port, seen)
}

fn short(text: &str) -> String {
    match text.len() {
        0..20 => text.to_owned(),
        length => format!("{length} bytes"),
    }
}

/// A program, its three ports and what its upstream received.
struct Started {
    running: Running,
    ports: [u16; 3],
    seen: Lines,
}

fn start(site: &Site, program: &Path, is_nginx: bool) -> Started {
    let (upstream, seen) = recording();
    let ports = [free_port(), free_port(), free_port()];
    let which = if is_nginx { "theirs" } else { "ours" };
    std::fs::create_dir_all(site.dir().join(format!("{which}-bodies"))).expect("writable");
    let (main, tokens) = match is_nginx {
        true => (
            "user root;\ndaemon off;\nmaster_process off;\n",
            "server_tokens off;",
        ),
        false => ("", "server_tokens \"nginx\";"),
    };
    let text = format!(
        "{main}worker_processes 1;\npid DIR/{which}.pid;\nerror_log DIR/{which}-error.log;\nevents {{ worker_connections 512; }}\n\
         http {{\n{tokens}\naccess_log off;\nproxy_temp_path DIR/nginx-temp; fastcgi_temp_path DIR/nginx-temp;\n\
         uwsgi_temp_path DIR/nginx-temp; scgi_temp_path DIR/nginx-temp;\ntypes {{ text/html html; text/plain txt; }}\n{CONF}\n}}\n"
    );
    let text = text
        .replace("WHICH", which)
        .replace("UP;", &format!("127.0.0.1:{upstream};"))
        .replace("UP/", &format!("127.0.0.1:{upstream}/"))
        .replace("DIR", &site.dir().display().to_string())
        .replace("PORT", &ports[0].to_string())
        .replace("SECOND", &ports[1].to_string())
        .replace("THIRD", &ports[2].to_string());
    let running = run(
        site,
        program,
        "after",
        &site.fill(&text),
        ports[0],
        is_nginx,
    );
    Started {
        running,
        ports,
        seen,
    }
}

/// The files that are left of request bodies, and what is in them.
fn left(site: &Site, which: &str) -> Vec<String> {
    let folder = site.dir().join(format!("{which}-bodies"));
    let mut found = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("it is there").flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => found.push(short(&std::fs::read_to_string(path).unwrap_or_default())),
            }
        }
    }
    found.sort();
    found
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn what_follows_requests_is_as_in_nginx() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    site.write("ssi.html", "<!--#include virtual=\"/part\" -->");
    let theirs = start(&site, &nginx, true);
    let ours = start(&site, &sluice(), false);
    let (mut count, mut failures) = (0, Vec::new());
    for (server, requests) in REQUESTS.iter().enumerate() {
        for request in *requests {
            count += 1;
            let line = request.replace("LONG", &"x".repeat(20_000));
            let statuses = [&theirs, &ours].map(|one| {
                let response = crate::peer::http::ask(one.ports[server], &line);
                (response.status, response.body.len())
            });
            if statuses[0].0 != statuses[1].0 {
                failures.push(format!("{request}: {statuses:?}"));
            }
            // What follows a request comes after its response; the next request waits for it, to keep the order.
            let both = || [&theirs, &ours].map(|one| one.seen.lock().expect("no panic").clone());
            let is_same = || {
                let [theirs, ours] = both();
                theirs == ours
            };
            if !crate::support::wait::happens(is_same) {
                let [theirs, ours] = both();
                failures.push(format!("{request}:\n  {theirs:#?}\n  {ours:#?}"));
                break;
            }
        }
    }
    let log = |which: &str| {
        std::fs::read_to_string(site.dir().join(format!("{which}-own.log"))).unwrap_or_default()
    };
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    eventually(
        "the same log lines",
        || log("ours") == log("theirs"),
        || format!("{}\n{}", log("theirs"), log("ours")),
    );
    eventually(
        "the same files of bodies",
        || left(&site, "ours") == left(&site, "theirs"),
        || format!("{:?}\n{:?}", left(&site, "theirs"), left(&site, "ours")),
    );
    assert!(log("ours").lines().count() > 6 && left(&site, "ours").len() > 1);
    let counts = || [&theirs, &ours].map(|one| one.seen.lock().expect("no panic").len());
    let before = counts();
    for one in [&theirs, &ours] {
        crate::peer::http::ask(one.ports[0], LOOP);
    }
    let looped = || {
        let after = counts();
        [after[0] - before[0], after[1] - before[1]]
    };
    eventually(
        "ten requests, and one",
        || looped() == [11, 2],
        || format!("{:?}", looped()),
    );
    let followed = ours.seen.lock().expect("no panic").len();
    println!("{count} requests, {followed} requests to the upstream, all equal");
    drop((theirs.running, ours.running));
}
