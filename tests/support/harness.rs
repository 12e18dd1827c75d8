//! Starts the real binary in a temporary folder and stops it. Requests are sent by `client`.

use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::Duration;

use sluice_net::sys::process::{Signal, send};

use super::client::Response;
pub use super::ports::free_port;
use super::service::Listener;
pub use super::temp_folder::TempFolder as Folder;
use super::wait::until;
pub use super::wait::{TIMEOUT, eventually};

/// The binary with an environment that does not touch any of the user's files.
pub fn sluice(folder: &Folder) -> Command {
    apart(Command::new(env!("CARGO_BIN_EXE_sluice")), folder)
}

/// The binary with `socket` as descriptor 3.
fn sluice_with(folder: &Folder, socket: OwnedFd) -> Command {
    let mut command = apart(Command::new("sh"), folder);
    let script = "exec \"$0\" \"$@\" 3<&0 </dev/null";
    command.args(["-c", script, env!("CARGO_BIN_EXE_sluice")]);
    command.stdin(socket);
    command
}

/// The binary with a limit of open files.
fn sluice_within(folder: &Folder, files_max: u32) -> Command {
    let mut command = apart(Command::new("sh"), folder);
    let script = format!("ulimit -n {files_max}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_sluice")]);
    command
}

/// The binary with a limit of file size in the shell's blocks, 512 or 1024 bytes each.
fn sluice_writing(folder: &Folder, blocks_max: u32) -> Command {
    let mut command = apart(Command::new("sh"), folder);
    let script = format!("ulimit -f {blocks_max}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_sluice")]);
    command
}

/// The binary in a network namespace.
fn sluice_in(folder: &Folder, network: &str) -> Command {
    let mut command = apart(Command::new("ip"), folder);
    command.args(["netns", "exec", network, env!("CARGO_BIN_EXE_sluice")]);
    command
}

fn apart(mut command: Command, folder: &Folder) -> Command {
    command
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder.path())
        .env("XDG_DATA_HOME", folder.path().join("data"))
        .env("XDG_CONFIG_HOME", folder.path().join("config"))
        .env("SLUICE_WORKERS", "2")
        .stdin(Stdio::null());
    command
}

/// Runs the binary to its end.
pub fn run_to_end(folder: &Folder, args: &[&str]) -> Output {
    finish(sluice(folder).args(args))
}

