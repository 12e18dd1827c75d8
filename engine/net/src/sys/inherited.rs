//! Sockets that the process was started with, such as those of systemd's socket activation.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use socket2::{SockRef, Socket};

/// The listening stream socket with this number, as one of our own; the inherited one stays open, so that a later
/// configuration can ask again. It is kept from programs that we start.
///
/// An error names a number that is not open, no socket, a socket of another kind, or one that does not listen.
pub fn listening(number: RawFd) -> io::Result<Socket> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: F_SETFD changes a flag of a descriptor and touches no memory; a closed number gives EBADF.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
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

    #[test]
    fn only_sockets_that_listen_are_taken() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = socket.local_addr().unwrap();
        let copy = listening(socket.as_raw_fd()).unwrap();
        assert_eq!(copy.local_addr().unwrap().as_socket(), Some(addr));
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(listening(udp.as_raw_fd()).is_err());
        let stream = std::net::TcpStream::connect(addr).unwrap();
        assert!(listening(stream.as_raw_fd()).is_err());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(listening(file.as_raw_fd()).is_err());
        assert!(listening(-1).is_err());
        assert!(listening(RawFd::MAX).is_err());
    }
}
