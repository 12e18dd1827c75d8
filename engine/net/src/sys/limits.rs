//! Resource limits, such as that of open files.

use std::io;

/// Raises the soft limit of open files to the hard limit and returns it.
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

/// Bytes of a memory page.
pub fn page_bytes() -> u64 {
    // SAFETY: sysconf takes an integer only.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Sets both limits of open files. Raising the hard limit needs root.
pub fn limit_open_files(count: u64) -> io::Result<()> {
    limit(libc::RLIMIT_NOFILE, count)
}

/// Sets both limits of the size of a core file in bytes.
pub fn limit_core_file(bytes: u64) -> io::Result<()> {
    limit(libc::RLIMIT_CORE, bytes)
}

/// Sets both limits of a resource; async-signal-safe.
pub(super) fn limit(what: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: value,
        rlim_max: value,
    };
    // SAFETY: the structure lives through the call.
    match unsafe { libc::setrlimit(what, &limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
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
