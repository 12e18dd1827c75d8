//! Shared by the tests of the program: folders, upstreams, and running the program.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use sluice_load::result::{MarkKind, RunResult};

use crate::abilities::skipped;
use crate::ports::free_port;
use crate::wait::{TIMEOUT, until};

pub const LAB: &str = env!("CARGO_BIN_EXE_sluice-lab");

/// An experiment on the lab's own servers, with a test of responses of their own, and one of those of an upstream. `tables` are
/// `[repeat]` and `[place]`, `servers` the subjects.
pub fn experiment(clients: &str, tables: &str, servers: &str) -> String {
    format!(
        r#"
schema = "sluice.lab/1"
name = "own"
title = "The lab's own servers"
[matrix]
test = ["direct", "proxied"]
clients = {clients}
[load]
duration = "400ms"
warmup = "100ms"
{tables}
[[backend]]
name = "hello"
run = "{{lab}} serve respond --listen {{upstream.address}}:{{port}} --counts {{counts}} --body 'from behind'"
body = "from behind"
[test.direct]
path = "/"
expect = {{ status = 200, body = "hello" }}
[test.proxied]
path = "/"
needs = ["hello"]
expect = {{ status = 200, body_of = "hello" }}
assert = {{ backend_requests = "== requests", upstream_reuse = ">= 0.5" }}
{servers}
"#
    )
}

/// A server that responds itself, or forwards requests to the upstream, at the address of the experiment.
pub const FLOOR: &str = r#"
[subject.floor]
run = { direct = "{lab} serve respond --listen {address}:{port} --counts {dir}/direct --body hello", proxied = "{lab} serve relay {upstream.address}:{backend.hello} --listen {address}:{port}" }
"#;

/// A temporary folder of one test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lab-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether a program is installed.
pub fn is_there(program: &str) -> bool {
    sluice_load::process::find(program).is_some()
}

/// Whether a program is installed; if not, the test is reported as skipped.
pub fn installed(program: &str) -> bool {
    let found = is_there(program);
    if !found {
        skipped(format_args!("{program} is not installed"));
    }
    found
}

/// A free port.
pub fn port() -> u16 {
    free_port()
}

/// A server that ends with the test.
pub struct Backend {
    pub child: Child,
    pub port: u16,
}

impl Backend {
    /// One of the lab's own.
    pub fn start(words: &[&str]) -> Self {
        // Another process may take the port in between; then try another one.
        for _ in 0..5 {
            let port = port();
            let mut command = Command::new(LAB);
            command
                .arg("serve")
                .args(words)
                .args(["--listen", &format!("127.0.0.1:{port}")]);
            if let Some(backend) = Backend::of(command, port) {
                return backend;
            }
        }
        panic!("no port could be had");
    }

    /// Any server that will listen on a port; `None` if it exits instead.
    pub fn of(mut command: Command, port: u16) -> Option<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().unwrap();
        let mut backend = Backend { child, port };
        let look = || {
            let listens = TcpStream::connect(("127.0.0.1", port)).is_ok();
            let has_ended = backend.child.try_wait().unwrap().is_some();
            (listens || has_ended).then_some(listens)
        };
        let listens = until(TIMEOUT, "the port", look, String::new);
        listens.then_some(backend)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the program.
pub fn lab(words: &[&str]) -> Output {
    Command::new(LAB).args(words).output().unwrap()
}

/// The result that `run` has left in its folder.
pub fn result(out: &str) -> RunResult {
    serde_json::from_slice(&fs::read(format!("{out}/result.json")).unwrap()).unwrap()
}

/// Runs an experiment and returns its output and its result.
pub fn run(file: &str, out: &str, words: &[&str]) -> (String, RunResult) {
    let output = lab(&[&["run", file, "--out", out], words].concat());
    let text = output_text(&output);
    assert!(PathBuf::from(out).join("result.json").exists(), "{text}");
    (text, result(out))
}

/// Removes the marks of disturbance from a result, so that a test does not depend on other load on the machine.
pub fn quiet(out: &str) {
    let mut result = result(out);
    for block in result.cells.iter_mut().flat_map(|cell| &mut cell.blocks) {
        block.marks.retain(|mark| mark.kind != MarkKind::Disturbed);
    }
    let text = serde_json::to_vec(&result).unwrap();
    fs::write(format!("{out}/result.json"), text).unwrap();
}

/// Both outputs of a program.
pub fn output_text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    )
}

/// Runs `hit` and returns its output and its result.
pub fn hit(folder: &Folder, url: &str, words: &[&str]) -> (String, RunResult) {
    let json = folder.file("hit.json");
    let all = [&["hit", url, "--json", &json][..], words].concat();
    let output = lab(&all);
    assert!(output.status.success(), "{}", output_text(&output));
    let result = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    (output_text(&output), result)
}
