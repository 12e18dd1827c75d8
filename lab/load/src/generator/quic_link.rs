//! A QUIC connection and its link: how both begin, and packets from one to the other.

use std::net::Ipv4Addr;

use super::clock::{Clock, Ns};
use super::link::{Fault, Link, Tls};
use super::talk::H3;
use super::target::{Address, Target};
use super::udp::Passed;
use crate::result::FailureClass;

/// Starts a connection from the local address `source`: its first packets are to be sent.
pub(super) fn connect(
    target: &Target,
    tls: Option<&Tls>,
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

/// Sends the packets of a connection. Returns their bytes, and whether there was room for all.
pub(super) fn send(talk: &mut H3, link: &Link, now: Ns, out: &mut Vec<u8>) -> (usize, Passed) {
    talk.send(now, link.segments_max(), out, |transmit, bytes| {
        link.send(transmit, bytes)
    })
}
