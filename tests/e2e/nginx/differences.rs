//! Findings of the comparison with nginx, one test each.

use super::{site, start};
use crate::client::exchange;
use crate::harness::{Folder, Setup, run_to_end, text};
use crate::upstream::Upstream;

/// Capture groups in `proxy_redirect`.
#[test]
fn redirects_of_upstreams_are_changed_by_patterns() {
    let upstream = Upstream::responding(
        "HTTP/1.1 302 Found\r\nLocation: http://IN.test/a/b\r\nContent-Length: 0\r\n\r\n",
    );
    let lines = format!(
        "location / {{ proxy_pass http://127.0.0.1:{}; proxy_redirect ~*^http://in\\.test/(.*)$ https://out.test/$1?x=$host; }}",
        upstream.port
    );
    let response = start(&lines, &[]).ask("/");
    assert_eq!(
        response.field("Location"),
        Some("https://out.test/a/b?x=localhost")
    );
}

/// After `rewrite … break` the URI of `proxy_pass` is ignored.
#[test]
fn a_final_path_is_passed_on_whole() {
    let upstream = Upstream::echo();
    let lines = format!(
        "location /a/ {{ rewrite ^/a/(.*)$ /got/$1 break; proxy_pass http://127.0.0.1:{0}/other/; }}\n\
         location /b/ {{ rewrite ^/b/(.*)$ /c/$1 last; }}\n\
         location /c/ {{ proxy_pass http://127.0.0.1:{0}/other/; }}",
        upstream.port
    );
    let server = start(&lines, &[]);
    assert!(server.ask("/a/x").text().starts_with("GET /got/x HTTP"));
    assert!(server.ask("/b/x").text().starts_with("GET /other/x HTTP"));
}

/// Captured parts of an escaped path are escaped again in redirects and queries.
#[test]
fn groups_are_escaped_in_redirects_and_queries() {
    let lines = "rewrite ^/red/(.*)$ /to/$1 redirect;\nrewrite ^/arg/(.*)$ /show?x=$1 last;\n\
                 location /show { return 200 \"$uri $args\"; }";
    let server = start(lines, &[]);
    let away = server.ask("/red/a%20b%26c");
    assert!(
        away.field("Location")
            .is_some_and(|to| to.ends_with("/to/a%20b%26c"))
    );
    assert_eq!(server.ask("/arg/a%26b").text(), "/show x=a%26b");
    assert_eq!(server.ask("/arg/plain").text(), "/show x=plain");
}

/// `recursive_error_pages` of the location where the error occurred decides whether an error page may have an error
/// page itself.
#[test]
fn pages_of_pages() {
    let lines = "error_page 404 /last.html;\nlocation /yes { error_page 404 /between; recursive_error_pages on; return 404; }\n\
                 location /no { error_page 404 /between; return 404; }\nlocation /between { return 404; }";
    let server = start(lines, &[("last.html", "last")]);
    assert_eq!(server.ask("/yes").text(), "last");
    assert!(server.ask("/no").text().contains("404 Not Found"));
}

/// Headers added only to successful responses are not added to an error page, whatever produces it.
#[test]
fn fields_go_by_the_status_of_the_error() {
    let upstream = Upstream::echo();
    let lines = format!(
        "error_page 404 /page;\nlocation = /page {{ add_header X-Good 1; add_header X-All 1 always; proxy_pass http://127.0.0.1:{}; }}",
        upstream.port
    );
    let response = start(&lines, &[]).ask("/none");
    assert_eq!((response.status, response.field("X-Good")), (404, None));
    assert_eq!(response.field("X-All"), Some("1"));
}

