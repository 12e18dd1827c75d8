//! The engines that fleets share, started by a test on free ports and ended with it.

use std::process::Command;
use std::sync::Arc;

use sluice_store::etcd::{EtcdOptions, EtcdStore};
use sluice_store::{Guard, Key, Store, Write};

use crate::harness::{Folder, finish, free_port, text};
use crate::support::abilities::can_run;
use crate::support::program::Program;

/// An etcd of one member.
pub struct Etcd {
    /// Its process, unless it was killed.
    program: Option<Program>,
    pub port: u16,
    folder: Folder,
    arguments: Vec<String>,
}

impl Etcd {
    /// Starts it; `None` if etcd is not installed, which is reported.
    #[track_caller]
    pub fn start() -> Option<Etcd> {
        if !can_run("etcd", &["--version"]) || !can_run("etcdctl", &["--help"]) {
            return None;
        }
        let folder = Folder::new();
        let (port, peer) = (free_port(), free_port());
        let data = folder.path().join("data").display().to_string();
        let urls = [("client", port), ("peer", peer)];
        let mut arguments = vec![
            "--name=m".to_owned(),
            format!("--data-dir={data}"),
            format!("--initial-cluster=m=http://127.0.0.1:{peer}"),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
            format!("--advertise-client-urls=http://127.0.0.1:{port}"),
            // Nothing of a test survives it.
            "--unsafe-no-fsync".to_owned(),
        ];
        let listen = |(kind, port)| format!("--listen-{kind}-urls=http://127.0.0.1:{port}");
        arguments.extend(urls.map(listen));
        let mut etcd = Etcd {
            program: None,
            port,
            folder,
            arguments,
        };
        etcd.resume();
        Some(etcd)
    }

    /// Starts it again after it was stopped, and waits until it accepts writes.
    pub fn resume(&mut self) {
        let mut command = Command::new("etcd");
        command.args(&self.arguments);
        let program = Program::start(&mut command, self.folder.path().join("log"));
        let store = self.store();
        self.program = Some(program.waiting(|| store.break_lease("ready").is_ok()));
    }

    /// Stops it.
    pub fn stop(&mut self) {
        self.program = None;
    }

    /// The URL of a key, with a login such as `user:password@` or none.
    pub fn url(&self, login: &str) -> String {
        format!("etcd://{login}127.0.0.1:{}/sluice/prod", self.port)
    }

    /// Runs etcdctl.
    pub fn control(&self, arguments: &[&str]) {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3");
        command.arg(format!("--endpoints=http://127.0.0.1:{}", self.port));
        let output = finish(command.args(arguments));
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    /// The value of a key, as text.
    pub fn get(&self, key: &str) -> String {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3");
        command.arg(format!("--endpoints=http://127.0.0.1:{}", self.port));
        text(&finish(command.args(["get", "--print-value-only", key])).stdout)
    }

    /// Writes the configuration as an operator with another tool.
    pub fn put(&self, configuration: &str) {
        let key = Key::new("prod").expect("a key");
        let write = [Write::Put(&key, configuration.as_bytes())];
        self.store().save(&write, Guard::Always).expect("it runs");
    }

    /// The configuration.
    pub fn text(&self) -> String {
        let key = Key::new("prod").expect("a key");
        let found = self.store().load(&[&key]).expect("it runs").pop();
        let value = found.flatten().expect("there is one");
        text(&value.bytes)
    }

    fn store(&self) -> Arc<EtcdStore> {
        let options = EtcdOptions {
            endpoints: vec![format!("http://127.0.0.1:{}", self.port)],
            ..EtcdOptions::default()
        };
        Arc::new(EtcdStore::open(&options).expect("the options are valid"))
    }
}

/// A Redis with a password.
pub struct Redis {
    _program: Program,
    _folder: Folder,
    port: u16,
}

impl Redis {
    pub const PASSWORD: &str = "hard to guess";

    /// Starts it; `None` if Redis is not installed, which is reported.
    #[track_caller]
    pub fn start() -> Option<Redis> {
        if !can_run("redis-server", &["--version"]) {
            return None;
        }
        let folder = Folder::new();
        let port = free_port();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--port"]);
        command.args([&port.to_string(), "--requirepass", Self::PASSWORD]);
        command.arg("--dir").arg(folder.path());
        let program = Program::start(&mut command, folder.path().join("log")).listening(port);
        Some(Redis {
            _program: program,
            _folder: folder,
            port,
        })
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/sluice/prod", self.port)
    }
}
