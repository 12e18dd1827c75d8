//! Sending without copying through this process, and in full segments.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sends `bytes` and announces that more follows, so that a head shares its segment with the body after it. Returns the
/// number of bytes accepted.
pub fn send_more(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_MORE | libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the pointer and length describe `bytes`, which lives through the call; the descriptor is borrowed.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            flags,
        )
    };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(sent as usize)
    }
}

/// Enables or disables holding back partial segments (`TCP_CORK`). A long file is sent in fewer, fuller segments, which
/// saves more than the two calls cost.
pub fn cork(socket: BorrowedFd<'_>, corked: Corked) -> io::Result<()> {
    let value = match corked {
        Corked::Yes => 1,
        Corked::No => 0,
    };
    set(socket, libc::TCP_CORK, value)
}

/// Limits unsent data in the kernel to about this many bytes (`TCP_NOTSENT_LOWAT`).
pub fn limit_unsent(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set(socket, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Sets an integer TCP option.
pub(super) fn set(
    socket: BorrowedFd<'_>,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    set_at(socket, libc::IPPROTO_TCP, option, value)
}

/// Sets an integer option of this level.
pub(super) fn set_at(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    let value = std::ptr::from_ref(&value).cast();
    let fd = socket.as_raw_fd();
    // SAFETY: the value lives through the call and has the given size.
    let done = unsafe { libc::setsockopt(fd, level, option, value, size) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether partial segments are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corked {
    /// Hold them back until they are full.
    Yes,
    /// Send them immediately.
    No,
}

/// Sends up to `len` bytes of `file` from `offset`, directly from the page cache. Returns the number of bytes accepted;
/// 0 means that the file ends before `offset`.
pub fn send_file(socket: BorrowedFd<'_>, file: &File, offset: u64, len: u64) -> io::Result<usize> {
    let mut position = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let count = usize::try_from(len).unwrap_or(usize::MAX).min(0x7fff_f000);
    // SAFETY: both descriptors are borrowed, and `position` lives through the call.
    let sent =
        unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), &mut position, count) };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(sent as usize)
    }
}
/// Whether a packet was rejected for exceeding the maximum size (EMSGSIZE).
pub fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}
