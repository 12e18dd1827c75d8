//! A TCP socket that is registered with the runtime only for what it waits for.

use std::cell::Cell;
use std::future::Future;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWrite, Interest};
use tokio::net::TcpStream;

use crate::sys;

/// How many first reads in vain let a worker expect that the next one is in vain too.
const READS_IN_VAIN: u8 = 3;

/// Of so many connections from which no early request is expected, one is read from all the same.
const EXPECTATION_PERIOD: u8 = 32;

/// A connected TCP socket, which does not block.
///
/// The request of a client may have arrived when its connection is accepted, and the response mostly fits the kernel's
/// buffer. A connection that then ends never waits: registering it and removing it would be a fifth of what it costs.
///
/// A socket that waits for its client is registered for reading only. Most never wait for room to write, and the kernel
/// would report at once that there is room.
#[derive(Debug)]
pub struct TcpSocket(State);

#[derive(Debug)]
enum State {
    /// The runtime does not know it.
    New(std::net::TcpStream),
    /// Registered for reading.
    Reading(AsyncFd<std::net::TcpStream>),
    /// Registered for both directions.
    Both(TcpStream),
    /// It could not be registered, and is closed.
    Lost,
}

impl From<TcpStream> for TcpSocket {
    fn from(socket: TcpStream) -> TcpSocket {
        TcpSocket(State::Both(socket))
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
            State::Reading(socket) => Some(socket.as_fd()),
            State::Both(socket) => Some(socket.as_fd()),
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
        if let Some(read) = self.read_early(|socket| sys::receive::receive(socket, buf)) {
            return Poll::Ready(read);
        }
        match self.registered_for_reading()? {
            Registered::Reading(socket) => sys::readiness::poll_read(socket, cx, buf),
            // The future has no state of its own: dropping it while pending loses nothing.
            Registered::Both(socket) => pin!(socket.read_buf(buf)).as_mut().poll(cx),
        }
    }

    /// Reads what has arrived, without waiting.
    ///
    /// # Errors
    ///
    /// That of the system call; [`io::ErrorKind::WouldBlock`] if nothing has arrived.
    pub fn try_read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            State::New(socket) => socket.read(bytes),
            State::Reading(socket) => {
                socket.try_io(Interest::READABLE, |mut socket| socket.read(bytes))
            }
            State::Both(socket) => socket.try_read(bytes),
            State::Lost => Err(closed()),
        }
    }

    /// Writes from `slices` in order and returns the number of bytes accepted.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(mut socket) = self.not_for_writing() {
            let written = match slices {
                [one] => socket.write(one),
                _ => socket.write_vectored(slices),
            };
            if let Some(done) = at_once(written) {
                return Poll::Ready(done);
            }
        }
        let socket = Pin::new(self.registered_for_both(cx)?);
        match slices {
            [one] => socket.poll_write(cx, one),
            _ => socket.poll_write_vectored(cx, slices),
        }
    }

    /// Ready when a read may find something. False positives are possible.
    pub fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.registered_for_reading()? {
            Registered::Reading(socket) => sys::readiness::poll_read_ready(socket, cx),
            Registered::Both(socket) => socket.poll_read_ready(cx),
        }
    }

    /// Runs an operation that needs something to read, once it no longer reports [`io::ErrorKind::WouldBlock`].
    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        mut operation: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if let Some(done) = self.read_early(&mut operation) {
            return Poll::Ready(done);
        }
        match self.registered_for_reading()? {
            Registered::Reading(socket) => loop {
                let mut guard = ready!(socket.poll_read_ready(cx))?;
                if let Ok(done) = guard.try_io(|socket| operation(socket.as_fd())) {
                    return Poll::Ready(done);
                }
            },
            Registered::Both(socket) => loop {
                ready!(socket.poll_read_ready(cx))?;
                let done = socket.try_io(Interest::READABLE, || operation(socket.as_fd()));
                if let Some(done) = at_once(done) {
                    return Poll::Ready(done);
                }
            },
        }
    }

    /// Runs an operation that needs room to write, once it no longer reports [`io::ErrorKind::WouldBlock`].
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        mut operation: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if let Some(socket) = self.not_for_writing()
            && let Some(done) = at_once(operation(socket.as_fd()))
        {
            return Poll::Ready(done);
        }
        let socket = self.registered_for_both(cx)?;
        loop {
            ready!(socket.poll_write_ready(cx))?;
            let done = socket.try_io(Interest::WRITABLE, || operation(socket.as_fd()));
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

    /// The first read of a connection, before the socket is registered, where a request may have arrived already; `None`
    /// if it has to wait.
    fn read_early(
        &self,
        read: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        let State::New(socket) = &self.0 else {
            return None;
        };
        EXPECTATION.with(|expectation| {
            if !expectation.is_worth_a_read() {
                return None;
            }
            let done = at_once(read(socket.as_fd()));
            expectation.note(done.is_some());
            done
        })
    }

    /// The socket, if the runtime would not report when there is room to write.
    fn not_for_writing(&self) -> Option<&std::net::TcpStream> {
        match &self.0 {
            State::New(socket) => Some(socket),
            State::Reading(socket) => Some(socket.get_ref()),
            State::Both(_) | State::Lost => None,
        }
    }

    fn registered_for_reading(&mut self) -> io::Result<Registered<'_>> {
        if let State::New(_) = &self.0
            && let State::New(socket) = std::mem::replace(&mut self.0, State::Lost)
        {
            self.0 = State::Reading(sys::readiness::register(socket, Interest::READABLE)?);
        }
        match &mut self.0 {
            State::Reading(socket) => Ok(Registered::Reading(socket)),
            State::Both(socket) => Ok(Registered::Both(socket)),
            State::New(_) | State::Lost => Err(closed()),
        }
    }

    fn registered_for_both(&mut self, cx: &Context<'_>) -> io::Result<&mut TcpStream> {
        if !matches!(self.0, State::Both(_)) {
            let socket = match std::mem::replace(&mut self.0, State::Lost) {
                State::New(socket) => socket,
                State::Reading(socket) => {
                    // A read that waits is to wait anew, at the new registration.
                    cx.waker().wake_by_ref();
                    socket.into_inner()
                }
                State::Both(_) | State::Lost => return Err(closed()),
            };
            self.0 = State::Both(TcpStream::from_std(socket)?);
        }
        match &mut self.0 {
            State::Both(socket) => Ok(socket),
            State::New(_) | State::Reading(_) | State::Lost => Err(closed()),
        }
    }
}

