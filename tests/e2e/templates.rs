//! `templates` and the templates of `browse`: which responses are executed, what they may read, and their limits. The
//! language itself is compared with Caddy in the peer test and in the package `sluice-template`.

use crate::client::{Response, exchange};
use crate::harness::{Server, Setup, eventually, run_to_end};
use crate::upstream::Upstream;
use crate::wire::Wire;

fn ask(server: &Server, line: &str, fields: &str) -> Response {
    exchange(
        server.port,
        format!("{line} HTTP/1.1\r\nHost: a.test\r\n{fields}Connection: close\r\n\r\n"),
    )
}

fn get(server: &Server, path: &str) -> Response {
    ask(server, &format!("GET {path}"), "")
}

const SITE: &str = "{\n\tadmin off\n}\n:{port} {\n\troot * {folder}/www\n\tencode gzip\n\ttemplates\n\
    \theader /fixed Content-Type text/html\n\trespond /fixed \"{{add 1 2}} {path}\" 201\n\
    \tfile_server {\n\t\tprecompressed gzip\n\t}\n\
    \thandle_errors {\n\t\trespond \"E{err.status_code} {header.accept-encoding}\"\n\t}\n}\n";

fn start(files: &[(&str, &str)]) -> Server {
    let setup = Setup::new(SITE);
    for (name, content) in files {
        setup.folder().write(&format!("www/{name}"), content);
    }
    setup.folder().write("outside.txt", "OUTSIDE");
    setup.start()
}

#[test]
fn templates_run_on_responses_of_configured_types() {
    let server = start(&[
        ("a.html", "{{add 1 2}}"),
        ("a.txt", "{{add 1 2}}"),
        ("a.md", "{{add 1 2}}"),
        ("a.css", "{{add 1 2}}"),
        ("a.json", "{{add 1 2}}"),
    ]);
    for (path, status, body) in [
        ("/a.html", 200, "3"),
        ("/a.txt", 200, "3"),
        ("/a.md", 200, "3"),
        ("/a.css", 200, "{{add 1 2}}"),
        ("/a.json", 200, "{{add 1 2}}"),
        ("/fixed", 201, "3 /fixed"),
    ] {
        let response = get(&server, path);
        assert_eq!(
            (response.status, response.text().as_str()),
            (status, body),
            "{path}"
        );
        let run = body.starts_with('3');
        for field in ["ETag", "Last-Modified", "Accept-Ranges"] {
            let said = response.field(field).is_some();
            assert_eq!(said, !run, "{path}: {field}");
        }
        let length = body.len().to_string();
        assert_eq!(response.field("Content-Length"), Some(length.as_str()));
    }
}

#[test]
fn the_page_is_compressed_and_the_template_is_not_sent() {
    let page = format!("{{{{add 1 2}}}}{}", "x".repeat(600));
    let server = start(&[("a.html", &page), ("a.html.gz", "no gzip at all")]);
    let response = ask(&server, "GET /a.html", "Accept-Encoding: gzip\r\n");
    assert_eq!(response.status, 200);
    assert_eq!(response.field("Content-Encoding"), Some("gzip"));
    assert!(response.body.starts_with(b"\x1f\x8b"), "it is real gzip");
    let part = ask(&server, "GET /a.html", "Range: bytes=0-3\r\n");
    assert_eq!(part.status, 200);
    assert!(part.text().starts_with("3xxx"));
    let mut wire = Wire::connect(server.port);
    wire.send("HEAD /a.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let head = wire.head().expect("an answer").join("\n");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    for field in ["Content-Length", "Etag", "Accept-Ranges"] {
        assert!(!head.contains(field), "{head}");
    }
    let failed = ask(&server, "GET /none", "Accept-Encoding: gzip\r\n");
    assert_eq!(failed.text(), "E404 gzip", "the request is whole again");
}

#[test]
fn mistakes_and_errors_go_to_the_error_routes() {
    let server = start(&[
        ("fail.html", "{{fail \"x\"}}"),
        ("unknown.html", "{{foo 1}}"),
        ("open.html", "{{if true}}"),
        ("gone.html", "a{{httpError 410}}b"),
        ("loop.html", "{{include \"loop.html\"}}"),
        ("asks.html", "{{httpInclude \"/asks.html\"}}"),
        (
            "twice.html",
            "{{httpInclude \"/twice.html\"}}{{httpInclude \"/twice.html\"}}",
        ),
        ("missing.html", "{{httpInclude \"/none\"}}"),
        ("big.html", "{{repeat 1000000000 \"x\"}}"),
        ("long.html", "{{range until 1000000000}}x{{end}}"),
    ]);
    for (path, status) in [
        ("/fail.html", 500),
        ("/unknown.html", 500),
        ("/open.html", 500),
        ("/gone.html", 410),
        ("/loop.html", 500),
        ("/asks.html", 500),
        ("/twice.html", 500),
        ("/missing.html", 500),
        ("/big.html", 500),
        ("/long.html", 500),
    ] {
        let response = get(&server, path);
        assert_eq!(response.status, status, "{path}");
        assert_eq!(response.text(), format!("E{status} "), "{path}");
        assert_eq!(response.field("ETag"), None, "{path}");
    }
}

