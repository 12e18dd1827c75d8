//! A server that may be replaced by new processes, and clients that notice if one of their requests fails.

use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use sluice_net::sys::process::{Signal, send};

use crate::client::{Client, Response, exchange};
use crate::harness::{Server, Setup, eventually, run_to_end, text};
use crate::nginx::prefix::is_alive;
use crate::support::executable::executable;

/// A server with a PID file; its processes end with it.
pub struct Running {
    /// The first process.
    pub server: Server,
}

impl Running {
    /// Starts `sluice run` with this Caddyfile, which must have an admin endpoint.
    pub fn start(caddyfile: &str) -> Running {
        Running::of(Setup::new(caddyfile))
    }

    pub fn of(setup: Setup) -> Running {
        let setup = setup.args(&["--pidfile", "{folder}/pid"]);
        Running {
            server: setup.start(),
        }
    }

    pub fn port(&self) -> u16 {
        self.server.port
    }

    /// The process that has written the PID file.
    pub fn pid(&self) -> Option<u32> {
        let path = self.server.folder.path().join("pid");
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    }

    /// `sluice upgrade-binary` with these flags.
    pub fn upgrade_with(&self, flags: &[&str]) -> Output {
        let address = format!("localhost:{}", self.server.admin);
        let mut args = vec!["upgrade-binary", "--address", &address];
        args.extend(flags);
        run_to_end(&self.server.folder, &args)
    }

    /// Upgrades, and returns the PID of the new process.
    pub fn upgrade(&self) -> u32 {
        let old = self.pid();
        let output = self.upgrade_with(&[]);
        assert!(
            output.status.success(),
            "{}{}",
            text(&output.stderr),
            self.server.stderr()
        );
        let new = self.pid();
        assert!(new.is_some() && new != old, "{old:?} {new:?}");
        new.expect("it has just been found")
    }

    /// Sends SIGUSR2 to the current process, and waits until a new one serves.
    pub fn upgrade_by_signal(&self) {
        let old = self.pid().expect("it runs");
        let taken = || {
            self.server
                .stderr()
                .matches("the new process serves")
                .count()
        };
        let before = taken();
        send(old, Signal::User2).expect("it runs");
        eventually(
            "the new process",
            || taken() > before,
            || self.server.stderr(),
        );
        assert_ne!(self.pid(), Some(old));
    }

    /// Why an upgrade with these flags fails.
    pub fn refusal(&self, flags: &[&str]) -> String {
        let output = self.upgrade_with(flags);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
        text(&output.stderr)
    }

    /// A program for the server to start.
    pub fn program(&self, script: &str) -> String {
        let path = executable(self.server.folder.path(), "program", script);
        path.to_string_lossy().into_owned()
    }

    /// Sends a configuration to the admin endpoint.
    pub fn load(&self, caddyfile: &str) -> Response {
        let admin = self.server.admin;
        let body = caddyfile
            .replace("{port}", &self.port().to_string())
            .replace("{admin}", &admin.to_string());
        let request = format!(
            "POST /load HTTP/1.1\r\nHost: localhost:{admin}\r\nContent-Type: text/caddyfile\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        exchange(admin, request)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(pid) = self.pid().filter(|pid| *pid != self.server.pid()) else {
            return;
        };
        if is_alive(pid) {
            let _ = send(pid, Signal::Quit);
            eventually("the end", || !is_alive(pid), || self.server.stderr());
        }
    }
}

/// Clients that send requests without end; none may fail.
pub struct Clients {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Clients {
    /// `connections` of which each sends one request after the other as long as the server keeps it, in a few threads, and one
    /// thread with a connection for each request.
    pub fn start(port: u16, path: &str, connections: usize) -> Clients {
        let (stop, done) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let shares = [connections / 3, connections / 3, connections / 3, 0];
        let threads = shares.into_iter().map(|kept| {
            let (stop, done, path) = (stop.clone(), done.clone(), path.to_owned());
            thread::spawn(move || {
                let mut all: Vec<Client> = (0..kept).map(|_| Client::connect(port)).collect();
                while !stop.load(Ordering::Acquire) {
                    if kept == 0 {
                        let response = Client::connect(port).get(&path);
                        assert_eq!(response.status, 200, "{}", response.head);
                        done.fetch_add(1, Ordering::AcqRel);
                    }
                    for client in &mut all {
                        let response = client.get(&path);
                        assert_eq!(response.status, 200, "{}", response.head);
                        done.fetch_add(1, Ordering::AcqRel);
                        if response.field("Connection") == Some("close") {
                            *client = Client::connect(port);
                        }
                    }
                }
            })
        });
        Clients {
            threads: threads.collect(),
            stop,
            done,
        }
    }

    /// Waits until so many more requests have got a response.
    pub fn wait_for(&self, more: u64) {
        let done = || self.done.load(Ordering::Acquire);
        let target = done() + more;
        eventually("responses", || done() >= target, || done().to_string());
    }

    /// Stops them; fails if a request has failed. Returns how many succeeded.
    pub fn end(self) -> u64 {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads {
            thread.join().expect("each request has its response");
        }
        self.done.load(Ordering::Acquire)
    }
}
