//! Sockets inherited at process start, for example by systemd socket activation.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use socket2::{SockRef, Socket};

/// A duplicate of the inherited listening stream socket with this descriptor number. The inherited descriptor stays
/// open, so that a later configuration can use it again.
///
/// # Errors
///
/// If the descriptor is not open, was opened by this process, or is not a listening stream socket.
pub fn listening(number: RawFd) -> io::Result<Socket> {
    copy(number, Kinds::Listening)
}

/// Like [`listening`], but closes the inherited descriptor, and takes as well what a process of a binary upgrade passes
/// beside sockets that listen: UDP sockets, and the links for their datagrams.
///
/// # Errors
///
/// As those of [`listening`].
pub fn take(number: RawFd) -> io::Result<OwnedFd> {
    let socket = copy(number, Kinds::Lent)?;
    // SAFETY: as `check` has shown, the descriptor was inherited at process start. Nothing in the process owns it, so
    // nothing else closes it; a second call finds it closed, or with the flag of descriptors opened by this process.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
    Ok(socket.into())
}

/// Which sockets are meant.
#[derive(Clone, Copy, PartialEq)]
enum Kinds {
    /// Stream sockets that listen.
    Listening,
    /// These, UDP sockets and links.
    Lent,
}

fn copy(number: RawFd, kinds: Kinds) -> io::Result<Socket> {
    check(number, kinds)?;
    // SAFETY: as `check` has shown, the descriptor was inherited at process start. Nothing in the process owns it, so
    // it stays open while `borrowed` is in use.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    SockRef::from(&borrowed).try_clone()
}

/// Fails unless this is the number of an inherited socket of these kinds.
fn check(number: RawFd, kinds: Kinds) -> io::Result<()> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: F_GETFD reads the flags of a descriptor and touches no memory; a closed descriptor gives EBADF.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // Descriptors opened by this process have the flag, inherited ones do not: a wrong number could otherwise refer to
    // the listener of another site.
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the process was not started with it",
        ));
    }
    // SAFETY: the descriptor is open, as the call above has shown. An inherited descriptor is not owned by anything in
    // the process and is never closed. With any other number, the calls below would fail or duplicate it: no memory
    // safety depends on it.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    let inherited = SockRef::from(&inherited);
    let kind = inherited.r#type()?;
    let is_lent = kind == socket2::Type::DGRAM || kind == socket2::Type::SEQPACKET;
    if kinds == Kinds::Lent && is_lent {
        return Ok(());
    }
    if kind != socket2::Type::STREAM || !inherited.is_listener()? {
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

    /// As if the process had inherited the socket.
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
        // Child processes do not inherit it.
        assert!(listening(copy.as_raw_fd()).is_err());
        let udp = inherited(std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        assert!(listening(udp.as_raw_fd()).is_err());
        let stream = inherited(std::net::TcpStream::connect(addr).unwrap());
        assert!(listening(stream.as_raw_fd()).is_err());
        let number = std::os::fd::IntoRawFd::into_raw_fd(std::net::TcpListener::from(socket));
        let taken = take(number).unwrap();
        assert!(take(number).is_err(), "once");
        assert!(taken.as_raw_fd() >= 0);
        // The standard streams are inherited.
        assert!(listening(2).is_err());
        assert!(listening(-1).is_err());
        assert!(listening(RawFd::MAX).is_err());
    }
}
