//! The nginx configurations of the studies as printed: only ports and paths are replaced.

use rustls::version::TLS13;

use super::setup;
use crate::client::{Client, ask, exchange};
use crate::fastcgi::recording;
use crate::harness::{Folder, Server, Setup, run_to_end, text};
use crate::tls;
use crate::upstream::{Upstream, dead};

const SYNTHETIC: [&str; 2] = [
    include_str!("../../data/studies/000-synthetic-default.nginx.conf"),
    include_str!("../../data/studies/000-synthetic-optimized.nginx.conf"),
];
const STATIC: [&str; 2] = [
    include_str!("../../data/studies/000-static-default.nginx.conf"),
    include_str!("../../data/studies/000-static-optimized.nginx.conf"),
];
const PROXY: [&str; 2] = [
    include_str!("../../data/studies/000-proxy-default.nginx.conf"),
    include_str!("../../data/studies/000-proxy-optimized.nginx.conf"),
];
const GO: &str = include_str!("../../data/studies/001-nginx.conf");
const GO_SITES: &str = include_str!("../../data/studies/001-vhosts.conf");
const GO_COMMENT: &str = include_str!("../../data/studies/001-comment-backend-keepalive.conf");
const INVALID: &str = include_str!("../../data/studies/001-comment-invalid-fragment.conf");
const HTTPS: &str = include_str!("../../data/studies/003-site-round1.conf");

fn with_port(conf: &str) -> String {
    assert!(
        conf.contains("listen 0.0.0.0:8080;"),
        "the study is as printed"
    );
    conf.replace("0.0.0.0:8080", "0.0.0.0:{port}")
        .replace("/tmp/nginx-cache", "{folder}/cache")
}

#[test]
fn synthetic() {
    for conf in SYNTHETIC {
        let server = setup(&with_port(conf)).start();
        let mut client = Client::connect(server.port);
        for path in ["/", "/foo?at=all"] {
            let response = client.get(path);
            assert_eq!(
                (response.status, response.text().as_str()),
                (200, "Hello, world!")
            );
            assert_eq!(response.field("Content-Type"), Some("text/plain"));
            assert_eq!(response.field("Content-Length"), Some("13"));
        }
    }
}

