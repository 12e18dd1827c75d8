//! The values of variables where they may stand: in a response, a header, as key and value of a `map`, in `set` and in
//! `if`, compared with an installed nginx.

use std::fmt::Write;
use std::path::Path;

use sluice_nginx::registry::variables::VARIABLES;

use super::{Case, PLAIN, conf, heard, upstream};
use crate::peer::nginx::run;
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::servers;

/// Variables whose values differ between two servers or two requests, or that nginx 1.22 does not have.
const APART: &[&str] = &[
    // PIDs, connection numbers, times, the kernel's measurements, and what was sent by then.
    "bytes_sent",
    "connection",
    "connection_time",
    "connections_active",
    "connections_reading",
    "connections_waiting",
    "connections_writing",
    "date_gmt",
    "date_local",
    "msec",
    "pid",
    "remote_port",
    "realip_remote_port",
    "request_id",
    "request_time",
    "tcpinfo_rcv_space",
    "tcpinfo_rtt",
    "tcpinfo_rttvar",
    "tcpinfo_snd_cwnd",
    "time_iso8601",
    "time_local",
    "nginx_version",
    "server_port",
    // Text here, four bytes there: a key for limits.
    "binary_remote_addr",
    // Those of memcached and of 1.23 and later.
    "http3",
    "is_request_port",
    "request_port",
    "request_body_file",
    "ssl_alpn_protocol",
    "ssl_client_sigalg",
    "ssl_curve",
    "ssl_sigalg",
];

/// What differs on purpose: the variable, a word of the line, and why.
const ACCEPTED: &[(&str, &str, &str)] = &[
    (
        "limit_rate",
        "limit_rate",
        "empty here without a rate, `0` with nginx",
    ),
    (
        "request_body",
        "request_body",
        "nginx has read no body where none is forwarded",
    ),
    (
        "status",
        "Set: status",
        "nginx shows `000` before there is a response",
    ),
    (
        "http_x_y",
        "http_x_y",
        "several lines are joined, as nginx does since 1.23.0",
    ),
];

/// Variables that only a directive of the location gives a value.
const MORE: [&str; 4] = ["arg_x", "cookie_x", "http_x_y", "sent_http_x_z"];

fn names() -> Vec<&'static str> {
    let names = VARIABLES.iter().map(|(name, _)| *name).chain(MORE);
    names.filter(|name| !APART.contains(name)).collect()
}

fn http() -> String {
    let (mut tables, mut locations) = (String::new(), String::new());
    for (count, name) in names().into_iter().enumerate() {
        let _ = writeln!(
            tables,
            "map ${name} $key_{count} {{ \"~^(?<group_{count}>.+)$\" \"<$group_{count}>\"; default nothing; }}\n\
             map $uri $value_{count} {{ default \"<${name}>\"; }}"
        );
        let _ = writeln!(
            locations,
            "location /{count}/ {{ set $set_{count} \"<${name}>\"; if (${name}) {{ set $if_{count} yes; }}\n\
             add_header X-Z z; add_header Key \"{name} $key_{count}\"; add_header Value \"{name} $value_{count}\";\n\
             add_header Set \"{name} $set_{count}\"; add_header If \"{name} [$if_{count}]\";\n\
             add_header Direct \"{name} <${name}>\"; return 200 \"{name} <${name}>\"; }}"
        );
    }
    format!(
        "uninitialized_variable_warn off; variables_hash_max_size 4096; map_hash_max_size 4096;\n{tables}\n\
         server {{ listen 127.0.0.1:PORT; server_name site.test other.test; root DIR/www;\n{locations}\n}}"
    )
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn variables_have_the_values_of_nginx_everywhere() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let http = http();
    let site = Site::new();
    let case = Case {
        name: "variables",
        http: Box::leak(http.into_boxed_str()),
        ..PLAIN
    };
    let upstream = upstream(case.upstream);
    let start = |program: &Path, is_nginx| {
        let port = free_port();
        let text = conf(site.dir(), &case, port, upstream, is_nginx);
        run(&site, program, case.name, &text, port, is_nginx)
    };
    let names = names();
    let (theirs, ours) = (start(&nginx, true), start(&sluice(), false));
    let mut failures = String::new();
    for (number, variable) in names.iter().enumerate() {
        for request in [
            format!(
                "POST /{number}/a%20b.txt?x=1&y HTTP/1.1\r\nHost: Other.test:80\r\nX-Y: one\r\nX-Y: two\r\n\
                 Cookie: x=c; y=d\r\nAuthorization: Basic bmFtZTpwYXNz\r\nContent-Type: text/x\r\n\
                 Content-Length: 2\r\nConnection: close\r\n\r\nhi"
            ),
            format!("GET /{number}/ HTTP/1.0\r\n\r\n"),
        ] {
            let (expected, found) = (heard(theirs.port, &request), heard(ours.port, &request));
            for line in expected.symmetric_difference(&found) {
                let is_accepted =
                    |(name, word, _): &(&str, &str, &str)| name == variable && line.contains(word);
                if ACCEPTED.iter().any(is_accepted) {
                    continue;
                }
                let of = if found.contains(line) {
                    "sluice"
                } else {
                    "nginx "
                };
                let _ = writeln!(failures, "{of} {line}");
            }
        }
    }
    assert_eq!(failures, "");
    assert!(
        names.len() > 80,
        "only {} variables were compared",
        names.len()
    );
}
