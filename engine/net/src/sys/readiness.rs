//! Registers descriptors with the runtime of this thread for one direction.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// What owns one descriptor and keeps it as long as it exists.
pub trait Owner: AsRawFd {}

impl Owner for OwnedFd {}
impl Owner for TcpListener {}
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
