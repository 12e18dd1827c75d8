//! The last good configuration on disk, for `--resume`. The command line decides when to write it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use sluice_model::Config;

use crate::document::{self, Document};
use crate::limits::BODY_BYTES_MAX;

/// Writes the document of the configuration atomically: concurrent readers, and readers after a crash, see either the old file or the
/// new one. Only the owner can read the file, because it may contain secrets.
pub fn write_autosaved(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.part", std::process::id()));
    let written = write_whole(Path::new(&unfinished), text.as_bytes())
        .and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // The file may not exist if creating it failed.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Reads the configuration; `None` if the file does not exist.
pub fn read_autosaved(path: &Path) -> io::Result<Option<(Config, Document)>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(BODY_BYTES_MAX as u64).read_to_string(&mut text)?;
    let read = document::read(&text);
    read.map(Some)
        .map_err(|denied| io::Error::other(denied.why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else_is_left() {
        let folder = std::env::temp_dir().join(format!("sluice-autosave-{}", std::process::id()));
        let path = folder.join("deep/autosave.json");
        assert!(
            read_autosaved(&path)
                .expect("no file is no error")
                .is_none()
        );
        let text = r#"{"admin":{"@id":"x","listen":"localhost:2020"}}"#;
        write_autosaved(&path, text).expect("the folder is writable");
        write_autosaved(&path, text).expect("again");
        let (config, document) = read_autosaved(&path).expect("readable").expect("saved");
        assert_eq!(config.admin.as_ref().expect("it").listen, "localhost:2020");
        assert_eq!(&*document.text(&config), text);
        let names = fs::read_dir(folder.join("deep"))
            .expect("it was made")
            .count();
        assert_eq!(names, 1);
        fs::remove_dir_all(folder).expect("it was made above");
    }
}
