//! Access to the outside world: files to import and environment variables.
//!
//! `import` and `substitute` use them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::limits::FILE_BYTES_MAX;

/// Reads what a Caddyfile refers to. Everything the front end knows of the machine passes here.
pub trait Loader {
    /// The bytes of a file; an error of kind `FileTooLarge` above [`FILE_BYTES_MAX`].
    ///
    /// [`FILE_BYTES_MAX`]: crate::limits::FILE_BYTES_MAX
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;

    /// The existing paths that match a pattern, sorted. `*` stands for any characters but `/`, `?`
    /// for one of them; a pattern without either matches the path itself, if it exists.
    fn glob(&self, pattern: &str) -> io::Result<Vec<String>>;

    /// The value of an environment variable; `None` if it is not set.
    fn variable(&self, name: &str) -> Option<String>;

    /// A bcrypt hash of a password that stands in a file of Caddy 1; `None` where none can be made.
    fn hash_password(&self, _password: &str) -> Option<String> {
        None
    }
}

/// The files and the environment of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskLoader;

/// Files and variables in memory, for tests, fuzzing and configurations that come over the network.
#[derive(Clone, Debug, Default)]
pub struct MemoryLoader {
    /// Contents by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Values by name.
    pub variables: BTreeMap<String, String>,
}

impl Loader for DiskLoader {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?
            .take(FILE_BYTES_MAX as u64 + 1)
            .read_to_end(&mut bytes)?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<String>> {
        let mut found = vec![PathBuf::from(if pattern.starts_with('/') {
            "/"
        } else {
            ""
        })];
        for component in pattern.split('/').filter(|component| !component.is_empty()) {
            found = if component.contains(['*', '?']) {
                matching_children(&found, component)
            } else {
                found
                    .into_iter()
                    .map(|parent| parent.join(component))
                    .collect()
            };
        }
        found.retain(|path| fs::symlink_metadata(path).is_ok());
        let mut paths: Vec<String> = found
            .into_iter()
            .filter_map(|path| path.into_os_string().into_string().ok())
            .collect();
        paths.sort();
        Ok(paths)
    }

    fn variable(&self, name: &str) -> Option<String> {
        // `std::env::var` panics on names that no variable can have.
        if name.is_empty() || name.contains(['=', '\0']) {
            return None;
        }
        std::env::var(name).ok()
    }
}

/// Children of `parents` whose name matches. Folders that cannot be listed match nothing, as a
/// shell has it.
fn matching_children(parents: &[PathBuf], component: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for parent in parents {
        let listed = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        for entry in fs::read_dir(listed).into_iter().flatten().flatten() {
            if entry
                .file_name()
                .to_str()
                .is_some_and(|name| matches(component, name))
            {
                found.push(parent.join(entry.file_name()));
            }
        }
    }
    found
}

impl MemoryLoader {
    /// The folders that the files are in.
    fn folders(&self) -> impl Iterator<Item = &str> {
        let slashes = |path: &String| {
            path.match_indices('/')
                .map(|(at, _)| at)
                .collect::<Vec<_>>()
        };
        let parts = self.files.keys().map(move |path| (path, slashes(path)));
        parts.flat_map(|(path, slashes)| slashes.into_iter().map(|at| &path[..at]))
    }
}

impl Loader for MemoryLoader {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        match self.files.get(path) {
            Some(bytes) => Ok(bytes.clone()),
            None if self.folders().any(|folder| folder == path) => {
                Err(io::ErrorKind::IsADirectory.into())
            }
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<String>> {
        let components = pattern.split('/').count();
        let fits = |path: &&str| {
            path.split('/').count() == components
                && pattern
                    .split('/')
                    .zip(path.split('/'))
                    .all(|(want, name)| matches(want, name))
        };
        let paths = self.files.keys().map(String::as_str).chain(self.folders());
        let found: BTreeSet<String> = paths.filter(fits).map(String::from).collect();
        Ok(found.into_iter().collect())
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }
}

/// Whether `name` matches `pattern`, where `*` stands for any characters and `?` for one.
///
/// Walks both once and returns to the last `*` on a mismatch: at worst the product of the lengths.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            Some(_) | None => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        assert!(matches("*.conf", "a.conf") && matches("*", "") && matches("a?c", "abc"));
        assert!(matches("a*b*", "axxbyyb") && matches("é?", "éx"));
        assert!(!matches("*.conf", "a.confx") && !matches("a?", "a") && !matches("", "a"));
    }

    #[test]
    fn memory_and_disk_find_the_same_files() {
        let folder = std::env::temp_dir().join(format!("sluice-glob-{}", std::process::id()));
        fs::create_dir_all(folder.join("sites")).unwrap();
        let mut memory = MemoryLoader::default();
        for name in ["sites/b.conf", "sites/a.conf", "sites/.c.conf", "main"] {
            let path = folder.join(name);
            fs::write(&path, name).unwrap();
            memory
                .files
                .insert(path.to_str().unwrap().into(), name.into());
        }
        let base = folder.to_str().unwrap();
        for pattern in [
            "sites/*.conf",
            "*/a.conf",
            "main",
            "nothing",
            "sites/?.conf",
            "no/*",
        ] {
            let pattern = format!("{base}/{pattern}");
            assert_eq!(
                DiskLoader.glob(&pattern).unwrap(),
                memory.glob(&pattern).unwrap()
            );
        }
        let read = DiskLoader.read(&format!("{base}/main")).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read, b"main");
    }
}
