//! What listening sockets are set to, and with them the connections that they accept. Binding them is left to `listener`.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::SockRef;

use crate::sys::listening;

/// What the sockets of a listener are set to. Where nothing is said, the system has its numbers, and the queue ours. A socket
/// that stays over a reload keeps what is no longer said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketSettings {
    /// Connections that may wait to be accepted; the system has a most of its own (`net.core.somaxconn`).
    pub backlog: Option<u32>,
    /// What the system holds for us of what has come, in bytes. Setting it ends that the system finds it by itself.
    pub receive_bytes: Option<usize>,
    /// What it holds of what is to be sent.
    pub send_bytes: Option<usize>,
    /// Connections that may bring data with their first packet (RFC 7413) and wait for the end of their handshake.
    pub fast_open: Option<u32>,
    /// Connections are accepted once they have brought something, or after this time, of whole seconds.
    pub deferred: Option<Duration>,
}

impl SocketSettings {
    /// Sets a listening socket.
    ///
    /// # Errors
    /// What the system refuses; the rest is set.
    pub(crate) fn set(&self, socket: SockRef<'_>, kind: Kind) -> io::Result<()> {
        let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let mut done = Ok(());
        let mut note = |step: io::Result<()>| {
            if done.is_ok() {
                done = step;
            }
        };
        if let Some(bytes) = self.receive_bytes {
            note(socket.set_recv_buffer_size(bytes));
        }
        if let Some(bytes) = self.send_bytes {
            note(socket.set_send_buffer_size(bytes));
        }
        if let Some(count) = self.fast_open.filter(|_| kind == Kind::Tcp) {
            note(listening::fast_open(socket.as_fd(), number(count)));
        }
        if let Some(time) = self.deferred.filter(|_| kind == Kind::Tcp) {
            let seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
            note(listening::defer(socket.as_fd(), number(seconds.max(1))));
        }
        if let Some(count) = self.backlog {
            note(socket.listen(number(count)));
        }
        done
    }
}

/// What a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tcp,
    Unix,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_what_they_are_set_to() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let settings = SocketSettings {
            backlog: Some(7),
            receive_bytes: Some(16 * 1024),
            send_bytes: Some(32 * 1024),
            fast_open: Some(5),
            deferred: Some(Duration::from_secs(3)),
        };
        settings.set(SockRef::from(&listener), Kind::Tcp).unwrap();
        let socket = SockRef::from(&listener);
        // Linux doubles these, for what it needs itself.
        assert_eq!(socket.recv_buffer_size().unwrap(), 32 * 1024);
        assert_eq!(socket.send_buffer_size().unwrap(), 64 * 1024);
        assert_eq!(listening::fast_open_queue(socket.as_fd()).unwrap(), 5);
        // It is told in tries, whose times add up to no less.
        assert!(listening::deferred_seconds(socket.as_fd()).unwrap() >= 3);
        // Accepted ones inherit.
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        std::io::Write::write_all(&mut client, b"x").unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let bytes = SockRef::from(&accepted).recv_buffer_size().unwrap();
        assert_eq!(bytes, 32 * 1024);
    }
}
