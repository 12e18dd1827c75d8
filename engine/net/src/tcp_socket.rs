//! A TCP socket that is registered with the runtime only once it has to wait.

use std::future::Future;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWrite, Interest};
use tokio::net::TcpStream;

use crate::sys;

/// A connected TCP socket, which does not block.
///
/// The request of a client has often arrived when its connection is accepted, and the response fits the kernel's buffer.
/// A connection that then ends never waits: registering it, the report that there is room to write, and removing it would
/// be a fifth of what it costs.
#[derive(Debug)]
pub struct TcpSocket(State);

#[derive(Debug)]
enum State {
    /// The runtime does not know it.
    New(std::net::TcpStream),
    Registered(TcpStream),
    /// It could not be registered, and is closed.
    Lost,
}

impl From<TcpStream> for TcpSocket {
    fn from(socket: TcpStream) -> TcpSocket {
        TcpSocket(State::Registered(socket))
    }
}

impl TcpSocket {
    /// A socket that is already in non-blocking mode.
    pub fn new(socket: std::net::TcpStream) -> TcpSocket {
        TcpSocket(State::New(socket))
    }

    /// The descriptor, unless the socket was closed because it could not be registered.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            State::New(socket) => Some(socket.as_fd()),
            State::Registered(socket) => Some(socket.as_fd()),
            State::Lost => None,
        }
    }

    /// The address of our end.
    ///
    /// # Errors
    ///
    /// That of the system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let address = SockRef::from(&self.open()?).local_addr()?;
        address.as_socket().ok_or_else(closed)
    }

    /// The address of the other end.
    ///
    /// # Errors
    ///
    /// That of the system call: the other end has disconnected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let address = SockRef::from(&self.open()?).peer_addr()?;
        address.as_socket().ok_or_else(closed)
    }

    /// Reads into the spare capacity of `buf`, which must not be zero; 0 is the end of the stream.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        if let State::New(socket) = &self.0
            && let Some(done) = at_once(sys::receive::receive(socket.as_fd(), buf))
        {
            return Poll::Ready(done);
        }
        // The future has no state of its own: dropping it while pending loses nothing.
        pin!(self.registered()?.read_buf(buf)).as_mut().poll(cx)
    }

    /// Reads what has arrived, without waiting.
    ///
    /// # Errors
    ///
    /// That of the system call; [`io::ErrorKind::WouldBlock`] if nothing has arrived.
    pub fn try_read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            State::New(socket) => socket.read(bytes),
            State::Registered(socket) => socket.try_read(bytes),
            State::Lost => Err(closed()),
        }
    }

    /// Writes from `slices` in order and returns the number of bytes accepted.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let State::New(socket) = &mut self.0 {
            let written = match slices {
                [one] => socket.write(one),
                _ => socket.write_vectored(slices),
            };
            if let Some(done) = at_once(written) {
                return Poll::Ready(done);
            }
        }
        let socket = Pin::new(self.registered()?);
        match slices {
            [one] => socket.poll_write(cx, one),
            _ => socket.poll_write_vectored(cx, slices),
        }
    }

    /// Ready when a read may find something. False positives are possible.
    pub fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.registered()?.poll_read_ready(cx)
    }

    /// Ready when a write may make progress. False positives are possible.
    pub fn poll_write_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.0 {
            // Only a write shows whether the buffer is full.
            State::New(_) => Poll::Ready(Ok(())),
            State::Registered(socket) => socket.poll_write_ready(cx),
            State::Lost => Poll::Ready(Err(closed())),
        }
    }

    /// Runs an operation that needs something to read, once it no longer reports [`io::ErrorKind::WouldBlock`].
    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        operation: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_operation(cx, Interest::READABLE, operation)
    }

    /// Runs an operation that needs room to write, once it no longer reports [`io::ErrorKind::WouldBlock`].
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        operation: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_operation(cx, Interest::WRITABLE, operation)
    }

    fn poll_operation(
        &mut self,
        cx: &mut Context<'_>,
        interest: Interest,
        mut operation: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if let State::New(socket) = &self.0
            && let Some(done) = at_once(operation(socket.as_fd()))
        {
            return Poll::Ready(done);
        }
        let socket = self.registered()?;
        loop {
            match interest.is_writable() {
                true => ready!(socket.poll_write_ready(cx))?,
                false => ready!(socket.poll_read_ready(cx))?,
            }
            let done = socket.try_io(interest, || operation(socket.as_fd()));
            if let Some(done) = at_once(done) {
                return Poll::Ready(done);
            }
        }
    }

    /// Ends the sending direction.
    ///
    /// # Errors
    ///
    /// That of the system call.
    pub fn end(&self) -> io::Result<()> {
        SockRef::from(&self.open()?).shutdown(Shutdown::Write)
    }

    fn open(&self) -> io::Result<BorrowedFd<'_>> {
        self.descriptor().ok_or_else(closed)
    }

    /// The socket as the runtime knows it.
    fn registered(&mut self) -> io::Result<&mut TcpStream> {
        if let State::New(_) = &self.0
            && let State::New(socket) = std::mem::replace(&mut self.0, State::Lost)
        {
            self.0 = State::Registered(TcpStream::from_std(socket)?);
        }
        match &mut self.0 {
            State::Registered(socket) => Ok(socket),
            State::New(_) | State::Lost => Err(closed()),
        }
    }
}

