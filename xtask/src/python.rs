//! The Python environment of the tests: `target/python/<hash>` with the packages of `tests/python/requirements.txt`.
//! It is created once per content of that file and version of Python; `target/python/current` links to it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment variable that names the environment to the tests.
pub const VARIABLE: &str = "SLUICE_PYTHON";

/// The copy of the requirements in a complete environment: written last, and read by the tests.
const MARK: &str = "requirements.txt";

/// Creates the environment if it does not exist, and prints its folder.
pub fn print(root: &Path) -> bool {
    match environment(root) {
        Ok(folder) => {
            println!("{}", folder.display());
            true
        }
        Err(reason) => {
            eprintln!("no Python environment: {reason}");
            false
        }
    }
}

/// The variable for the tests. If the environment cannot be created, it contains the reason, and the tests that need
/// it report themselves as skipped for that reason.
pub fn value(root: &Path) -> std::ffi::OsString {
    match environment(root) {
        Ok(folder) => folder.into_os_string(),
        Err(reason) => {
            println!("-- no Python environment: {reason}");
            format!("unavailable: {reason}").into()
        }
    }
}

/// The folder of the environment, which is created if it does not exist.
fn environment(root: &Path) -> Result<PathBuf, String> {
    let all = root.join("target/python");
    install(&root.join("tests/python/requirements.txt"), &all)
}

/// The folder below `all` of an environment with the packages of the file `from`, which is created if it does not
/// exist; `all/current` links to it.
pub fn install(from: &Path, all: &Path) -> Result<PathBuf, String> {
    let wanted = fs::read_to_string(from).map_err(failed(from))?;
    let version = output(Command::new("python3").arg("--version"))
        .map_err(|error| format!("`python3 --version`: {error}"))?;
    fs::create_dir_all(all).map_err(failed(all))?;
    // One run at a time creates it; the lock ends with the file.
    let lock = all.join("lock");
    let file = File::create(&lock).map_err(failed(&lock))?;
    file.lock().map_err(failed(&lock))?;
    let folder = all.join(name(&wanted, &version));
    if !is_complete(&folder, &wanted) {
        eprintln!("-- installing {} below {}", from.display(), all.display());
        create(&folder, from)?;
        let mark = folder.join(MARK);
        fs::write(&mark, &wanted).map_err(failed(&mark))?;
    }
    let current = all.join("current");
    link(&folder, &current).map_err(failed(&current))?;
    Ok(folder)
}

fn failed(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// The name of the environment's folder: it changes with what is installed and with the Python that runs it.
fn name(requirements: &str, version: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (requirements, version).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn is_complete(folder: &Path, wanted: &str) -> bool {
    fs::read_to_string(folder.join(MARK)).is_ok_and(|text| text == wanted)
        && output(Command::new(folder.join("bin/python")).args(["-c", ""])).is_ok()
}

fn create(folder: &Path, requirements: &Path) -> Result<(), String> {
    if folder.exists() {
        // An earlier run was interrupted.
        fs::remove_dir_all(folder).map_err(failed(folder))?;
    }
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(folder);
    output(&mut venv).map_err(|error| {
        format!("`python3 -m venv` (Debian has it as package python3-venv): {error}")
    })?;
    let mut pip = Command::new(folder.join("bin/python"));
    // Wheels alone: building one of these packages takes minutes and a compiler.
    pip.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:"]);
    pip.arg("--disable-pip-version-check");
    pip.arg("--requirement").arg(requirements);
    output(&mut pip).map_err(|error| format!("`pip install`: {error}"))?;
    Ok(())
}

/// Runs a program. The error has the last line of what it printed.
pub fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    let last = printed.lines().rfind(|line| !line.trim().is_empty());
    Err(last.unwrap_or("it failed silently").trim().to_owned())
}

/// Makes `at` a symbolic link to `folder`, in one step.
fn link(folder: &Path, at: &Path) -> io::Result<()> {
    let name = folder.file_name().unwrap_or(OsStr::new(""));
    let new = at.with_extension("new");
    // One that an interrupted run left.
    let _ = fs::remove_file(&new);
    std::os::unix::fs::symlink(name, &new)?;
    fs::rename(&new, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_depends_on_the_packages_and_on_python() {
        let first = name("flask==3.1.3\n", "Python 3.11.7\n");
        assert_eq!(first, name("flask==3.1.3\n", "Python 3.11.7\n"));
        assert_ne!(first, name("flask==3.1.4\n", "Python 3.11.7\n"));
        assert_ne!(first, name("flask==3.1.3\n", "Python 3.13.1\n"));
    }

    #[test]
    fn a_failed_command_reports_its_last_line() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first; echo 'no network'; exit 3"]);
        assert_eq!(output(&mut command), Err("no network".to_owned()));
    }
}
