//! Sending without copies through this process, and without cutting segments short.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sends `bytes` and tells the kernel that more follows at once, so that a head shares its segment with the
/// body behind it. Gives the number of bytes taken.
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

/// Holds back segments that are not full (`TCP_CORK`) until it is switched off. A long file is sent in fewer and
/// fuller segments that way, which costs less than the two calls.
pub fn cork(socket: BorrowedFd<'_>, corked: Corked) -> io::Result<()> {
    let value = match corked {
        Corked::Yes => 1,
        Corked::No => 0,
    };
    set(socket, libc::TCP_CORK, value)
}

/// Takes no more from the process while so many bytes are not sent (`TCP_NOTSENT_LOWAT`).
pub fn limit_unsent(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set(socket, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Sets an option of TCP that is a number.
pub(super) fn set(
    socket: BorrowedFd<'_>,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    let value = std::ptr::from_ref(&value).cast();
    let fd = socket.as_raw_fd();
    // SAFETY: the value lives through the call and has the size that is told.
    let done = unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, option, value, size) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether segments are held back until they are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corked {
    /// They are.
    Yes,
    /// They go out as they are.
    No,
}

/// Sends up to `len` bytes of `file` from `offset`, straight from the page cache. Gives the number of bytes
/// taken; 0 means that the file ends before `offset`.
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
/// Whether a packet was refused because no packet can be that long (EMSGSIZE).
pub fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}
