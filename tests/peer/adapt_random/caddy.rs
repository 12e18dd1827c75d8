//! A running Caddy that adapts files over its admin API, which is a hundred times faster than a process for each.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Outcome;
use crate::support::program::Program;
use crate::support::temp_folder::TempFolder;

/// Caddy with nothing but its admin API.
pub struct Caddy {
    program: PathBuf,
    _running: Program,
    port: u16,
    home: TempFolder,
}

impl Caddy {
    pub fn start(program: &Path) -> Caddy {
        let port = crate::peer::peers::free_port();
        let home = TempFolder::new();
        let config = format!(
            "{{\"admin\":{{\"listen\":\"127.0.0.1:{port}\",\"config\":{{\"persist\":false}}}}}}"
        );
        let file = home.write("config.json", config);
        let mut command = Command::new(program);
        command
            .args(["run", "--config"])
            .arg(&file)
            .env_clear()
            .current_dir(home.path())
            .env("HOME", home.path())
            .env("XDG_DATA_HOME", home.path())
            .env("XDG_CONFIG_HOME", home.path());
        let running = Program::start(&mut command, home.path().join("log")).listening(port);
        Caddy {
            program: program.to_owned(),
            _running: running,
            port,
            home,
        }
    }

    pub fn adapt(&self, text: &str) -> Outcome {
        // The option `order` changes the order of every file that comes after it.
        match text.lines().any(|line| line.starts_with("order")) {
            true => self.adapt_alone(text),
            false => self.adapt_here(text),
        }
    }

    /// The output of `caddy fmt` for a text.
    pub fn format(&self, text: &str) -> String {
        self.home.write("untidy", text);
        let output = Command::new(&self.program)
            .args(["fmt", "untidy"])
            .env_clear()
            .current_dir(self.home.path())
            .output()
            .expect("the program starts");
        String::from_utf8(output.stdout).expect("it was UTF-8")
    }

    fn adapt_alone(&self, text: &str) -> Outcome {
        self.home.write("Caddyfile", text);
        let output = Command::new(&self.program)
            .args(["adapt", "--adapter", "caddyfile", "--config", "Caddyfile"])
            .env_clear()
            .current_dir(self.home.path())
            .env("HOME", self.home.path())
            .output()
            .expect("the program starts");
        match output.status.success() {
            true => Outcome::Json(serde_json::from_slice(&output.stdout).expect("it is JSON")),
            false => Outcome::Refused(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn adapt_here(&self, text: &str) -> Outcome {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("caddy runs");
        let head = format!(
            "POST /adapt HTTP/1.0\r\nHost: 127.0.0.1:{}\r\nContent-Type: text/caddyfile\r\nContent-Length: {}\r\n\r\n",
            self.port,
            text.len()
        );
        stream.write_all(head.as_bytes()).expect("caddy listens");
        stream.write_all(text.as_bytes()).expect("caddy listens");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("caddy answers");
        let (_, body) = response.split_once("\r\n\r\n").expect("a head and a body");
        let body: Value = serde_json::from_str(body).expect("the body is JSON");
        match body.get("result") {
            Some(result) => Outcome::Json(result.clone()),
            None => Outcome::Refused(body["error"].as_str().unwrap_or_default().to_owned()),
        }
    }
}
