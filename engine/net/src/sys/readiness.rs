//! Registers descriptors with the runtime of this thread for one direction, and reads from them.

use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// What owns one descriptor and keeps it as long as it exists.
pub trait Owner: AsRawFd {}

impl Owner for OwnedFd {}
impl Owner for TcpListener {}
impl Owner for TcpStream {}
impl Owner for UdpSocket {}
impl Owner for UnixListener {}
impl Owner for UnixStream {}

/// Registers `owner`, which must not block, for `interest`.
///
/// # Errors
///
/// That of the system call.
///
/// # Panics
///
/// If this thread has no runtime.
pub fn register<T: Owner>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: each `Owner` has one descriptor, which stays open and the same as long as it exists.
    let registered = unsafe { AsyncFd::register_with_interest(owner, interest) };
    registered.map_err(|refused| refused.into_parts().1)
}

/// Ready when a read may find something. Makes no system call; false positives are possible.
pub fn poll_read_ready<T: AsRawFd>(
    socket: &AsyncFd<T>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    socket
        .poll_read_ready(cx)
        .map_ok(|mut guard| guard.retain_ready())
}

/// Reads from a stream socket into the spare capacity of `buf`; 0 is the end of the stream.
pub fn poll_read<T: AsFd + AsRawFd>(
    socket: &AsyncFd<T>,
    cx: &mut Context<'_>,
    buf: &mut Vec<u8>,
) -> Poll<io::Result<usize>> {
    let room = buf.capacity() - buf.len();
    loop {
        let mut guard = ready!(socket.poll_read_ready(cx))?;
        let read = guard.try_io(|socket| super::receive::receive(socket.as_fd(), buf));
        let Ok(read) = read else { continue };
        if read.as_ref().is_ok_and(|count| *count > 0 && *count < room) {
            // The socket is empty: saves the read that would only find that. What arrives before the next look at
            // readiness is an event of its own.
            guard.clear_ready();
        }
        return Poll::Ready(read);
    }
}

/// The events that a descriptor is registered for in this process (proc(5), `fdinfo`).
#[cfg(test)]
pub(crate) fn registered_events(fd: i32) -> Vec<u32> {
    let mut events = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fdinfo").unwrap() {
        // Other tests close descriptors meanwhile.
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        for line in text.lines().filter(|line| line.starts_with("tfd:")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words[1].parse() == Ok(fd) {
                events.push(u32::from_str_radix(words[3], 16).unwrap());
            }
        }
    }
    events
}
