//! Runs README's two commands in a clean Debian: a root created by debootstrap, with nothing but `make` and
//! certificates added. The commands install everything else they need.
//!
//! Everything runs in separate mount and PID namespaces, which end with this program however it ends: no mount and no
//! process is left behind. A shell that waits for the end of this program removes the folder, even after Ctrl-C.

mod sources;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::check::timed;
use sources::Sources;

/// The Debian release: the oldest that README's commands support.
const RELEASE: &str = "bookworm";

/// Path of the clone in the root.
const CLONE: &str = "/srv/sluice";

/// The server that `make run` builds and starts.
const SERVER: &str = "/srv/sluice/target/quick/sluice";

/// The home directory of root, who runs the commands.
const HOME: &str = "/root";

/// The port of the welcome page of a server without a configuration.
const WELCOME_PORT: u16 = 8080;

/// Interval between two connection attempts while the server is being built.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Timeout of the first response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The steps, in the order of the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// `./setup` alone: cheap, for testing this command itself.
    Setup,
    /// `make test`.
    Test,
    /// `make run`, until its page is served.
    Run,
    /// Any other shell command, in the clone.
    Line(&'static str),
}

/// Parses the arguments of `cargo xtask fresh`.
fn steps(words: &[&str]) -> Option<Vec<Step>> {
    if words.is_empty() {
        return Some(vec![Step::Test, Step::Run]);
    }
    let step = |word: &&str| match *word {
        "--setup-only" | "setup" => Some(Step::Setup),
        "check" => Some(Step::Line("cargo check --workspace --all-targets")),
        "clippy" => Some(Step::Line(
            "cargo clippy --workspace --all-targets -- -D warnings",
        )),
        "test" => Some(Step::Test),
        "run" => Some(Step::Run),
        _ => None,
    };
    words.iter().map(step).collect()
}

/// Creates the root, runs the steps named by `words`, and prints how long each took. `None` for unknown steps.
pub fn fresh(repository: &Path, words: &[&str]) -> Option<bool> {
    let steps = steps(words)?;
    let begun = Instant::now();
    let root = match Root::new() {
        Ok(root) => root,
        Err(error) => {
            eprintln!("fresh: {error}");
            return Some(false);
        }
    };
    let mut took = Vec::new();
    let mut step = |name: &str, run: &mut dyn FnMut() -> Result<(), String>| {
        let begun = Instant::now();
        let done = timed(name, || {
            run()
                .inspect_err(|error| eprintln!("fresh: {name}: {error}"))
                .is_ok()
        });
        took.push((name.to_owned(), done, begun.elapsed()));
        done
    };
    let mut done = step("debootstrap", &mut || root.make(repository));
    for one in steps {
        // Later steps need the earlier ones, except that `make run` does not need the tests.
        done = match one {
            _ if root.is_bare() => false,
            Step::Setup => step("setup", &mut || root.run("./setup")) && done,
            Step::Test => step("make test", &mut || root.run("make test")) && done,
            Step::Run => step("make run", &mut || root.serve()) && done,
            Step::Line(line) => step(line, &mut || root.run(&format!("./setup && {line}"))) && done,
        };
    }
    println!("-- fresh {RELEASE}: {} s in all", begun.elapsed().as_secs());
    for (name, done, took) in took {
        let verdict = if done { "ok" } else { "FAILED" };
        println!("   {name}: {verdict}, {} s", took.as_secs());
    }
    Some(done)
}

/// The folder of the root, removed when this program ends.
struct Root {
    folder: PathBuf,
    /// Exits when its standard input is closed, and removes the folder then.
    remover: Child,
}

impl Drop for Root {
    fn drop(&mut self) {
        drop(self.remover.stdin.take());
        let _ = self.remover.wait();
    }
}

impl Root {
    fn new() -> Result<Root, String> {
        let folder = std::env::temp_dir().join(format!("sluice-fresh-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // Processes in the root end with this program, and may still write files during the first attempt.
        let script = "trap '' INT TERM HUP; cat >/dev/null; \
                      for _ in 1 2 3 4 5; do rm -rf --one-file-system \"$0\" && exit; sleep 1; done";
        let remover = Command::new("sh")
            .arg("-c")
            .arg(script)
            .arg(&folder)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| format!("sh: {error}"))?;
        Ok(Root { folder, remover })
    }

    /// Whether it does not have a clone yet.
    fn is_bare(&self) -> bool {
        !self.inside(CLONE).is_dir()
    }

    fn inside(&self, path: &str) -> PathBuf {
        self.folder.join(path.trim_start_matches('/'))
    }

    /// Installs a minimal Debian with `make` and certificates, and clones the repository into it.
    fn make(&self, repository: &Path) -> Result<(), String> {
        let sources = Sources::read(Path::new("/etc/apt"));
        let mut debootstrap = apart(&self.folder);
        debootstrap
            .args(["debootstrap", "--variant=minbase"])
            .arg("--include=make,ca-certificates")
            .arg(RELEASE)
            .arg(&self.folder)
            .arg(&sources.debian)
            .stdout(Stdio::null());
        succeed(&mut debootstrap, "debootstrap (it needs root)")?;
        let write = |path: &str, text: &str| {
            fs::write(self.inside(path), text).map_err(|error| format!("{path}: {error}"))
        };
        write("/etc/apt/sources.list", &sources.list(RELEASE))?;
        write("/etc/apt/apt.conf.d/99fresh", &sources::settings())?;
        for path in ["/etc/resolv.conf", "/etc/hosts"] {
            let text = fs::read_to_string(path).unwrap_or_default();
            write(path, &text)?;
        }
        self.copy_certificates()?;
        self.copy_cargo_configuration()?;
        let mut git = Command::new("git");
        git.args(["clone", "--quiet", "--no-hardlinks"])
            .arg(repository)
            .arg(self.inside(CLONE));
        succeed(&mut git, "git clone")
    }

    /// Copies the machine's own certificate authorities, as a TLS-intercepting proxy would otherwise not be trusted.
    fn copy_certificates(&self) -> Result<(), String> {
        let folder = "/usr/local/share/ca-certificates";
        let mut any = false;
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let to = self.inside(folder).join(entry.file_name());
            any |= path.is_file() && fs::copy(&path, to).is_ok();
        }
        match any {
            true => self.run_in("/", "update-ca-certificates >/dev/null 2>&1"),
            false => Ok(()),
        }
    }

