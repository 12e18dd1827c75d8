//! Receiving into memory that holds nothing yet.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Receives into the spare capacity of `buf` without waiting. Returns the number of bytes: 0 at the end of the stream, or
/// if there is no capacity.
///
/// # Errors
///
/// That of the system call; [`io::ErrorKind::WouldBlock`] if there is nothing.
pub fn receive(socket: BorrowedFd<'_>, buf: &mut Vec<u8>) -> io::Result<usize> {
    let spare = buf.spare_capacity_mut();
    // SAFETY: the pointer and length describe the spare capacity, which lives through the call; the descriptor is
    // borrowed.
    let count = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            spare.as_mut_ptr().cast(),
            spare.len(),
            libc::MSG_DONTWAIT,
        )
    };
    let Ok(count) = usize::try_from(count) else {
        return Err(io::Error::last_os_error());
    };
    // SAFETY: the kernel has written `count` bytes into the spare capacity.
    unsafe { buf.set_len(buf.len() + count) };
    Ok(count)
}
