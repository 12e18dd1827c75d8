//! Options of listening sockets that the standard library does not offer.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use socket2::SockAddr;

use super::send::set;

/// Accepts a TCP connection without waiting. Its socket does not block, and programs that are started do not inherit it.
///
/// # Errors
///
/// That of the system call (accept4(2)); [`io::ErrorKind::WouldBlock`] if no client waits.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<(TcpStream, SocketAddr)> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let accept = |address: *mut _, size: *mut _| {
        // SAFETY: address and size describe memory that the kernel may write to; the descriptor is borrowed.
        let accepted = unsafe { libc::accept4(listener.as_raw_fd(), address, size, flags) };
        match accepted {
            ..0 => Err(io::Error::last_os_error()),
            // SAFETY: the descriptor is new, and nobody else has it.
            fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        }
    };
    // SAFETY: the kernel writes an address and its size, unless it fails.
    let (socket, address) =
        unsafe { SockAddr::try_init(|address, size| accept(address.cast(), size)) }?;
    match address.as_socket() {
        Some(address) => Ok((socket.into(), address)),
        None => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

/// Enables TCP Fast Open with a queue of this length (`TCP_FASTOPEN`).
pub fn fast_open(socket: BorrowedFd<'_>, queue: i32) -> io::Result<()> {
    set(socket, libc::TCP_FASTOPEN, queue)
}

/// Delays accepting connections until they have sent data, or for at most this many seconds (`TCP_DEFER_ACCEPT`).
pub fn defer(socket: BorrowedFd<'_>, seconds: i32) -> io::Result<()> {
    set(socket, libc::TCP_DEFER_ACCEPT, seconds)
}

/// The value set by [`fast_open`].
pub fn fast_open_queue(socket: BorrowedFd<'_>) -> io::Result<i32> {
    number(socket, libc::TCP_FASTOPEN)
}

/// The value set by [`defer`].
pub fn deferred_seconds(socket: BorrowedFd<'_>) -> io::Result<i32> {
    number(socket, libc::TCP_DEFER_ACCEPT)
}

/// Reads an integer TCP option.
fn number(socket: BorrowedFd<'_>, option: libc::c_int) -> io::Result<i32> {
    let mut value: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    let slot = std::ptr::from_mut(&mut value).cast();
    let fd = socket.as_raw_fd();
    // SAFETY: value and size live through the call, and the size is that of the value.
    let done = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, option, slot, &mut size) };
    match done {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}
