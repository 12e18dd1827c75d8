//! The servers that are reloaded and upgraded, each by its own means.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sluice_net::sys::process::{Signal, send};

use crate::client::{Client, exchange};
use crate::harness::{Folder, Setup, eventually, free_port};
use crate::nginx::prefix::is_alive;
use crate::support::program::Program;
use crate::upgrade::running::Running;

/// The site for sluice and for Caddy.
const CADDYFILE: &str = "{\n\tadmin localhost:{admin}\n\tpersist_config off\n\tauto_https off\n}\n\
    http://:{port} {\n\troot {folder}/www\n\trespond /word WORD\n\treverse_proxy /chat 127.0.0.1:UPSTREAM\n\tfile_server\n}\n";

/// The same for nginx and for `sluice nginx`.
const CONF: &str = "OWN worker_processes 2;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log notice;\n\
    events { worker_connections 4096; }\nhttp {\naccess_log off;\nsend_timeout 1h;\nTEMP\nserver {\n\
    listen 127.0.0.1:{port};\nroot {folder}/www;\nlocation = /word { return 200 WORD; }\nlocation = /large {}\n\
    location = /chat { proxy_pass http://127.0.0.1:UPSTREAM; proxy_http_version 1.1; proxy_read_timeout 1h;\n\
    proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }\n}\n}\n";

/// nginx refuses an upgrade until the process of the one before has ended, so its long connections must end.
const CUT_OFF: &str = "worker_shutdown_timeout 1s;\n";

/// What a test does to a server.
pub trait Replaceable {
    fn name(&self) -> &'static str;

    fn port(&self) -> u16;

    /// Loads the configuration that responds with `word`.
    fn reload(&mut self, word: &str);

    /// Replaces the process. `false` if the server has no such thing.
    fn upgrade(&mut self) -> bool;

    /// Its log, for a failure.
    fn log(&self) -> String;

    /// The processes of before that have not ended.
    fn old_processes(&self) -> Vec<u32>;
}

/// Waits until a new connection gets the response of the latest configuration. Refused connections are counted by the clients.
pub fn wait_for_word(port: u16, word: &str, log: impl Fn() -> String) {
    let says = || -> Option<bool> {
        let mut client = Client::try_connect(port).ok()?;
        let request = "GET /word HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        client.try_send(request).ok()?;
        Some(client.try_response().ok()?.text() == word)
    };
    eventually(word, || says() == Some(true), log);
}

/// `sluice run` with a Caddyfile: reloads by signal and by the admin API in turn, upgrades by signal and by the command.
pub struct Sluice {
    running: Running,
    caddyfile: String,
    pids: Vec<u32>,
    turn: usize,
}

impl Sluice {
    pub fn start(upstream: u16, large: &[u8]) -> Sluice {
        let caddyfile = CADDYFILE.replace("UPSTREAM", &upstream.to_string());
        let setup = Setup::new(&caddyfile.replace("WORD", "word-0"));
        setup.folder().write("www/large", large);
        let caddyfile = setup.fill(&caddyfile);
        Sluice {
            running: Running::of(setup),
            caddyfile,
            pids: Vec::new(),
            turn: 0,
        }
    }
}

impl Replaceable for Sluice {
    fn name(&self) -> &'static str {
        "sluice run"
    }

    fn port(&self) -> u16 {
        self.running.port()
    }

    fn reload(&mut self, word: &str) {
        let text = self.caddyfile.replace("WORD", word);
        self.running.server.folder.write("Caddyfile", &text);
        self.turn += 1;
        if self.turn.is_multiple_of(2) {
            let pid = self.running.pid().expect("it runs");
            send(pid, Signal::Hangup).expect("it runs");
        } else {
            let response = self.running.load(&text);
            assert_eq!(response.status, 200, "{}", response.text());
        }
    }

    fn upgrade(&mut self) -> bool {
        self.pids.extend(self.running.pid());
        self.turn += 1;
        match self.turn.is_multiple_of(2) {
            true => self.running.upgrade_by_signal(),
            false => _ = self.running.upgrade(),
        }
        true
    }

    fn log(&self) -> String {
        self.running.server.stderr()
    }

    fn old_processes(&self) -> Vec<u32> {
        let alive = self.pids.iter().filter(|pid| is_alive(**pid));
        alive.copied().collect()
    }
}

/// nginx, or `sluice nginx` in its place: both obey nginx's signals.
pub struct NginxLike {
    name: &'static str,
    folder: Folder,
    port: u16,
    conf: String,
    pids: Vec<u32>,
}

impl NginxLike {
    pub fn nginx(program: &Path, upstream: u16, large: &[u8]) -> NginxLike {
        let temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {{folder}}/temp-{name};\n"))
            .concat();
        let conf = CONF.replace("OWN", "user root;\n").replace("TEMP", &temp);
        NginxLike::start("nginx", Command::new(program), &conf, (upstream, large))
    }

    pub fn sluice(upstream: u16, large: &[u8]) -> NginxLike {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.arg("nginx");
        let conf = CONF.replace("OWN", "").replace("TEMP", "");
        NginxLike::start("sluice nginx", command, &conf, (upstream, large))
    }

