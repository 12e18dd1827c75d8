//! Listening sockets: binding them and accepting connections. `binding` says what serves them.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::task::{Context, Poll, ready};

use sluice_message::Remote;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::limits::LISTEN_BACKLOG;
use crate::probes::Probes;
use crate::sockets::{Kind, SocketSettings};
use crate::stream::{Stream, canonical};
use crate::sys;
use crate::tcp_socket::TcpSocket;
use crate::unix_socket::UnixSocket;

/// A listen address. Equal addresses share their sockets across a reload.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListenAddr {
    /// All addresses of the machine, IPv6 and IPv4, on this TCP port.
    AnyTcp(u16),
    /// All IPv6 addresses of the machine, without IPv4, on this TCP port.
    AnyTcp6(u16),
    /// One TCP address.
    Tcp(SocketAddr),
    /// A Unix socket with optional permission bits.
    Unix {
        /// Its path.
        path: PathBuf,
        /// Permission bits such as `0o220`; `None` leaves them to the umask.
        mode: Option<u32>,
    },
    /// A listening socket inherited by the process, by descriptor number.
    Inherited(RawFd),
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddr::AnyTcp(port) => write!(f, ":{port}"),
            ListenAddr::AnyTcp6(port) => write!(f, "tcp6/:{port}"),
            ListenAddr::Tcp(addr) => write!(f, "{addr}"),
            ListenAddr::Unix { path, .. } => write!(f, "unix/{}", path.display()),
            ListenAddr::Inherited(number) => write!(f, "fd/{number}"),
        }
    }
}

impl ListenAddr {
    /// The requested TCP port; `None` for Unix and inherited sockets.
    pub fn port(&self) -> Option<u16> {
        match self {
            ListenAddr::AnyTcp(port) | ListenAddr::AnyTcp6(port) => Some(*port),
            ListenAddr::Tcp(addr) => Some(addr.port()),
            ListenAddr::Unix { .. } | ListenAddr::Inherited(_) => None,
        }
    }
}

/// The sockets bound to one address, for all workers.
pub struct Bound {
    sockets: Vec<Socket>,
}

impl Bound {
    /// Binds `addr` for `workers` workers. TCP gets one socket per worker, among which the kernel distributes the
    /// connections, so a connection wakes only its own worker.
    ///
    /// `ours` are addresses that this process already listens on: their ports may be shared, any other port in use is
    /// an error.
    pub fn bind(addr: &ListenAddr, workers: usize, ours: &[&ListenAddr]) -> io::Result<Bound> {
        let shared = ours
            .iter()
            .any(|other| addr.port().is_some() && addr.port() == other.port());
        let probe = if shared { Probe::Skip } else { Probe::Ask };
        let sockets = match addr {
            ListenAddr::AnyTcp(port) => {
                let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port));
                match bind_tcp(v6, workers, probe, Families::Both) {
                    // A machine without IPv6 rejects the address family, not the port.
                    Err(error) if is_family_missing(&error) => bind_tcp(
                        SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port)),
                        workers,
                        probe,
                        Families::One,
                    )?,
                    other => other?,
                }
            }
            ListenAddr::AnyTcp6(port) => {
                let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port));
                bind_tcp(v6, workers, probe, Families::One)?
            }
            ListenAddr::Tcp(addr) => {
                let families = match addr.ip().is_unspecified() {
                    true => Families::Both,
                    false => Families::One,
                };
                bind_tcp(*addr, workers, probe, families)?
            }
            ListenAddr::Unix { path, mode } => one_for_all(bind_unix(path, *mode)?, workers)?,
            ListenAddr::Inherited(number) => one_for_all(inherited(*number)?, workers)?,
        };
        Ok(Bound { sockets })
    }

    /// The sockets, one for each worker.
    pub fn into_sockets(self) -> Vec<Socket> {
        self.sockets
    }
}

pub(crate) fn is_family_missing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
    )
}

/// Whether to check first that a port is free.
#[derive(Clone, Copy, PartialEq)]
enum Probe {
    Ask,
    Skip,
}

fn bind_tcp(
    addr: SocketAddr,
    workers: usize,
    probe: Probe,
    families: Families,
) -> io::Result<Vec<Socket>> {
    // With SO_REUSEPORT, a second process of the same user would silently share the port. The first socket is bound
    // without it, to get "address in use".
    if probe == Probe::Ask {
        drop(tcp_socket(addr, SharePort::No, families)?);
    }
    (0..workers)
        .map(|_| {
            let socket = tcp_socket(addr, SharePort::Yes, families)?;
            socket.listen(LISTEN_BACKLOG)?;
            Ok(socket)
        })
        .collect()
}

