//! Files in memory that nobody can change: texts for child processes.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Creates a file in memory with this content. `name` shows in /proc only.
///
/// # Errors
///
/// Those of the system calls.
pub fn create(name: &CStr, content: &[u8]) -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string that lives through the call.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just opened it.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    file.write_all(content)?;
    Ok(file)
}

/// Like [`create`]; the content can never be changed, not even by processes that are given the descriptor.
///
/// # Errors
///
/// Those of the system calls.
pub fn sealed(name: &CStr, content: &[u8]) -> io::Result<File> {
    let file = create(name, content)?;
    let seals = libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: fcntl takes integers here.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_sealed_file_is_read_and_not_changed() {
        let file = sealed(c"test", b"content").unwrap();
        let mut content = [0; 7];
        file.read_exact_at(&mut content, 0).unwrap();
        assert_eq!(&content, b"content");
        assert!(file.write_all_at(b"x", 0).is_err());
        assert!(file.set_len(0).is_err());
    }
}
