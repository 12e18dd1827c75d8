//! Finds the Python interpreter of an application.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::failure::StartFailure;
use crate::settings::Settings;

/// An interpreter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Interpreter {
    /// Its path.
    pub path: PathBuf,
    /// A folder with packages, where the virtual environment has no interpreter of its own.
    pub site_packages: Option<PathBuf>,
}

/// The interpreter of an application: `python`, else that of `venv`, else `python3` from `search`, the value of PATH.
///
/// # Errors
///
/// There is none; the message says where it was looked for.
pub(crate) fn find(settings: &Settings, search: &OsStr) -> Result<Interpreter, StartFailure> {
    let plain = |path| Interpreter {
        path,
        site_packages: None,
    };
    if let Some(python) = &settings.python {
        let found = match python.components().count() {
            1 => in_path(&[python], search),
            _ => is_executable(python).then(|| python.clone()),
        };
        let missing = || failure(format!("no Python interpreter at `{}`", python.display()));
        return found.map(plain).ok_or_else(missing);
    }
    if let Some(venv) = &settings.venv {
        match of_venv(venv)? {
            InVenv::Interpreter(path) => return Ok(plain(path)),
            InVenv::Packages(packages) => {
                return Ok(Interpreter {
                    path: from_path(search)?,
                    site_packages: Some(packages),
                });
            }
        }
    }
    from_path(search).map(plain)
}

fn from_path(search: &OsStr) -> Result<PathBuf, StartFailure> {
    in_path(&["python3", "python"], search).ok_or_else(|| {
        failure("no `python3` in PATH: install Python, or set `python_path`".to_owned())
    })
}

/// What a virtual environment has.
enum InVenv {
    Interpreter(PathBuf),
    /// Packages only; any interpreter can use them.
    Packages(PathBuf),
}

fn of_venv(venv: &Path) -> Result<InVenv, StartFailure> {
    let shown = venv.display();
    if !venv.is_dir() {
        return Err(failure(format!(
            "the virtual environment `{shown}` does not exist"
        )));
    }
    for name in ["bin/python3", "bin/python"] {
        let path = venv.join(name);
        if is_executable(&path) {
            return Ok(InVenv::Interpreter(path));
        }
        // A link that leads nowhere: the Python that it was made with was removed.
        if let Ok(target) = fs::read_link(&path) {
            let target = target.display();
            return Err(failure(format!(
                "the interpreter `{target}` of the virtual environment `{shown}` is missing: create the environment anew"
            )));
        }
    }
    let libraries = fs::read_dir(venv.join("lib"))
        .into_iter()
        .flatten()
        .flatten();
    let mut packages: Vec<PathBuf> = libraries
        .map(|entry| entry.path().join("site-packages"))
        .filter(|path| path.is_dir())
        .collect();
    packages.sort();
    let none = || {
        failure(format!(
            "`{shown}` is not a virtual environment: it has neither `bin/python3` nor `lib/python3*/site-packages`"
        ))
    };
    packages
        .into_iter()
        .next()
        .map(InVenv::Packages)
        .ok_or_else(none)
}

fn in_path<P: AsRef<Path>>(names: &[P], search: &OsStr) -> Option<PathBuf> {
    names.iter().find_map(|name| {
        let mut folders = std::env::split_paths(search);
        folders.find_map(|folder| {
            let path = folder.join(name);
            is_executable(&path).then_some(path)
        })
    })
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

fn failure(message: String) -> StartFailure {
    StartFailure {
        stage: "interpreter".to_owned(),
        message,
        traceback: None,
        place: None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::settings::Interface;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("sluice-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn executable(&self, name: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn found(change: impl FnOnce(&mut Settings), search: &Path) -> Result<Interpreter, String> {
        let mut settings = Settings::new("test", Interface::Wsgi, "app:app");
        change(&mut settings);
        find(&settings, search.as_os_str()).map_err(|failure| failure.message)
    }

    #[test]
    fn the_configured_one_beats_the_environment_and_that_beats_the_path() {
        let folder = Folder::new("interpreter");
        let own = folder.executable("own/python9");
        let in_venv = folder.executable("venv/bin/python3");
        let in_path = folder.executable("path/python3");
        let venv = folder.0.join("venv");
        let search = folder.0.join("path");
        let path = |found: Result<Interpreter, String>| found.map(|found| found.path);
        let both = |s: &mut Settings| {
            s.python = Some(own.clone());
            s.venv = Some(venv.clone());
        };
        assert_eq!(path(found(both, &search)), Ok(own.clone()));
        let only_venv = |s: &mut Settings| s.venv = Some(venv.clone());
        assert_eq!(path(found(only_venv, &search)), Ok(in_venv));
        assert_eq!(path(found(|_| {}, &search)), Ok(in_path));
        let by_name = |s: &mut Settings| s.python = Some("python9".into());
        assert_eq!(path(found(by_name, &folder.0.join("own"))), Ok(own));
    }

    #[test]
    fn packages_without_an_interpreter_are_added_to_another() {
        let folder = Folder::new("packages");
        let packages = folder.0.join("venv/lib/python3.11/site-packages");
        fs::create_dir_all(&packages).unwrap();
        let in_path = folder.executable("path/python3");
        let venv = |s: &mut Settings| s.venv = Some(folder.0.join("venv"));
        let expected = Interpreter {
            path: in_path,
            site_packages: Some(packages),
        };
        assert_eq!(found(venv, &folder.0.join("path")), Ok(expected));
    }

    #[test]
    fn what_is_missing_is_named() {
        let folder = Folder::new("missing");
        let venv = folder.0.join("venv");
        let with = |s: &mut Settings| s.venv = Some(venv.clone());
        let nowhere = Path::new("/no/such/folder");
        assert!(
            found(with, nowhere)
                .unwrap_err()
                .ends_with("does not exist")
        );
        fs::create_dir_all(venv.join("bin")).unwrap();
        assert!(
            found(with, nowhere)
                .unwrap_err()
                .contains("not a virtual environment")
        );
        symlink("/usr/bin/python2.9", venv.join("bin/python3")).unwrap();
        let said = found(with, nowhere).unwrap_err();
        assert!(
            said.starts_with("the interpreter `/usr/bin/python2.9`"),
            "{said}"
        );
        let own = |s: &mut Settings| s.python = Some("/no/such/python".into());
        assert!(found(own, nowhere).unwrap_err().contains("/no/such/python"));
        assert!(
            found(|_| {}, nowhere)
                .unwrap_err()
                .contains("no `python3` in PATH")
        );
    }
}
