//! One request before the load: is the target reachable, and what does the expected response look like?

mod h3;

use std::io::{self, IoSlice};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sluice_message::ResponseHead;
use sluice_wire::h1::BodyFraming;
use sluice_wire::h2::{Client, ClientEvent, End, Limits};

use super::expect::field;
use super::limits::{BODY_KEPT_MAX, PROBE_TIMEOUT};
use super::link::{Dial, Fault, Input, Link, Tls};
use super::request::Prepared;
use super::response::{Facts, Fed, LastHead, Reader, Take};
use super::target::Target;
use crate::result::{FailureClass, FirstResponse};

/// A complete response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// The status of the response.
    pub status: u16,
    /// The head as text; for HTTP/2 and HTTP/3 one header per line.
    pub head: Vec<u8>,
    /// The body of the response.
    pub body: Vec<u8>,
}

impl Probe {
    /// The summary for the result.
    pub fn first_response(&self) -> FirstResponse {
        FirstResponse {
            status: self.status,
            head: String::from_utf8_lossy(&self.head).into_owned(),
            head_bytes: self.head.len() as u64,
            body_bytes: self.body.len() as u64,
            body_sha256: sha256(&self.body),
            encoding: field(&self.head, "content-encoding")
                .map(|value| String::from_utf8_lossy(value).into_owned()),
        }
    }
}

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    hex.collect()
}

/// Sends one request on a connection of its own.
pub fn probe(target: &Target, tls: Option<&Tls>, request: &Prepared) -> Result<Probe, Fault> {
    let deadline = Instant::now() + PROBE_TIMEOUT;
    if target.protocol.is_h3() {
        return h3::probe(target, tls, request, deadline);
    }
    let mut link = connect(target, tls, deadline)?;
    if target.protocol.is_h2() {
        return probe_h2(&mut link, target, request, deadline);
    }
    send(&mut link, &request.wire, deadline)?;
    let (mut reader, mut last, mut kept) =
        (Reader::default(), LastHead::default(), Kept::default());
    let mut buf = vec![0; 64 * 1024];
    loop {
        match link.read(&mut buf)? {
            Input::Bytes(got) => {
                let fed = reader
                    .feed(&buf[..got], request.bodiless, &mut last, &mut kept)
                    .map_err(|error| fault(FailureClass::Malformed, error.0))?;
                if kept.0.body.len() > BODY_KEPT_MAX {
                    return Err(fault(FailureClass::Length, "a body of more than 64 MiB"));
                }
                if let Fed::Complete(_) = fed {
                    return Ok(kept.0);
                }
            }
            Input::Nothing => wait(&link, PollFlags::IN, deadline, FailureClass::HeadTimeout)?,
            Input::End if reader.progress() == super::response::Progress::UntilClose => {
                return Ok(kept.0);
            }
            Input::End => {
                return Err(fault(
                    FailureClass::Closed,
                    "closed before the end of the response",
                ));
            }
            Input::Reset => {
                return Err(fault(
                    FailureClass::Reset,
                    "reset before the end of the response",
                ));
            }
        }
    }
}

/// A new connection, with TLS if the target uses it.
pub(super) fn connect(
    target: &Target,
    tls: Option<&Tls>,
    deadline: Instant,
) -> Result<Link, Fault> {
    let mut link = match Link::dial(&target.address, None) {
        Dial::Begun(link) => link,
        Dial::Busy => return Err(fault(FailureClass::Refused, "the socket's queue is full")),
        Dial::Failed(fault) => return Err(fault),
    };
    wait(
        &link,
        PollFlags::OUT,
        deadline,
        FailureClass::ConnectTimeout,
    )?;
    link.finish_dial()?;
    if let Some(tls) = tls {
        link.begin_tls(tls)?;
        while !link.handshake()? {
            wait(&link, PollFlags::IN, deadline, FailureClass::TlsHandshake)?;
        }
        let agreed = link.session().and_then(|session| session.alpn_protocol());
        if target.protocol.is_h2() && agreed != Some(b"h2") {
            return Err(fault(
                FailureClass::Downgrade,
                "the server does not agree on HTTP/2",
            ));
        }
    }
    Ok(link)
}

#[derive(Default)]
struct Kept(Probe);

impl Take for Kept {
    fn head(&mut self, facts: &Facts, raw: &[u8]) {
        self.0.status = facts.status;
        self.0.head = raw.to_vec();
    }

    fn body(&mut self, bytes: &[u8]) {
        self.0.body.extend_from_slice(bytes);
    }
}