#[test]
fn files_are_read_below_the_root_only() {
    let server = start(&[
        ("in.txt", "IN {{.Args}}"),
        ("defs.html", "{{define \"x\"}}<{{.}}>{{end}}"),
        (
            "a.html",
            "{{readFile \"in.txt\"}}|{{include \"/in.txt\" 1 \"b\"}}|{{import \"defs.html\"}}{{template \"x\" 5}}",
        ),
        (
            "b.html",
            "{{fileExists \"../outside.txt\"}} {{fileExists \"in.txt\"}} {{listFiles \"/\"}}",
        ),
        ("c.html", "{{readFile \"../outside.txt\"}}"),
        ("d.html", "{{readFile \"/../%2e%2e/outside.txt\"}}"),
        ("e.html", "{{include \"in.txt\\x00.html\"}}"),
        (
            "f.html",
            "{{(fileStat \"in.txt\").Size}} {{(fileStat \"in.txt\").Name}} {{(fileStat \"/\").IsDir}}",
        ),
    ]);
    assert_eq!(get(&server, "/a.html").text(), "IN {{.Args}}|IN [1 b]|<5>");
    let names = "[a.html b.html c.html d.html defs.html e.html f.html in.txt]";
    assert_eq!(
        get(&server, "/b.html").text(),
        format!("false true {names}")
    );
    for path in ["/c.html", "/d.html", "/e.html"] {
        assert_eq!(get(&server, path).status, 500, "{path}");
    }
    assert_eq!(get(&server, "/f.html").text(), "12 in.txt true");
}

#[test]
fn client_input_is_never_executed() {
    let server = start(&[
        (
            "a.html",
            "{{.Req.URL.Query.Get \"q\"}}|{{ph \"http.request.uri.query.q\"}}|{{.Req.Header.Get \"X\"}}|{{.Cookie \"c\"}}",
        ),
        (
            "b.html",
            "{{.RespHeader.Set \"X-Said\" (.Req.URL.Query.Get \"q\")}}ok",
        ),
    ]);
    let fields = "X: {{fail `x`}}\r\nCookie: c={{fail `c`}}\r\n";
    let response = ask(&server, "GET /a.html?q=%7B%7Bfail%20%60q%60%7D%7D", fields);
    assert_eq!(
        response.text(),
        "{{fail `q`}}|{{fail `q`}}|{{fail `x`}}|{{fail `c`}}"
    );
    let response = get(&server, "/b.html?q=a%0d%0aX-Evil:%201");
    assert_eq!(response.field("X-Said"), Some("a  X-Evil: 1"));
    assert_eq!(response.field("X-Evil"), None);
}

#[test]
fn pages_include_other_pages_of_the_server() {
    let server = start(&[
        (
            "a.html",
            "[{{httpInclude \"/b.txt?x=1\"}}|{{httpInclude \"/fixed\"}}]",
        ),
        (
            "b.txt",
            "{{.Req.URL.Query.Get \"x\"}} {{.Req.Header}} {{.RemoteIP}} {{.Host}}",
        ),
    ]);
    let response = ask(&server, "GET /a.html", "Cookie: secret=1\r\n");
    let fields = "map[Accept-Encoding:[identity] Caddy-Templates-Include:[1] Connection:[close] Cookie:[secret=1]]";
    assert_eq!(
        response.text(),
        format!("[1 {fields} 127.0.0.1 a.test|3 /fixed]")
    );
}

#[test]
fn templates_run_on_complete_upstream_responses() {
    let body = format!("{{{{add 1 2}}}}{}", "y".repeat(200_000));
    let upstream = Upstream::responding(format!(
        "HTTP/1.1 503 No\r\nContent-Type: text/html\r\nETag: \"e\"\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\ttemplates\n\treverse_proxy 127.0.0.1:{}\n}}\n",
        upstream.port
    ));
    let response = get(&server, "/");
    assert_eq!((response.status, response.field("ETag")), (503, None));
    assert_eq!(response.text(), format!("3{}", "y".repeat(200_000)));
}

