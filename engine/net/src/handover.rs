//! The channel between the two processes of a binary upgrade. It carries whole messages in both directions; the command
//! line decides what they say.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::limits::{HANDOVER_BYTES_MAX, HANDOVER_PACKET_BYTES};
use crate::sys;

/// One end of the channel, which is a pair of `SOCK_SEQPACKET` sockets.
#[derive(Debug)]
pub struct Channel(UnixStream);

/// The first byte of a packet: whether its message goes on in the next one.
const MORE: u8 = 0;
const LAST: u8 = 1;

impl Channel {
    /// A new channel: our end, and the one for the other process.
    ///
    /// # Errors
    /// There are no more file descriptors.
    pub fn pair() -> io::Result<(Channel, OwnedFd)> {
        let (own, other) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None)?;
        Ok((Channel(OwnedFd::from(own).into()), other.into()))
    }

    /// The end that this process has inherited under a descriptor number.
    ///
    /// # Errors
    /// The process was not started with such a socket.
    pub fn inherited(number: RawFd) -> io::Result<Channel> {
        let socket = sys::inherited::take(number)?;
        Ok(Channel(socket.into()))
    }

    /// Another handle of the same end.
    ///
    /// # Errors
    /// There are no more file descriptors.
    pub fn try_clone(&self) -> io::Result<Channel> {
        self.0.try_clone().map(Channel)
    }

    /// Sends a message; waits while the other process does not read.
    ///
    /// # Errors
    /// The other process is gone, or the message is longer than [`HANDOVER_BYTES_MAX`].
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        if message.len() > HANDOVER_BYTES_MAX {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let mut writer = &self.0;
        let mut rest = message;
        loop {
            let (piece, after) = rest.split_at(rest.len().min(HANDOVER_PACKET_BYTES));
            let kind = if after.is_empty() { LAST } else { MORE };
            writer.write_all(&[&[kind], piece].concat())?;
            if after.is_empty() {
                return Ok(());
            }
            rest = after;
        }
    }

    /// Receives the next message; `None` if the other process is gone. `timeout` is for each of its packets.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] or [`ErrorKind::TimedOut`] after the timeout, [`ErrorKind::FileTooLarge`] beyond
    /// [`HANDOVER_BYTES_MAX`].
    pub fn receive(&self, timeout: Option<Duration>) -> io::Result<Option<Vec<u8>>> {
        self.0.set_read_timeout(timeout)?;
        let mut reader = &self.0;
        let mut packet = vec![0; HANDOVER_PACKET_BYTES + 1];
        let mut message = Vec::new();
        loop {
            let count = match reader.read(&mut packet) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // It ended with a message of ours unread.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            };
            let Some((kind, piece)) = packet[..count].split_first() else {
                return Ok(None);
            };
            if message.len() + piece.len() > HANDOVER_BYTES_MAX {
                return Err(ErrorKind::FileTooLarge.into());
            }
            message.extend_from_slice(piece);
            if *kind == LAST {
                return Ok(Some(message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Channel, Channel) {
        let (own, other) = Channel::pair().unwrap();
        (own, Channel(other.into()))
    }

    #[test]
    fn messages_arrive_whole_and_apart() {
        let (own, other) = pair();
        let long = vec![7; 40 * HANDOVER_PACKET_BYTES + 1];
        let expected = long.clone();
        // In a thread of its own, because the kernel does not hold that much.
        let sender = std::thread::spawn(move || {
            for message in [&b"go"[..], b"", &long] {
                own.send(message).unwrap();
            }
        });
        for message in [&b"go"[..], b"", &expected] {
            assert_eq!(other.receive(None).unwrap().as_deref(), Some(message));
        }
        sender.join().unwrap();
        assert_eq!(other.receive(None).unwrap(), None, "the other end is gone");
        assert!(other.send(b"go").is_err());
    }

    #[test]
    fn a_silent_process_is_not_waited_for_longer_than_asked() {
        let (_own, other) = pair();
        let error = other.receive(Some(Duration::from_millis(1))).unwrap_err();
        assert!(matches!(
            error.kind(),
            ErrorKind::WouldBlock | ErrorKind::TimedOut
        ));
    }

    #[test]
    fn messages_have_a_limit() {
        let (own, _other) = pair();
        let error = own.send(&vec![0; HANDOVER_BYTES_MAX + 1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    }
}
