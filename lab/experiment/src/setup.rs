//! `lab setup`: installs programs that the studies need and that no distribution has in these versions: a Python
//! environment with the application servers, Caddy, and the Go program of study 001. Nothing else in the lab downloads
//! or builds anything. Everything goes into one folder; removing it undoes the setup.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::builtin::builtin;
use crate::progress::Progress;
use sluice_load::outcome::{Completion, Outcome, Refused};
use sluice_load::process;

/// Options of `lab setup`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Parts to install; all by default
    pub parts: Vec<Part>,
    /// Destination; by default SLUICE_LAB_SETUP, or ~/.cache/sluice-lab
    pub dir: Option<PathBuf>,
    /// Python for the environment (default: the newest of python3.14, 3.13, 3.12 and python3 that runs). Caddy
    /// Snake needs 3.12 or later
    pub python: Option<String>,
    /// Prints what would be done without doing it
    pub plan: bool,
}

/// A part of the setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// gunicorn, uvicorn, granian, Flask, FastAPI, gevent and Caddy Snake, in a separate environment (pip)
    Python,
    /// Caddy, built from the Go module proxy; without Go, the one in the wheel of Caddy Snake
    Caddy,
    /// The program of study 001 (Go)
    Go,
}

/// Programs that a setup installs.
pub const PROGRAMS: [&str; 7] = [
    "gunicorn",
    "uvicorn",
    "granian",
    "caddy",
    "caddy-snake",
    "go-001",
    "python3",
];

/// The packages of the environment with everything they need, each in one version.
const REQUIREMENTS: &str = "002/requirements.txt";

/// Caddy Snake, which has wheels for CPython 3.12 and later (older versions have no ESGI).
const CADDY_SNAKE: &str = "caddysnake==0.6.4";

/// Python interpreters to try, newest first: those that Caddy Snake has wheels for, then whatever exists.
const PYTHONS: [&str; 4] = ["python3.14", "python3.13", "python3.12", "python3"];

/// The Caddy that is compared with, the same as in `cargo xtask peer`.
const CADDY: &str = "v2.11.9";

/// Caddy's module. `go install` leaves its version out of the program, so the linker sets it.
const CADDY_MODULE: &str = "github.com/caddyserver/caddy/v2";

/// How long Caddy Snake may take to unpack its worker.
const UNPACK_MAX: Duration = Duration::from_secs(20);

/// Runs `lab setup`.
pub fn run(options: &Options, live: &mut dyn Progress) -> Outcome {
    let dir = options.dir.clone().unwrap_or_else(process::setup_dir);
    let dir = std::path::absolute(&dir).map_err(|error| Refused::new(error.to_string()))?;
    let all = [Part::Python, Part::Caddy, Part::Go];
    let parts = match options.parts.is_empty() {
        true => &all[..],
        false => &options.parts[..],
    };
    let mut setup = Setup {
        live,
        dir: &dir,
        plan: options.plan,
    };
    if !options.plan {
        fs::create_dir_all(dir.join("bin")).map_err(|error| with_path(&dir, &error))?;
    }
    let mut failed = Vec::new();
    for part in all.iter().filter(|part| parts.contains(part)) {
        let done = match part {
            Part::Python => {
                python(options.python.as_deref()).and_then(|python| setup.python(&python))
            }
            Part::Caddy => setup.caddy(),
            Part::Go => setup.go(),
        };
        // The other parts do not depend on it: only its own rows will be missing.
        if let Err(Refused(reason)) = done {
            setup.live.line(&reason);
            failed.push(format!("{part:?}").to_lowercase());
        }
    }
    if failed.is_empty() {
        setup.live.line(&format!("installed in {}", dir.display()));
        return Ok(Completion::Yes);
    }
    let (failed, dir) = (failed.join(", "), dir.display());
    Err(Refused::new(format!(
        "{failed}: not installed, see above; the rest is in {dir}"
    )))
}

/// The requested Python, or the newest that runs. A name in PATH need not run: version managers install a shim for
/// every version they know, and most of these only report that the version is not selected.
fn python(asked: Option<&str>) -> Result<String, Refused> {
    let runs = |name: &str| {
        let mut probe = Command::new(name);
        probe.args(["-c", "import ensurepip, venv"]);
        probe.stdin(Stdio::null()).stdout(Stdio::null());
        probe
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let tried = asked.map_or(PYTHONS.to_vec(), |name| vec![name]);
    let found = tried.iter().find(|name| runs(name));
    found.map(|name| name.to_string()).ok_or_else(|| {
        Refused::new(format!(
            "no Python with the modules `venv` and `ensurepip` (tried {}): install one, on Debian with `apt install \
             python3-venv`, or name another with --python",
            tried.join(", ")
        ))
    })
}

fn with_path(path: &Path, error: &std::io::Error) -> Refused {
    Refused::new(format!("{}: {error}", path.display()))
}

/// State of `lab setup`: the destination, and whether to execute anything.
struct Setup<'a> {
    live: &'a mut dyn Progress,
    dir: &'a Path,
    plan: bool,
}

