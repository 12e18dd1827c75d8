//! Packets on their way to the kernel. What several connections send in the same round goes with one system call.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use sluice_net::limits::PACKETS_MAX;
use sluice_net::sys::packets::Packet;

/// Packets that wait for others of the same round.
#[derive(Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    packets: Vec<Held>,
    /// How many more are expected in this round: one for each datagram that was received for it.
    expected: usize,
    /// Whether the kernel had no room for the first.
    is_blocked: bool,
}

/// A packet that waits.
struct Held {
    destination: SocketAddr,
    source: Option<IpAddr>,
    ecn: Option<u8>,
    from: usize,
    to: usize,
}

impl Outbox {
    /// `count` datagrams more have been received.
    pub(crate) fn expect(&mut self, count: usize) {
        self.expected += count;
    }

    /// Adds a packet. Returns whether it is the only one.
    pub(crate) fn push(&mut self, packet: &Packet<'_>) -> bool {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(packet.bytes);
        self.packets.push(Held {
            destination: packet.destination,
            source: packet.source,
            ecn: packet.ecn,
            from,
            to: self.bytes.len(),
        });
        self.expected = self.expected.saturating_sub(1);
        self.packets.len() == 1
    }

    /// Whether nothing is gained by waiting longer.
    pub(crate) fn is_due(&self) -> bool {
        !self.is_blocked && (self.expected == 0 || self.is_full())
    }

    /// Whether one more does not fit.
    pub(crate) fn is_full(&self) -> bool {
        self.packets.len() >= PACKETS_MAX
    }

    /// Whether the kernel had no room.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// The packets from the one with this number on.
    pub(crate) fn packets_from(&self, number: usize) -> impl Iterator<Item = Packet<'_>> {
        self.packets[number..].iter().map(|held| Packet {
            destination: held.destination,
            source: held.source,
            ecn: held.ecn,
            bytes: &self.bytes[held.from..held.to],
        })
    }

    /// Sends all packets with `send`, which is given the number of the first to be sent and returns how many it has sent.
    /// One that cannot be sent is like a lost one. Stops when the kernel has no room.
    pub(crate) fn flush(
        &mut self,
        mut send: impl FnMut(&Outbox, usize) -> io::Result<usize>,
    ) -> io::Result<()> {
        self.is_blocked = false;
        let mut sent = 0;
        while sent < self.packets.len() {
            match send(self, sent) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    self.remove(sent);
                    return Err(error);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => sent += 1,
            }
        }
        self.packets.clear();
        self.bytes.clear();
        Ok(())
    }

    /// The round is over: whatever comes now is sent at once.
    pub(crate) fn end_round(&mut self) {
        self.expected = 0;
    }

    /// Removes the first `count` packets.
    fn remove(&mut self, count: usize) {
        self.packets.drain(..count);
        let start = self.packets.first().map_or(0, |first| first.from);
        self.bytes.drain(..start);
        for held in &mut self.packets {
            held.from -= start;
            held.to -= start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(bytes: &[u8]) -> Packet<'_> {
        Packet {
            destination: ([127, 0, 0, 1], 443).into(),
            source: None,
            ecn: None,
            bytes,
        }
    }

    /// Flushes into a list; `takes` says how many packets each call takes, or why none.
    fn flush(
        outbox: &mut Outbox,
        takes: &mut dyn Iterator<Item = Result<usize, ErrorKind>>,
    ) -> (Vec<String>, bool) {
        let mut taken = Vec::new();
        let flushed = outbox.flush(|outbox, from| {
            let count = takes.next().unwrap_or(Ok(PACKETS_MAX))?;
            let packets: Vec<_> = outbox.packets_from(from).take(count).collect();
            let texts = packets
                .iter()
                .map(|packet| String::from_utf8_lossy(packet.bytes));
            taken.extend(texts.map(String::from));
            Ok(packets.len())
        });
        (taken, flushed.is_ok())
    }

    #[test]
    fn packets_wait_for_as_many_as_are_expected() {
        let mut outbox = Outbox::default();
        outbox.expect(3);
        assert!(outbox.push(&packet(b"one")));
        assert!(!outbox.is_due());
        assert!(!outbox.push(&packet(b"two")));
        assert!(!outbox.is_due());
        outbox.push(&packet(b"three"));
        assert!(outbox.is_due());
        let (taken, is_done) = flush(&mut outbox, &mut std::iter::empty());
        assert_eq!(
            (taken, is_done),
            (vec!["one".into(), "two".into(), "three".into()], true)
        );
        // Nothing more is expected.
        assert!(outbox.push(&packet(b"four")));
        assert!(outbox.is_due());
    }

    #[test]
    fn the_end_of_a_round_and_its_size_end_waiting() {
        let mut outbox = Outbox::default();
        outbox.expect(2 * PACKETS_MAX);
        for _ in 1..PACKETS_MAX {
            outbox.push(&packet(b"x"));
        }
        assert!(!outbox.is_due() && !outbox.is_full());
        outbox.push(&packet(b"x"));
        assert!(outbox.is_due() && outbox.is_full());
        flush(&mut outbox, &mut std::iter::empty());
        outbox.push(&packet(b"x"));
        assert!(!outbox.is_due());
        outbox.end_round();
        assert!(outbox.is_due());
    }

    #[test]
    fn what_the_kernel_has_no_room_for_is_sent_later() {
        let mut outbox = Outbox::default();
        for bytes in [&b"one"[..], b"two", b"three"] {
            outbox.push(&packet(bytes));
        }
        let takes = [Ok(1), Err(ErrorKind::WouldBlock)];
        let (taken, is_done) = flush(&mut outbox, &mut takes.into_iter());
        assert_eq!((taken, is_done), (vec!["one".into()], false));
        assert!(outbox.is_blocked() && !outbox.is_due());
        outbox.push(&packet(b"four"));
        assert!(!outbox.is_due());
        let (taken, is_done) = flush(&mut outbox, &mut std::iter::empty());
        assert_eq!(
            (taken, is_done),
            (vec!["two".into(), "three".into(), "four".into()], true)
        );
        assert!(!outbox.is_blocked());
    }

    #[test]
    fn what_the_kernel_refuses_is_lost_alone() {
        let mut outbox = Outbox::default();
        for bytes in [&b"one"[..], b"two", b"three"] {
            outbox.push(&packet(bytes));
        }
        let takes = [
            Ok(1),
            Err(ErrorKind::Interrupted),
            Err(ErrorKind::InvalidInput),
        ];
        let (taken, is_done) = flush(&mut outbox, &mut takes.into_iter());
        assert_eq!((taken, is_done), (vec!["one".into(), "three".into()], true));
    }
}
