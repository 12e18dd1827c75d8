//! Common HTTP/2 programs. If one is not installed, the test is reported as skipped.

use std::process::Command;

use super::serving::plain;
use crate::harness::{Folder, Server, Setup, finish, text};
use crate::support::abilities::{can_run, chromium, skipped, tried};
use crate::support::python::Python;

fn is_installed(program: &str) -> bool {
    can_run(program, &["--version"])
}

/// Whether curl is installed and supports HTTP/2; some builds do not.
fn has_curl() -> bool {
    let version = tried("curl", &["--version"]).map(|output| text(&output.stdout));
    let has = version.is_some_and(|version| version.contains("HTTP2"));
    if !has {
        skipped("no curl with HTTP/2 is installed");
    }
    has
}

fn run(program: &str, args: &[&str]) -> String {
    let output = finish(Command::new(program).args(args));
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success(),
        "{program} {args:?}: {said}{complained}"
    );
    said
}

fn secure() -> Server {
    Server::start(
        "{\n\tadmin off\n\thttps_port {port}\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n\
         localhost {\n\trespond \"{http.request.proto} {method}\"\n}\n",
    )
}

#[test]
fn curl_speaks_it_over_tls_and_without() {
    if !has_curl() {
        return;
    }
    let server = secure();
    let url = format!("https://localhost:{}/", server.port);
    assert_eq!(run("curl", &["-sk", "--http2", &url]), "HTTP/2.0 GET");
    assert_eq!(run("curl", &["-sk", "--http1.1", &url]), "HTTP/1.1 GET");
    let server = Server::start(&plain(
        "",
        "respond \"{http.request.proto} {method} {http.request.body}\"",
    ));
    let url = format!("http://localhost:{}/", server.port);
    let known = "--http2-prior-knowledge";
    assert_eq!(run("curl", &["-s", known, &url]), "HTTP/2.0 GET ");
    assert_eq!(
        run("curl", &["-s", known, "-d", "a=b", &url]),
        "HTTP/2.0 POST a=b"
    );
    // An offer to upgrade is ignored.
    assert_eq!(run("curl", &["-s", "--http2", &url]), "HTTP/1.1 GET ");
}

#[test]
fn curl_uploads_and_downloads() {
    if !has_curl() {
        return;
    }
    let upstream = crate::upstream::Upstream::echo();
    let site = format!(
        "handle /up {{\nreverse_proxy localhost:{}\n}}\nroot * {{folder}}\nfile_server",
        upstream.port
    );
    let setup = Setup::new(&plain("", &site));
    let content: Vec<u8> = (0..5_000_000_u32).map(|at| (at / 3 % 253) as u8).collect();
    let path = setup.folder().write("large.bin", &content);
    let server = setup.start();
    let url = format!("http://localhost:{}", server.port);
    let output = finish(Command::new("curl").args([
        "-s",
        "--http2-prior-knowledge",
        &format!("{url}/large.bin"),
    ]));
    assert!(output.stdout == content, "the file comes as it is");
    let body = format!("@{}", path.display());
    let echoed = finish(Command::new("curl").args([
        "-s",
        "--http2-prior-knowledge",
        "--data-binary",
        &body,
        &format!("{url}/up"),
    ]));
    assert!(
        echoed.stdout.ends_with(&content),
        "the upload comes as it is"
    );
}

#[test]
fn nghttp_gets_several_pages_on_one_connection() {
    if !is_installed("nghttp") {
        return;
    }
    let server = secure();
    let url = |path: &str| format!("https://localhost:{}/{path}", server.port);
    let said = run("nghttp", &["-v", &url("a"), &url("b"), &url("c")]);
    assert_eq!(said.matches("HTTP/2.0 GET").count(), 3, "{said}");
    assert!(!said.contains("RST_STREAM"), "{said}");
}

#[test]
fn h2load_loses_no_request() {
    if !is_installed("h2load") {
        return;
    }
    let upstream =
        crate::upstream::Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let site = format!(
        "handle /proxied {{\nreverse_proxy localhost:{}\n}}\nrespond hello",
        upstream.port
    );
    let server = Server::start(&plain("", &site));
    for (path, count, streams) in [("", "20000", "100"), ("proxied", "2000", "10")] {
        let url = format!("http://localhost:{}/{path}", server.port);
        let said = run("h2load", &["-n", count, "-c", "4", "-m", streams, &url]);
        let expected = format!("{count} succeeded, 0 failed, 0 errored, 0 timeout");
        assert!(said.contains(&expected), "{said}");
    }
}

/// A client in Go: concurrent requests, bodies in both directions at once, trailers.
const GO: &str = r#"package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

func main() {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2: true,
	}}
	var group sync.WaitGroup
	for i := 0; i < 50; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			body := strings.Repeat("x", i*1000)
			res, err := client.Post(os.Args[1]+"/up", "text/plain", strings.NewReader(body))
			if err != nil {
				fmt.Println("error:", err)
				return
			}
			text, err := io.ReadAll(res.Body)
			if err != nil || res.ProtoMajor != 2 || !strings.HasSuffix(string(text), body) {
				fmt.Println("wrong:", err, res.Proto, len(text))
			}
		}(i)
	}
	group.Wait()
	fmt.Println("done")
}
"#;