impl Setup<'_> {
    /// Prints a command and runs it.
    fn carry_out(&mut self, command: &mut Command) -> Result<(), Refused> {
        let program = command.get_program().to_string_lossy().into_owned();
        let words = command.get_args().map(|word| word.to_string_lossy());
        let words: Vec<_> = words.collect();
        self.live.line(&format!("+ {program} {}", words.join(" ")));
        if self.plan {
            return Ok(());
        }
        let status = command.stdin(Stdio::null()).status();
        let status = status.map_err(|error| Refused::new(format!("{program}: {error}")))?;
        match status.success() {
            true => Ok(()),
            false => Err(Refused::new(format!("{program} ended with {status}"))),
        }
    }

    fn python(&mut self, python: &str) -> Result<(), Refused> {
        let venv = self.dir.join("venv");
        self.carry_out(Command::new(python).args(["-m", "venv"]).arg(&venv))?;
        let list = self.dir.join("requirements.txt");
        let text = builtin(REQUIREMENTS).unwrap_or_default();
        if !self.plan {
            fs::write(&list, text).map_err(|error| with_path(&list, &error))?;
        }
        let pip = |arguments: &[&str]| {
            let mut install = Command::new(venv.join("bin/pip"));
            install.args(["install", "--quiet", "--disable-pip-version-check"]);
            install.args(arguments);
            install
        };
        let packages = text.lines().filter(|line| line.contains("=="));
        let packages: Vec<&str> = packages.collect();
        self.live
            .line(&format!("{}: {}", REQUIREMENTS, packages.join(" ")));
        self.carry_out(&mut pip(&["-r", &list.display().to_string()]))?;
        // Without its source: building that needs Go and a C compiler, and takes minutes.
        let snake = self.carry_out(&mut pip(&["--only-binary", ":all:", CADDY_SNAKE]));
        if self.plan {
            self.live.line("+ unpack the server of Caddy Snake");
            return Ok(());
        }
        let Some(program) = wheel_program(&venv).filter(|_| snake.is_ok()) else {
            self.live.line(&format!(
                "there is no wheel of {CADDY_SNAKE} for {python}: its rows of study 002 will be absent. It needs CPython \
                 3.12 or later on Linux; name one with --python"
            ));
            return Ok(());
        };
        let program = self.snake(&program, &venv)?;
        self.unpack(&program, &venv)
    }

    /// Makes the program of Caddy Snake available, by a script if it does not find the library of its Python by itself:
    /// that of an interpreter outside the system's folders.
    fn snake(&mut self, program: &Path, venv: &Path) -> Result<PathBuf, Refused> {
        let starts = |folder: &str| {
            let mut version = Command::new(program);
            version.arg("version").env("LD_LIBRARY_PATH", folder);
            version.stdin(Stdio::null()).output()
        };
        let alone = starts("").map_err(|error| with_path(program, &error))?;
        if alone.status.success() {
            self.link(program, "caddy-snake")?;
            return Ok(program.to_path_buf());
        }
        let says = "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))";
        let said = Command::new(venv.join("bin/python3"))
            .args(["-c", says])
            .output();
        let folder = said.map_err(|error| with_path(venv, &error))?.stdout;
        let folder = String::from_utf8_lossy(&folder).trim().to_string();
        if !starts(&folder).is_ok_and(|output| output.status.success()) {
            let said = String::from_utf8_lossy(&alone.stderr).trim().to_string();
            return Err(Refused::new(format!(
                "Caddy Snake does not start: {said}; it needs a Python with a shared library (on Debian libpython3), \
                 name one with --python"
            )));
        }
        let script = self.dir.join("bin/caddy-snake");
        let text = format!(
            "#!/bin/sh\nLD_LIBRARY_PATH='{folder}' exec '{}' \"$@\"\n",
            program.display()
        );
        let _ = fs::remove_file(&script);
        fs::write(&script, text)
            .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)))
            .map_err(|error| with_path(&script, &error))?;
        Ok(script)
    }

    /// Caddy Snake embeds its Python server and writes it to disk at startup: this is the only way to get the server
    /// that study 002 runs by itself.
    fn unpack(&mut self, program: &Path, venv: &Path) -> Result<(), Refused> {
        let scratch = self.dir.join("unpack");
        let failed = |error: std::io::Error| with_path(&scratch, &error);
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir_all(&scratch).map_err(failed)?;
        let app = builtin("002/app_esgi.py").unwrap_or_default();
        fs::write(scratch.join("app_esgi.py"), app).map_err(failed)?;
        let conf = format!(
            "{{\n\tadmin off\n\tauto_https off\n}}\nhttp:// {{\n\tbind unix/{}/s.sock\n\troute {{\n\t\tpython {{\n\t\t\tmodule_esgi app_esgi:application\n\t\t\truntime gevent\n\t\t\tvenv {}\n\t\t\tworkers 1\n\t\t}}\n\t}}\n}}\n",
            scratch.display(),
            venv.display()
        );
        fs::write(scratch.join("Caddyfile"), conf).map_err(failed)?;
        self.live.line(&format!(
            "+ {} run (to unpack its server)",
            program.display()
        ));
        let mut child = Command::new(program)
            .args(["run", "--config", "Caddyfile", "--adapter", "caddyfile"])
            .current_dir(&scratch)
            .envs(
                ["TMPDIR", "HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"].map(|name| (name, &scratch)),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let begin = Instant::now();
        let mut found = None;
        while found.is_none() && begin.elapsed() < UNPACK_MAX {
            thread::sleep(Duration::from_millis(100));
            found = worker_program(&scratch);
        }
        let _ = child.kill();
        let _ = child.wait();
        let to = self.dir.join("caddysnake.py");
        let text = found.ok_or_else(|| Refused::new("Caddy Snake did not unpack its server"))?;
        fs::write(&to, text).map_err(|error| with_path(&to, &error))?;
        fs::remove_dir_all(&scratch).map_err(failed)
    }

    fn caddy(&mut self) -> Result<(), Refused> {
        if process::find("go").is_some() {
            let mut install = Command::new("go");
            let version = format!("-X {CADDY_MODULE}.CustomVersion={CADDY}");
            install.args(["install", "-ldflags", &version]);
            install.arg(format!("{CADDY_MODULE}/cmd/caddy@{CADDY}"));
            install.env("GOBIN", self.dir.join("bin"));
            install.env("GOTOOLCHAIN", "local");
            return self.carry_out(&mut install);
        }
        self.live
            .line("`go` is not installed: using the Caddy from the wheel of Caddy Snake");
        if self.plan {
            return Ok(());
        }
        let program = wheel_program(&self.dir.join("venv"));
        let program = program.ok_or_else(|| {
            Refused::new("the wheel is missing: install Go, or run `sluice-lab setup python` first")
        })?;
        self.link(&program, "caddy")
    }

    fn link(&mut self, program: &Path, name: &str) -> Result<(), Refused> {
        let link = self.dir.join("bin").join(name);
        let _ = fs::remove_file(&link);
        symlink(program, &link).map_err(|error| with_path(&link, &error))
    }

    /// The program of study 001, changed only to read addresses from the environment.
    fn go(&mut self) -> Result<(), Refused> {
        if process::find("go").is_none() {
            self.live.line(
                "`go` is not installed: study 001 uses the lab's own FastCGI responder instead",
            );
            return Ok(());
        }
        let source = self.dir.join("go-001");
        if !self.plan {
            fs::create_dir_all(&source).map_err(|error| with_path(&source, &error))?;
            let text = builtin("001/backend.go").unwrap_or_default();
            let text = text
                .replace(
                    "const (\n\tSOCK = \"/tmp/go.sock\"\n)",
                    "var SOCK = os.Getenv(\"LAB_SOCKET\")",
                )
                .replace("\":8080\"", "os.Getenv(\"LAB_HTTP\")")
                .replace("\":9001\"", "os.Getenv(\"LAB_FASTCGI\")");
            let files = [
                ("main.go", text),
                ("go.mod", "module lab/go-001\n\ngo 1.21\n".into()),
            ];
            for (name, text) in files {
                let path = source.join(name);
                fs::write(&path, text).map_err(|error| with_path(&path, &error))?;
            }
        }
        let mut build = Command::new("go");
        build.current_dir(if self.plan { Path::new(".") } else { &source });
        build.env("GOTOOLCHAIN", "local");
        build
            .args(["build", "-o"])
            .arg(self.dir.join("bin/go-001"))
            .arg(".");
        self.carry_out(&mut build)
    }
}

/// The program in the wheel of Caddy Snake.
fn wheel_program(venv: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(venv.join("lib")).ok()?;
    let mut found = versions
        .flatten()
        .map(|version| version.path().join("site-packages/caddysnake-cli"));
    found.find(|path| path.is_file())
}

/// The server that Caddy Snake has written, once it is complete: the file exists before its last line does.
fn worker_program(scratch: &Path) -> Option<String> {
    let folders = fs::read_dir(scratch).ok()?;
    let mut texts = folders
        .flatten()
        .filter_map(|folder| fs::read_to_string(folder.path().join("worker_main.py")).ok());
    texts.find(|text| text.trim_end().ends_with("main()"))
}
