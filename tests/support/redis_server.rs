//! A real `redis-server` on a free port, in a temporary folder, ended on drop.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;

use super::abilities::can_run;
use super::ports::free_port;
use super::program::Program;
use super::temp_folder::TempFolder;

/// A running server.
pub struct RedisServer {
    pub port: u16,
    folder: TempFolder,
    args: Vec<String>,
    program: Option<Program>,
}

impl RedisServer {
    /// Starts one; `None` if it is not installed, and then the test is reported as skipped.
    #[track_caller]
    pub fn start(args: &[&str]) -> Option<RedisServer> {
        if !can_run("redis-server", &["--version"]) {
            return None;
        }
        let mut server = RedisServer {
            port: free_port(),
            folder: TempFolder::new(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            program: None,
        };
        server.restart();
        Some(server)
    }

    /// Ends it.
    pub fn stop(&mut self) {
        self.program = None;
    }

    /// Starts it again on the same port, without its data.
    pub fn restart(&mut self) {
        self.program = None;
        let port = self.port.to_string();
        let mut command = Command::new("redis-server");
        command
            .current_dir(self.folder.path())
            .args(["--bind", "127.0.0.1", "--port", &port])
            .args(["--save", "", "--appendonly", "no"])
            .args(&self.args);
        let log = self.folder.path().join("log");
        self.program = Some(Program::start(&mut command, log).listening(self.port));
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The lines of its reply to a command of words without spaces, up to `count`.
    pub fn ask(&self, command: &str, count: usize) -> Vec<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens");
        stream
            .write_all(format!("{command}\r\n").as_bytes())
            .expect("it reads");
        let lines = BufReader::new(stream).lines().take(count);
        lines.map(|line| line.expect("it replies")).collect()
    }

    /// The microseconds of its clock.
    pub fn micros(&self) -> u64 {
        let lines = self.ask("TIME", 5);
        let number = |at: usize| lines[at].parse::<u64>().expect("a number");
        number(2) * 1_000_000 + number(4)
    }
}
