//! Peeks at received bytes without consuming them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Copies received bytes to `out` and leaves them in the socket; returns their number, 0 at the end of the stream.
pub fn peek(socket: BorrowedFd<'_>, out: &mut [u8]) -> io::Result<usize> {
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the pointer and length describe `out`, which lives through the call; the descriptor is borrowed.
    let count = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            out.as_mut_ptr().cast(),
            out.len(),
            flags,
        )
    };
    if count < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(count as usize)
    }
}
