//! `hit --h3` against the server of this project, which is built beside the program: nothing is lost, and each failure has
//! its class.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use sluice_load::generator::probe::sha256;
use sluice_load::result::{FailureClass, Load, RunResult};

use crate::abilities::skipped;
use crate::world::{Backend, Folder, LAB, hit, lab, output_text, port};

/// The server's program. `cargo test --workspace` builds it for its own tests.
fn program() -> Option<PathBuf> {
    let program = Path::new(LAB).with_file_name("sluice");
    if !program.is_file() {
        skipped("sluice is not built: `cargo build -p sluice`");
        return None;
    }
    Some(program)
}

/// A server, and what its clients trust.
struct Site {
    program: PathBuf,
    folder: Folder,
    admin: u16,
    server: Backend,
}

impl Site {
    /// A server with these lines in its site; `None` if it is not built.
    fn start(name: &str, lines: &str, files: &[(&str, &[u8])]) -> Option<Site> {
        let (program, folder, admin) = (program()?, Folder::new(name), port());
        for (name, content) in files {
            fs::write(folder.0.join(name), content).unwrap();
        }
        // Another process may take the port in between; then try another one.
        for _ in 0..5 {
            let port = port();
            fs::write(
                folder.0.join("Caddyfile"),
                caddyfile(&folder, admin, port, lines),
            )
            .unwrap();
            let mut command = Command::new(&program);
            command.current_dir(&folder.0).env("HOME", &folder.0);
            command.args(["run", "--config", "Caddyfile"]);
            let log = fs::File::create(folder.0.join("log")).unwrap();
            command.stderr(log);
            if let Some(server) = Backend::of(command, port) {
                return Some(Site {
                    program,
                    folder,
                    admin,
                    server,
                });
            }
        }
        panic!("{}", fs::read_to_string(folder.0.join("log")).unwrap());
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.server.port)
    }

    /// The certificate of the server's local CA.
    fn root(&self) -> String {
        self.folder.file("store/pki/authorities/local/root.crt")
    }

    fn hit(&self, path: &str, words: &[&str]) -> (String, Load) {
        let root = self.root();
        let words = [&["--h3", "--ca", &root][..], words].concat();
        let (text, result) = hit(&self.folder, &self.url(path), &words);
        (text, load(&result))
    }

    fn reload(&self, lines: &str) {
        let text = caddyfile(&self.folder, self.admin, self.server.port, lines);
        fs::write(self.folder.0.join("Caddyfile"), text).unwrap();
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.folder.0)
            .env("HOME", &self.folder.0);
        command.args(["reload", "--config", "Caddyfile"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", output_text(&output));
    }
}

fn caddyfile(folder: &Folder, admin: u16, port: u16, lines: &str) -> String {
    let dir = folder.0.display();
    format!(
        "{{\n\tadmin localhost:{admin}\n\tstorage file_system {dir}/store\n\thttps_port {port}\n\
         \tauto_https disable_redirects\n\tskip_install_trust\n}}\n\
         localhost {{\n\ttls internal\n\troot * {dir}\n{lines}\n}}\n"
    )
}

fn load(result: &RunResult) -> Load {
    result.cells[0].blocks[0].load.clone()
}

#[track_caller]
fn assert_lossless(text: &str, load: &Load, requests: u64) {
    assert_eq!((load.ok, load.failed()), (requests, 0), "{text}");
    assert_eq!(load.asked.protocol, "h3", "{text}");
    assert_eq!(load.connections.alpn.as_deref(), Some("h3"), "{text}");
    assert_eq!(load.connections.closed_by_server, 0, "{text}");
}

