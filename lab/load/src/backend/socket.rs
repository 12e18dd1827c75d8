//! Sockets and waiting, as all backends do it: one thread, epoll, level by level.

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

/// Connections waiting to be accepted: as many as the kernel allows.
const BACKLOG: i32 = 65_535;

/// Connections accepted in a row, so that a storm of them does not starve those that are open.
const ACCEPTS_MAX: usize = 64;

/// Events taken at a time.
const EVENTS_MAX: usize = 1024;

/// The events of the listener; no socket has this number.
pub const LISTENER: u64 = u64::MAX;

/// Listens at `host:port` or `unix:/path`.
pub fn listen(address: &str) -> io::Result<OwnedFd> {
    let (domain, at) = resolve(address)?;
    if let Some(path) = address.strip_prefix("unix:") {
        // What an earlier run left behind.
        let _ = fs::remove_file(path);
    }
    let socket = Socket::new(domain, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&at)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Connects, waiting until it is done: to a neighbour, that is at once.
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

/// Who waits for what.
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// What a socket tells.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// The socket, or [`LISTENER`].
    pub who: u64,
    /// It can be read, or has ended.
    pub readable: bool,
    /// It can be written.
    pub writable: bool,
}

impl Poll {
    /// Waits for a listener to begin with.
    pub fn new(listener: &OwnedFd) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&epoll, listener, data, epoll::EventFlags::IN)?;
        Ok(Poll {
            epoll,
            events: Vec::with_capacity(EVENTS_MAX),
        })
    }

    /// Begins to wait for a socket to be readable.
    pub fn add(&self, socket: &OwnedFd) -> io::Result<()> {
        let data = epoll::EventData::new_u64(socket.as_raw_fd() as u64);
        Ok(epoll::add(
            &self.epoll,
            socket,
            data,
            epoll::EventFlags::IN,
        )?)
    }

    /// Waits for a socket to be readable, writable, both or neither.
    pub fn watch(&self, socket: &OwnedFd, reads: bool, writes: bool) -> io::Result<()> {
        let data = epoll::EventData::new_u64(socket.as_raw_fd() as u64);
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, reads);
        flags.set(epoll::EventFlags::OUT, writes);
        Ok(epoll::modify(&self.epoll, socket, data, flags)?)
    }

    /// Waits for at most `most`; gives what was told, the listener last, so that no number of a socket that is closed
    /// in this round is in use again within it.
    pub fn wait(&mut self, most: Option<Duration>, told: &mut Vec<Told>) -> io::Result<()> {
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
        told.clear();
        for event in self.events.drain(..) {
            let (data, flags) = (event.data, event.flags);
            told.push(Told {
                who: data.u64(),
                readable: flags.intersects(!epoll::EventFlags::OUT),
                writable: flags.contains(epoll::EventFlags::OUT),
            });
        }
        told.sort_by_key(|told| told.who == LISTENER);
        Ok(())
    }
}

/// Accepts what waits. When descriptors run out the rest waits on.
pub fn accept(
    listener: &OwnedFd,
    mut each: impl FnMut(OwnedFd) -> io::Result<()>,
) -> io::Result<()> {
    for _ in 0..ACCEPTS_MAX {
        match net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(socket) => {
                // Unix sockets have no such option.
                let _ = sockopt::set_tcp_nodelay(&socket, true);
                each(socket)?;
            }
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

/// Reads once: bytes, nothing yet (`None`), or the end (0).
pub fn read(socket: &OwnedFd, buf: &mut [u8]) -> Option<usize> {
    match net::recv(socket, buf, RecvFlags::empty()) {
        Ok((got, _)) => Some(got),
        Err(Errno::AGAIN | Errno::INTR) => None,
        Err(_) => Some(0),
    }
}

/// Writes once: how many bytes were taken, or `None` if the connection is gone.
pub fn write(socket: &OwnedFd, bytes: &[u8]) -> Option<usize> {
    match net::send(socket, bytes, SendFlags::NOSIGNAL) {
        Ok(sent) => Some(sent),
        Err(Errno::AGAIN | Errno::INTR) => Some(0),
        Err(_) => None,
    }
}

/// Connections by the number of their socket.
pub type ByNumber<T> = HashMap<RawFd, T>;