#[derive(Clone, Copy, PartialEq)]
enum SharePort {
    Yes,
    No,
}

/// Whether an IPv6 socket also accepts IPv4.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Families {
    Both,
    One,
}

fn tcp_socket(addr: SocketAddr, share: SharePort, families: Families) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    if share == SharePort::Yes {
        socket.set_reuse_port(true)?;
    }
    if addr.is_ipv6() {
        socket.set_only_v6(families == Families::One)?;
    }
    // Inherited by accepted sockets, which saves a system call for each.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&addr.into())?;
    Ok(socket)
}

/// One socket shared by all workers: whichever is first accepts.
fn one_for_all(socket: Socket, workers: usize) -> io::Result<Vec<Socket>> {
    let mut sockets = Vec::with_capacity(workers);
    for _ in 1..workers {
        sockets.push(socket.try_clone()?);
    }
    sockets.push(socket);
    Ok(sockets)
}

fn inherited(number: RawFd) -> io::Result<Socket> {
    let socket = sys::inherited::listening(number)?;
    socket.set_nonblocking(true)?;
    if !is_unix(&socket)? {
        socket.set_tcp_nodelay(true)?;
    }
    Ok(socket)
}

fn is_unix(socket: &Socket) -> io::Result<bool> {
    Ok(socket.local_addr()?.is_unix())
}

fn bind_unix(path: &PathBuf, mode: Option<u32>) -> io::Result<Socket> {
    let address = socket2::SockAddr::unix(path)?;
    remove_dead_socket(path, &address)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address)?;
    if let Some(mode) = mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    socket.listen(LISTEN_BACKLOG)?;
    Ok(socket)
}

/// A socket file left by a dead process would block the address for ever. If something accepts connections on it, the
/// address is in use.
fn remove_dead_socket(path: &PathBuf, address: &socket2::SockAddr) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let Ok(meta) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !meta.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is not a socket is there",
        ));
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    match probe.connect(address) {
        Ok(()) => Err(io::ErrorKind::AddrInUse.into()),
        Err(_) => std::fs::remove_file(path),
    }
}

/// The files of the unix sockets that this process listens on. They are removed once nothing accepts on them any more: not
/// while the process of a binary upgrade does.
#[derive(Debug, Default)]
pub(crate) struct SocketFiles(HashSet<PathBuf>);

impl SocketFiles {
    /// Notes the files of `listening`, and removes those of other addresses, whose sockets are closed.
    pub fn keep_only<'a>(&mut self, listening: impl Iterator<Item = &'a ListenAddr>) {
        let mut kept = HashSet::new();
        for addr in listening {
            if let ListenAddr::Unix { path, .. } = addr {
                kept.insert(path.clone());
            }
        }
        for path in self.0.drain() {
            if !kept.contains(&path) && !remove_file_of(&path) {
                kept.insert(path);
            }
        }
        self.0 = kept;
    }
}

/// Removes the file of a closed socket. Returns false if something still accepts connections on it.
fn remove_file_of(path: &PathBuf) -> bool {
    let Ok(address) = socket2::SockAddr::unix(path) else {
        return true;
    };
    match remove_dead_socket(path, &address) {
        Ok(()) => true,
        // What else can be wrong does not get better by another try.
        Err(error) => error.kind() != io::ErrorKind::AddrInUse,
    }
}

/// A listening socket of one worker.
pub(crate) enum Listener {
    Tcp(AsyncFd<TcpListener>),
    Unix(AsyncFd<UnixListener>),
}

impl Listener {
    /// Registers a bound socket with the runtime of the current worker.
    pub(crate) fn new(socket: Socket) -> io::Result<Listener> {
        Ok(match is_unix(&socket)? {
            false => {
                let listener = TcpListener::from(OwnedFd::from(socket));
                Listener::Tcp(sys::readiness::register(listener, Interest::READABLE)?)
            }
            true => {
                let listener = UnixListener::from(OwnedFd::from(socket));
                Listener::Unix(sys::readiness::register(listener, Interest::READABLE)?)
            }
        })
    }

    /// A duplicate of the socket.
    pub(crate) fn copy(&self) -> io::Result<Socket> {
        match self {
            Listener::Tcp(listener) => SockRef::from(listener).try_clone(),
            Listener::Unix(listener) => SockRef::from(listener).try_clone(),
        }
    }

