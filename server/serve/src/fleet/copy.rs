//! The last configuration that this node has taken, on its own disk: what it starts with while the store is away.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::location::Location;
use super::revision::Revision;
use crate::limits::CONFIG_BYTES_MAX;

/// A local copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copy {
    /// The URL that it was read from, without secrets.
    pub source: String,
    /// The text.
    pub text: String,
}

impl Copy {
    /// The file of the copy of what is at `location`, in this folder.
    pub fn path(folder: &Path, location: &Location) -> PathBuf {
        let place = Revision::of(&location.target());
        folder.join(format!("fleet-{place}.json"))
    }

    /// As it is written.
    pub fn to_json(&self) -> String {
        // Only texts occur in it.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a copy; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or is not a copy.
    pub fn read(path: &Path) -> io::Result<Option<Copy>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        // A text of control characters only is written six times as long.
        file.take(CONFIG_BYTES_MAX as u64 * 7)
            .read_to_end(&mut bytes)?;
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_its_own_file() {
        let path = |url: &str| Copy::path(Path::new("/c"), &Location::parse(url).unwrap());
        let own = path("etcd://a:2379/k");
        assert_eq!(
            own,
            path("etcd://user:secret@a:2379/k"),
            "a new password finds the copy"
        );
        assert_ne!(own, path("etcd://b:2379/k"));
        assert_ne!(own, path("etcd://a:2379/l"));
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = std::env::temp_dir().join(format!("sluice-copy-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("copy.json");
        assert_eq!(Copy::read(&path).unwrap(), None);
        let copy = Copy {
            source: "etcd://a/k".into(),
            text: ":80\n\"\u{1}".into(),
        };
        std::fs::write(&path, copy.to_json()).unwrap();
        assert_eq!(Copy::read(&path).unwrap(), Some(copy));
        std::fs::write(&path, "{").unwrap();
        assert!(Copy::read(&path).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
