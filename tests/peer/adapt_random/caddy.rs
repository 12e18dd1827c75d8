//! A running Caddy that adapts files over its admin API, which is a hundred times faster than a process for each.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Outcome;

/// Caddy with nothing but its admin API.
pub struct Caddy {
    program: PathBuf,
    child: Child,
    port: u16,
    home: PathBuf,
}

impl Caddy {
    pub fn start(program: &Path) -> Caddy {
        let port = crate::peers::free_port();
        let home = std::env::temp_dir().join(format!("sluice-peer-adapt-{port}"));
        std::fs::create_dir_all(&home).expect("the folder is writable");
        let file = home.join("config.json");
        let config = format!(
            "{{\"admin\":{{\"listen\":\"127.0.0.1:{port}\",\"config\":{{\"persist\":false}}}}}}"
        );
        std::fs::write(&file, config).expect("the folder is writable");
        let child = Command::new(program)
            .args(["run", "--config"])
            .arg(&file)
            .env_clear()
            .current_dir(&home)
            .env("HOME", &home)
            .env("XDG_DATA_HOME", &home)
            .env("XDG_CONFIG_HOME", &home)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "caddy does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Caddy {
            program: program.to_owned(),
            child,
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
        std::fs::write(self.home.join("untidy"), text).expect("the folder is writable");
        let output = Command::new(&self.program)
            .args(["fmt", "untidy"])
            .env_clear()
            .current_dir(&self.home)
            .output()
            .expect("the program starts");
        String::from_utf8(output.stdout).expect("it was UTF-8")
    }

    fn adapt_alone(&self, text: &str) -> Outcome {
        std::fs::write(self.home.join("Caddyfile"), text).expect("the folder is writable");
        let output = Command::new(&self.program)
            .args(["adapt", "--adapter", "caddyfile", "--config", "Caddyfile"])
            .env_clear()
            .current_dir(&self.home)
            .env("HOME", &self.home)
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

impl Drop for Caddy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.home);
    }
}
