//! Temporary folders of tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary folder, removed on drop.
pub struct TempFolder(PathBuf);

impl TempFolder {
    pub fn new() -> TempFolder {
        TempFolder::below(&std::env::temp_dir())
    }

    /// A folder in memory, if there is room: on a disk that other programs keep busy a write may take seconds.
    pub fn in_memory() -> TempFolder {
        const MEMORY: &str = "/dev/shm";
        const FREE_KIB_MIN: u64 = 1024 * 1024;
        let output = Command::new("df")
            .args(["-k", "--output=avail", MEMORY])
            .output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let free = text
            .lines()
            .last()
            .and_then(|line| line.trim().parse().ok());
        if free.is_some_and(|free: u64| free >= FREE_KIB_MIN) {
            return TempFolder::below(Path::new(MEMORY));
        }
        TempFolder::new()
    }

    fn below(parent: &Path) -> TempFolder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Always of the same length: texts that are wrapped have the same lines then.
        let name = format!("sluice-test-{:07}-{number:04}", std::process::id());
        let path = parent.join(name);
        std::fs::create_dir_all(&path).expect("the folder for temporary files is writable");
        TempFolder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).expect("the folder is writable");
        }
        std::fs::write(&path, content).expect("the folder is writable");
        path
    }

    /// The text of a file; empty if there is none.
    pub fn read(&self, name: &str) -> String {
        let bytes = std::fs::read(self.0.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
