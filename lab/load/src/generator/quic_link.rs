//! A QUIC connection and its link: how both begin, and packets from one to the other.

use std::net::Ipv4Addr;

use super::clock::{Clock, Ns};
use super::limits::READS_IN_A_ROW;
use super::link::{Fault, Link, Tls};
use super::record::Recorder;
use super::talk::H3;
use super::target::{Address, Target};
use super::timers::Timers;
use super::udp::Passed;
use crate::result::FailureClass;

/// Starts a connection from the local address `source`: its first packets are to be sent.
pub(super) fn connect(
    (target, tls): (&Target, Option<&Tls>),
    clock: Clock,
    source: Option<Ipv4Addr>,
    now: Ns,
) -> Result<(Link, H3), Fault> {
    let (Address::Tcp(to), Some(tls)) = (&target.address, tls) else {
        return Err(Fault {
            class: FailureClass::Unreachable,
            text: "HTTP/3 needs an address and TLS".to_string(),
        });
    };
    let link = Link::of_datagrams(*to, source)?;
    let talk = H3::connect(clock, now, *to, tls, link.allows_mtu_discovery())?;
    Ok((link, talk))
}

/// What a handshake that is not complete in time failed of.
pub(super) fn late_handshake(talk: &H3) -> (FailureClass, &'static str) {
    match talk.has_heard() {
        true => (FailureClass::TlsHandshake, "the handshake took too long"),
        false => (
            FailureClass::ConnectTimeout,
            "the server sent nothing in time",
        ),
    }
}

/// Gives the connection the datagrams that have arrived, as many as one turn of a thread may take.
///
/// # Errors
/// The kernel reports a failure of the path. It ends a handshake. An open connection outlives it, since anybody on the
/// path can forge such reports (RFC 9000, section 14.2.1): its requests time out if it is real.
pub(super) fn receive(
    (link, talk): (&mut Link, &mut H3),
    now: Ns,
    buf: &mut [u8],
    record: &mut Recorder,
) -> Result<(), Fault> {
    for _ in 0..READS_IN_A_ROW {
        let got = link.receive(buf, |ecn, datagram| talk.datagram(now, ecn, datagram))?;
        if got == 0 {
            break;
        }
        record.received(got, now);
    }
    Ok(())
}

/// Sends the packets of connection `at` as far as the socket accepts them, and sets its timer. Returns whether there was room
/// for all.
pub(super) fn flush(
    at: usize,
    (link, talk): (&mut Link, &mut H3),
    now: Ns,
    packets: &mut Vec<u8>,
    record: &mut Recorder,
    timers: &mut Timers,
) -> Passed {
    let (sent, passed) = send(talk, link, now, packets);
    record.sent(sent, now);
    if let Some(deadline) = talk.deadline() {
        timers.set(at, deadline);
    }
    passed
}

/// Sends the packets of a connection. Returns their bytes, and whether there was room for all.
pub(super) fn send(talk: &mut H3, link: &Link, now: Ns, out: &mut Vec<u8>) -> (usize, Passed) {
    talk.send(now, link.segments_max(), out, |transmit, bytes| {
        link.send(transmit, bytes)
    })
}
