//! Servers, started by their command line: finds the program, splits the command into words, starts a process in its
//! own process group, and stops it. Only processes started here are stopped.

pub mod shield;

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// How long a server may take to stop after SIGTERM.
const END_MAX: Duration = Duration::from_secs(3);

/// Lines of a server's output that are shown.
const LOG_LINES_MAX: usize = 12;

/// Bytes of a log that are read, from its end.
const LOG_BYTES_MAX: usize = 64 * 1024;

/// Values of placeholders in braces.
pub type Names = BTreeMap<String, String>;

/// Replaces `{name}` placeholders. An unknown name is an error.
pub fn fill(text: &str, names: &Names) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let Some(close) = rest[open..].find('}').map(|at| open + at) else {
            break;
        };
        let name = &rest[open + 1..close];
        let is_name = !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_alphanumeric() || "._-".contains(c));
        out.push_str(&rest[..open]);
        match names.get(name) {
            Some(value) => out.push_str(value),
            None if is_name => {
                let known: Vec<&str> = names.keys().map(String::as_str).collect();
                return Err(format!(
                    "unknown placeholder `{{{name}}}` (known: {})",
                    known.join(", ")
                ));
            }
            None => out.push_str(&rest[open..=close]),
        }
        rest = &rest[close + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Splits a command line into words: separated by blanks, grouped by single quotes.
pub fn words(command: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quoted, mut any) = (Vec::new(), String::new(), false, false);
    for c in command.chars() {
        match c {
            '\'' => (quoted, any) = (!quoted, true),
            c if c.is_whitespace() && !quoted => {
                if any {
                    words.push(std::mem::take(&mut word));
                    any = false;
                }
            }
            c => {
                word.push(c);
                any = true;
            }
        }
    }
    if quoted {
        return Err(format!("`{command}`: unterminated quote"));
    }
    if any {
        words.push(word);
    }
    Ok(words)
}

/// The folder of `lab setup`: `SLUICE_LAB_SETUP`, or `sluice-lab` in the user's cache directory.
pub fn setup_dir() -> PathBuf {
    if let Some(dir) = env::var_os("SLUICE_LAB_SETUP") {
        return dir.into();
    }
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache");
    let caches = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    caches.unwrap_or_else(home).join("sluice-lab")
}

/// Searches for a program: a variable like `CADDY_BIN`, the folder of the lab, the folder of `lab setup`, PATH and the
/// folders of system services.
pub fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let variable = format!("{}_BIN", program.to_uppercase().replace('-', "_"));
    if let Some(path) = env::var_os(variable).map(PathBuf::from) {
        return Some(path).filter(|path| path.is_file());
    }
    let beside = env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.join(program)));
    let setup = ["bin", "venv/bin"].map(|folder| setup_dir().join(folder).join(program));
    let path = env::var_os("PATH").unwrap_or_default();
    let services = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    let folders = env::split_paths(&path).chain(services);
    let mut found = beside
        .into_iter()
        .chain(setup)
        .chain(folders.map(|folder| folder.join(program)));
    found.find(|path| path.is_file())
}

/// A process that the lab started; it is stopped on drop.
#[derive(Debug)]
pub struct Started {
    child: Child,
    group: Pid,
    log: PathBuf,
}

impl Started {
    /// Starts a command in its own process group, pinned to `cpus` (empty: not pinned), its output in a file. `dir` is
    /// its working directory, by default that of the lab.
    pub fn start(
        words: &[String],
        env: &Names,
        cpus: &[usize],
        dir: Option<&Path>,
        log: &Path,
    ) -> io::Result<Self> {
        let [program, arguments @ ..] = words else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "an empty command",
            ));
        };
        let program = find(program).ok_or(io::ErrorKind::NotFound)?;
        let output = File::create(log)?;
        let mut shielded = Command::new(env::current_exe()?);
        if let Some(dir) = dir {
            shielded.current_dir(dir);
        }
        let child = shielded
            .args(shield::arguments(cpus))
            .arg(std::path::absolute(program)?)
            .args(arguments)
            .envs(env)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()?;
        let group = Pid::from_child(&child);
        Ok(Started {
            child,
            group,
            log: log.to_path_buf(),
        })
    }

    /// The PID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(status.to_string())
    }

    /// The last lines of its output.
    pub fn log(&self) -> Vec<String> {
        last_lines(&self.log)
    }

    /// Sends SIGTERM to the process group, and SIGKILL to what has not stopped in time.
    pub fn stop(&mut self) {
        let begin = Instant::now();
        let _ = kill_process_group(self.group, Signal::TERM);
        while begin.elapsed() < END_MAX && self.is_there() {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.child.wait();
    }

    fn is_there(&mut self) -> bool {
        let child = matches!(self.child.try_wait(), Ok(None));
        child || test_kill_process_group(self.group).is_ok()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The last lines of a file.
pub fn last_lines(path: &Path) -> Vec<String> {
    lines_since(path, 0)
}

/// Current size of a log in bytes: later output begins here.
pub fn log_end(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// The last lines written after the file had `begin` bytes; of the whole file if it is shorter, because it was
/// truncated.
pub fn lines_since(path: &Path, begin: u64) -> Vec<String> {
    let bytes = fs::read(path).unwrap_or_default();
    let begin = usize::try_from(begin).ok().filter(|at| *at <= bytes.len());
    let new = &bytes[begin.unwrap_or(0)..];
    let from = new.len().saturating_sub(LOG_BYTES_MAX);
    let text = String::from_utf8_lossy(&new[from..]).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LOG_LINES_MAX);
    lines[from..]
        .iter()
        .map(|line| (*line).to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_and_unknown_ones_reported() {
        let names = Names::from([
            ("port".into(), "81".into()),
            ("backend.hello".into(), "82".into()),
        ]);
        assert_eq!(
            fill("a {port} {backend.hello} {}", &names),
            Ok("a 81 82 {}".into())
        );
        assert!(
            fill("{prot}", &names)
                .unwrap_err()
                .contains("(known: backend.hello, port)")
        );
        assert_eq!(
            fill("{ respond \"x\" }", &names),
            Ok("{ respond \"x\" }".into())
        );
    }

    #[test]
    fn commands_are_taken_apart() {
        let expected = [
            "nginx",
            "-g",
            "daemon off; x",
            "",
            "a'b".replace('\'', "").as_str(),
        ]
        .map(String::from);
        assert_eq!(
            words("nginx -g 'daemon off; x' '' a''b"),
            Ok(expected.to_vec())
        );
        assert!(words("a 'b").is_err());
    }

    #[test]
    fn a_log_that_cells_share_is_cut_per_block() {
        let path = env::temp_dir().join(format!("lab-log-{}", std::process::id()));
        assert_eq!(log_end(&path), 0);
        fs::write(&path, "of another cell\n").unwrap();
        let begin = log_end(&path);
        assert_eq!(lines_since(&path, begin), Vec::<String>::new());
        fs::write(&path, "of another cell\nof this one\n").unwrap();
        assert_eq!(lines_since(&path, begin), ["of this one"]);
        fs::write(&path, "new\n").unwrap();
        assert_eq!(lines_since(&path, begin), ["new"], "begun anew");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn programs_are_found() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-program-here"), None);
        assert_eq!(find("/no/such/path"), None);
    }
}
