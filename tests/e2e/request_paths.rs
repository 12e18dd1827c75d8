//! Request values that become file paths, scripts and redirects: none can escape the folder, or lead to a script or
//! host that the configuration did not intend.

use crate::client::{Response, exchange};
use crate::fastcgi::recording;
use crate::harness::{Server, Setup};

/// Requests `path` of `host`, with additional headers.
fn request(port: u16, path: &str, host: &str, fields: &str) -> Response {
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
    exchange(port, head)
}

/// A setup with folders of tenants, and a file beside them that belongs to none.
fn tenants(setup: Setup) -> Setup {
    for (file, text) in [
        ("srv/secret.txt", "secret"),
        ("srv/tenants/secret.txt", "list"),
        ("srv/tenants/a.example/f.txt", "of a"),
        ("srv/tenants/a.example/sub/f.txt", "below a"),
    ] {
        setup.folder().write(file, text);
    }
    setup
}

fn nginx(lines: &str) -> Server {
    let conf =
        format!("events {{ }}\nhttp {{\nserver {{\nlisten 127.0.0.1:{{port}};\n{lines}\n}}\n}}\n");
    tenants(crate::nginx::setup(&conf)).start()
}

fn caddy(lines: &str) -> Server {
    tenants(Setup::new(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n{lines}\n}}\n"
    )))
    .start()
}

#[test]
fn a_host_is_never_a_step_up() {
    for server in [
        nginx("root {folder}/srv/tenants/$host;"),
        nginx("server_name ~^(?<dom>.+)$; root {folder}/srv/tenants/$dom;"),
        nginx("location / { alias {folder}/srv/tenants/$host/; }"),
        nginx("root {folder}/srv/tenants/$http_host;"),
        nginx("set $base {folder}/srv/tenants/$host; root $base;"),
        nginx("location / { root {folder}/srv; try_files /tenants/$http_host$uri =404; }"),
        caddy("\troot * {folder}/srv/tenants/{host}\n\tfile_server"),
        caddy("\tvars tenant {host}\n\troot * {folder}/srv/tenants/{vars.tenant}\n\tfile_server"),
        caddy("\troot * {folder}/srv\n\ttry_files /tenants/{host}{path} =404\n\tfile_server"),
        caddy("\tfile_server {\n\t\troot {folder}/srv/tenants/{hostport}\n\t}"),
    ] {
        assert_eq!(
            request(server.port, "/f.txt", "a.example", "").text(),
            "of a"
        );
        for host in [".", "..", "...", "....", "a..b", ".:80", "..:80"] {
            let response = request(server.port, "/secret.txt", host, "");
            assert_eq!(response.status, 400, "{host}: {response:?}");
        }
        let absolute = "GET http://../secret.txt HTTP/1.1\r\nHost: ..\r\nConnection: close\r\n\r\n";
        assert_eq!(exchange(server.port, absolute).status, 400);
        for absent in ["", "Host:\r\n"] {
            let old = format!("GET /secret.txt HTTP/1.0\r\n{absent}\r\n");
            let response = exchange(server.port, old);
            assert!(response.status >= 400, "{response:?}");
        }
    }
}

#[test]
fn no_value_of_a_request_adds_or_climbs_a_folder() {
    for (server, status) in [
        (nginx("root {folder}/srv/tenants/$http_x;"), 404),
        (nginx("set $t $http_x; root {folder}/srv/tenants/$t;"), 404),
        (
            nginx("location / { alias {folder}/srv/tenants/$http_x/; }"),
            404,
        ),
        (
            nginx("if ($http_x ~ ^(.*)$) { set $t $1; } root {folder}/srv/tenants/${t};"),
            404,
        ),
        (
            nginx("location / { root {folder}/srv; try_files /tenants/$http_x$uri =404; }"),
            404,
        ),
        (
            caddy("\troot * {folder}/srv/tenants/{header.X}\n\tfile_server"),
            400,
        ),
        (
            caddy(
                "\troot * {folder}/srv\n\ttry_files /tenants/{header.X}{path} =404\n\tfile_server",
            ),
            404,
        ),
        (
            caddy(
                "\t@x header_regexp t X (.*)\n\troot @x {folder}/srv/tenants/{re.t.1}\n\troot * {folder}/none\n\tfile_server",
            ),
            400,
        ),
        (
            caddy(
                "\tmap {header.X} {folder_of} {\n\t\t~(.*) tenants/${1}\n\t}\n\troot * {folder}/srv/{folder_of}\n\tfile_server",
            ),
            400,
        ),
    ] {
        let ask = |path: &str, x: &str| request(server.port, path, "a", &format!("X: {x}\r\n"));
        let found = ask("/f.txt", "a.example");
        assert_eq!((found.status, found.text().as_str()), (200, "of a"));
        for x in [
            "..",
            ".",
            "../..",
            "./",
            "/",
            "a.example/..",
            "a.example/../..",
            "/../../srv",
        ] {
            for path in ["/secret.txt", "/f.txt"] {
                let response = ask(path, x);
                assert_eq!(response.status, status, "{x} {path}: {response:?}");
            }
        }
        // A slash in a value would select a folder that the configuration did not intend.
        assert_eq!(ask("/f.txt", "a.example/sub").status, status);
    }
}

