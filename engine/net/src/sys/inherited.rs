//! Sockets that the process was started with, such as those of systemd's socket activation.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use socket2::{SockRef, Socket};

/// The listening stream socket with this number, as one of our own; the inherited one stays open, so that a later
/// configuration can ask again.
///
/// An error names a number that is not open or that this process has opened itself, no socket, a socket of another kind,
/// or one that does not listen.
pub fn listening(number: RawFd) -> io::Result<Socket> {
    check(number)?;
    // SAFETY: as `check` has shown, the descriptor is one that the process was started with. It belongs to nobody in it and
    // stays open while `borrowed` is in use.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    SockRef::from(&borrowed).try_clone()
}

/// As [`listening`], and the inherited one is closed: it is not to outlive the interest in it.
pub fn take(number: RawFd) -> io::Result<OwnedFd> {
    let socket = listening(number)?;
    // SAFETY: as `check` has shown, the descriptor is one that the process was started with. It belongs to nobody in it, so
    // that nobody else closes it; a second call finds it closed, or with the flag of what this process opens.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
    Ok(socket.into())
}

/// An error if this is no number of an inherited stream socket that listens.
fn check(number: RawFd) -> io::Result<()> {
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
            "it is not a stream socket that listens",
        ));
    }
    Ok(())
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
        let number = std::os::fd::IntoRawFd::into_raw_fd(std::net::TcpListener::from(socket));
        let taken = take(number).unwrap();
        assert!(take(number).is_err(), "once");
        assert!(taken.as_raw_fd() >= 0);
        // What tests print to was there at the start.
        assert!(listening(2).is_err());
        assert!(listening(-1).is_err());
        assert!(listening(RawFd::MAX).is_err());
    }
}