#[test]
fn delimiters_root_and_types_are_chosen() {
    let setup = Setup::new(
        "{\n\tadmin off\n}\n:{port} {\n\troot * {folder}/www\n\ttemplates {\n\t\tmime text/css\n\
         \t\tbetween [[ ]]\n\t\troot {folder}/parts\n\t}\n\tfile_server\n}\n",
    );
    setup.folder().write("www/a.css", "[[include \"p\"]]{{x}}");
    setup.folder().write("www/a.html", "[[include \"p\"]]");
    setup.folder().write("parts/p", "P[[1]]");
    let server = setup.start();
    assert_eq!(get(&server, "/a.css").text(), "P1{{x}}");
    assert_eq!(get(&server, "/a.html").text(), "[[include \"p\"]]");
}

#[test]
fn lists_are_shown_by_a_template() {
    let setup = Setup::new(
        "{\n\tadmin off\n}\n:{port} {\n\troot * {folder}/www\n\tfile_server {\n\t\tbrowse {folder}/list.html\n\t}\n}\n",
    );
    setup.folder().write(
        "list.html",
        "{{.Name}} {{.Path}} {{.CanGoUp}} {{.NumDirs}} {{.NumFiles}} {{.Sort}} {{.Order}} {{.Limit}} {{.Offset}} \
         {{.HumanTotalFileSize}}\n{{range .Breadcrumbs}}<{{.Link}} {{.Text}}>{{end}}\n\
         {{range .Items}}{{html .Name}} {{.URL}} {{.HumanSize}} {{.IsDir}} {{.HasExt \".txt\"}}\n{{end}}{{.Host}}",
    );
    setup.folder().write("www/d/a <b>.txt", "aaaa");
    setup.folder().write("www/d/sub/x", "");
    setup.folder().write("www/d/z.md", "z");
    let server = setup.start();
    let response = get(&server, "/d/?sort=name&order=desc");
    assert_eq!(
        response.field("Content-Type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(response.field("Content-Security-Policy"), None);
    assert_eq!(
        response.text(),
        "d /d true 1 2 name desc 0 0 5 B\n<../ />< d>\n\
         z.md ./z.md 1 B false false\nsub/ ./sub/ 4.0 KiB true false\n\
         a &lt;b&gt;.txt ./a%20%3Cb%3E.txt 4 B false true\na.test"
    );
    let json = ask(&server, "GET /d/", "Accept: application/json\r\n");
    assert!(json.text().starts_with("[{\"name\":\"sub/\""));
    setup_broken(&server);
}

/// A template that is broken while the server runs results in 500, and is read again when it is fixed.
fn setup_broken(server: &Server) {
    let list = server.folder.path().join("list.html");
    let whole = std::fs::read(&list).expect("it was written");
    for (content, status) in [(b"{{.Nope}}".to_vec(), 500), (whole, 200)] {
        std::fs::write(&list, content).expect("it is ours");
        let is_seen = || get(server, "/d/").status == status;
        eventually("the new template", is_seen, || server.stderr());
    }
}

#[test]
fn the_template_to_begin_with_shows_lists() {
    let setup = Setup::new(
        "{\n\tadmin off\n}\n:{port} {\n\troot * {folder}/www\n\tfile_server {\n\t\tbrowse {folder}/list.html\n\t}\n}\n",
    );
    let exported = run_to_end(setup.folder(), &["file-server", "export-template"]);
    assert_eq!(exported.status.code(), Some(0));
    setup.folder().write("list.html", exported.stdout);
    setup.folder().write("www/d/a&b.txt", "aaaa");
    let server = setup.start();
    let page = get(&server, "/d/?sort=size").text();
    assert!(
        page.contains("<a href=\"./a&amp;b.txt\">a&amp;b.txt</a>"),
        "{page}"
    );
    assert!(page.contains("0 folders, 1 file, 4 B"), "{page}");
    assert!(page.contains("?sort=size&amp;order=desc\">Size"), "{page}");
    assert!(page.ends_with("</html>\n"), "{page}");
}

#[test]
fn file_systems_are_refused_by_name() {
    for (line, names) in [
        ("fs default\n\tfile_server {\n\t\tfs default\n\t}", None),
        ("file_server {\n\t\tfs disk2\n\t}", Some("disk2")),
        ("fs disk3\n\tfile_server", Some("disk3")),
    ] {
        let setup = Setup::new("");
        let file = format!("a.localhost {{\n\t{line}\n}}\n");
        setup.folder().write("Caddyfile", file);
        let output = run_to_end(setup.folder(), &["validate"]);
        let said = crate::harness::text(&output.stderr);
        match names {
            None => assert_eq!(output.status.code(), Some(0), "{said}"),
            Some(name) => {
                assert_eq!(output.status.code(), Some(1), "{said}");
                let message = format!("file system `{name}` is not known");
                assert!(said.contains(&message), "{said}");
            }
        }
    }
}