    /// Copies the configuration of cargo registries, if there is one.
    fn copy_cargo_configuration(&self) -> Result<(), String> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home
            .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
            .unwrap_or_default();
        let Ok(text) = fs::read_to_string(home.join("config.toml")) else {
            return Ok(());
        };
        let folder = self.inside(HOME).join(".cargo");
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(folder.join("config.toml"), text))
            .map_err(|error| format!("{HOME}/.cargo/config.toml: {error}"))
    }

    /// Runs a shell command in the clone.
    fn run(&self, line: &str) -> Result<(), String> {
        self.run_in(CLONE, line)
    }

    fn run_in(&self, folder: &str, line: &str) -> Result<(), String> {
        succeed(&mut self.shell(folder, line), line)
    }

    /// A shell in the root, with `/proc`, `/sys` and `/dev`, and with only the proxy and registry settings of this
    /// program's environment.
    fn shell(&self, folder: &str, line: &str) -> Command {
        let mut command = apart(&self.folder);
        command.args(["sh", "-c"]);
        command.arg(
            "mount -t proc proc \"$0/proc\" && mount --rbind /sys \"$0/sys\" && mount --rbind /dev \"$0/dev\" && \
             exec chroot \"$0\" sh -c \"cd $1 && $2\"",
        );
        command.arg(&self.folder).args([folder, line]);
        command
    }

    /// Starts the server with `make run`, waits until it responds, and stops it.
    fn serve(&self) -> Result<(), String> {
        let port = self.port()?;
        let mut make = self.shell(CLONE, "exec make run");
        let mut make = Running(make.spawn().map_err(|error| format!("setpriv: {error}"))?);
        loop {
            if let Ok(Some(status)) = make.0.try_wait() {
                return Err(format!("it ended with {status}"));
            }
            // While it is being built, a server of another program could take the port.
            match TcpStream::connect(("localhost", port)) {
                Ok(stream) if self.runs(SERVER) => return page(stream, port),
                _ => thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// Whether a process runs this program of the root.
    fn runs(&self, program: &str) -> bool {
        let program = self.inside(program);
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        processes
            .filter_map(|process| fs::read_link(process.path().join("exe")).ok())
            .any(|running| running == program)
    }

    /// The port that the server will listen on. If another program uses the default one, writes a Caddyfile with
    /// another.
    fn port(&self) -> Result<u16, String> {
        if TcpStream::connect(("localhost", WELCOME_PORT)).is_err() {
            return Ok(WELCOME_PORT);
        }
        let port = std::net::TcpListener::bind(("localhost", 0))
            .and_then(|listener| listener.local_addr())
            .map_err(|error| format!("no free port: {error}"))?
            .port();
        println!(
            "port {WELCOME_PORT} is taken on this machine: a Caddyfile gives the server port {port}"
        );
        let site = format!("{{\n\tadmin off\n}}\n:{port} {{\n\trespond \"fresh\"\n}}\n");
        let path = self.inside(CLONE).join("Caddyfile");
        fs::write(path, site).map_err(|error| format!("Caddyfile: {error}"))?;
        Ok(port)
    }
}

/// A process that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command in separate mount and PID namespaces: they end with it, and it ends with this program.
fn apart(root: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "unshare"]);
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--"]);
    command.env_clear().current_dir(root);
    command.env(
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    );
    command.env("HOME", HOME).env("LC_ALL", "C.UTF-8");
    let passed = |name: &str| {
        name.to_ascii_lowercase().ends_with("_proxy")
            || [
                "CARGO_REGISTR",
                "CARGO_SOURCE_",
                "CARGO_HTTP_",
                "CARGO_NET_",
            ]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    command.envs(std::env::vars().filter(|(name, _)| passed(name)));
    command.stdin(Stdio::null());
    command
}

fn succeed(command: &mut Command, name: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{name}` ended with {status}")),
        Err(error) => Err(format!("`{name}`: {error}")),
    }
}

/// Requests the page and checks its status.
fn page(mut stream: TcpStream, port: u16) -> Result<(), String> {
    let request = format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
    let mut response = Vec::new();
    let asked = stream
        .set_read_timeout(Some(RESPONSE_TIMEOUT))
        .and_then(|()| stream.write_all(request.as_bytes()))
        .and_then(|()| stream.read_to_end(&mut response));
    asked.map_err(|error| format!("port {port}: {error}"))?;
    let head = String::from_utf8_lossy(&response);
    let status = head.lines().next().unwrap_or_default();
    println!("{status}, {} bytes with the head", response.len());
    match status.starts_with("HTTP/1.1 200") {
        true => Ok(()),
        false => Err(format!("the page came as `{status}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_named_and_the_two_commands_are_the_default() {
        assert_eq!(steps(&[]), Some(vec![Step::Test, Step::Run]));
        assert_eq!(steps(&["--setup-only"]), Some(vec![Step::Setup]));
        assert_eq!(steps(&["run", "test"]), Some(vec![Step::Run, Step::Test]));
        assert_eq!(steps(&["walk"]), None);
    }
}
