//! Temporary files without a name: nothing is left of one when its last handle is closed, even if the process is
//! killed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Creates an empty file without a name in `folder`, for reading and writing. On file systems that do not support this,
/// its name is visible for a moment.
pub fn create_unnamed(folder: &Path) -> io::Result<File> {
    let unnamed = OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(folder);
    match unnamed {
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)
            ) =>
        {
            create_and_unlink(folder)
        }
        done => done,
    }
}

fn create_and_unlink(folder: &Path) -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".sluice-{}-{number}", std::process::id()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn nothing_shows_in_the_folder() {
        let folder = std::env::temp_dir().join(format!("sluice-unnamed-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let files = [create_unnamed(&folder), create_and_unlink(&folder)];
        for file in files {
            let file = file.unwrap();
            file.write_all_at(b"content", 3).unwrap();
            let mut read = [0; 4];
            file.read_exact_at(&mut read, 6).unwrap();
            assert_eq!(&read, b"tent");
            assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir(&folder).unwrap();
        assert!(create_unnamed(&folder).is_err());
    }
}