/// A socket as the runtime knows it.
enum Registered<'a> {
    Reading(&'a AsyncFd<std::net::TcpStream>),
    Both(&'a mut TcpStream),
}

thread_local! {
    /// Of the connections that this worker accepts.
    static EXPECTATION: Expectation = const { Expectation::new() };
}

/// Whether requests tend to have arrived when their connections are accepted. They have if the worker is busier than its
/// clients; otherwise each first read would be in vain.
struct Expectation {
    /// How many reads in vain end it.
    left: Cell<u8>,
    /// Connections that were not read from early, since the last one that was.
    skipped: Cell<u8>,
}

impl Expectation {
    const fn new() -> Expectation {
        Expectation {
            left: Cell::new(READS_IN_VAIN),
            skipped: Cell::new(0),
        }
    }

    /// Whether to read from the next connection before it is registered.
    fn is_worth_a_read(&self) -> bool {
        if self.left.get() > 0 {
            return true;
        }
        let skipped = (self.skipped.get() + 1) % EXPECTATION_PERIOD;
        self.skipped.set(skipped);
        skipped == 0
    }

    /// Notes whether such a read has found something.
    fn note(&self, has_arrived: bool) {
        self.left.set(match has_arrived {
            true => READS_IN_VAIN,
            false => self.left.get().saturating_sub(1),
        });
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
    use std::os::fd::AsRawFd;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::sys::readiness::registered_events;

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
        // Tests may share a thread.
        EXPECTATION.with(|expectation| expectation.note(true));
        (TcpSocket::new(socket), client)
    }

    fn is_registered_for_reading(socket: &TcpSocket) -> bool {
        matches!(socket.0, State::Reading(_))
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
            assert!(matches!(socket.0, State::New(_)));
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
            assert!(first.is_pending() && is_registered_for_reading(&socket));
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
            assert!(matches!(socket.0, State::Both(_)));
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
    fn a_socket_that_waits_for_its_client_is_registered_for_reading_only() {
        run(async {
            let (mut socket, mut client) = pair();
            let is_ready = poll_fn(|cx| Poll::Ready(socket.poll_read_ready(cx).is_ready())).await;
            assert!(!is_ready);
            let fd = socket.descriptor().unwrap().as_raw_fd();
            let (input, output) = (libc::EPOLLIN as u32, libc::EPOLLOUT as u32);
            let events = registered_events(fd);
            assert!(events.iter().any(|events| events & input != 0));
            assert!(events.iter().all(|events| events & output == 0));
            client.write_all(b"x").unwrap();
            poll_fn(|cx| socket.poll_read_ready(cx)).await.unwrap();
            assert_eq!(socket.try_read(&mut [0]).unwrap(), 1);
        });
    }

    #[test]
    fn a_read_that_waits_is_polled_again_when_a_write_begins_to_wait() {
        struct Count(AtomicUsize);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        run(async {
            let (mut socket, mut client) = pair();
            let count = Arc::new(Count(AtomicUsize::new(0)));
            let waker = count.clone().into();
            let mut cx = Context::from_waker(&waker);
            let mut buf = Vec::with_capacity(64);
            assert!(socket.poll_read(&mut cx, &mut buf).is_pending());
            let bytes = vec![7; 1 << 20];
            while socket
                .poll_write(&mut cx, &[IoSlice::new(&bytes)])
                .is_ready()
            {}
            assert_eq!(count.0.load(Ordering::Relaxed), 1);
            client.write_all(b"late").unwrap();
            assert_eq!(read(&mut socket).await, b"late");
        });
    }

    #[test]
    fn where_no_request_arrives_early_few_reads_are_in_vain() {
        let expectation = Expectation::new();
        let count = |has_arrived: bool| {
            let tried = (0..100).filter(|_| {
                let is_tried = expectation.is_worth_a_read();
                if is_tried {
                    expectation.note(has_arrived);
                }
                is_tried
            });
            tried.count()
        };
        // The first three, and each 32nd from there.
        assert_eq!(count(false), 6);
        // The next of those, 31 further, finds its request, and so do all after it.
        assert_eq!(count(true), 70);
        assert_eq!(count(true), 100);
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