/// What an operation has done; `None` if it has to wait.
fn at_once(done: io::Result<usize>) -> Option<io::Result<usize>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        done => Some(done),
    }
}

fn closed() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        runtime.block_on(test);
    }

    /// An accepted socket, and the other end.
    fn pair() -> (TcpSocket, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        (TcpSocket::new(socket), client)
    }

    fn is_registered(socket: &TcpSocket) -> bool {
        matches!(socket.0, State::Registered(_))
    }

    async fn read(socket: &mut TcpSocket) -> Vec<u8> {
        let mut buf = Vec::with_capacity(64);
        poll_fn(|cx| socket.poll_read(cx, &mut buf)).await.unwrap();
        buf
    }

    #[test]
    fn what_need_not_wait_is_not_registered() {
        run(async {
            let (mut socket, mut client) = pair();
            client.write_all(b"request").unwrap();
            assert_eq!(read(&mut socket).await, b"request");
            let slices = [IoSlice::new(b"resp"), IoSlice::new(b"onse")];
            let count = poll_fn(|cx| socket.poll_write(cx, &slices)).await.unwrap();
            assert_eq!(count, 8);
            socket.end().unwrap();
            assert!(!is_registered(&socket));
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            assert_eq!(text, "response");
        });
    }

    #[test]
    fn a_read_waits_for_data() {
        run(async {
            let (mut socket, mut client) = pair();
            let mut buf = Vec::with_capacity(64);
            let first = poll_fn(|cx| Poll::Ready(socket.poll_read(cx, &mut buf))).await;
            assert!(first.is_pending() && is_registered(&socket));
            client.write_all(b"late").unwrap();
            assert_eq!(read(&mut socket).await, b"late");
            drop(client);
            assert_eq!(read(&mut socket).await, b"");
        });
    }

    #[test]
    fn a_write_waits_for_room() {
        run(async {
            let (mut socket, mut client) = pair();
            let bytes = vec![7; 1 << 20];
            let mut sent = 0;
            // Nobody reads, so the kernel's buffers are full at some time.
            loop {
                let written =
                    poll_fn(|cx| Poll::Ready(socket.poll_write(cx, &[IoSlice::new(&bytes)])));
                match written.await {
                    Poll::Ready(count) => sent += count.unwrap(),
                    Poll::Pending => break,
                }
            }
            assert!(is_registered(&socket));
            let reader = std::thread::spawn(move || {
                let mut count = 0;
                let mut buf = vec![0; 1 << 16];
                loop {
                    match client.read(&mut buf).unwrap() {
                        0 => return count,
                        read => count += read,
                    }
                }
            });
            sent += poll_fn(|cx| socket.poll_write(cx, &[IoSlice::new(&bytes)]))
                .await
                .unwrap();
            drop(socket);
            assert_eq!(reader.join().unwrap(), sent);
        });
    }

    #[test]
    fn operations_wait_as_well() {
        run(async {
            let (mut socket, mut client) = pair();
            let mut bytes = [0; 8];
            let peek = |cx: &mut Context<'_>, socket: &mut TcpSocket, bytes: &mut [u8]| {
                socket.poll_receive(cx, |fd| sys::peek::peek(fd, bytes))
            };
            let first = poll_fn(|cx| Poll::Ready(peek(cx, &mut socket, &mut bytes))).await;
            assert!(first.is_pending());
            client.write_all(b"seen").unwrap();
            let count = poll_fn(|cx| peek(cx, &mut socket, &mut bytes))
                .await
                .unwrap();
            assert_eq!(&bytes[..count], b"seen");
            let sent =
                poll_fn(|cx| socket.poll_send(cx, |fd| sys::send::send_more(fd, b"x"))).await;
            assert_eq!(sent.unwrap(), 1);
        });
    }

    #[test]
    fn a_lost_socket_reports_that_it_is_not_connected() {
        let (mut socket, _client) = pair();
        socket.0 = State::Lost;
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let read = socket.poll_read(&mut cx, &mut Vec::with_capacity(1));
        assert!(
            matches!(read, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::NotConnected)
        );
        assert!(socket.descriptor().is_none() && socket.local_addr().is_err());
    }
}
