//! A server with the site of a kind of request, under callgrind or as it is.

use std::cell::Cell;
use std::fmt::Write;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::callgrind::{self, Counts};
use super::kinds::{Kind, Protocol};
use crate::python::output;

/// The sizes of the files that kinds ask for; a page of text stands beside them.
const FILES: [usize; 1] = [4608];

/// The pause between two attempts to connect while the server starts.
const PAUSE: Duration = Duration::from_millis(50);

/// How the server runs.
pub enum Under {
    /// In valgrind's callgrind, which counts.
    Callgrind,
    /// As it is; it has LLVM's instruments in it, and leaves what they count in this folder when it ends.
    Instruments {
        /// The folder.
        profiles: PathBuf,
    },
}

/// A running server; ended when dropped.
pub struct Server {
    child: Child,
    folder: PathBuf,
    port: u16,
    /// Files that callgrind has written.
    dumps: Cell<u32>,
}

impl Server {
    /// Starts `program` with the site of `kind` in `folder`, and waits until it accepts connections.
    pub fn start(
        program: &Path,
        folder: &Path,
        kind: &Kind,
        upstream: SocketAddr,
        under: &Under,
    ) -> Result<Server, String> {
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        // What an earlier run has left, if anything.
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(failed)?;
        let port = free_port().map_err(failed)?;
        fs::write(
            folder.join("Caddyfile"),
            caddyfile(kind, port, folder, upstream),
        )
        .map_err(failed)?;
        for size in FILES {
            fs::write(folder.join(size.to_string()), vec![b'x'; size]).map_err(failed)?;
        }
        let page = (0..100).fold(String::new(), |mut page, line| {
            let _ = writeln!(
                page,
                "<p>This is line {line} of {} of the page.</p>",
                line * 7919
            );
            page
        });
        fs::write(folder.join("page.html"), page).map_err(failed)?;
        let log = fs::File::create(folder.join("log")).map_err(failed)?;
        let (mut command, needed) = command(program, folder, under);
        let child = command
            .args(["run", "--config", "Caddyfile"])
            .current_dir(folder)
            .env("SLUICE_WORKERS", "1")
            .env("HOME", folder)
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{needed}: {error}"))?;
        let mut server = Server {
            child,
            folder: folder.to_owned(),
            port,
            dumps: Cell::new(0),
        };
        server.wait()?;
        Ok(server)
    }

    /// Ends it as an operator would, so that it writes its profile.
    pub fn stop(mut self) -> Result<(), String> {
        let pid = self.child.id().to_string();
        output(Command::new("kill").args(["-TERM", &pid]))?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("the server ended with {status}")),
        }
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Begins to count.
    pub fn begin_counting(&self) -> Result<(), String> {
        self.control("--instr=on")?;
        self.control("--zero")
    }

    /// What was counted since then or since the last call, for each of `requests`. Begins to count anew.
    pub fn counts(&self, requests: u32) -> Result<Counts, String> {
        self.control("--dump=requests")?;
        self.dumps.set(self.dumps.get() + 1);
        let path = self.folder.join(format!("out.{}", self.dumps.get()));
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let counts = callgrind::read(&text, requests);
        counts.ok_or_else(|| format!("{}: not a file of callgrind's", path.display()))
    }

    fn control(&self, order: &str) -> Result<(), String> {
        let pid = self.child.id().to_string();
        let done = Command::new("callgrind_control")
            .args([order, &pid])
            .output();
        match done {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(format!(
                "`callgrind_control {order}`: {}",
                String::from_utf8_lossy(&output.stderr)
            )),
            Err(error) => Err(format!("`callgrind_control` cannot be started: {error}")),
        }
    }

    fn wait(&mut self) -> Result<(), String> {
        loop {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let log = self.folder.join("log");
                return Err(format!("the server ended: {status}; see {}", log.display()));
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command that runs `program`, and what it needs.
fn command(program: &Path, folder: &Path, under: &Under) -> (Command, &'static str) {
    match under {
        Under::Callgrind => {
            let mut valgrind = Command::new("valgrind");
            valgrind
                .args(["--tool=callgrind", "--instr-atstart=no"])
                .arg("--collect-systime=usec")
                .arg(format!("--callgrind-out-file={}/out", folder.display()))
                .arg(program);
            (valgrind, "valgrind (apt install valgrind)")
        }
        Under::Instruments { profiles } => {
            let mut server = Command::new(program);
            // %p and %m: one file for each process and each program.
            server.env("LLVM_PROFILE_FILE", profiles.join("%p-%m.profraw"));
            (server, "the instrumented program")
        }
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn caddyfile(kind: &Kind, port: u16, folder: &Path, upstream: SocketAddr) -> String {
    let scheme = match kind.protocol {
        Protocol::Tls | Protocol::H3 => "https",
        Protocol::Kept | Protocol::Single | Protocol::H2c => "http",
    };
    let mut text = format!(
        "{{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n\t{}\n}}\n\
         {scheme}://localhost:{port} {{\n\t{}\n}}\n",
        kind.options, kind.site
    );
    for other in 0..kind.other_sites {
        let _ = writeln!(
            text,
            "{scheme}://site{other}.test:{port} {{\n\trespond {other}\n}}"
        );
    }
    text.replace("{upstream}", &upstream.to_string())
        .replace("{folder}", &folder.display().to_string())
}
