//! Agents over ssh: the real client and the real server, with keys and configuration of their own in a temporary folder, on
//! a free port.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sluice_load::result::RunResult;

use crate::abilities::skipped;
use crate::agents::adds_up;
use crate::wait::eventually;
use crate::world::{Backend, Folder, LAB, is_there, output_text, port};

/// The server's program: it wants an absolute path.
const SSHD: &str = "/usr/sbin/sshd";

/// A server of ssh, and a folder with an `ssh` that reaches it as `generator`.
struct Ssh {
    folder: Folder,
    server: Child,
    /// `PATH` in which that `ssh` comes first.
    path: String,
}

impl Drop for Ssh {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn keygen(file: &str) {
    let words = ["-q", "-t", "ed25519", "-N", "", "-f", file];
    let output = Command::new("ssh-keygen").args(words).output().unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
}

/// Writes a file that only its owner can read, as ssh requires.
fn private(folder: &Folder, name: &str, text: &str) {
    fs::write(folder.0.join(name), text).unwrap();
    fs::set_permissions(folder.0.join(name), fs::Permissions::from_mode(0o700)).unwrap();
}

impl Ssh {
    /// Starts the server; `None` where it is not installed.
    fn start(name: &str) -> Option<Self> {
        if !Path::new(SSHD).is_file() || !is_there("ssh") {
            skipped("openssh-server or openssh-client is not installed");
            return None;
        }
        let folder = Folder::new(name);
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700)).unwrap();
        // The empty folder into which the server locks what it does before authentication; root only. Its package
        // creates it when it starts the service, which nobody does here.
        let _ = fs::create_dir_all("/run/sshd");
        keygen(&folder.file("host"));
        keygen(&folder.file("user"));
        let (at, bin) = (port(), Path::new(LAB).parent().unwrap().display());
        let dir = folder.0.display();
        let server = format!(
            "Port {at}\nListenAddress 127.0.0.1\nHostKey {dir}/host\nPidFile none\nUsePAM no\nStrictModes no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPubkeyAuthentication yes\nPermitRootLogin yes\n\
             AuthorizedKeysFile {dir}/user.pub\nSetEnv PATH={bin}:/usr/bin:/bin\n"
        );
        private(&folder, "sshd_config", &server);
        let key = fs::read_to_string(folder.file("host.pub")).unwrap();
        private(&folder, "known", &format!("[127.0.0.1]:{at} {key}"));
        let client = format!(
            "Host generator\n HostName 127.0.0.1\n Port {at}\n IdentityFile {dir}/user\n IdentitiesOnly yes\n\
             \x20UserKnownHostsFile {dir}/known\n GlobalKnownHostsFile none\n StrictHostKeyChecking yes\n"
        );
        private(&folder, "ssh_config", &client);
        // The lab runs `ssh` as it is in PATH, with the configuration of the user: here with this one.
        let script = format!("#!/bin/sh\nexec /usr/bin/ssh -F '{dir}/ssh_config' \"$@\"\n");
        private(&folder, "ssh", &script);
        let log = folder.file("log");
        let mut command = Command::new(SSHD);
        command.args(["-D", "-f", &folder.file("sshd_config"), "-E", &log]);
        let server = command.stdin(Stdio::null()).spawn().unwrap();
        let path = format!("{dir}:{}", std::env::var("PATH").unwrap_or_default());
        let ssh = Ssh {
            folder,
            server,
            path,
        };
        let log = || fs::read_to_string(&log).unwrap_or_default();
        let listens = || std::net::TcpStream::connect(("127.0.0.1", at)).is_ok();
        eventually("sshd", listens, log);
        Some(ssh)
    }

    fn lab(&self, words: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(LAB);
        let output = command
            .args(words)
            .env("PATH", &self.path)
            .output()
            .unwrap();
        let log = fs::read_to_string(self.folder.file("log")).unwrap_or_default();
        (
            output.status.code(),
            format!("{}\n{log}", output_text(&output)),
        )
    }
}

#[test]
fn agents_are_reached_over_ssh() {
    let Some(ssh) = Ssh::start("ssh") else {
        return;
    };
    let backend = Backend::start(&["respond", "--body", "hello"]);
    let (url, json) = (backend.url("/"), ssh.folder.file("hit.json"));
    let words = ["hit", &url, "-c", "4", "-d", "300ms", "--json", &json];
    let words = [
        &words[..],
        &["--agent", "ssh:generator", "--agent", "local"],
    ]
    .concat();
    let (code, text) = ssh.lab(&words);
    assert_eq!(code, Some(0), "{text}");
    let result: RunResult = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let load = &result.cells[0].blocks[0].load;
    adds_up(load, 2, &text, &text);
    assert_eq!(load.machines[0].name, "ssh:generator");
    // ssh asks nothing, and its message says what is wrong.
    let (code, text) = ssh.lab(&["hit", &url, "--agent", "ssh:nobody@generator"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("Permission denied"), "{text}");
    assert!(
        text.contains("agent ssh:nobody@generator: it ended before it was ready"),
        "{text}"
    );
}

#[test]
fn an_experiment_runs_with_an_agent_over_ssh() {
    let Some(ssh) = Ssh::start("ssh-run") else {
        return;
    };
    let text = r#"
schema = "sluice.lab/1"
name = "over-ssh"
title = "A load from another machine"
[matrix]
clients = [2]
[load]
duration = "300ms"
warmup = "100ms"
[repeat]
blocks = 2
again = 0
[place]
agents = ["ssh:generator"]
[test.direct]
path = "/"
expect = { status = 200, body = "hello" }
[subject.floor]
run = "{lab} serve null --listen {address}:{port} --body hello"
"#;
    let (file, out) = (ssh.folder.file("own.toml"), ssh.folder.file("out"));
    fs::write(&file, text).unwrap();
    let (code, text) = ssh.lab(&["run", &file, "--out", &out]);
    assert_eq!(code, Some(0), "{text}");
    let bytes = fs::read(format!("{out}/result.json")).unwrap();
    let result: RunResult = serde_json::from_slice(&bytes).unwrap();
    let blocks = &result.cells[0].blocks;
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        adds_up(&block.load, 1, "", &text);
        assert_eq!(block.load.machines[0].name, "ssh:generator");
    }
    // This machine generates nothing, so no CPU of it is the generator's.
    assert!(!result.machine.placement.contains_key("generator"));
    // The servers run there as well: ssh starts an agent that may run what the experiment names.
    let out = ssh.folder.file("servers");
    let (code, text) = ssh.lab(&["run", &file, "--out", &out, "--servers", "ssh:generator"]);
    assert_eq!(code, Some(0), "{text}");
    let bytes = fs::read(format!("{out}/result.json")).unwrap();
    let result: RunResult = serde_json::from_slice(&bytes).unwrap();
    for block in &result.cells[0].blocks {
        adds_up(&block.load, 1, "", &text);
        assert!(block.resources.as_ref().unwrap().subject.rss_peak_bytes > 0);
    }
    let note = "The machine described here is that of ssh:generator";
    assert!(
        result.notes.iter().any(|one| one.contains(note)),
        "{:?}",
        result.notes
    );
}
