//! The folder of a run. It is removed when the run is over, however that ends: another process of the lab waits for the
//! run and cleans up, so that not even a killed run leaves anything behind.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

/// How often removal is retried: servers of a killed run exit by themselves and may still write files.
const TRIES: u32 = 50;

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Message to the sweeper: leave the folder.
const KEEP: &[u8] = b"keep";

/// Waits until the parent process is gone, and removes the folder unless told to keep it.
pub fn sweep(dir: &Path) {
    let mut received = Vec::new();
    let _ = io::stdin().read_to_end(&mut received);
    if received != KEEP {
        for _ in 0..TRIES {
            if fs::remove_dir_all(dir).is_ok() || !dir.exists() {
                break;
            }
            thread::sleep(PAUSE);
        }
    }
}

/// A folder with its sweeper process.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    sweeper: Option<(Child, ChildStdin)>,
}

impl Folder {
    /// Creates the folder. Servers that drop privileges can read below it.
    pub fn make() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("sluice-lab-{}", std::process::id()));
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(&path).map_err(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        let sweeper = std::env::current_exe().and_then(|exe| {
            Command::new(exe)
                .arg("sweep")
                .arg(&path)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                // Ctrl-C ends the run, not the process that cleans up after it.
                .process_group(0)
                .spawn()
        });
        let mut child = sweeper.map_err(failed)?;
        let pipe = child.stdin.take();
        Ok(Folder {
            sweeper: pipe.map(|pipe| (child, pipe)),
            path,
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the folder.
    pub fn keep(mut self) {
        if let Some((_, pipe)) = &mut self.sweeper {
            let _ = pipe.write_all(KEEP);
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some((mut child, pipe)) = self.sweeper.take() {
            drop(pipe);
            let _ = child.wait();
        }
    }
}