#[test]
fn small_and_large_responses_arrive_whole() {
    let large: Vec<u8> = (0..1_000_003_u32).map(|at| (at % 251) as u8).collect();
    let lines = "\thandle /proto {\n\t\trespond {http.request.proto}\n\t}\n\tfile_server";
    let Some(site) = Site::start("h3-bodies", lines, &[("large.bin", &large)]) else {
        return;
    };
    let proto = format!("sha256:{}", sha256(b"HTTP/3.0"));
    let words = ["-n", "600", "-c", "3", "--depth", "8", "--verify", &proto];
    let (text, small) = site.hit("/proto", &words);
    assert_lossless(&text, &small, 600);
    assert_eq!(small.connections.opened, 3, "{text}");
    assert!(text.contains("h3, closed loop"), "{text}");
    let whole = format!("sha256:{}", sha256(&large));
    let words = ["-n", "40", "-c", "2", "--depth", "4", "--verify", &whole];
    let (text, large) = site.hit("/large.bin", &words);
    assert_lossless(&text, &large, 40);
    // A connection for each request.
    let words = ["-n", "30", "-c", "2", "--requests-per-connection", "1"];
    let (text, each) = site.hit("/proto", &words);
    assert_lossless(&text, &each, 30);
    assert_eq!(each.connections.opened, 30, "{text}");
    let (text, missing) = site.hit("/missing", &["-n", "20", "--expect-status", "404"]);
    assert_lossless(&text, &missing, 20);
    assert!(missing.asked.verify.contains("404"), "{text}");
}

#[test]
fn uploads_come_back_whole() {
    let lines = "\trequest_body {\n\t\tmax_size 1MB\n\t}\n\trespond \"{http.request.body}\"";
    let body = "0123456789abcdef".repeat(15_001);
    let Some(site) = Site::start("h3-uploads", lines, &[("up.txt", body.as_bytes())]) else {
        return;
    };
    let file = format!("@{}", site.folder.file("up.txt"));
    let echo = format!("sha256:{}", sha256(body.as_bytes()));
    let words = ["-n", "60", "-c", "2", "--depth", "3", "--method", "POST"];
    let more = ["--body", &file, "--verify", &echo];
    let (text, load) = site.hit("/", &[&words[..], &more].concat());
    assert_lossless(&text, &load, 60);
    assert_eq!(load.asked.request_body_bytes, body.len() as u64);
}

#[test]
fn the_open_loop_counts_all_that_are_due() {
    let Some(site) = Site::start("h3-open", "\trespond hello", &[]) else {
        return;
    };
    let words = ["--rate", "200", "-c", "5", "-d", "1s", "--warmup", "0s"];
    let (text, load) = site.hit("/", &words);
    assert_eq!(load.due, Some(load.ok + load.failed()), "{text}");
    assert_eq!(load.failed(), 0, "{text}");
    assert!(load.latency.wait.is_some(), "{text}");
}

#[test]
fn reloads_under_load_lose_no_request_and_no_connection() {
    let Some(site) = Site::start("h3-reload", "\trespond hello", &[]) else {
        return;
    };
    let words = ["-n", "3000", "-c", "3", "--depth", "2"];
    thread::scope(|scope| {
        let load = scope.spawn(|| site.hit("/", &words));
        let mut number = 0;
        loop {
            number += 1;
            site.reload(&format!("\theader X-Reload {number}\n\trespond hello"));
            if load.is_finished() {
                break;
            }
        }
        let (text, load) = load.join().unwrap();
        assert_lossless(&text, &load, 3000);
        assert_eq!(load.connections.opened, 3, "{text}");
    });
}

#[test]
fn failures_of_the_handshake_are_named() {
    let Some(site) = Site::start("h3-handshake", "\trespond hello", &[]) else {
        return;
    };
    let stranger = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let other = site.folder.file("other.pem");
    fs::write(&other, stranger.cert.pem()).unwrap();
    let nobody = format!("https://localhost:{}/", port());
    let url = site.url("/");
    for (url, words, class) in [
        (&url, ["--ca", &other], FailureClass::Certificate),
        (&nobody, ["--h3", "--insecure"], FailureClass::Refused),
    ] {
        let mut all = vec!["hit", url, "-n", "1"];
        all.extend(words.iter().filter(|word| **word != "--h3"));
        all.push("--h3");
        let output = lab(&all);
        let text = output_text(&output);
        assert!(!output.status.success(), "{text}");
        assert!(text.contains(class.words()), "{text}");
    }
    let output = lab(&["hit", &url, "--h3", "--insecure", "--idle", "3"]);
    assert!(output_text(&output).contains("remove --h3"));
    let output = lab(&["hit", &url, "--h3", "--insecure", "--tls-version", "1.2"]);
    assert!(output_text(&output).contains("HTTP/3 needs TLS 1.3"));
}