#[test]
fn no_value_climbs_in_a_rewritten_path() {
    let server =
        caddy("\troot * {folder}/srv\n\trewrite * /tenants/{header.X}{path}\n\tfile_server");
    let ask = |x: &str| request(server.port, "/f.txt", "a", &format!("X: {x}\r\n"));
    assert_eq!(ask("a.example").text(), "of a");
    assert_eq!(ask("a.example/sub").text(), "below a");
    for x in [
        "..",
        "../x",
        "a.example/..",
        "%2e%2e",
        "%2E./x",
        "..%2fx",
        "..?y",
    ] {
        assert_eq!(ask(x).status, 400, "{x}");
    }
}

#[test]
fn a_value_that_is_missing_does_not_serve_the_folder_of_all() {
    for server in [
        nginx("root {folder}/srv/tenants/$http_x;"),
        caddy("\troot * {folder}/srv/tenants/{header.X}\n\tfile_server"),
    ] {
        let response = request(server.port, "/secret.txt", "a", "");
        assert!(matches!(response.status, 400 | 404), "{response:?}");
    }
    // A group that the pattern allows to be empty may be empty.
    let server = nginx("server_name ~^(?<sub>[a-z]+/)?t$; root {folder}/srv/tenants/$sub;");
    assert_eq!(request(server.port, "/secret.txt", "t", "").text(), "list");
}

#[test]
fn paths_of_requests_keep_their_folders() {
    for server in [
        nginx("location ~ ^/of/(.+)$ { alias {folder}/srv/tenants/$1; }"),
        nginx("location /of/ { alias {folder}/srv/tenants/; }"),
        nginx(
            "set $all {folder}/srv/tenants; location /of/ { rewrite ^/of(/.*)$ $1 break; root $all; }",
        ),
        caddy("\thandle_path /of/* {\n\t\troot * {folder}/srv/tenants\n\t\tfile_server\n\t}"),
        caddy(
            "\t@of path_regexp t ^/of/(.+)$\n\thandle @of {\n\t\trewrite * /tenants/{re.t.1}\n\t\troot * {folder}/srv\n\t\tfile_server\n\t}",
        ),
    ] {
        let ask = |path: &str| request(server.port, path, "a", "");
        assert_eq!(ask("/of/a.example/sub/f.txt").text(), "below a");
        assert_eq!(ask("/of/a.example/./f.txt").text(), "of a");
        assert_ne!(ask("/of/../../secret.txt").text(), "secret");
        assert_ne!(ask("/of/..%2fsecret.txt").text(), "secret");
    }
}

#[test]
fn lines_of_a_log_stay_in_their_folder_and_are_not_lost() {
    let conf = "root {folder}/srv/tenants/a.example; access_log {folder}/logs/$http_x.log;";
    let server = nginx(&format!("set $on 1; {conf}"));
    let logs = server.folder.path().join("logs");
    std::fs::create_dir_all(&logs).expect("the folder is ours");
    for x in ["plain", "../outside"] {
        assert_eq!(
            request(server.port, "/f.txt", "a", &format!("X: {x}\r\n")).status,
            200
        );
    }
    let has_line = |name: &str| server.folder.read(name).contains("GET /f.txt");
    crate::harness::eventually(
        "both lines",
        || has_line("logs/plain.log") && has_line("logs/.._outside.log"),
        || {
            format!(
                "{:?}",
                std::fs::read_dir(&logs).map(|files| files.flatten().collect::<Vec<_>>())
            )
        },
    );
    assert!(!server.folder.path().join("outside.log").exists());
}

