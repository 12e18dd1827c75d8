//! One request over HTTP/3.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Probe, fault};
use crate::generator::clock::{Clock, Ns};
use crate::generator::limits::READ_BYTES;
use crate::generator::link::{Fault, Link, Tls};
use crate::generator::quic_link;
use crate::generator::request::Prepared;
use crate::generator::response::LastHead;
use crate::generator::talk::{Desk, Done, Flight, H3};
use crate::generator::target::Target;
use crate::generator::udp::Passed;
use crate::result::FailureClass;

/// Sends one request on a connection of its own.
pub(super) fn probe(
    target: &Target,
    tls: Option<&Tls>,
    request: &Prepared,
    deadline: Instant,
) -> Result<Probe, Fault> {
    let clock = Clock::start();
    let (link, mut talk) = quic_link::connect((target, tls), clock, None, clock.now())?;
    talk.keep();
    let probed = ask(&link, &mut talk, request, clock, clock.at(deadline));
    talk.close(clock.now());
    quic_link::send(&mut talk, &link, clock.now(), &mut Vec::new());
    probed
}

/// Waits for the handshake, sends the request, and waits for the response.
fn ask(
    link: &Link,
    talk: &mut H3,
    request: &Prepared,
    clock: Clock,
    deadline: Ns,
) -> Result<Probe, Fault> {
    let requests = std::slice::from_ref(request);
    let (mut last, mut done, mut is_sent) = (LastHead::default(), Vec::new(), false);
    let (mut buf, mut packets) = (vec![0; READ_BYTES], Vec::new());
    loop {
        let now = clock.now();
        let mut desk = Desk {
            requests,
            last: &mut last,
            done: &mut done,
        };
        let _ = talk.advance(now, &mut desk)?;
        if let Some(done) = done.pop() {
            return response(talk, done);
        }
        if let Some(ended) = talk.ended() {
            return Err(Fault::from(ended.handshake.clone()));
        }
        if talk.is_open() && !is_sent {
            is_sent = true;
            let flight = Flight {
                request: 0,
                due: now,
                sent: now,
                first: 0,
            };
            talk.begin(flight, requests);
        }
        let (_, passed) = quic_link::send(talk, link, now, &mut packets);
        if now >= deadline {
            let (class, text) = match is_sent {
                true => (FailureClass::HeadTimeout, "no response after ten seconds"),
                false => quic_link::late_handshake(talk),
            };
            return Err(fault(class, text));
        }
        wait(
            link,
            passed,
            talk.deadline().unwrap_or(Ns::MAX).min(deadline),
            clock,
        )?;
        let now = clock.now();
        loop {
            let received = link.receive(&mut buf, |ecn, datagram| {
                talk.datagram(now, ecn, datagram);
            });
            match received {
                Ok(0) => break,
                Ok(_) => {}
                Err(fault) if !talk.is_open() => return Err(fault),
                Err(_) => break,
            }
        }
        talk.expire_timers(now);
    }
}

/// The response that was kept. Whether it is the expected one is for the caller to judge.
fn response(talk: &mut H3, done: Done) -> Result<Probe, Fault> {
    use FailureClass::{Body, Field, Length, Status};
    match done.outcome {
        Err(lost) if !matches!(lost.class, Status | Length | Body | Field) => {
            Err(Fault::from(lost))
        }
        Ok(_) | Err(_) => talk
            .kept()
            .ok_or_else(|| fault(Length, "a body of more than 64 MiB")),
    }
}

/// Waits until something arrives, or until a moment.
fn wait(link: &Link, passed: Passed, until: Ns, clock: Clock) -> Result<(), Fault> {
    let left = Duration::from_nanos(until.saturating_sub(clock.now()));
    let timeout = Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: left.subsec_nanos() as _,
    };
    let mut flags = PollFlags::IN;
    flags.set(PollFlags::OUT, passed == Passed::Full);
    let mut sockets = [PollFd::new(link, flags)];
    match poll(&mut sockets, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(fault(
            FailureClass::NoLocalResource,
            &std::io::Error::from(errno).to_string(),
        )),
    }
}
