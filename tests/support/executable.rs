//! Programs that tests write.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes a program into a folder. A process of its own does that: while another test of this process starts something, its
/// child would hold a file that is being written, and the kernel executes none that someone may write to (`ETXTBSY`).
pub fn executable(folder: &Path, name: &str, script: &str) -> PathBuf {
    let draft = folder.join(format!("{name}.draft"));
    std::fs::write(&draft, script).expect("the folder is writable");
    let path = folder.join(name);
    let installed = Command::new("install")
        .args(["-m", "755"])
        .args([&draft, &path])
        .status();
    assert!(installed.is_ok_and(|status| status.success()), "{name}");
    std::fs::remove_file(&draft).expect("it is ours");
    path
}