#[test]
fn a_client_of_go_is_served() {
    if !can_run("go", &["version"]) {
        return;
    }
    let upstream = crate::upstream::Upstream::echo();
    let server = Server::start(&format!(
        "{{\n\tadmin off\n\thttps_port {{port}}\n\tauto_https disable_redirects\n\tskip_install_trust\n}}\n\
         localhost {{\n\treverse_proxy localhost:{}\n}}\n",
        upstream.port
    ));
    let folder = Folder::new();
    let source = folder.write("main.go", GO);
    let program = folder.path().join("client");
    let built = Command::new("go")
        .args(["build", "-o"])
        .args([&program, &source])
        .env("GOFLAGS", "-mod=mod")
        .env("GO111MODULE", "off")
        .status();
    assert!(built.is_ok_and(|status| status.success()), "it is built");
    let url = format!("https://localhost:{}", server.port);
    let said = run(&program.to_string_lossy(), &[&url]);
    assert_eq!(said, "done\n");
}

/// A client in Python: concurrent requests on one connection, bodies in both directions, a large response.
const PYTHON: &str = r#"
import asyncio, sys
import httpx

async def main():
    async with httpx.AsyncClient(http1=False, http2=True, verify=False) as client:
        async def post(i):
            body = "x" * (i * 1000)
            res = await client.post(sys.argv[1] + "/up", content=body)
            assert (res.status_code, res.http_version) == (200, "HTTP/2"), res
            assert res.text.endswith(body), len(res.text)
        await asyncio.gather(*(post(i) for i in range(50)))
        res = await client.get(sys.argv[1] + "/large.bin")
        assert (res.status_code, len(res.content)) == (200, 3000000), res
    print("done")

asyncio.run(main())
"#;

#[test]
fn a_client_of_python_is_served() {
    let Some(environment) = Python::find() else {
        return;
    };
    let upstream = crate::upstream::Upstream::echo();
    let setup = Setup::new(&format!(
        "{{\n\tadmin off\n\thttps_port {{port}}\n\tauto_https disable_redirects\n\tskip_install_trust\n}}\n\
         localhost {{\n\troot * {{folder}}/www\n\thandle /up {{\n\t\treverse_proxy localhost:{}\n\t}}\n\tfile_server\n}}\n",
        upstream.port
    ));
    setup.folder().write("www/large.bin", vec![b'x'; 3_000_000]);
    let server = setup.start();
    let url = format!("https://localhost:{}", server.port);
    let python = environment.program("python").display().to_string();
    assert_eq!(run(&python, &["-c", PYTHON, &url]), "done\n");
}

/// A page whose script sends more concurrent requests than HTTP/1.1 connections allow, and reports how each was
/// received.
const PAGE: &str = r#"<!doctype html><title>t</title><body><script>
Promise.all([...Array(40).keys()].map(i => fetch("/file-" + i).then(res => res.text()))).then(texts => {
	const ways = new Set(performance.getEntriesByType("resource").map(entry => entry.nextHopProtocol));
	document.body.textContent = [texts.length, texts.every(text => text === "content"), ...ways].join(" ");
});
</script></body>
"#;

#[test]
fn chromium_loads_a_page_and_what_belongs_to_it() {
    let Some(browser) = chromium() else { return };
    let setup = Setup::new(
        "{\n\tadmin off\n\thttps_port {port}\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n\
         localhost {\n\troot * {folder}/www\n\tfile_server\n}\n",
    );
    setup.folder().write("www/index.html", PAGE);
    for number in 0..40 {
        setup
            .folder()
            .write(&format!("www/file-{number}"), "content");
    }
    let profile = setup.folder().path().join("profile");
    let server = setup.start();
    let said = run(
        browser,
        &[
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--ignore-certificate-errors",
            "--virtual-time-budget=20000",
            &format!("--user-data-dir={}", profile.display()),
            "--dump-dom",
            &format!("https://localhost:{}/", server.port),
        ],
    );
    assert!(said.contains("40 true h2<"), "{said}");
}

/// The failures found by h2spec, by names of cases.
fn h2spec(port: u16, args: &[&str]) -> Vec<String> {
    let program = std::env::var("SLUICE_H2SPEC").expect("`cargo xtask h2spec` sets it");
    let port = port.to_string();
    let output = Command::new(program)
        .args(["-h", "localhost", "-p", &port, "-o", "5"])
        .args(args)
        .output()
        .expect("it runs");
    let said = text(&output.stdout);
    println!("{said}");
    assert!(
        said.contains("145 tests") && said.contains(" 0 skipped"),
        "all cases"
    );
    let failed = said.split("Failures:").nth(1).unwrap_or_default();
    let cases = failed.lines().filter_map(|line| line.split_once("× "));
    cases.map(|(_, case)| case.to_owned()).collect()
}

#[test]
#[ignore = "needs h2spec: cargo xtask h2spec"]
fn h2spec_finds_nothing() {
    // A response that waits for the whole request, as cases send one piece after the other and expect an error for the
    // last; and long enough for the cases about windows.
    let site = format!("respond \"{{http.request.body}}{}\"", "x".repeat(5000));
    let server = Server::start(&format!(
        "{{\n\tadmin off\n\thttps_port {{port}}\n\tauto_https disable_redirects\n\tskip_install_trust\n}}\n\
         localhost {{\n\t{site}\n}}\n"
    ));
    assert_eq!(h2spec(server.port, &["-t", "-k"]), Vec::<String>::new());
    let server = Server::start(&plain("", &site));
    // A port for both versions treats bytes without a preface as a bad HTTP/1.1 request, and closes.
    let expected = ["2: Sends invalid connection preface"];
    assert_eq!(h2spec(server.port, &[]), expected);
}