#[test]
fn smaller_corners() {
    let lines = "charset utf-8;\nlocation = /497 { return 497; }\nlocation = /200 { return 200; }\nlocation /host { return 200 $host; }";
    let server = start(lines, &[("a.txt", "a")]);
    let page = server.ask("/none");
    assert_eq!(page.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(
        server.ask("/a.txt/").status,
        404,
        "a file is not a directory"
    );
    assert_eq!(server.ask("/497").status, 400);
    assert!(server.ask("/200").field("Content-Type").is_some());
    let request = "GET /host HTTP/1.1\r\nHost: a.test.\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(server.port, request).text(), "a.test");
}

/// Header names that an application could mistake for others are dropped.
#[test]
fn fields_with_odd_names_do_not_count() {
    let upstream = Upstream::echo();
    let lines = format!(
        "location / {{ proxy_pass http://127.0.0.1:{}; }}",
        upstream.port
    );
    let server = site(&lines).start();
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX.Dot: 1\r\nX_Line: 2\r\nX-Good: 3\r\nConnection: close\r\n\r\n";
    let said = exchange(server.port, request).text().to_ascii_lowercase();
    assert!(
        !said.contains("x.dot") && !said.contains("x_line"),
        "{said}"
    );
    assert!(said.contains("x-good: 3"), "{said}");
}

/// `sluice lint` exits with 1 if it finds anything, and reports each location.
#[test]
fn lint_reports_locations() {
    let folder = Folder::new();
    let conf = "worker_processes auto;\nevents { worker_connections 10000; }\nhttp {\n types { text/html html; }\n server {\n  listen 80;\n  location /f { alias /srv/f/; }\n }\n}\n";
    folder.write("nginx.conf", conf);
    let output = run_to_end(&folder, &["lint", "nginx.conf"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("warning[alias-traversal]"), "{said}");
    assert!(said.contains("nginx.conf:7:17"), "{said}");
    let output = run_to_end(&folder, &["lint", "--json", "nginx.conf"]);
    let said = text(&output.stdout);
    assert!(
        said.contains("\"alias-traversal\"") && said.lines().count() == 1,
        "{said}"
    );
    folder.write("nginx.conf", conf.replace("/f {", "/f/ {"));
    let output = run_to_end(&folder, &["lint", "nginx.conf"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    folder.write("Caddyfile", ":80\n");
    let output = run_to_end(&folder, &["lint", "Caddyfile"]);
    assert!(text(&output.stderr).contains("not an nginx.conf"));
}

/// What cannot be expressed in a Caddyfile becomes a comment in its place, and everything else behaves the same.
#[test]
fn an_nginx_conf_becomes_a_caddyfile() {
    let setup = Setup::bare().args(&["--config", "Caddyfile"]);
    let conf = "events {}\nhttp {\nlimit_conn_zone $binary_remote_addr zone=zone:1m;\nserver {\nlisten 127.0.0.1:{port};\nroot {folder}/www;\n\
        location /a { return 200 \"a $arg_x\"; }\nlocation / { try_files $uri /index.html; }\n\
        location /b { limit_conn zone 1; return 204; }\n}\n}\n";
    let conf = setup.fill(conf);
    let folder = setup.folder();
    folder.write("nginx.conf", conf);
    let output = run_to_end(
        folder,
        &["adapt", "--to", "caddyfile", "--config", "nginx.conf"],
    );
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        said.contains("# not translated (nginx.conf:3): limit_conn_zone"),
        "{said}"
    );
    assert!(said.contains("): limit_conn zone 1;"), "{said}");
    folder.write("www/index.html", "home");
    folder.write(
        "Caddyfile",
        format!(
            "{{\n\tadmin off\n}}\n{}",
            said.replacen("{\n\tauto_https off\n}\n", "", 1)
        ),
    );
    let server = setup.start();
    assert_eq!(server.ask("/a?x=1").text(), "a 1");
    assert_eq!(server.ask("/none/here").text(), "home");
    folder_is_refused();
}

fn folder_is_refused() {
    let folder = Folder::new();
    folder.write("nginx.conf", "events {}\nhttp { nonsense on; }\n");
    let output = run_to_end(
        &folder,
        &["adapt", "--to", "caddyfile", "--config", "nginx.conf"],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("unknown-directive"));
}