/// Runs a command to its end, which must come soon.
pub fn finish(command: &mut Command) -> Output {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let id = child.id();
    let (done, late) = std::sync::mpsc::sync_channel::<()>(1);
    let guard = thread::spawn(move || {
        if late.recv_timeout(TIMEOUT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = send(id, Signal::Quit);
        }
    });
    let output = child.wait_with_output().expect("it can be waited for");
    let _ = done.send(());
    guard.join().expect("the guard does not panic");
    output
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How much more memory a server may show without holding more, in KiB: workers allocate it in steps of 2 MiB and
/// release it later, and each of two may be in such a step when it is measured.
pub const MEMORY_STEPS: u64 = 2 * 2048;

/// A running server.
pub struct Server {
    child: Child,
    pub folder: Folder,
    /// The port of `{port}` in its configuration.
    pub port: u16,
    /// The port of `{admin}` in its configuration.
    pub admin: u16,
    /// Receives its `sd_notify` messages.
    pub listener: Listener,
}

/// A server to be started.
pub struct Setup {
    folder: Folder,
    pub port: u16,
    pub admin: u16,
    args: Vec<String>,
    variables: Vec<(String, String)>,
    inherited: Option<OwnedFd>,
    files_max: Option<u32>,
    blocks_max: Option<u32>,
    network: Option<String>,
}

impl Setup {
    /// A Caddyfile in which `{port}` and `{admin}` are replaced by free ports and `{folder}` by the server's folder.
    pub fn new(caddyfile: &str) -> Setup {
        let setup = Setup::bare();
        let text = setup.fill(caddyfile);
        setup.folder.write("Caddyfile", text);
        setup
    }

    /// No configuration.
    pub fn bare() -> Setup {
        Setup {
            folder: Folder::new(),
            port: free_port(),
            admin: free_port(),
            args: Vec::new(),
            variables: Vec::new(),
            inherited: None,
            files_max: None,
            blocks_max: None,
            network: None,
        }
    }

    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Fills in the ports and the folder.
    pub fn fill(&self, text: &str) -> String {
        fill(text, self.port, self.admin, self.folder.path())
    }

    pub fn args(mut self, args: &[&str]) -> Setup {
        self.args.extend(args.iter().map(ToString::to_string));
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Setup {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Passes a socket to the server as descriptor 3.
    pub fn inherits(mut self, socket: impl Into<OwnedFd>) -> Setup {
        self.inherited = Some(socket.into());
        self
    }

    /// Limits its open files.
    pub fn files_max(mut self, count: u32) -> Setup {
        self.files_max = Some(count);
        self
    }

    /// Limits the size of its files in blocks of 512 or 1024 bytes.
    pub fn blocks_max(mut self, count: u32) -> Setup {
        self.blocks_max = Some(count);
        self
    }

    /// Starts it in this network namespace, which `ip netns` knows.
    pub fn in_network(mut self, name: &str) -> Setup {
        self.network = Some(name.to_owned());
        self
    }

    /// Starts `sluice run` and waits until it serves all of its addresses.
    pub fn start(self) -> Server {
        let mut command = match (self.inherited, self.files_max, self.blocks_max) {
            (Some(socket), _, _) => sluice_with(&self.folder, socket),
            (None, Some(count), _) => sluice_within(&self.folder, count),
            (None, None, Some(count)) => sluice_writing(&self.folder, count),
            (None, None, None) => match &self.network {
                Some(network) => sluice_in(&self.folder, network),
                None => sluice(&self.folder),
            },
        };
        let stderr = std::fs::File::create(self.folder.path().join("stderr")).expect("writable");
        let stdout = std::fs::File::create(self.folder.path().join("stdout")).expect("writable");
        let args: Vec<String> = (self.args.iter())
            .map(|arg| fill(arg, self.port, self.admin, self.folder.path()))
            .collect();
        if args.first().is_none_or(|arg| arg.starts_with('-')) {
            command.arg("run");
        }
        command.args(args).stdout(stdout).stderr(stderr);
        command.env("SLUICE_ADMIN", format!("localhost:{}", self.admin));
        let listener = match &self.network {
            Some(_) => Listener::at(&self.folder.path().join("notify")),
            None => Listener::start(),
        };
        command.env("NOTIFY_SOCKET", listener.name());
        command.envs(self.variables);
        let child = command.spawn().expect("the binary starts");
        let mut server = Server {
            child,
            folder: self.folder,
            port: self.port,
            admin: self.admin,
            listener,
        };
        server.wait_until_ready();
        server
    }
}

fn fill(text: &str, port: u16, admin: u16, folder: &Path) -> String {
    text.replace("{port}", &port.to_string())
        .replace("{admin}", &admin.to_string())
        .replace("{folder}", &folder.to_string_lossy())
}

impl Server {
    /// Starts a server with this Caddyfile; see [`Setup::new`].
    pub fn start(caddyfile: &str) -> Server {
        Setup::new(caddyfile).start()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Replaces the Caddyfile.
    pub fn write(&self, caddyfile: &str) {
        let text = fill(caddyfile, self.port, self.admin, self.folder.path());
        self.folder.write("Caddyfile", text);
    }

    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal).expect("the process is there");
    }

    /// Requests a path with GET on a connection of its own.
    pub fn ask(&self, path: &str) -> Response {
        super::client::ask(self.port, path)
    }

    /// The server's output so far.
    pub fn stderr(&self) -> String {
        self.folder.read("stderr")
    }

    pub fn stdout(&self) -> String {
        self.folder.read("stdout")
    }

    /// Waits until it reports that it serves.
    fn wait_until_ready(&mut self) {
        const GLANCE: Duration = Duration::from_millis(50);
        self.wait("it to serve", |server| {
            server.listener.hears_within("READY=1", GLANCE)
        });
    }

    /// Waits until some process listens on a port.
    pub fn wait_for_port(&mut self, port: u16) {
        self.wait("the port", |_| {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        });
    }

    /// Waits for a condition as long as the process is alive.
    fn wait(&mut self, what: &str, is_so: impl Fn(&Server) -> bool) {
        let server = std::cell::RefCell::new(self);
        let look = || {
            if is_so(&server.borrow()) {
                return Some(None);
            }
            let status = server.borrow_mut().child.try_wait();
            status.expect("it can be waited for").map(Some)
        };
        let ended = until(TIMEOUT, what, look, || server.borrow().stderr());
        if let Some(status) = ended {
            let server = server.borrow();
            panic!(
                "the server ended with {status}:\n{}{}",
                server.stdout(),
                server.stderr()
            );
        }
    }

    /// Waits for text in the server's output.
    pub fn wait_for_words(&self, words: &str) {
        self.wait_for_words_within(words, TIMEOUT);
    }

    /// Like `wait_for_words`, with another timeout.
    pub fn wait_for_words_within(&self, words: &str, timeout: Duration) {
        let is_said = || self.stderr().contains(words);
        until(timeout, words, || is_said().then_some(()), || self.stderr());
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it can be waited for");
    }

    /// Waits until it has exited by itself.
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let child = &mut self.child;
        let folder = &self.folder;
        let look = || child.try_wait().expect("it can be waited for");
        until(TIMEOUT, "its end", look, || folder.read("stderr"))
    }

    pub fn has_ended(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("it can be waited for")
            .is_some()
    }

    /// Number of its open files.
    pub fn open_files(&self) -> usize {
        let path = format!("/proc/{}/fd", self.pid());
        std::fs::read_dir(path)
            .expect("the process is there")
            .count()
    }

    /// Its CPU time so far, in ticks of 10 ms.
    pub fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()));
        let stat = stat.expect("the process is there");
        let fields = stat.rsplit(')').next().expect("a name").split(' ');
        let spent = fields.skip(12).take(2);
        spent
            .map(|part| part.parse::<u64>().expect("a number"))
            .sum()
    }

    /// Waits until the metrics have this line.
    pub fn wait_for_sample(&self, sample: &str) {
        eventually(
            sample,
            || self.metrics().lines().any(|line| line == sample),
            || self.metrics(),
        );
    }

    /// The metrics page of the admin endpoint, which must not be disabled.
    pub fn metrics(&self) -> String {
        let asked = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n\r\n",
            self.admin
        );
        super::client::exchange(self.admin, asked).text()
    }

    /// A sample without labels on that page.
    pub fn metric(&self, name: &str) -> u64 {
        let page = self.metrics();
        let value = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {page}"))
    }

    /// A line of /proc/PID/status as a number, such as `VmRSS` in KiB or `Threads`.
    pub fn status(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.pid());
        let text = std::fs::read_to_string(path).expect("the process is there");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.unwrap_or_else(|| panic!("{name} is not a number"))
    }

    /// Its peak memory so far, in KiB.
    pub fn peak(&self) -> u64 {
        self.status("VmHWM")
    }

    /// How much the peak has risen above `before`, in KiB. The kernel sums up counts of pages at intervals, so a peak
    /// may seem to fall a little.
    pub fn grown(&self, before: u64) -> u64 {
        self.peak().saturating_sub(before)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("---- the server said:\n{}{}", self.stdout(), self.stderr());
        }
    }
}