#[test]
fn files() {
    for conf in STATIC {
        assert!(
            conf.contains("alias /srv/static/;"),
            "the study is as printed"
        );
        let setup = setup(&with_port(conf).replace("/srv/static/", "{folder}/static/"));
        setup.folder().write("static/index.html", "<h1>small</h1>");
        let script = setup.folder().write("static/jquery-3.6.1.js", "alert(1)");
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(0x6380_0000);
        let file = std::fs::File::options()
            .write(true)
            .open(script)
            .expect("it was written");
        file.set_modified(time).expect("it is ours");
        let large: Vec<u8> = (0..290_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        setup.folder().write("static/large.bin", &large);
        let server = setup.start();
        let mut client = Client::connect(server.port);
        for _ in 0..2 {
            let response = client.get("/");
            assert_eq!(
                (response.status, response.text().as_str()),
                (200, "<h1>small</h1>")
            );
            assert_eq!(response.field("Content-Type"), Some("text/html"));
            // Without mime.types a script is plain text, which the study's author may not have noticed.
            let response = client.get("/jquery-3.6.1.js");
            assert_eq!(response.field("Content-Type"), Some("text/plain"));
            assert_eq!(response.field("ETag"), Some("\"63800000-8\""));
            assert_eq!(response.field("Accept-Ranges"), Some("bytes"));
            assert_eq!(client.get("/large.bin").body, large);
            let response = client.get("/none");
            assert_eq!(
                (response.status, response.field("Content-Type")),
                (404, Some("text/html"))
            );
            assert!(
                response.text().contains("<h1>404 Not Found</h1>"),
                "{}",
                response.text()
            );
        }
    }
}

#[test]
fn proxied() {
    for conf in PROXY {
        let upstream = Upstream::echo();
        let address = format!("127.0.0.1:{}", upstream.port);
        let server = setup(&with_port(conf).replace("127.0.0.1:8081", &address)).start();
        let response = exchange(
            server.port,
            "POST /a//b?c=d HTTP/1.1\r\nHost: site\r\nX-Forwarded-For: 1.2.3.4\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody",
        );
        assert_eq!(response.status, 200);
        let said = response.text().to_ascii_lowercase();
        assert!(said.starts_with("post /a//b?c=d http/1.1\n"), "{said}");
        assert!(said.contains(&format!("\nhost: {address}\n")), "{said}");
        assert!(
            said.contains("\nx-forwarded-for: 1.2.3.4\n"),
            "nothing is added: {said}"
        );
        assert!(
            !said.contains("x-forwarded-proto") && !said.contains("\nvia:"),
            "{said}"
        );
        assert!(said.ends_with("\n\nbody"), "{said}");
        assert_eq!(response.field("Server"), Some("sluice"));
        assert_eq!(response.field("Via"), None);
    }
}

#[test]
fn proxied_to_nobody() {
    let conf = with_port(PROXY[0]).replace("8081", &dead().to_string());
    let response = setup(&conf).start().ask("/");
    assert_eq!(response.status, 502);
    assert!(
        response.text().contains("<h1>502 Bad Gateway</h1>"),
        "{}",
        response.text()
    );
}

/// The whole tree of study 001: the main file, mime.types, fastcgi_params and the sites.
fn go_tree(setup: &Setup, sites: &str) {
    let conf = GO
        .replace("/var/run/nginx.pid", "{folder}/nginx.pid")
        .replace("/var/log/nginx/", "{folder}/")
        .replace("/etc/nginx/", "{folder}/");
    setup.folder().write("nginx.conf", setup.fill(&conf));
    setup
        .folder()
        .write("mime.types", "types { text/html html; text/css css; }");
    let params = "fastcgi_param  QUERY_STRING $query_string;\nfastcgi_param REQUEST_METHOD $request_method;\n\
                  fastcgi_param  CONTENT_LENGTH $content_length;\nfastcgi_param HTTPS $https if_not_empty;\n\
                  fastcgi_param SCRIPT_NAME $fastcgi_script_name;\nfastcgi_param SERVER_NAME $server_name;\n\
                  fastcgi_param  REMOTE_ADDR $remote_addr;\nfastcgi_param SERVER_PROTOCOL $server_protocol;\n";
    setup.folder().write("fastcgi_params", params);
    let sites = setup.fill(&sites.replace("listen 80;", "listen {port};"));
    setup.folder().write("sites-enabled/go.conf", sites);
}

fn asked_as(server: &Server, host: &str) -> crate::client::Response {
    let request = format!("GET /x?y HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    exchange(server.port, request)
}

#[test]
fn go_behind_http_and_fastcgi() {
    let http = Upstream::echo();
    let (application, asked) = recording();
    let setup = Setup::bare().args(&["--config", "nginx.conf"]);
    let sites = GO_SITES
        .replace("127.0.0.1:8080", &format!("127.0.0.1:{}", http.port))
        .replace("127.0.0.1:9001", &format!("127.0.0.1:{}", application.port))
        .replace("/tmp/go.sock", "{folder}/go.sock");
    go_tree(&setup, &sites);
    let server = setup.start();
    let said = asked_as(&server, "go.http").text();
    assert!(said.starts_with("GET /x?y HTTP/1.1\n"), "{said}");
    assert!(
        said.to_ascii_lowercase().contains("\nhost: go_http\n"),
        "{said}"
    );
    assert_eq!(asked_as(&server, "go.fcgi.tcp").text(), "ok");
    let request = asked.try_recv().expect("the application was asked");
    assert_eq!(request.param("QUERY_STRING"), Some("y"));
    assert_eq!(request.param("SCRIPT_NAME"), Some("/x"));
    assert_eq!(request.param("SERVER_NAME"), Some("go.fcgi.tcp"));
    assert_eq!(request.param("HTTP_HOST"), Some("go.fcgi.tcp"));
    assert_eq!(request.param("CONTENT_LENGTH"), Some(""));
    assert_eq!(request.param("HTTPS"), None, "it is empty");
    assert_eq!(
        request.param("GATEWAY_INTERFACE"),
        None,
        "only what is configured is sent"
    );
    assert_eq!(
        asked_as(&server, "go.fcgi.unix").status,
        502,
        "nobody is at the socket"
    );
}

#[test]
fn a_reader_keeps_connections() {
    let http = Upstream::echo();
    let setup = Setup::bare().args(&["--config", "nginx.conf"]);
    go_tree(
        &setup,
        &GO_COMMENT.replace("127.0.0.1:8080", &format!("127.0.0.1:{}", http.port)),
    );
    let server = setup.env("SLUICE_WORKERS", "1").start();
    for _ in 0..3 {
        assert_eq!(asked_as(&server, "go.http").status, 200);
    }
    assert_eq!(http.connections(), 1);
}

/// nginx rejects it, too.
#[test]
fn settings_of_the_process_in_a_server_are_refused_by_name() {
    let folder = Folder::new();
    folder.write("nginx.conf", format!("events {{}}\nhttp {{\n{INVALID}}}\n"));
    let output = run_to_end(&folder, &["validate", "--config", "nginx.conf"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nginx.conf:4:1"), "{said}");
    for name in ["worker_processes", "worker_rlimit_nofile"] {
        let title = format!("`{name}` is not allowed in `server`");
        assert!(said.contains(&title), "{said}");
    }
}

#[test]
fn https_with_files_of_certbot() {
    let setup = Setup::bare().args(&["--config", "nginx.conf"]);
    let upstream = Upstream::echo();
    let plain = crate::harness::free_port();
    let sites = HTTPS
        .replacen(
            "server_name xxxxxxxxxxxxxxxxxxxxx;",
            "server_name site.test;",
            2,
        )
        .replace("$host = xxxxxxxxxxxxxxxxxxxxx", "$host = site.test")
        .replace(
            "http://xxxxxxxxxxxxxx:80",
            &format!("http://127.0.0.1:{}", upstream.port),
        )
        .replace("/etc/letsencrypt/live/xxxxxxxxxxxxxxxxxxxxx/", "{folder}/")
        .replace("/etc/letsencrypt/", "{folder}/")
        .replace("[::]:443", "[::1]:{port}")
        .replace("listen 443", "listen {port}")
        .replace("listen 80 ", &format!("listen {plain} "))
        .replace("[::]:80", &format!("[::1]:{plain}"));
    assert!(!sites.contains("xxxx"), "the study is as printed: {sites}");
    go_tree(&setup, &sites);
    let options = "ssl_session_cache shared:le_nginx_SSL:10m;\nssl_session_timeout 1440m;\nssl_session_tickets off;\n\
                   ssl_protocols TLSv1.2 TLSv1.3;\nssl_prefer_server_ciphers off;\nssl_ciphers \"ECDHE\";\n";
    setup.folder().write("options-ssl-nginx.conf", options);
    setup.folder().write("ssl-dhparams.pem", "");
    let made = rcgen::generate_simple_self_signed(["site.test".to_owned()]).expect("a certificate");
    setup.folder().write("fullchain.pem", made.cert.pem());
    setup
        .folder()
        .write("privkey.pem", made.signing_key.serialize_pem());
    let server = setup.start();
    let client = tls::trusting(made.cert.der().clone(), &[&TLS13]);
    let mut wire = tls::connect(&client, server.port, "site.test").expect("its certificate");
    let (head, body) = tls::get(&mut wire, "site.test", "/over/tls");
    assert!(head[0].starts_with("HTTP/1.1 200 "), "{head:?}");
    assert!(body.starts_with("GET /over/tls HTTP/1.1\n"), "{body}");
    let request = "GET /a?b HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n";
    let response = exchange(plain, request);
    assert_eq!(
        (response.status, response.field("Location")),
        (301, Some("https://site.test/a?b"))
    );
    assert_eq!(ask(plain, "/").status, 404, "another host");
}

/// Debian's `snippets/fastcgi-php.conf`: the path info is saved before `try_files` resets it.
#[test]
fn php_as_debian_has_it() {
    let (application, asked) = recording();
    let lines = format!(
        r#"
index index.php;
location / {{ try_files $uri $uri/ /index.php?$query_string; }}
location ~ \.php(/|$) {{
    fastcgi_split_path_info ^(.+?\.php)(/.*)$;
    try_files $fastcgi_script_name =404;
    set $path_info $fastcgi_path_info;
    fastcgi_param PATH_INFO $path_info;
    fastcgi_index index.php;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_param SCRIPT_NAME $fastcgi_script_name;
    fastcgi_param QUERY_STRING $query_string;
    fastcgi_param REQUEST_URI $request_uri;
    fastcgi_param CONTENT_LENGTH $content_length;
    fastcgi_pass 127.0.0.1:{};
}}
"#,
        application.port
    );
    let files = [
        ("index.php", "<?php"),
        ("sub/page.php", "<?php"),
        ("plain.txt", "plain"),
    ];
    let server = super::start(&lines, &files);
    let root = server.folder.path().join("www").display().to_string();
    for (target, script, info, query) in [
        ("/", "/index.php", "", ""),
        (
            "/sub/page.php/more/path?a=b",
            "/sub/page.php",
            "/more/path",
            "a=b",
        ),
        ("/nowhere/at/all?x=1", "/index.php", "", "x=1"),
    ] {
        assert_eq!(server.ask(target).text(), "ok", "{target}");
        let request = asked.try_recv().expect("the application was asked");
        let file = format!("{root}{script}");
        assert_eq!(
            request.param("SCRIPT_FILENAME"),
            Some(file.as_str()),
            "{target}"
        );
        assert_eq!(request.param("SCRIPT_NAME"), Some(script), "{target}");
        assert_eq!(request.param("PATH_INFO"), Some(info), "{target}");
        assert_eq!(request.param("QUERY_STRING"), Some(query), "{target}");
        assert_eq!(request.param("REQUEST_URI"), Some(target), "{target}");
    }
    assert_eq!(server.ask("/none.php").status, 404);
    assert_eq!(server.ask("/plain.txt").text(), "plain");
    let body = "POST /index.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    assert_eq!(exchange(server.port, body).text(), "ok");
    let request = asked.try_recv().expect("the application was asked");
    assert_eq!(
        request.param("CONTENT_LENGTH"),
        Some("3"),
        "it was collected"
    );
}
