//! OCSP stapling, with OpenSSL as responder and client: both are independent of our code.

use std::process::{Child, Command, Stdio};

use crate::harness::{Folder, Setup, eventually, free_port, run_to_end, text};
use crate::support::abilities::has_openssl;

/// A responder for the certificate in its folder.
struct Responder {
    folder: Folder,
    port: u16,
    child: Child,
}

impl Responder {
    fn new() -> Responder {
        let port = free_port();
        Responder::apart(port, port)
    }

    /// One that listens on `port`, for a certificate that names the one on `named`.
    fn apart(port: u16, named: u16) -> Responder {
        let folder = Folder::new();
        let script = format!(
            "set -e\n\
             new='req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'\n\
             openssl $new -x509 -keyout ca.key -out ca.pem -subj /CN=ca -days 2\n\
             openssl $new -keyout leaf.key -out leaf.csr -subj /CN=localhost\n\
             echo subjectAltName=DNS:localhost > extensions\n\
             echo 'authorityInfoAccess=OCSP;URI:http://127.0.0.1:{named}/' >> extensions\n\
             openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -set_serial 0x1234 -days 2 \
             -extfile extensions -out leaf.pem\n\
             cat leaf.pem ca.pem > chain.pem\n\
             printf 'V\\t350101000000Z\\t\\t1234\\tunknown\\t/CN=localhost\\n' > index.txt\n"
        );
        folder.write("make", script);
        let made = Command::new("sh")
            .arg("make")
            .current_dir(folder.path())
            .stderr(Stdio::null())
            .status();
        assert!(made.expect("OpenSSL is installed").success());
        let child = Command::new("openssl")
            .args([
                "ocsp",
                "-port",
                &port.to_string(),
                "-index",
                "index.txt",
                "-ndays",
                "1",
            ])
            .args(["-CA", "ca.pem", "-rkey", "ca.key", "-rsigner", "ca.pem"])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("OpenSSL is installed");
        Responder {
            folder,
            port,
            child,
        }
    }

    fn caddyfile(&self, options: &str) -> String {
        let path = self.folder.path().display();
        format!(
            "{{\n\tadmin off\n\tauto_https off\n\tstorage file_system {path}/storage\n{options}}}\n\
             localhost:{{port}} {{\n\ttls {path}/chain.pem {path}/leaf.key\n\trespond hello\n}}\n"
        )
    }

    /// The output of a client about the certificate on `port`.
    fn status_text(&self, port: u16) -> String {
        let output = Command::new("openssl")
            .args([
                "s_client",
                "-connect",
                &format!("127.0.0.1:{port}"),
                "-status",
            ])
            .args(["-servername", "localhost", "-CAfile", "ca.pem"])
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("OpenSSL is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// An nginx.conf with these lines in its server.
    fn nginx(&self, lines: &str) -> Setup {
        let path = self.folder.path().display();
        crate::nginx::setup(&format!(
            "events {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{{port}} ssl;\nssl_certificate {path}/chain.pem;\n\
             ssl_certificate_key {path}/leaf.key;\nssl_stapling on;\n{lines}\nreturn 204;\n}}\n}}\n"
        ))
    }

    /// Writes an OCSP response for the certificate to `staple.der`.
    fn write_response(&self) {
        let script = "set -e\n\
             openssl ocsp -issuer ca.pem -cert leaf.pem -no_nonce -reqout ask.der\n\
             openssl ocsp -index index.txt -CA ca.pem -rsigner ca.pem -rkey ca.key -ndays 1 -reqin ask.der \
             -respout staple.der\n";
        self.folder.write("answer", script);
        let made = Command::new("sh")
            .arg("answer")
            .current_dir(self.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(made.expect("OpenSSL is installed").success());
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn ocsp_responses_are_stapled_and_survive_their_responder() {
    if !has_openssl() {
        return;
    }
    let mut responder = Responder::new();
    let server = Setup::new(&responder.caddyfile("")).start();
    let is_good = |port| responder.status_text(port).contains("Cert Status: good");
    eventually(
        "a staple",
        || is_good(server.port),
        || {
            format!(
                "{}\n{}",
                responder.status_text(server.port),
                server.stderr()
            )
        },
    );
    drop(server);
    responder.end();
    let server = Setup::new(&responder.caddyfile("")).start();
    let is_good = |port| responder.status_text(port).contains("Cert Status: good");
    eventually(
        "a staple from storage",
        || is_good(server.port),
        || server.stderr(),
    );
}

#[test]
fn nothing_is_stapled_where_that_is_switched_off() {
    if !has_openssl() {
        return;
    }
    let responder = Responder::new();
    let server = Setup::new(&responder.caddyfile("\tocsp_stapling off\n")).start();
    // Another server with the same certificate has a response by the time that this one is asked.
    let other = Setup::new(&responder.caddyfile("")).start();
    let is_good = || {
        responder
            .status_text(other.port)
            .contains("Cert Status: good")
    };
    eventually("a staple", is_good, || other.stderr());
    let status_text = responder.status_text(server.port);
    assert!(
        status_text.contains("OCSP response: no response sent"),
        "{status_text}"
    );
}

#[test]
fn ssl_stapling_file_is_stapled() {
    if !has_openssl() {
        return;
    }
    let mut responder = Responder::new();
    responder.end();
    responder.write_response();
    let file = responder.folder.path().join("staple.der");
    let server = responder
        .nginx(&format!("ssl_stapling_file {};", file.display()))
        .start();
    let status_text = responder.status_text(server.port);
    assert!(status_text.contains("Cert Status: good"), "{status_text}");
    drop(server);
    // A file that is not an OCSP response is rejected with its line.
    responder.folder.write("staple.der", "good");
    let setup = responder.nginx(&format!("ssl_stapling_file {};", file.display()));
    let checked = run_to_end(setup.folder(), &["validate", "--config", "nginx.conf"]);
    let said = text(&checked.stderr);
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(said.contains("it is not an OCSP response"), "{said}");
    assert!(said.contains("nginx.conf:8:1"), "{said}");
}

#[test]
fn ocsp_responders_of_nginx_conf_are_used() {
    if !has_openssl() {
        return;
    }
    let responder = Responder::apart(free_port(), free_port());
    let own = responder.port;
    let server = responder
        .nginx(&format!("ssl_stapling_responder http://127.0.0.1:{own}/;"))
        .start();
    let is_good = || {
        responder
            .status_text(server.port)
            .contains("Cert Status: good")
    };
    eventually("a staple", is_good, || server.stderr());
}