    /// Starts it in the background: nginx ignores SIGUSR2 in the foreground.
    fn start(
        name: &'static str,
        mut command: Command,
        conf: &str,
        (upstream, large): (u16, &[u8]),
    ) -> NginxLike {
        let (folder, port) = (Folder::new(), free_port());
        let path = folder.path().to_string_lossy().into_owned();
        let conf = conf.replace("{port}", &port.to_string());
        let conf = conf.replace("UPSTREAM", &upstream.to_string());
        let server = NginxLike {
            name,
            conf: conf.replace("{folder}", &path),
            folder,
            port,
            pids: Vec::new(),
        };
        server.folder.write("www/large", large);
        server.configure("word-0");
        command.args(["-p", &path, "-e", "start.log", "-c", "nginx.conf"]);
        command.env("HOME", &path).current_dir(&path);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let status = command.stderr(Stdio::null()).status();
        assert!(status.expect("it starts").success(), "{}", server.log());
        let is_there = || server.pid().is_some();
        eventually("the PID file", is_there, || server.log());
        server
    }

    fn configure(&self, word: &str) {
        self.folder
            .write("nginx.conf", self.conf.replace("WORD", word));
    }

    fn pid(&self) -> Option<u32> {
        self.folder.read("nginx.pid").trim().parse().ok()
    }
}

impl Replaceable for NginxLike {
    fn name(&self) -> &'static str {
        self.name
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn reload(&mut self, word: &str) {
        self.configure(word);
        send(self.pid().expect("it runs"), Signal::Hangup).expect("it runs");
    }

    /// SIGUSR2 starts the new process, SIGQUIT ends the old one.
    fn upgrade(&mut self) -> bool {
        let old = self.pid().expect("it runs");
        if self.name == "nginx" && self.pids.is_empty() {
            self.conf.insert_str(0, CUT_OFF);
            self.reload("word-cut-off");
            wait_for_word(self.port, "word-cut-off", || self.log());
        }
        send(old, Signal::User2).expect("it runs");
        let is_new = || self.pid().is_some_and(|pid| pid != old);
        eventually("the new process", is_new, || self.log());
        self.pids.push(old);
        // Both serve until here, so the new one has to be there before the old one leaves.
        wait_for_workers(self.pid().expect("it is there"), self.name, || self.log());
        send(old, Signal::Quit).expect("it runs");
        if self.name == "nginx" {
            eventually("the end of the old one", || !is_alive(old), || self.log());
        }
        true
    }

    fn log(&self) -> String {
        self.folder.read("start.log") + &self.folder.read("error.log")
    }

    fn old_processes(&self) -> Vec<u32> {
        let alive = self.pids.iter().filter(|pid| is_alive(**pid));
        alive.copied().collect()
    }
}

/// nginx writes the PID file before it starts its workers, sluice when it serves.
fn wait_for_workers(master: u32, name: &str, log: impl Fn() -> String) {
    if name != "nginx" {
        return;
    }
    let path = format!("/proc/{master}/task/{master}/children");
    let has_children = || std::fs::read_to_string(&path).is_ok_and(|text| !text.trim().is_empty());
    eventually("its workers", has_children, log);
}

impl Drop for NginxLike {
    fn drop(&mut self) {
        let mut all = self.old_processes();
        all.extend(self.pid().filter(|pid| is_alive(*pid)));
        for pid in all {
            let _ = send(pid, Signal::Terminate);
            eventually("the end", || !is_alive(pid), || self.log());
        }
    }
}

/// Caddy, reloaded through its admin API. It has no binary upgrade: `caddy upgrade` restarts it.
pub struct Caddy {
    program: Program,
    _folder: Folder,
    caddyfile: String,
    port: u16,
    admin: u16,
}

impl Caddy {
    pub fn start(binary: &PathBuf, upstream: u16, large: &[u8]) -> Caddy {
        let (folder, port, admin) = (Folder::new(), free_port(), free_port());
        folder.write("www/large", large);
        let path = folder.path();
        let caddyfile = CADDYFILE
            .replace("UPSTREAM", &upstream.to_string())
            .replace("{port}", &port.to_string())
            .replace("{admin}", &admin.to_string())
            .replace("{folder}", &path.to_string_lossy());
        let file = folder.write("Caddyfile", caddyfile.replace("WORD", "word-0"));
        let mut command = Command::new(binary);
        command.args(["run", "--adapter", "caddyfile", "--config"]);
        command.arg(file).env("HOME", path);
        command
            .env("XDG_DATA_HOME", path)
            .env("XDG_CONFIG_HOME", path);
        let program = Program::start(&mut command, path.join("log")).listening(port);
        Caddy {
            program,
            _folder: folder,
            caddyfile,
            port,
            admin,
        }
    }
}

impl Replaceable for Caddy {
    fn name(&self) -> &'static str {
        "Caddy"
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn reload(&mut self, word: &str) {
        let (admin, body) = (self.admin, self.caddyfile.replace("WORD", word));
        let response = exchange(
            admin,
            format!(
                "POST /load HTTP/1.1\r\nHost: localhost:{admin}\r\nContent-Type: text/caddyfile\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            ),
        );
        assert_eq!(response.status, 200, "{}", response.text());
    }

    fn upgrade(&mut self) -> bool {
        false
    }

    fn log(&self) -> String {
        self.program.output()
    }

    fn old_processes(&self) -> Vec<u32> {
        Vec::new()
    }
}
