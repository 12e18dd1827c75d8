//! Sockets that the process was started with, such as those of systemd's socket activation.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use socket2::{SockRef, Socket};

/// The listening stream socket with this number, as one of our own; the inherited one stays open, so that a later
/// configuration can ask again.
///
/// An error names a number that is not open or that this process has opened itself, no socket, a socket of another kind,
/// or one that does not listen.
pub fn listening(number: RawFd) -> io::Result<Socket> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: F_GETFD reads the flags of a descriptor and touches no memory; a closed number gives EBADF.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // What this process opens has the flag, and what has the flag is not inherited: a wrong number would otherwise lead
    // to the listener of another site.
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the process was not started with it",
        ));
    }
    // SAFETY: the descriptor is open, as the call above has shown. One that the process was started with belongs to
    // nobody in it and is never closed. Were another named, the calls below would fail or copy it: no memory depends on it.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    let inherited = SockRef::from(&inherited);
    if inherited.r#type()? != socket2::Type::STREAM || !inherited.is_listener()? {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no stream socket that listens",
        ));
    }
    inherited.try_clone()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    /// As if the process had been started with it.
    fn inherited(socket: impl Into<Socket>) -> Socket {
        let socket = socket.into();
        socket.set_cloexec(false).unwrap();
        socket
    }

    #[test]
    fn only_inherited_sockets_that_listen_are_taken() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = socket.local_addr().unwrap();
        assert!(listening(socket.as_raw_fd()).is_err(), "it is our own");
        let socket = inherited(socket);
        let copy = listening(socket.as_raw_fd()).unwrap();
        assert_eq!(copy.local_addr().unwrap().as_socket(), Some(addr));
        // Programs that we start do not get it.
        assert!(listening(copy.as_raw_fd()).is_err());
        let udp = inherited(std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        assert!(listening(udp.as_raw_fd()).is_err());
        let stream = inherited(std::net::TcpStream::connect(addr).unwrap());
        assert!(listening(stream.as_raw_fd()).is_err());
        // What tests print to was there at the start.
        assert!(listening(2).is_err());
        assert!(listening(-1).is_err());
        assert!(listening(RawFd::MAX).is_err());
    }
}
