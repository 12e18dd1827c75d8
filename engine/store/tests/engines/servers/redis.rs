//! Redis servers.

use std::process::Command;
use std::time::Duration;

use sluice_store::redis::{RedisOptions, RedisServers, RedisStore};

use super::{Engine, SHORT_LEASE};
use crate::abilities::can_run;
use crate::ports::free_port;
use crate::temp_folder::TempFolder;

/// A server in a temporary folder.
pub struct Server {
    engine: Engine,
    pub port: u16,
    folder: TempFolder,
    arguments: Vec<String>,
}

impl Server {
    /// A server with more arguments; `None` if Redis is not installed, which is reported.
    #[track_caller]
    pub fn start(more: &[&str]) -> Option<Server> {
        if !can_run("redis-server", &["--version"]) || !can_run("redis-cli", &["--version"]) {
            return None;
        }
        let folder = TempFolder::in_memory();
        let port = free_port();
        let plain = match more.contains(&"--tls-port") {
            true => "0".to_owned(),
            false => port.to_string(),
        };
        let mut arguments = vec!["--port".to_owned(), plain];
        let dir = folder.path().display().to_string();
        for text in ["--bind", "127.0.0.1", "--save", "", "--dir", &*dir] {
            arguments.push(text.to_owned());
        }
        let port_text = port.to_string();
        for &text in more {
            arguments.push(if text == "PORT" {
                port_text.clone()
            } else {
                text.to_owned()
            });
        }
        let log = folder.path().join("redis.log");
        let engine = Engine::start(Command::new("redis-server").args(&arguments), &log);
        let mut server = Server {
            engine,
            port,
            folder,
            arguments,
        };
        server.wait();
        Some(server)
    }

    fn wait(&mut self) {
        let port = self.port;
        let is_listening = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        self.engine.wait_until(is_listening);
    }

    pub fn options(&self) -> RedisOptions {
        RedisOptions {
            servers: RedisServers::Single("127.0.0.1".to_owned(), self.port),
            poll: Duration::from_millis(200),
            ..RedisOptions::default()
        }
    }

    pub fn store(&self) -> RedisStore {
        RedisStore::open(&self.options()).unwrap()
    }

    /// Runs redis-cli and returns its output.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args([
                "-h",
                "127.0.0.1",
                "-p",
                &self.port.to_string(),
                "--no-auth-warning",
            ])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn id(&self) -> u32 {
        self.engine.id()
    }

    pub fn kill(&mut self) {
        self.engine.kill();
    }

    /// Starts it again after it was killed.
    pub fn restart(&mut self) {
        let log = self.folder.path().join("redis-again.log");
        self.engine = Engine::start(Command::new("redis-server").args(&self.arguments), &log);
        self.wait();
    }
}

/// A store on one server, with leases of a short time.
pub fn open(port: &str) -> RedisStore {
    let options = RedisOptions {
        servers: RedisServers::Single("127.0.0.1".to_owned(), port.parse().unwrap()),
        lease_ttl: SHORT_LEASE,
        ..RedisOptions::default()
    };
    RedisStore::open(&options).unwrap()
}
