//! A certificate from ZeroSSL's API, simulated by a double that signs with OpenSSL: it fetches the validation file as
//! ZeroSSL does before it issues anything.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::client::exchange;
use crate::harness::{Folder, Setup, eventually, free_port};
use crate::support::abilities::has_openssl;

const FILE: &str = "/.well-known/pki-validation/5EED.txt";

/// The API of a CA in `folder`, for one order of one name; fetches files from port `http`.
fn start(folder: &Folder, http: u16) -> String {
    openssl(
        folder,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 2",
    );
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let path = folder.path().to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut reader = BufReader::new(client.expect("a client"));
            let (mut head, mut length) = (String::new(), 0);
            while reader.read_line(&mut head).expect("a head") > 2 {
                let line = head.lines().last().unwrap_or_default().to_ascii_lowercase();
                if let Some(text) = line.strip_prefix("content-length:") {
                    length = text.trim().parse().expect("a length");
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let line = head.lines().next().unwrap_or_default();
            let respond = respond(line, &body, &path, http).to_string();
            let _ = write!(
                reader.get_mut(),
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{respond}",
                respond.len()
            );
        }
    });
    url
}

fn respond(line: &str, body: &[u8], folder: &std::path::Path, http: u16) -> Value {
    let no = |kind: &str| json!({"success": false, "error": {"code": 1, "type": kind}});
    let Some(line) = line.strip_suffix("?access_key=s3cret HTTP/1.1") else {
        return no("invalid_access_key");
    };
    match line {
        "POST /certificates" => {
            let wish: Value = serde_json::from_slice(body).expect("JSON");
            let csr = wish["certificate_csr"].as_str().expect("a CSR");
            std::fs::write(folder.join("csr.pem"), csr).expect("writable");
            let name = wish["certificate_domains"].as_str().expect("a name");
            json!({"id": "0rder", "status": "draft", "validation": {"other_methods": {name: {
                "file_validation_url_http": format!("http://{name}{FILE}"),
                "file_validation_content": ["HASH", "comodoca.com", "more"],
            }}}})
        }
        "POST /certificates/0rder/challenges" => {
            let request =
                format!("GET {FILE} HTTP/1.1\r\nHost: a.example.test\r\nConnection: close\r\n\r\n");
            let found = exchange(http, &request);
            if found.status != 200 || found.body != b"HASH\ncomodoca.com\nmore" {
                return no("domain_control_validation_failed");
            }
            json!({"id": "0rder", "status": "pending_validation"})
        }
        "GET /certificates/0rder" => json!({"id": "0rder", "status": "issued"}),
        "GET /certificates/0rder/download/return" => {
            let signed = Command::new("openssl")
                .args("x509 -req -in csr.pem -CA ca.pem -CAkey ca.key -set_serial 7 -days 2 -copy_extensions copy".split(' '))
                .current_dir(folder)
                .stderr(Stdio::null())
                .output()
                .expect("OpenSSL is installed");
            let above = std::fs::read_to_string(folder.join("ca.pem")).expect("it is there");
            let leaf = String::from_utf8_lossy(&signed.stdout).into_owned();
            json!({"certificate.crt": leaf, "ca_bundle.crt": above})
        }
        _ => no("unknown_request"),
    }
}

fn openssl(folder: &Folder, words: &str) -> String {
    let output = Command::new("openssl")
        .args(words.split(' '))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("OpenSSL is installed");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_certificate_comes_by_zerossls_own_interface() {
    if !has_openssl() {
        return;
    }
    let folder = Folder::new();
    let http = free_port();
    let url = start(&folder, http);
    let setup = Setup::bare();
    let https: u16 = setup.fill("{port}").parse().expect("a port");
    // HTTP requests are redirected, or rejected if they match no site: validation requests are handled before both.
    let config = json!({"admin": {"disabled": true}, "apps": {
        "http": {"http_port": http, "https_port": https, "servers": {
            "a": {"listen": [format!("127.0.0.1:{https}")], "routes": [{
                "match": [{"host": ["a.example.test"]}],
                "handle": [{"handler": "static_response", "body": "hello"}]}]},
            "b": {"listen": [format!("127.0.0.1:{http}")], "routes": [{
                "handle": [{"handler": "static_response", "status_code": "403"}]}]},
        }},
        "tls": {"automation": {"policies": [{"subjects": ["a.example.test"], "issuers": [{
            "module": "zerossl", "api_key": "{env.ZEROSSL_KEY}", "validity_days": 90,
            "api_url": url}]}]}},
    }});
    setup.folder().write("config.json", config.to_string());
    let server = setup
        .args(&["--config", "{folder}/config.json"])
        .env("ZEROSSL_KEY", "s3cret")
        .start();
    let connect = format!(
        "s_client -connect 127.0.0.1:{} -servername a.example.test -CAfile ca.pem \
         -verify_return_error -verify_hostname a.example.test",
        server.port
    );
    eventually(
        "a certificate of the authority",
        || {
            // Without a certificate nothing fails verification.
            let output = openssl(&folder, &connect);
            let is_there = output.contains("-----BEGIN CERTIFICATE-----");
            is_there && output.contains("Verify return code: 0 (ok)")
        },
        || server.stderr(),
    );
    // Afterwards the redirect is back.
    let request =
        format!("GET {FILE} HTTP/1.1\r\nHost: a.example.test\r\nConnection: close\r\n\r\n");
    assert_eq!(exchange(http, &request).status, 308);
    let stored = "data/sluice/certificates/zerossl/a.example.test/a.example.test.json";
    assert!(server.folder.read(stored).contains("0rder"));
    assert!(!server.stderr().contains("s3cret"), "{}", server.stderr());
}
