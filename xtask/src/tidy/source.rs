//! The text files of the repository. What they may contain is up to the rules.

use std::io;
use std::path::Path;

/// One text file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path relative to the root of the repository, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl Source {
    /// A file with this text, for tests of the rules.
    #[cfg(test)]
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Source {
            path: path.into(),
            text: text.into(),
        }
    }

    /// Its folder; empty at the top.
    pub fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// The lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }
}

/// Folders written by tools, and those that only feed tests; `.git` is a file in additional worktrees.
const SKIPPED: &[&str] = &[
    "target",
    ".git",
    "corpus",
    "artifacts",
    "seeds",
    "node_modules",
];

/// Reads all text files below `root`; files that are not UTF-8 are ignored.
pub fn read_all(root: &Path) -> io::Result<Vec<Source>> {
    let mut sources = Vec::new();
    read_folder(root, "", &mut sources)?;
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(sources)
}

fn read_folder(root: &Path, below: &str, sources: &mut Vec<Source>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(below))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = if below.is_empty() {
            name.clone()
        } else {
            format!("{below}/{name}")
        };
        let kind = entry.file_type()?;
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            read_folder(root, &path, sources)?;
        } else if kind.is_file() {
            match std::fs::read(entry.path()).map(String::from_utf8) {
                Ok(Ok(text)) => sources.push(Source { path, text }),
                Ok(Err(_not_text)) => {}
                // Files may disappear meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
