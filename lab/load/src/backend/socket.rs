//! Sockets and polling shared by all test upstreams: one thread, level-triggered epoll.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, SocketFlags, sockopt};
use socket2::{Domain, SockAddr, Socket, Type};

/// Listen backlog: as many pending connections as the kernel allows.
const BACKLOG: i32 = 65_535;

/// Connections accepted in a row, so that a burst of them does not starve those already open.
const ACCEPTS_MAX: usize = 64;

/// Events fetched per `epoll_wait`.
const EVENTS_MAX: usize = 1024;

/// The token of the listener; no descriptor has this number.
pub const LISTENER: u64 = u64::MAX;

/// Listens at `host:port` or `unix:/path`.
pub fn listen(address: &str) -> io::Result<OwnedFd> {
    let (domain, at) = resolve(address)?;
    if let Some(path) = address.strip_prefix("unix:") {
        // A socket file left behind by an earlier run.
        let _ = fs::remove_file(path);
    }
    let socket = Socket::new(domain, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&at)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Connects in blocking mode; to a local peer that takes no time.
pub fn dial(address: &str) -> io::Result<OwnedFd> {
    let (domain, at) = resolve(address)?;
    let socket = Socket::new(domain, Type::STREAM, None)?;
    socket.connect(&at)?;
    if domain != Domain::UNIX {
        socket.set_tcp_nodelay(true)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn resolve(address: &str) -> io::Result<(Domain, SockAddr)> {
    if let Some(path) = address.strip_prefix("unix:") {
        return Ok((Domain::UNIX, SockAddr::unix(path)?));
    }
    let at: SocketAddr = address.parse().map_err(|_| {
        let text = "an address is 127.0.0.1:8080 or unix:/path";
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })?;
    Ok((Domain::for_address(at), at.into()))
}

/// An epoll instance and its events.
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// Readiness of one socket.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The descriptor, or [`LISTENER`].
    pub who: u64,
    /// Readable, or closed by the peer.
    pub readable: bool,
    /// Writable.
    pub writable: bool,
}

impl Poll {
    /// Creates an instance that polls a listener.
    pub fn new(listener: &OwnedFd) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&epoll, listener, data, epoll::EventFlags::IN)?;
        Ok(Poll {
            epoll,
            events: Vec::with_capacity(EVENTS_MAX),
        })
    }

    /// Registers a socket for reading.
    pub fn add(&self, socket: &OwnedFd) -> io::Result<()> {
        let data = epoll::EventData::new_u64(socket.as_raw_fd() as u64);
        Ok(epoll::add(
            &self.epoll,
            socket,
            data,
            epoll::EventFlags::IN,
        )?)
    }

    /// Polls a socket for reading, writing, both or neither.
    pub fn watch(&self, socket: &OwnedFd, reads: bool, writes: bool) -> io::Result<()> {
        let data = epoll::EventData::new_u64(socket.as_raw_fd() as u64);
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, reads);
        flags.set(epoll::EventFlags::OUT, writes);
        Ok(epoll::modify(&self.epoll, socket, data, flags)?)
    }

    /// Waits for at most `most` and returns the ready sockets, the listener last: a descriptor closed in this round is
    /// then not reused within it.
    pub fn wait(&mut self, most: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let timeout = most.map(|most| Timespec {
            tv_sec: most.as_secs() as i64,
            tv_nsec: most.subsec_nanos() as _,
        });
        self.events.clear();
        match epoll::wait(
            &self.epoll,
            spare_capacity(&mut self.events),
            timeout.as_ref(),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        ready.clear();
        for event in self.events.drain(..) {
            let (data, flags) = (event.data, event.flags);
            ready.push(Ready {
                who: data.u64(),
                readable: flags.intersects(!epoll::EventFlags::OUT),
                writable: flags.contains(epoll::EventFlags::OUT),
            });
        }
        ready.sort_by_key(|ready| ready.who == LISTENER);
        Ok(())
    }
}

/// Accepts pending connections. If descriptors run out, the rest stays in the queue.
pub fn accept(
    listener: &OwnedFd,
    mut each: impl FnMut(OwnedFd) -> io::Result<()>,
) -> io::Result<()> {
    for _ in 0..ACCEPTS_MAX {
        match net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(socket) => {
                // Unix sockets do not have this option.
                let _ = sockopt::set_tcp_nodelay(&socket, true);
                each(socket)?;
            }
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

/// Reads once: the number of bytes, `None` if nothing is available yet, 0 at the end.
pub fn read(socket: &OwnedFd, buf: &mut [u8]) -> Option<usize> {
    match net::recv(socket, buf, RecvFlags::empty()) {
        Ok((got, _)) => Some(got),
        Err(Errno::AGAIN | Errno::INTR) => None,
        Err(_) => Some(0),
    }
}

/// Writes once: the number of bytes accepted, or `None` if the connection is closed.
pub fn write(socket: &OwnedFd, bytes: &[u8]) -> Option<usize> {
    match net::send(socket, bytes, SendFlags::NOSIGNAL) {
        Ok(sent) => Some(sent),
        Err(Errno::AGAIN | Errno::INTR) => Some(0),
        Err(_) => None,
    }
}

/// Connections by descriptor.
pub type ByNumber<T> = HashMap<RawFd, T>;
