//! The PID file. It is put in place by renaming, so readers always find a complete PID. It is removed only while it
//! still contains ours.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// The PID file of this process, or none. Clones refer to the same file.
#[derive(Clone, Debug, Default)]
pub struct Pidfile(Arc<Mutex<Option<PathBuf>>>);

impl Pidfile {
    /// Writes the PID of this process to `path`.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        // An absolute path, so that changing or removing the current directory does not matter at the end.
        let whole = std::path::absolute(path)?;
        put(&whole)?;
        *self.path() = Some(whole);
        Ok(())
    }

    /// Renames it to `….oldbin`, as nginx does, to make room for the PID file of the new process.
    pub fn put_aside(&self) -> io::Result<()> {
        let mut path = self.path();
        let Some(current) = path.as_ref().filter(|path| is_ours(path)) else {
            return Ok(());
        };
        let aside = beside(current);
        fs::rename(current, &aside)?;
        *path = Some(aside);
        Ok(())
    }

    /// Undoes [`Pidfile::put_aside`] when the new process is gone.
    pub fn put_back(&self) -> io::Result<()> {
        let mut path = self.path();
        let Some(aside) = path.as_ref() else {
            return Ok(());
        };
        let text = aside.to_string_lossy();
        let Some(usual) = text.strip_suffix(ASIDE) else {
            return Ok(());
        };
        let usual = PathBuf::from(usual);
        fs::rename(aside, &usual)?;
        *path = Some(usual);
        Ok(())
    }

    /// Removes it if it exists and is ours. Further calls do nothing.
    pub fn remove(&self) {
        let path = self.path().take();
        if let Some(path) = path.filter(|path| is_ours(path)) {
            // It may have been removed meanwhile.
            let _ = fs::remove_file(path);
        }
    }

    fn path(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.0.lock().expect("nothing panics while it holds a path")
    }
}

/// The suffix of the old process's PID file during a binary upgrade, as in nginx.
const ASIDE: &str = ".oldbin";

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ASIDE);
    name.into()
}

/// Writes our PID to `path`. If the directory is not writable but the file is, the file is written in place.
fn put(path: &Path) -> io::Result<()> {
    let number = format!("{}\n", std::process::id());
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&beside);
    match made {
        Ok(mut file) => {
            let done = file.write_all(number.as_bytes());
            let done = done.and_then(|()| fs::rename(&beside, path));
            if done.is_err() {
                let _ = fs::remove_file(&beside);
            }
            done
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && path.is_file() => {
            fs::write(path, number)
        }
        Err(error) => Err(error),
    }
}

fn is_ours(path: &Path) -> bool {
    read(path).is_ok_and(|number| number == Some(std::process::id()))
}

/// The PID in a file; `None` if the file does not contain one.
pub fn read(path: &Path) -> io::Result<Option<u32>> {
    let text = fs::read_to_string(path)?;
    Ok(text.trim().parse().ok().filter(|number| *number > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_file_is_left_alone() {
        let folder = std::env::temp_dir().join(format!("sluice-pid-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("pid");
        fs::write(&path, "1\n").unwrap();
        let pidfile = Pidfile::default();
        pidfile.write(&path).unwrap();
        assert_eq!(read(&path).unwrap(), Some(std::process::id()));
        fs::write(&path, "1\n").unwrap();
        pidfile.remove();
        assert_eq!(read(&path).unwrap(), Some(1), "another server's");
        pidfile.write(&path).unwrap();
        pidfile.clone().remove();
        assert!(!path.exists());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing is left");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_successor_finds_the_place_free_and_we_come_back() {
        let folder = std::env::temp_dir().join(format!("sluice-pid-old-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("pid");
        let pidfile = Pidfile::default();
        pidfile.put_aside().unwrap();
        pidfile.write(&path).unwrap();
        pidfile.put_aside().unwrap();
        assert!(!path.exists());
        assert_eq!(
            read(&folder.join("pid.oldbin")).unwrap(),
            Some(std::process::id())
        );
        pidfile.put_back().unwrap();
        pidfile.put_back().unwrap();
        assert_eq!(read(&path).unwrap(), Some(std::process::id()));
        pidfile.put_aside().unwrap();
        pidfile.remove();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let folder = std::env::temp_dir().join(format!("sluice-pid-link-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("other"), "precious").unwrap();
        let path = folder.join("pid");
        std::os::unix::fs::symlink(folder.join("other"), &path).unwrap();
        Pidfile::default().write(&path).unwrap();
        assert_eq!(
            fs::read_to_string(folder.join("other")).unwrap(),
            "precious"
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