fn probe_h2(
    link: &mut Link,
    target: &Target,
    request: &Prepared,
    deadline: Instant,
) -> Result<Probe, Fault> {
    let mut client = Client::new(&Limits::DEFAULT);
    let (framing, end) = match request.body.len() {
        0 => (BodyFraming::None, End::Here),
        len => (BodyFraming::Length(len as u64), End::Later),
    };
    let id = client
        .open(&request.head, target.protocol.is_tls(), framing, end)
        .map_err(|refused| fault(FailureClass::StreamReset, &format!("{refused:?}")))?;
    let (mut head, mut probe, mut sent) = (ResponseHead::default(), Probe::default(), 0);
    let mut buf = vec![0; 64 * 1024];
    let mut body_open = !end.is_here();
    loop {
        if body_open {
            let gone = |_| fault(FailureClass::StreamReset, "the stream ended early");
            let rest = &request.body[sent..];
            sent += client.send_data(id, rest, End::Here).map_err(gone)?;
            body_open = sent < request.body.len();
        }
        let out = std::mem::take(client.output());
        send(link, &out, deadline)?;
        let got = match link.read(&mut buf)? {
            Input::Bytes(got) => got,
            Input::Nothing => {
                wait(link, PollFlags::IN, deadline, FailureClass::HeadTimeout)?;
                continue;
            }
            Input::End | Input::Reset => {
                return Err(fault(
                    FailureClass::Closed,
                    "closed before the end of the response",
                ));
            }
        };
        let mut rest = &buf[..got];
        loop {
            let received = client
                .receive(rest, &mut head)
                .map_err(|closed| fault(FailureClass::Malformed, &format!("HTTP/2: {closed:?}")))?;
            rest = &rest[received.consumed..];
            let Some(event) = received.event else { break };
            let ended = take_h2(event, &head, &mut client, &mut probe)?;
            if ended {
                return Ok(probe);
            }
        }
    }
}

/// Handles one event. Returns whether the response is complete.
fn take_h2(
    event: ClientEvent<'_>,
    head: &ResponseHead,
    client: &mut Client,
    probe: &mut Probe,
) -> Result<bool, Fault> {
    Ok(match event {
        ClientEvent::Head { end, .. } => {
            probe.status = head.status.code();
            probe.head = format!("HTTP/2 {}\r\n", probe.status).into_bytes();
            head.fields.write_lines(&mut probe.head, |_| true);
            end.is_here()
        }
        ClientEvent::Data { id, data, end } => {
            probe.body.extend_from_slice(data);
            client.consumed(id, data.len());
            end.is_here()
        }
        ClientEvent::Trailers { .. } => true,
        ClientEvent::Reset { code, .. } => {
            return Err(fault(FailureClass::StreamReset, &format!("{code:?}")));
        }
        ClientEvent::Interim { .. }
        | ClientEvent::Window { .. }
        | ClientEvent::GoAway { .. }
        | ClientEvent::Settings => false,
    })
}

fn send(link: &mut Link, mut bytes: &[u8], deadline: Instant) -> Result<(), Fault> {
    while !bytes.is_empty() {
        let sent = link.write(&[IoSlice::new(bytes)])?;
        bytes = &bytes[sent..];
        if sent == 0 {
            // If a server responds early and closes, its response still has to be read.
            let ready = poll_once(link, PollFlags::OUT | PollFlags::IN, deadline);
            let flags = ready.map_err(|_| fault(FailureClass::Write, "sending took too long"))?;
            if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                return Ok(());
            }
        }
    }
    while !link.push_tls()? {
        wait(link, PollFlags::OUT, deadline, FailureClass::Write)?;
    }
    Ok(())
}

pub(super) fn wait(
    link: &Link,
    flags: PollFlags,
    deadline: Instant,
    late: FailureClass,
) -> Result<(), Fault> {
    match poll_once(link, flags, deadline) {
        Ok(_) => Ok(()),
        Err(error) => Err(fault(late, &error.to_string())),
    }
}

fn poll_once(link: &Link, flags: PollFlags, deadline: Instant) -> io::Result<PollFlags> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: left.subsec_nanos() as _,
    };
    let mut sockets = [PollFd::new(link, flags)];
    match poll(&mut sockets, Some(&timeout)) {
        Ok(0) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "no response after ten seconds",
        )),
        Ok(_) => Ok(sockets[0].revents()),
        Err(errno) => Err(errno.into()),
    }
}

fn fault(class: FailureClass, text: &str) -> Fault {
    Fault {
        class,
        text: text.into(),
    }
}
