//! Response bodies that are cut, combined or changed: the same files and requests for sluice and an installed nginx.

use std::path::Path;

use crate::peer::http::{Differs, differences};
use crate::peer::nginx::{EVERYWHERE, Running, run};
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::servers;

/// Lines of a `server` block, of a second one that it proxies to, and the requests to the first.
pub struct Case {
    pub name: &'static str,
    pub lines: &'static str,
    pub second: &'static str,
    pub requests: &'static [&'static str],
}

/// Intentional differences: a prefix of the request, what differs, and why.
const ACCEPTED: &[(&str, &str, &str)] = &[
    (
        "GET /gz/note.txt | Range: bytes=99-",
        "",
        "a refusal of a range has no fields of the answer that it refuses",
    ),
    (
        "GET /gz/note.txt | Range: bytes=0-1,4-5",
        "",
        "the same parts with another boundary, and their fields in another order",
    ),
    (
        "GET /cached/note.txt",
        "age",
        "stored answers say their age (RFC 9111, section 5.1)",
    ),
    ("GET /slice/", "age", "see above"),
    ("GET /zone", "age", "see above"),
    ("HEAD /slice/", "age", "see above"),
    (
        "GET /ssi/comments.html",
        "body",
        "a page that ends with the beginning of a comment keeps its end",
    ),
    (
        "GET /po/ct/",
        "accept-ranges",
        "no parts are given of what gets another length",
    ),
    (
        "GET /odd/",
        "",
        "nginx closes the connection where a piece is not the one that was asked for; a 502 says so",
    ),
];

const RANGES: Case = Case {
    name: "ranges",
    lines: "add_header X-Added x; location /sub/ { alias ROOT/; sub_filter 3 three; sub_filter_types *; } \
            location /add/ { alias ROOT/; add_after_body /style.css; addition_types *; } \
            location /gz/ { alias ROOT/; gzip on; gzip_types text/x-none; } location /gzip/ { alias ROOT/; gzip on; gzip_types *; gzip_min_length 1; } \
            location /gun/ { alias ROOT/; gunzip on; } location /one/ { alias ROOT/; gzip on; max_ranges 1; } location /none/ { alias ROOT/; gzip on; max_ranges 0; } \
            location /forced/ { proxy_pass http://127.0.0.1:SECOND/; proxy_force_ranges on; } \
            location /forced1/ { proxy_pass http://127.0.0.1:SECOND/; proxy_force_ranges on; max_ranges 1; } \
            location /forced0/ { proxy_pass http://127.0.0.1:SECOND/; proxy_force_ranges on; max_ranges 0; } \
            location /forcedgz/ { proxy_pass http://127.0.0.1:SECOND/; proxy_force_ranges on; gzip on; gzip_types *; gzip_min_length 1; } \
            location /forcedsub/ { proxy_pass http://127.0.0.1:SECOND/; proxy_force_ranges on; sub_filter 3 three; sub_filter_types *; }",
    second: "max_ranges 0;",
    requests: &[
        "GET /sub/note.txt | Range: bytes=2-5",
        "GET /sub/note.txt",
        "GET /sub/style.css | Range: bytes=90-",
        "GET /add/note.txt | Range: bytes=2-5",
        "GET /add/note.txt | Range: bytes=200-",
        "GET /add/note.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT",
        "GET /gz/note.txt | Range: bytes=2-5",
        "GET /gz/note.txt | Range: bytes=0-1,4-5",
        "GET /gz/note.txt | Range: bytes=99-",
        "GET /gz/note.txt | Range: bytes=0-1 | If-Range: \"6553f100-24\"",
        "GET /gz/note.txt | Range: bytes=0-1 | If-Range: \"x\"",
        "GET /gz/note.txt | Range: bytes=0-1 | If-Range: Tue, 14 Nov 2023 22:13:20 GMT",
        "GET /gz/note.txt | Range: bytes=0-1 | If-Range: Tue, 14 Nov 2023 22:13:21 GMT",
        "GET /gz/none | Range: bytes=0-1",
        "HEAD /gz/note.txt | Range: bytes=2-5",
        "GET /gzip/note.txt | Range: bytes=2-5",
        "GET /gun/note.txt | Range: bytes=2-5",
        "GET /one/note.txt | Range: bytes=2-5",
        "GET /one/note.txt | Range: bytes=0-1,4-5",
        "GET /none/note.txt | Range: bytes=2-5",
        "GET /none/note.txt",
        "GET /forced/note.txt | Range: bytes=2-5",
        "GET /forced1/note.txt | Range: bytes=2-5",
        "GET /forced1/note.txt | Range: bytes=0-1,4-5",
        "GET /forced0/note.txt | Range: bytes=2-5",
        "GET /forcedgz/note.txt | Range: bytes=2-5",
        "GET /forcedsub/note.txt | Range: bytes=2-5",
    ],
};