    /// Enables or disables keep-alive probes for connections accepted from now on.
    pub(crate) fn probe(&self, probes: Option<&Probes>) -> io::Result<()> {
        match (self, probes) {
            (Listener::Tcp(listener), Some(probes)) => probes.set(SockRef::from(listener)),
            (Listener::Tcp(listener), None) => SockRef::from(listener).set_keepalive(false),
            (Listener::Unix(_), _) => Ok(()),
        }
    }

    /// Accepts a connection without waiting, even if the runtime has not reported one.
    pub(crate) fn accept_now(&self) -> io::Result<(Stream, Remote)> {
        match self {
            Listener::Tcp(listener) => accept_tcp(listener.get_ref()),
            Listener::Unix(listener) => accept_unix(listener.get_ref()),
        }
    }

    /// Applies socket options, as far as the system accepts them.
    pub(crate) fn set(&self, settings: &SocketSettings) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => settings.set(SockRef::from(listener), Kind::Tcp),
            Listener::Unix(listener) => settings.set(SockRef::from(listener), Kind::Unix),
        }
    }

    /// Accepts the next connection.
    pub(crate) fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Stream, Remote)>> {
        match self {
            Listener::Tcp(listener) => poll_accept(listener, cx, accept_tcp),
            Listener::Unix(listener) => poll_accept(listener, cx, accept_unix),
        }
    }
}

/// Accepts from `listener` with `accept` once a client waits.
fn poll_accept<L: AsRawFd>(
    listener: &AsyncFd<L>,
    cx: &mut Context<'_>,
    accept: fn(&L) -> io::Result<(Stream, Remote)>,
) -> Poll<io::Result<(Stream, Remote)>> {
    loop {
        let mut guard = ready!(listener.poll_read_ready(cx))?;
        if let Ok(accepted) = guard.try_io(|listener| accept(listener.get_ref())) {
            return Poll::Ready(accepted);
        }
    }
}

fn accept_tcp(listener: &TcpListener) -> io::Result<(Stream, Remote)> {
    let (socket, remote) = sys::listening::accept(listener.as_fd())?;
    let stream = Stream::Tcp(TcpSocket::new(socket));
    Ok((stream, Remote::Ip(canonical(remote))))
}

fn accept_unix(listener: &UnixListener) -> io::Result<(Stream, Remote)> {
    let (socket, _) = listener.accept()?;
    let socket = UnixSocket::new(socket)?;
    Ok((Stream::Unix(Box::new(socket)), Remote::Unix))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::ports::free_port;

    #[test]
    fn a_port_in_use_is_refused_even_by_our_own_shared_sockets() {
        let addr = ListenAddr::Tcp(SocketAddr::from(([127, 0, 0, 1], free_port())));
        let first = Bound::bind(&addr, 2, &[]).unwrap();
        let second = Bound::bind(&addr, 2, &[]).map(|_| ()).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        // An address of our own with the same port does not conflict.
        let any = ListenAddr::AnyTcp(addr.port().unwrap());
        assert!(Bound::bind(&any, 2, &[&addr]).is_ok());
        drop(first);
        assert!(Bound::bind(&addr, 2, &[]).is_ok());
    }

    #[test]
    fn a_dead_unix_socket_is_replaced_and_a_live_one_is_in_use() {
        let dir = std::env::temp_dir().join(format!("sluice-listen-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let addr = ListenAddr::Unix {
            path: dir.join("s"),
            mode: Some(0o600),
        };
        let first = Bound::bind(&addr, 2, &[]).unwrap();
        let second = Bound::bind(&addr, 2, &[]).map(|_| ()).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(Bound::bind(&addr, 1, &[]).is_ok());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_file_of_a_socket_goes_with_the_last_who_accepts_on_it() {
        let dir = std::env::temp_dir().join(format!("sluice-files-of-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let [first, second] = ["a", "b"].map(|name| ListenAddr::Unix {
            path: dir.join(name),
            mode: None,
        });
        let is_there = |name: &str| dir.join(name).exists();
        let mut files = SocketFiles::default();
        let bound = [&first, &second].map(|addr| Bound::bind(addr, 2, &[]).unwrap());
        files.keep_only([&first, &second].into_iter());
        let [first_bound, second_bound] = bound;
        drop(second_bound);
        files.keep_only([&first].into_iter());
        assert!(is_there("a") && !is_there("b"));
        // As if a successor had inherited the socket.
        files.keep_only([].into_iter());
        assert!(is_there("a"));
        drop(first_bound);
        // Another file in its place is left alone.
        std::fs::remove_file(dir.join("a")).unwrap();
        std::fs::write(dir.join("a"), "not a socket").unwrap();
        files.keep_only([].into_iter());
        assert!(is_there("a"));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