#[test]
fn a_path_runs_the_script_that_its_rules_were_about() {
    let (upstream, asked) = recording();
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\troot * {{folder}}\n\thandle /admin* {{\n\t\trespond \"who are you\" 401\n\t}}\n\
         \thandle {{\n\t\tphp_fastcgi 127.0.0.1:{} {{\n\t\t\tindex off\n\t\t}}\n\t}}\n}}\n",
        upstream.port
    ));
    for path in [
        "/admin.php",
        "/admin.php/x",
        "/x/../admin.php",
        "//admin.php",
        "/%61dmin.php",
    ] {
        assert_eq!(request(server.port, path, "a", "").status, 401, "{path}");
    }
    for path in [
        "/admin.php/%2e%2e/other.php",
        "/admin.php/..%2fother.php",
        "/admin.php%2f..%2fother.php",
        "/admin.php/x/..%2f..%2fother.php",
    ] {
        assert_eq!(request(server.port, path, "a", "").status, 400, "{path}");
    }
    for path in ["/admin.php/../other.php", "/admin.php/.././other.php"] {
        assert_eq!(request(server.port, path, "a", "").text(), "ok", "{path}");
        let asked = asked.recv().expect("it was asked");
        assert_eq!(asked.param("SCRIPT_NAME"), Some("/other.php"), "{path}");
        assert_eq!(asked.param("PATH_INFO"), Some(""), "{path}");
    }
}

#[test]
fn applications_get_no_path_outside_the_root() {
    let (upstream, _asked) = recording();
    let port = upstream.port;
    for lines in [
        "fastcgi_param SCRIPT_FILENAME {folder}/srv/tenants/$http_x$uri;",
        "fastcgi_param DOCUMENT_ROOT {folder}/srv/tenants/$http_x;",
        "root {folder}/srv/tenants/$http_x; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;",
        "root {folder}/srv/tenants/$http_x; fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name;",
    ] {
        let server = nginx(&format!(
            "location / {{ fastcgi_pass 127.0.0.1:{port}; {lines} }}"
        ));
        let ask = |x: &str| request(server.port, "/f.txt", "a", &format!("X: {x}\r\n"));
        assert_eq!(ask("a.example").text(), "ok", "{lines}");
        assert_eq!(ask("..").status, 400, "{lines}");
        assert_eq!(ask("a.example/../..").status, 400, "{lines}");
    }
}

#[test]
fn redirects_made_of_paths_stay_on_this_server() {
    let (upstream, _asked) = recording();
    let setup = Setup::new(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\troot * {{folder}}/site\n\tredir /r* {{path}}/end\n\tredir /u* {{uri}}\n\
         \tredir /w* /{{path}}\n\tredir /away* //other.example{{uri}}\n\tphp_fastcgi 127.0.0.1:{}\n}}\n",
        upstream.port
    ));
    setup.folder().write("site/sub/index.php", "");
    setup.folder().write("site/a b/index.php", "");
    let server = setup.start();
    for (path, location) in [
        ("/sub", "./sub/"),
        ("//evil.example/../sub", "./sub/"),
        ("/%2Fevil.example/%2e%2e/sub", "./sub/"),
        ("/%2Fevil.example/..%2fsub?x=/y", "./..%2fsub/?x=/y"),
        ("/%5Cevil.example/../sub", "./sub/"),
        ("/a%20b", "./a%20b/"),
        ("/r%3Fx", "/r%3Fx/end"),
        ("//r", "/r/end"),
        ("//u", "/u"),
        ("/w", "/w"),
        ("/away/x", "//other.example/away/x"),
    ] {
        let response = request(server.port, path, "a", "");
        assert_eq!(
            response.field("Location"),
            Some(location),
            "{path}: {response:?}"
        );
    }
    let server = nginx(
        "merge_slashes off; absolute_redirect off; root {folder}/srv; location /x { rewrite ^/x(.*)$ $1 permanent; }",
    );
    for (path, location) in [
        ("//tenants", "/tenants/"),
        ("/x//evil.example", "/evil.example"),
        ("/x/%5Cevil.example", "/%5Cevil.example"),
    ] {
        let response = request(server.port, path, "a", "");
        assert_eq!(
            response.field("Location"),
            Some(location),
            "{path}: {response:?}"
        );
    }
}

#[test]
fn a_host_cannot_climb_folders_over_http2() {
    let caddy = Setup::new(
        "{\n\tadmin off\n\tservers {\n\t\tprotocols h1 h2c\n\t}\n}\n:{port} {\n\troot * {folder}/srv/tenants/{host}\n\tfile_server\n}\n",
    );
    for server in [
        tenants(caddy).start(),
        nginx("http2 on; root {folder}/srv/tenants/$host;"),
    ] {
        for (host, status) in [("..", 400), ("...", 400), (".", 400), ("a.example", 200)] {
            let mut peer = crate::h2::peer::Peer::connect(server.port);
            let id = peer.ask(&[
                (":method", "GET"),
                (":scheme", "http"),
                (":authority", host),
                (
                    ":path",
                    if status == 200 {
                        "/f.txt"
                    } else {
                        "/secret.txt"
                    },
                ),
            ]);
            assert_eq!(peer.response(id).status, status, "{host}");
        }
    }
}
