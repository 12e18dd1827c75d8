//! Finds out whether the Python files of an application have changed, by their times and sizes: this works on every file
//! system, network shares and containers included.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::limits::{WATCHED_DEPTH_MAX, WATCHED_FILES_MAX};

/// The Python files below a folder.
#[derive(Debug)]
pub(super) struct Watch {
    folder: PathBuf,
    known: HashMap<PathBuf, Seen>,
    /// Whether a change was seen that was not reported, because files may still be written.
    is_pending: bool,
}

/// What is compared.
type Seen = (Option<SystemTime>, u64);

impl Watch {
    /// Watches the files that are there now, and those that will be.
    pub fn new(folder: &Path) -> Watch {
        Watch {
            known: scan(folder),
            folder: folder.to_owned(),
            is_pending: false,
        }
    }

    /// Looks again. Returns the changed file with the first name once there were changes and then none between two
    /// looks.
    pub fn look(&mut self) -> Changes {
        let now = scan(&self.folder);
        let is_changed = |(path, seen): &(&PathBuf, &Seen)| self.known.get(*path) != Some(*seen);
        let changed = now.iter().filter(is_changed).map(|(path, _)| path);
        let removed = self.known.keys().filter(|path| !now.contains_key(*path));
        let first = changed.chain(removed).min().cloned();
        self.known = now;
        match (first, self.is_pending) {
            (Some(path), _) => {
                self.is_pending = true;
                Changes::Going(path)
            }
            (None, true) => {
                self.is_pending = false;
                Changes::Settled
            }
            (None, false) => Changes::None,
        }
    }
}

/// What a look has shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Changes {
    /// Nothing.
    None,
    /// Files have changed since the last look, among them this one.
    Going(PathBuf),
    /// Files had changed, and have not changed since the last look.
    Settled,
}

fn scan(folder: &Path) -> HashMap<PathBuf, Seen> {
    let mut found = HashMap::new();
    scan_into(folder, 0, &mut found);
    found
}

/// Folders that cannot be read have no files.
fn scan_into(folder: &Path, depth: usize, found: &mut HashMap<PathBuf, Seen>) {
    let is_environment = depth > 0 && folder.join("pyvenv.cfg").exists();
    if is_environment || depth > WATCHED_DEPTH_MAX {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if found.len() >= WATCHED_FILES_MAX {
            return;
        }
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let path = entry.path();
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            let is_skipped = name.starts_with('.') || SKIPPED.contains(&&*name);
            if !is_skipped {
                scan_into(&path, depth + 1, found);
            }
        } else if name.ends_with(".py")
            && let Ok(facts) = fs::metadata(&path)
        {
            found.insert(path, (facts.modified().ok(), facts.len()));
        }
    }
}

/// Folders with many files, none of them the application's. Links to folders are not followed either.
const SKIPPED: [&str; 4] = [
    "__pycache__",
    "node_modules",
    "site-packages",
    "dist-packages",
];

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("sluice-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("package/__pycache__")).unwrap();
            fs::create_dir_all(path.join("venv")).unwrap();
            fs::write(path.join("venv/pyvenv.cfg"), "").unwrap();
            Folder(path)
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn changes_are_reported_when_they_have_settled() {
        let folder = Folder::new("watch");
        let first = folder.write("app.py", "1");
        let mut watch = Watch::new(&folder.0);
        assert_eq!(watch.look(), Changes::None);
        folder.write("app.py", "22");
        assert_eq!(watch.look(), Changes::Going(first.clone()));
        let second = folder.write("package/more.py", "1");
        assert_eq!(watch.look(), Changes::Going(second));
        assert_eq!(watch.look(), Changes::Settled);
        assert_eq!(watch.look(), Changes::None);
        fs::remove_file(&first).unwrap();
        assert_eq!(watch.look(), Changes::Going(first));
    }

    #[test]
    fn other_files_and_installed_packages_do_not_count() {
        let folder = Folder::new("watch-others");
        let mut watch = Watch::new(&folder.0);
        folder.write("data.txt", "1");
        folder.write("venv/module.py", "1");
        folder.write("package/__pycache__/x.py", "1");
        assert_eq!(watch.look(), Changes::None);
        assert_eq!(
            Watch::new(Path::new("/no/such/folder")).look(),
            Changes::None
        );
    }
}
