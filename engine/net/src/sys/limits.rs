//! The limit of open files.

use std::io;

/// Raises the soft limit of open files to the hard one and gives it.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = read()?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: the structure lives through the call.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(limit.rlim_cur)
}

/// The soft limit of open files.
pub fn open_files() -> io::Result<u64> {
    read().map(|limit| limit.rlim_cur)
}

fn read() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is ours to write to and lives through the call.
    let done = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    if done == 0 {
        Ok(limit)
    } else {
        Err(io::Error::last_os_error())
    }
}
