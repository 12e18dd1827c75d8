//! A folder for `sluice nginx -p`, and a background server that is stopped with it.

use std::process::Output;

use sluice_net::sys::process::{Signal, send};

use crate::harness::{Folder, eventually, free_port, run_to_end, text};

/// A site whose paths are all relative to its folder.
pub const SITE: &str = "\
    pid logs/nginx.pid;\nerror_log logs/error.log notice;\nevents { worker_connections 100; }\n\
    http {\nserver {\nlisten 127.0.0.1:{port};\nlocation / { return 200 \"{response}\"; }\n\
    location /files/ { alias html/; }\naccess_log logs/access.log;\n}\n}\n";

/// An nginx prefix, with its configuration and the files it serves.
pub struct Prefix {
    pub folder: Folder,
    pub port: u16,
}

impl Prefix {
    pub fn new() -> Prefix {
        let prefix = Prefix {
            folder: Folder::new(),
            port: free_port(),
        };
        prefix.folder.write("html/a.txt", "a file");
        prefix.folder.write("logs/error.log", "");
        prefix.configure(SITE, "one");
        prefix
    }

    pub fn configure(&self, conf: &str, response: &str) {
        let conf = conf.replace("{port}", &self.port.to_string());
        let conf = conf.replace("{response}", response);
        self.folder.write("nginx.conf", conf);
    }

    /// Runs `sluice nginx -p … -c nginx.conf` with additional arguments. What it logs before it reads the configuration, and
    /// what `-s` logs, goes to `logs/start.log`: the usual file, `/var/log/nginx/error.log`, can be opened only where nginx is
    /// installed.
    pub fn run(&self, words: &[&str]) -> Output {
        let folder = self.folder.path().to_string_lossy().into_owned();
        let log = "logs/start.log";
        let mut all = vec!["nginx", "-p", &folder, "-e", log, "-c", "nginx.conf"];
        all.extend(words);
        run_to_end(&self.folder, &all)
    }

    pub fn said(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.run(words);
        (output.status.code(), text(&output.stderr))
    }

    pub fn pid(&self) -> Option<u32> {
        self.folder.read("logs/nginx.pid").trim().parse().ok()
    }

    pub fn conf(&self) -> String {
        self.folder
            .path()
            .join("nginx.conf")
            .to_string_lossy()
            .into_owned()
    }

    pub fn errors(&self) -> String {
        self.folder.read("logs/error.log")
    }

    /// Waits until the process is gone.
    pub fn wait_for_end(&self, pid: u32) {
        let gone = || !is_alive(pid);
        eventually("the end", gone, || self.errors());
    }
}

impl Drop for Prefix {
    fn drop(&mut self) {
        if let Some(pid) = self.pid().filter(|pid| is_alive(*pid)) {
            let _ = send(pid, Signal::Terminate);
            eventually("the end", || !is_alive(pid), || self.errors());
        }
    }
}

/// Whether the process is running: an orphan that is not reaped stays as a zombie.
pub fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").starts_with(" Z"))
}
