//! Permission for on-demand certificates: who may decide whether a name gets one.

use std::io;
use std::path::PathBuf;

/// What decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// An HTTP endpoint with this URL: a 2xx response permits (`ask`).
    Endpoint(String),
    /// The folders in another folder (`permission python_dir`).
    Folders(Folders),
}

/// Permits `NAME.SUFFIX` where a folder has a subfolder called `NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    /// Without links, so that links in it can be checked.
    root: PathBuf,
    /// In lower case, without dots at its ends.
    suffix: String,
}

impl Folders {
    /// Permits the subfolders of `root` as the first labels of names below `suffix`.
    ///
    /// # Errors
    ///
    /// `root` is not a folder, or `suffix` is empty.
    pub fn new(root: &str, suffix: &str) -> io::Result<Folders> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let root = PathBuf::from(root).canonicalize()?;
        if !root.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let suffix = suffix.trim().trim_matches('.').to_ascii_lowercase();
        if suffix.is_empty() {
            return Err(invalid("the domain suffix is empty"));
        }
        Ok(Folders { root, suffix })
    }

    /// Whether `name` may have a certificate.
    pub fn permits(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let label = name
            .strip_suffix(&self.suffix)
            .and_then(|rest| rest.strip_suffix('.'));
        let Some(label) = label.filter(|label| is_label(label)) else {
            return false;
        };
        // A link may not lead out of the root.
        let folder = self.root.join(label).canonicalize();
        folder.is_ok_and(|folder| folder.starts_with(&self.root) && folder.is_dir())
    }
}

/// Letters, digits, and `-` or `_` inside.
fn is_label(label: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = label.as_bytes();
    is_end(bytes.first())
        && is_end(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_are_permitted_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("sluice-permission-{}", std::process::id()));
        let root = path.join("apps");
        std::fs::create_dir_all(root.join("feature-b")).unwrap();
        std::fs::create_dir_all(path.join("outside")).unwrap();
        std::fs::write(root.join("file"), "").unwrap();
        std::os::unix::fs::symlink(path.join("outside"), root.join("link")).unwrap();
        let folders = Folders::new(root.to_str().unwrap(), ".Example.org").unwrap();
        for (name, expected) in [
            ("feature-b.example.org", true),
            ("FEATURE-B.EXAMPLE.ORG.", true),
            ("other.example.org", false),
            ("file.example.org", false),
            ("link.example.org", false),
            ("example.org", false),
            (".example.org", false),
            ("..example.org", false),
            ("a.feature-b.example.org", false),
            ("feature-b.example.com", false),
            ("feature-bexample.org", false),
        ] {
            assert_eq!(folders.permits(name), expected, "{name}");
        }
        assert!(Folders::new(root.to_str().unwrap(), ".").is_err());
        assert!(Folders::new(root.join("none").to_str().unwrap(), "x.org").is_err());
        std::fs::remove_dir_all(&path).unwrap();
    }
}
