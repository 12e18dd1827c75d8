//! Inheritance of settings, compared with an installed nginx: each directive with a visible effect is set in a
//! `server`, in a location and in a nested one, and requests reach them directly, and through `if`, `limit_except`, an
//! error page, `try_files` and `rewrite`. `config/nginx/tests/inheritance.rs` tests that the inherited values are the
//! same.

mod cases;

use std::collections::BTreeSet;
use std::path::Path;

use crate::peer::http::{Differs, Response, differences};
use crate::peer::nginx::{EVERYWHERE, run};
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::servers;
use cases::{ROWS, Row};

/// Request paths: one with the settings of the server, three with those of the surrounding location, three with their
/// own, and three that are redirected there internally.
const PATHS: [&str; 10] = [
    "/s/", "/o/in/", "/o/if/", "/o/le/", "/o/rp/", "/w/if/", "/w/le/", "/r/o/in/", "/t/", "/e/",
];

/// Intentional differences: the directive, a prefix of the path, what differs, and why.
const ACCEPTED: &[(&str, &str, &str, &str)] = &[
    (
        "gzip_static",
        "/",
        "accept-ranges",
        "parts of compressed files are given, too",
    ),
    ("gunzip", "/", "accept-ranges", "see above"),
    (
        "fastcgi_pass_request_body",
        "/",
        "> HTTP_CONTENT_LENGTH",
        "a body that is not passed on has no length",
    ),
    (
        "proxy_pass_request_body",
        "/",
        "> body",
        "a body that is passed on is framed, whatever the headers say; nginx sends it without its length",
    ),
];

/// Differences that have nothing to do with inheritance.
const ELSEWHERE: &[(&str, &str)] = &[
    ("content-length", "what is there as a whole has a length"),
    ("transfer-encoding", "see above"),
    (
        "retry-after",
        "refusals tell when to come back (RFC 6585, section 4)",
    ),
    (
        "age",
        "a cached response tells its age (RFC 9111, section 5.1)",
    ),
    (
        "> content-length",
        "a POST without content says so (RFC 9110, section 8.6)",
    ),
    (
        "> connection",
        "the connection to an upstream is not that of the client",
    ),
    ("> HTTP_CONNECTION", "see above"),
];

fn server(row: &Row, number: usize, port: u16) -> String {
    let name = row.name;
    // A URL with a path is not allowed in `if` or `limit_except`, one with a variable is.
    let (beside, to) = match row.beside.split_once("UPSTREAM/") {
        None => (row.beside.to_owned(), String::new()),
        Some((before, path)) => {
            let (path, rest) = path.split_once(';').expect("the line ends");
            (
                format!("{before}UPSTREAM$to;{rest}"),
                format!("set $to /{path};"),
            )
        }
    };
    let line = |value: &str| {
        let end = if value.ends_with('}') { "" } else { ";" };
        format!("{name} {value}{end}")
    };
    let first = line(row.values[0]);
    let second = match row.is_of_locations() {
        true => String::new(),
        false => line(row.values[1]),
    };
    // One of these blocks is enough.
    let others = match name {
        "limit_except" => "",
        _ => "limit_except POST { }",
    };
    format!(
        "server {{ listen 127.0.0.1:{port}; server_name c{number}.test; {root} set $v 0; {to} {second}\n\
         location /s/ {{ {beside} }}\n\
         location /o/ {{ {first}\n  location /o/in/ {{ {beside} }}\n  location /o/if/ {{ {beside} if ($host) {{ }} }}\n\
         \x20 location /o/le/ {{ {beside} {others} }}\n  location /o/rp/ {{ {beside} {second} }}\n}}\n\
         location /w/if/ {{ {beside} {first} if ($host) {{ }} }}\n\
         location /w/le/ {{ {beside} {first} {others} }}\n\
         location /r/ {{ rewrite ^/r(.*)$ $1 last; }}\n\
         location /t/ {{ try_files /none @here; }}\n\
         location /e/ {{ error_page 402 = @here; return 402; }}\n\
         location @here {{ {here} {beside} }}\nlocation @named {{ return 200 named; }}\n\
         location /extra/ {{ root ROOT; {open} }}\nlocation /extra/no {{ return 403; }}\n}}\n",
        // Neither has a meaning in a named location.
        here = match name {
            "alias" => String::new(),
            _ => first.clone(),
        },
        root = match name {
            "root" => "",
            _ => "root ROOT;",
        },
        open = match name {
            "auth_request" => "auth_request off;",
            _ => "",
        },
    )
}

const HTTP: &str = "types { text/html html; text/css css; text/plain txt; }\n\
    charset_map koi8-r utf-8 { 80 E282AC; C1 D0B0; }\n\
    limit_req_zone $host$request_uri zone=one:1m rate=1r/m; limit_req_zone $host$request_uri zone=two:1m rate=1r/m;\n";