const SLICES: Case = Case {
    name: "slices",
    lines: "slice 10; proxy_set_header Range $slice_range; location /plain/ { proxy_pass http://127.0.0.1:SECOND/; } \
            location /slice/ { proxy_pass http://127.0.0.1:SECOND/; proxy_cache kept; proxy_cache_key $uri$slice_range; proxy_cache_valid 200 206 1h; } \
            location /off/ { slice 0; proxy_pass http://127.0.0.1:SECOND/; } location /untold/ { proxy_set_header X y; proxy_pass http://127.0.0.1:SECOND/; } \
            location /whole/ { proxy_pass http://127.0.0.1:SECOND/whole/; } location /big/ { slice 1k; proxy_pass http://127.0.0.1:SECOND/; } \
            location /odd/ { proxy_set_header Range bytes=3-5$arg_x$slice_range; proxy_pass http://127.0.0.1:SECOND/; }",
    second: "location /whole/ { alias ROOT/; max_ranges 0; }",
    requests: &[
        "GET /plain/note.txt",
        "HEAD /plain/note.txt",
        "GET /plain/empty.txt",
        "GET /plain/none",
        "GET /plain/note.txt | Range: bytes=0-3",
        "GET /plain/note.txt | Range: bytes=8-25",
        "GET /plain/note.txt | Range: bytes=10-19",
        "GET /plain/note.txt | Range: bytes=35-35",
        "GET /plain/note.txt | Range: bytes=25-",
        "GET /plain/note.txt | Range: bytes=-3",
        "GET /plain/note.txt | Range: bytes=-15",
        "GET /plain/note.txt | Range: bytes=0-1,20-21",
        "GET /plain/note.txt | Range: bytes=12-13 | If-Range: \"6553f100-24\"",
        "GET /plain/note.txt | Range: bytes=12-13 | If-Range: \"x\"",
        "GET /plain/note.txt | If-None-Match: \"6553f100-24\"",
        "GET /slice/note.txt",
        "GET /slice/note.txt",
        "GET /slice/note.txt | Range: bytes=8-25",
        "GET /slice/note.txt | Range: bytes=-3",
        "HEAD /slice/note.txt",
        "GET /slice/style.css | Range: bytes=15-",
        "GET /slice/style.css",
        "GET /off/note.txt",
        "GET /untold/note.txt",
        "GET /untold/note.txt | Range: bytes=2-5",
        "GET /whole/note.txt",
        "GET /big/page.html",
        "GET /big/page.html | Range: bytes=1000-2100",
        "GET /odd/note.txt",
    ],
};

const BROWSERS: Case = Case {
    name: "browsers",
    lines: "default_type text/plain; location /none { return 200 \"[$modern_browser][$ancient_browser][$msie]\"; } \
            location /mod { modern_browser msie 5.5; modern_browser gecko 1.0.0; modern_browser opera 9.0; modern_browser safari 413; modern_browser konqueror 3.0; \
            return 200 \"[$modern_browser][$ancient_browser][$msie]\"; } \
            location /unl { modern_browser unlisted; modern_browser msie 5.5; ancient_browser Links Lynx netscape4; modern_browser_value mm; ancient_browser_value aa; \
            return 200 \"[$modern_browser][$ancient_browser][$msie]\"; location /unl/in { modern_browser gecko 1; return 200 \"[$modern_browser][$ancient_browser][$msie]\"; } } \
            location /same { modern_browser msie 7.0; modern_browser msie 5.5; return 200 \"[$modern_browser][$ancient_browser][$msie]\"; }",
    second: "",
    requests: &[],
};

const AGENTS: &[&str] = &[
    "curl/8",
    "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)",
    "Mozilla/4.0 (compatible; MSIE 5.50; Windows NT 5.1)",
    "Mozilla/4.0 (compatible; MSIE 5.0; Windows NT 5.1)",
    "Mozilla/4.0 (compatible; MSIE 6",
    "MSIE 6.0",
    "Mozilla/5.0 (X11; U; FreeBSD; en-US; rv:1.7) Gecko/2004",
    "Mozilla/5.0 (X11; rv:0.9) Gecko/2004",
    "Opera/8.0 (X11)",
    "Opera/9.50",
    "Mozilla/4.0 (compatible; MSIE 6.0; X11) Opera 9.50",
    "Mozilla/5.0 (Macintosh; U; PPC) AppleWebKit/1 (KHTML) Safari/500",
    "Mozilla/5.0 (Macintosh; U; PPC) AppleWebKit/500 Safari/41",
    "Mozilla/5.0 (compatible; Konqueror/3.1)",
    "Mozilla/4.08 [en] (X11)",
    "Mozilla/3.0",
    "Links (0.96)",
];

