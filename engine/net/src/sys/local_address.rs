//! The own address of a socket (getsockname(2)).

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use crate::stream::canonical;

/// The own address of the socket with this descriptor; `None` if it is not an IP socket or was closed. One system call.
pub(crate) fn local_address(descriptor: i32) -> Option<SocketAddr> {
    if descriptor < 0 {
        return None;
    }
    // SAFETY: the descriptor is not negative and only read from; if it is not open, the call fails.
    let socket = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let address = socket2::SockRef::from(&socket).local_addr().ok()?;
    address.as_socket().map(canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::fd::AsRawFd;

    #[test]
    fn the_address_is_that_of_the_open_socket() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let descriptor = socket.as_raw_fd();
        assert_eq!(local_address(descriptor), socket.local_addr().ok());
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(local_address(unix.as_raw_fd()), None);
        assert_eq!(local_address(-1), None);
    }
}
