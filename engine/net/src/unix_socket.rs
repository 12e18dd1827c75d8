//! A connected Unix socket.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::task::{Context, Poll, ready};

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::room::Room;
use crate::sys;

/// A connected Unix socket, registered for reading only.
#[derive(Debug)]
pub struct UnixSocket {
    socket: AsyncFd<UnixStream>,
    room: Room,
}

impl UnixSocket {
    /// Registers a connected socket with the runtime of this thread.
    ///
    /// # Errors
    ///
    /// That of the system call.
    pub fn new(socket: UnixStream) -> io::Result<UnixSocket> {
        socket.set_nonblocking(true)?;
        Ok(UnixSocket {
            socket: sys::readiness::register(socket, Interest::READABLE)?,
            room: Room::default(),
        })
    }

    /// Connects to the socket at `path`, or in the abstract namespace if `path` begins with a zero byte. This never
    /// waits: it fails with [`io::ErrorKind::WouldBlock`] if the queue of the listener is full.
    ///
    /// # Errors
    ///
    /// That of the system call.
    pub fn connect(path: &Path) -> io::Result<UnixSocket> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.connect(&SockAddr::unix(path)?)?;
        UnixSocket::new(socket.into())
    }

    /// Ready when a read may find something. Makes no system call; false positives are possible.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        sys::readiness::poll_read_ready(&self.socket, cx)
    }

    /// Reads into the spare capacity of `buf`; 0 is the end of the stream.
    pub fn poll_read(&self, cx: &mut Context<'_>, buf: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        sys::readiness::poll_read(&self.socket, cx, buf)
    }

    /// Reads if the runtime has reported something to read.
    ///
    /// # Errors
    ///
    /// That of the system call; [`io::ErrorKind::WouldBlock`] if there is nothing.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket
            .try_io(Interest::READABLE, |mut socket| socket.read(buf))
    }

    /// Runs `receive` if the runtime has reported something to read. If it finds nothing, and so fails with
    /// [`io::ErrorKind::WouldBlock`], the next report is awaited.
    ///
    /// # Errors
    ///
    /// Those of `receive`, and `WouldBlock` if it was not run.
    pub fn try_receive<R>(
        &self,
        receive: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>,
    ) -> io::Result<R> {
        self.socket
            .try_io(Interest::READABLE, |socket| receive(socket.as_fd()))
    }

    /// Writes from `slices` in order and returns the number of bytes accepted.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut socket = self.socket.get_ref();
            let written = self.room.write(socket.as_fd(), || match slices {
                [one] => socket.write(one),
                _ => socket.write_vectored(slices),
            });
            match written {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.room.poll(cx))?;
                }
                written => return Poll::Ready(written),
            }
        }
    }

    /// Ends the sending direction.
    ///
    /// # Errors
    ///
    /// That of the system call.
    pub fn end(&self) -> io::Result<()> {
        self.socket.get_ref().shutdown(Shutdown::Write)
    }
}

impl AsFd for UnixSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::sys::readiness::registered_events;

    fn runtime() -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_io().build().unwrap()
    }

    #[test]
    fn a_socket_is_registered_for_reading_only() {
        runtime().block_on(async {
            let (ours, _theirs) = UnixStream::pair().unwrap();
            let socket = UnixSocket::new(ours).unwrap();
            let events = registered_events(socket.as_fd().as_raw_fd());
            assert!(!events.is_empty());
            let (input, output) = (libc::EPOLLIN as u32, libc::EPOLLOUT as u32);
            assert!(events.iter().any(|events| events & input != 0));
            assert!(events.iter().all(|events| events & output == 0));
        });
    }

    #[test]
    fn a_write_without_room_waits_for_it() {
        runtime().block_on(async {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut ours = UnixSocket::new(ours).unwrap();
            let part = [7; 8192];
            let slices = [IoSlice::new(&part), IoSlice::new(&part)];
            let mut written = 0;
            while let Poll::Ready(count) =
                poll_fn(|cx| Poll::Ready(ours.poll_write(cx, &slices))).await
            {
                written += count.unwrap();
            }
            assert!(ours.room.is_awaited());
            let mut input = vec![0; written];
            theirs.read_exact(&mut input).unwrap();
            let last = [IoSlice::new(b"end")];
            let count = poll_fn(|cx| ours.poll_write(cx, &last)).await.unwrap();
            assert!(count == 3 && !ours.room.is_awaited());
        });
    }

    #[test]
    fn the_end_of_the_stream_is_read_and_known_without_reading() {
        runtime().block_on(async {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let socket = UnixSocket::new(ours).unwrap();
            let found = socket.try_read(&mut [0]).unwrap_err();
            assert_eq!(found.kind(), io::ErrorKind::WouldBlock);
            (&theirs).write_all(b"ab").unwrap();
            drop(theirs);
            let mut input = Vec::with_capacity(16);
            for expected in [2, 0, 0] {
                let count = poll_fn(|cx| socket.poll_read(cx, &mut input)).await;
                assert_eq!(count.unwrap(), expected);
            }
            assert_eq!(input, b"ab");
            assert_eq!(socket.try_read(&mut [0]).unwrap(), 0);
        });
    }

    #[test]
    fn a_path_or_an_abstract_name_is_dialled() {
        use std::os::linux::net::SocketAddrExt;
        runtime().block_on(async {
            let name = format!("sluice-unix-socket-{}", std::process::id());
            let addr = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
            let _listener = std::os::unix::net::UnixListener::bind_addr(&addr).unwrap();
            UnixSocket::connect(Path::new(&format!("\0{name}"))).unwrap();
            let missing = UnixSocket::connect(Path::new("/nonexistent/socket")).unwrap_err();
            assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        });
    }
}
