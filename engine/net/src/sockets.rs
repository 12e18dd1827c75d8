//! Socket options of listening sockets, inherited by the connections they accept. `listener` binds the sockets.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::SockRef;

use crate::sys::listening;

/// Options of the sockets of a listener. `None` leaves the system's default, or ours for the backlog. A socket retained
/// across a reload keeps an option that is no longer configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketSettings {
    /// The accept queue; the system caps it (`net.core.somaxconn`).
    pub backlog: Option<u32>,
    /// Size of the kernel's receive buffer in bytes. Setting it disables auto-tuning.
    pub receive_bytes: Option<usize>,
    /// Size of the kernel's send buffer in bytes.
    pub send_bytes: Option<usize>,
    /// Queue of connections that sent data in their first packet and have not completed the handshake (TCP Fast Open,
    /// RFC 7413).
    pub fast_open: Option<u32>,
    /// Accept connections only once they have sent data, or after this time, in whole seconds.
    pub deferred: Option<Duration>,
}

impl SocketSettings {
    /// Applies the options to a listening socket.
    ///
    /// # Errors
    /// The first error of the system; the remaining options are applied anyway.
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

/// The kind of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tcp,
    Unix,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_have_the_configured_options() {
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
        // Linux doubles these sizes for its own bookkeeping.
        assert_eq!(socket.recv_buffer_size().unwrap(), 32 * 1024);
        assert_eq!(socket.send_buffer_size().unwrap(), 64 * 1024);
        assert_eq!(listening::fast_open_queue(socket.as_fd()).unwrap(), 5);
        // The kernel converts the time to retransmissions, whose total is at least as long.
        assert!(listening::deferred_seconds(socket.as_fd()).unwrap() >= 3);
        // Accepted sockets inherit the options.
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        std::io::Write::write_all(&mut client, b"x").unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let bytes = SockRef::from(&accepted).recv_buffer_size().unwrap();
        assert_eq!(bytes, 32 * 1024);
    }
}