/// The configuration of each program.
fn conf(site: &Site, case: &Case, (port, second): (u16, u16), is_nginx: bool) -> String {
    let dir = site.dir().display().to_string();
    let own = match is_nginx {
        true => ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {dir}/nginx-temp;\n"))
            .concat(),
        false => String::new(),
    };
    let (user, tokens, which) = match is_nginx {
        true => (
            "user root;\ndaemon off;\nmaster_process off;\n",
            "server_tokens off;\nproxy_http_version 1.1;\n",
            "theirs",
        ),
        false => ("", "server_tokens \"nginx\";", "ours"),
    };
    let fill = |lines: &str| site.fill(lines).replace("SECOND", &second.to_string());
    let types = "types { text/html html shtml; text/plain txt; text/css css; }\ninclude /etc/nginx/koi-win; include /etc/nginx/koi-utf; include /etc/nginx/win-utf;";
    format!(
        "{user}worker_processes 1;\npid {dir}/nginx.pid;\nerror_log {dir}/nginx-error.log;\nevents {{}}\nhttp {{\naccess_log off;\n{own}{tokens}\n{types}\n\
         proxy_cache_path {dir}/kept-{which} keys_zone=kept:1m;\n\
         server {{\nlisten 127.0.0.1:{port};\nroot {dir}/www;\nserver_name site.test;\n{}\n}}\n\
         server {{\nlisten 127.0.0.1:{second};\nroot {dir}/www;\nserver_name second.test;\n{}\n}}\n}}\n",
        fill(case.lines),
        fill(case.second),
    )
}

fn start(site: &Site, program: &Path, case: &Case, is_nginx: bool) -> Running {
    let (port, second) = (free_port(), free_port());
    let text = conf(site, case, (port, second), is_nginx);
    run(site, program, case.name, &text, port, is_nginx)
}

fn is_accepted(request: &str, difference: &Differs) -> bool {
    // A body that is changed while it is in memory as a whole has a length.
    let is_framing = matches!(&*difference.what, "content-length" | "transfer-encoding")
        && (difference.theirs.is_empty() || difference.theirs.contains("chunked"));
    let everywhere =
        |(what, theirs): &(&str, &str)| difference.what == *what && difference.theirs == *theirs;
    let here = |(asked, what, _): &(&str, &str, &str)| {
        request.starts_with(asked) && (what.is_empty() || difference.what == *what)
    };
    is_framing || EVERYWHERE.iter().any(everywhere) || ACCEPTED.iter().any(here)
}

/// Sends all requests to both; returns their number, and the differences.
pub fn compare(
    site: &Site,
    nginx: &Path,
    case: &Case,
    requests: &[String],
) -> (usize, Vec<String>) {
    let theirs = start(site, nginx, case, true);
    let ours = start(site, &sluice(), case, false);
    let mut failures = Vec::new();
    for request in requests {
        let (expected, found) = (theirs.ask(request), ours.ask(request));
        for difference in differences(&expected, &found) {
            if !is_accepted(request, &difference) {
                failures.push(format!("{}: {request}\n    {difference}", case.name));
            }
        }
    }
    (requests.len(), failures)
}

fn owned(requests: &[&str]) -> Vec<String> {
    requests
        .iter()
        .map(|request| (*request).to_owned())
        .collect()
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn bodies_equal_those_of_nginx() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    let asks = |path: &&str| {
        let agents = AGENTS.iter();
        let asked = agents.map(|agent| format!("GET {path} | User-Agent: {agent}"));
        let asked: Vec<String> = asked.chain([format!("GET {path}")]).collect();
        asked
    };
    let browsers = ["/none", "/mod", "/unl", "/unl/in", "/same"];
    let (mut count, mut failures) = (0, Vec::new());
    for (case, requests) in [
        (&RANGES, owned(RANGES.requests)),
        (&SLICES, owned(SLICES.requests)),
        (&BROWSERS, browsers.iter().flat_map(asks).collect()),
    ] {
        let (asked, differing) = compare(&site, &nginx, case, &requests);
        count += asked;
        failures.extend(differing);
    }
    println!("{count} requests compared with {}", nginx.display());
    assert!(count >= 140, "the yardstick got shorter: {count}");
    assert!(
        failures.is_empty(),
        "{} differences:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