fn conf(site: &Site, port: u16, is_nginx: bool) -> String {
    let dir = site.dir().display().to_string();
    let (name, head, tokens) = match is_nginx {
        true => (
            "theirs",
            "user root;\nmaster_process off;\ndaemon off;\n",
            "server_tokens off;",
        ),
        false => ("ours", "", "server_tokens \"nginx\";"),
    };
    let own = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {dir}/nginx-temp;\n"));
    let own = if is_nginx {
        own.concat()
    } else {
        String::new()
    };
    let servers = ROWS.iter().enumerate();
    let servers: String = servers
        .map(|(number, row)| server(row, number, port))
        .collect();
    let text = format!(
        "{head}worker_processes 1;\npid {dir}/inherit-{name}.pid;\nerror_log {dir}/inherit-{name}.log;\n\
         events {{ worker_connections 512; }}\nhttp {{\naccess_log off;\n{own}{HTTP}{tokens}\n\
         proxy_http_version 1.1; proxy_set_header Connection \"\";\n\
         proxy_cache_path {dir}/proxy-{name} keys_zone=p:1m; fastcgi_cache_path {dir}/fastcgi-{name} keys_zone=f:1m;\n\
         {servers}}}\n"
    );
    site.fill(&text)
}

fn write_files(site: &Site) {
    let files: [(&str, &[u8]); 8] = [
        ("f.txt", b"o so foo"),
        ("f.qqq", b"q"),
        ("p.html", b"<p>"),
        ("k.html", b"\xc1\x80"),
        ("s.html", b"<!--# echo var=\"uri\" default=\"none\" -->"),
        ("s.txt", b"<!--# echo var=\"uri\" -->"),
        ("bad.html", b"<!--# nothing -->"),
        ("z.txt.gz", &GZIPPED),
    ];
    let lists: [(&str, &[u8]); 3] = [
        ("list/a.txt", b"a"),
        ("list/b.txt", b"b"),
        ("one/a.txt", b"a"),
    ];
    for path in PATHS {
        let folder = path
            .strip_prefix("/r")
            .unwrap_or(path)
            .trim_start_matches('/');
        for (name, content) in files.iter().chain(&lists) {
            site.write(&format!("{folder}{name}"), content);
        }
        let link = site.dir().join("www").join(format!("{folder}link.txt"));
        if !link.exists() {
            std::os::unix::fs::symlink("f.txt", link).expect("the folder is writable");
        }
    }
    site.write("extra/a.html", "A");
    site.write("extra/b.html", "B");
    site.write("users", "a:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0\n");
    site.write("others", "b:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0\n");
    same_time(&site.dir().join("www"));
}

/// `zipped\n`
const GZIPPED: [u8; 27] = [
    0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3, 0xab, 0xca, 0x2c, 0x28, 0x48, 0x4d, 0xe1, 2, 0, 0xac, 0,
    0x3a, 0xc7, 7, 0, 0, 0,
];

/// Sets the same modification time for all files below a folder.
fn same_time(folder: &Path) {
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    for entry in std::fs::read_dir(folder).expect("it is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            same_time(&path);
        }
        let file = std::fs::File::open(&path).expect("it is there");
        let _ = file.set_modified(time);
    }
}

/// Masks random values: the ID in a cookie of `userid`.
fn settled(mut response: Response) -> Response {
    for cookie in response.fields.get_mut("set-cookie").into_iter().flatten() {
        let (name, rest) = cookie.split_once('=').unwrap_or_default();
        let (value, rest) = rest.split_once(';').unwrap_or((rest, ""));
        let value = if value.len() > 20 { "some" } else { value };
        *cookie = format!("{name}={value};{rest}");
    }
    response
}

fn accepted(row: &Row, path: &str, difference: &Differs) -> Option<usize> {
    ACCEPTED.iter().position(|(name, start, what, _)| {
        *name == row.name && path.starts_with(start) && difference.what == *what
    })
}

fn is_everywhere(difference: &Differs) -> bool {
    ELSEWHERE.iter().any(|(what, _)| difference.what == *what)
        || EVERYWHERE
            .iter()
            .any(|(what, theirs)| difference.what == *what && difference.theirs == *theirs)
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn locations_inherit_as_those_of_nginx() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    write_files(&site);
    let [(theirs_port, theirs), (ours_port, ours)] = [true, false].map(|is_nginx| {
        let port = free_port();
        (port, conf(&site, port, is_nginx))
    });
    let theirs = run(&site, &nginx, "inherit", &theirs, theirs_port, true);
    let ours = run(&site, &sluice(), "inherit", &ours, ours_port, false);
    let (mut requests, mut failures, mut seen) = (0, Vec::new(), BTreeSet::new());
    for (number, row) in ROWS.iter().enumerate() {
        for path in PATHS {
            for ask in row.asks {
                requests += 1;
                let (method, rest) = ask.split_once(' ').expect("a method and a path");
                let request = format!("{method} {path}{rest} | Host: c{number}.test");
                let (expected, found) = (theirs.ask(&request), ours.ask(&request));
                for difference in differences(&settled(expected), &settled(found)) {
                    match accepted(row, path, &difference) {
                        Some(index) => _ = seen.insert(index),
                        None if is_everywhere(&difference) => {}
                        None => failures.push(format!(
                            "{} {}: {request}\n    {difference}",
                            row.name, row.values[0]
                        )),
                    }
                }
            }
        }
    }
    let gone = (0..ACCEPTED.len()).filter(|index| !seen.contains(index));
    failures.extend(gone.map(|index| format!("accepted difference {index} has gone away")));
    let names: BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
    println!("{requests} requests about {} directives", names.len());
    assert!(
        failures.is_empty(),
        "{} differences:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
