//! Room to write in a socket that is registered with the runtime for reading only.

use std::cell::RefCell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::sys;

/// What waits for room in a Unix or UDP socket: a duplicate of its descriptor, which is registered for writing while a
/// write waits.
///
/// Each time that such a socket has got rid of a message, Linux reports that there is room, even if nobody has waited for it
/// (of a TCP socket it reports that only after a write that found none). A socket that is registered for both directions, as
/// those of tokio are, thus wakes its thread once more for each message.
#[derive(Debug, Default)]
pub struct Room(RefCell<Option<AsyncFd<OwnedFd>>>);

impl Room {
    /// Calls `write`, which writes to `socket`, unless one before it has found the kernel's buffer full and no room was
    /// reported since.
    ///
    /// # Errors
    ///
    /// Those of `write`; [`io::ErrorKind::WouldBlock`] if the buffer is full: [`Room::poll`] waits for room then. That of
    /// registering the duplicate.
    pub fn write<T>(
        &self,
        socket: BorrowedFd<'_>,
        write: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut room = self.0.borrow_mut();
        let written = match &*room {
            Some(room) => room.try_io(Interest::WRITABLE, |_| write()),
            None => write(),
        };
        match &written {
            Ok(_) => *room = None,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && room.is_none() => {
                let duplicate = socket.try_clone_to_owned()?;
                *room = Some(sys::readiness::register(duplicate, Interest::WRITABLE)?);
            }
            Err(_) => {}
        }
        written
    }

    /// Ready when a write may find room. False positives are possible.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &*self.0.borrow() {
            Some(room) => room
                .poll_write_ready(cx)
                .map_ok(|mut guard| guard.retain_ready()),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Whether the last write has found the kernel's buffer full.
    pub fn is_awaited(&self) -> bool {
        self.0.borrow().is_some()
    }
}
