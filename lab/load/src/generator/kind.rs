//! The kinds of exchange on a connection: requests one after the other, WebSocket messages, or a stream of events; and
//! one such exchange before the load, to check that the target is reachable and responds as expected.

use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::event::PollFlags;

use super::Plan;
use super::clock::{Clock, Ns};
use super::limits::{PIECES_MAX, PROBE_TIMEOUT};
use super::link::{Fault, Input, Link};
use super::probe::{Probe, connect, probe, wait};
use super::request::{Draft, Prepared};
use super::response::LastHead;
use super::talk::frame::{BINARY, TEXT, accept, client_frame};
use super::talk::{Desk, Ending, Events, Flight, Greeting, Talk, WebSocket};
use super::target::{HttpVersion, Target};
use crate::generator::expect::Expect;
use crate::random::Random;
use crate::result::FailureClass;

/// The kind of exchange on each connection.
#[derive(Clone, Debug, Default)]
pub enum Kind {
    /// HTTP requests, each with a response.
    #[default]
    Requests,
    /// An upgrade, then messages that are echoed.
    WebSocket(Arc<Greeting>),
    /// One request, then events.
    Events,
}

impl Kind {
    /// Whether these are plain requests.
    pub fn is_requests(&self) -> bool {
        matches!(self, Kind::Requests)
    }

    /// The protocol for the result; `None` for plain requests.
    pub fn protocol(&self, tls: bool) -> Option<&'static str> {
        match (self, tls) {
            (Kind::Requests, _) => None,
            (Kind::WebSocket(_), false) => Some("websocket"),
            (Kind::WebSocket(_), true) => Some("websocket over TLS"),
            (Kind::Events, false) => Some("server-sent events"),
            (Kind::Events, true) => Some("server-sent events over TLS"),
        }
    }

    /// What is verified, in words for the result.
    pub fn words(&self, request: &Prepared) -> String {
        match self {
            Kind::Requests => request.expect.words(),
            Kind::WebSocket(_) => format!(
                "Sec-WebSocket-Accept, framing, and every byte of echoes of {}",
                request.body.len()
            ),
            Kind::Events => "status, Content-Type, and the lines of events".to_string(),
        }
    }

    /// The protocol state of a connection open since `since`; `None` for plain requests.
    pub(super) fn talk(&self, since: Ns) -> Option<Talk> {
        match self {
            Kind::Requests => None,
            Kind::WebSocket(greeting) => {
                let talk = WebSocket::new(greeting.clone(), since);
                Some(Talk::WebSocket(Box::new(talk)))
            }
            Kind::Events => Some(Talk::Events(Box::new(Events::new(since)))),
        }
    }
}

/// A message to be echoed, and the upgrade before it. Key and mask are derived once from the seed: servers only use
/// them to respond, and a load should be the same each time.
pub fn websocket(
    draft: &Draft,
    target: &Target,
    message: Arc<[u8]>,
    seed: u64,
) -> Result<(Kind, Prepared), String> {
    match target.protocol.version() {
        HttpVersion::Http1 => {}
        HttpVersion::Http2 => {
            return Err("WebSocket over HTTP/2 (RFC 8441) is not supported: remove --h2".into());
        }
        HttpVersion::Http3 => {
            return Err("WebSocket over HTTP/3 (RFC 9220) is not supported: remove --h3".into());
        }
    }
    let mut random = Random::new(seed);
    let key: Vec<u8> = (0..2).flat_map(|_| random.bits().to_be_bytes()).collect();
    let key = STANDARD.encode(key);
    let mut draft = draft.clone();
    draft.method = "GET".into();
    draft.body = Arc::from(&b""[..]);
    for (name, value) in [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", &key),
    ] {
        draft.fields.push((name.to_string(), value.to_string()));
    }
    let mut request = draft.prepare(target, Expect::default())?;
    let opcode = match std::str::from_utf8(&message) {
        Ok(_) => TEXT,
        Err(_) => BINARY,
    };
    let greeting = Greeting {
        accept: accept(&key),
        wire: request.wire,
        opcode,
    };
    let mask = (random.bits() as u32 | 1).to_be_bytes();
    request.wire = client_frame(opcode, &message, mask).into();
    request.body = message;
    request.expect.status = 101;
    Ok((Kind::WebSocket(Arc::new(greeting)), request))
}

/// A stream of events.
pub fn events(draft: &Draft, target: &Target) -> Result<(Kind, Prepared), String> {
    match target.protocol.version() {
        HttpVersion::Http1 => {}
        HttpVersion::Http2 => return Err("server-sent events need HTTP/1.1: remove --h2".into()),
        HttpVersion::Http3 => return Err("server-sent events need HTTP/1.1: remove --h3".into()),
    }
    let mut draft = draft.clone();
    draft
        .fields
        .push(("Accept".into(), "text/event-stream".into()));
    let mut request = draft.prepare(target, Expect::default())?;
    request.expect.status = 200;
    Ok((Kind::Events, request))
}

/// One exchange on a connection of its own: a request, a message, or the first event.
pub fn ask(plan: &Plan) -> Result<Probe, Fault> {
    let clock = Clock::start();
    let Some(mut talk) = plan.kind.talk(clock.now()) else {
        return probe(&plan.target, plan.tls.as_ref(), &plan.requests[0]);
    };
    let deadline = Instant::now() + PROBE_TIMEOUT;
    let mut link = connect(&plan.target, plan.tls.as_ref(), deadline)?;
    let now = clock.now();
    let flight = Flight {
        request: 0,
        due: now,
        sent: now,
        first: 0,
    };
    talk.begin(flight, &plan.requests);
    let (mut last, mut done, mut buf) = (LastHead::default(), Vec::new(), vec![0; 64 * 1024]);
    loop {
        send(&mut talk, &mut link, plan, deadline)?;
        let mut desk = Desk {
            requests: &plan.requests,
            last: &mut last,
            done: &mut done,
        };
        match link.read(&mut buf)? {
            Input::Bytes(got) => {
                talk.receive(&buf[..got], clock.now(), &mut desk)?;
            }
            Input::Nothing => wait(&link, PollFlags::IN, deadline, FailureClass::HeadTimeout)?,
            Input::End => talk.end(Ending::Closed, &mut desk),
            Input::Reset => talk.end(Ending::Reset, &mut desk),
        }
        // Of events the first is enough; of messages the echo after the upgrade.
        let first = matches!(plan.kind, Kind::Events);
        let Some(end) = done.iter().find(|done| first || !done.is_opening()) else {
            done.clear();
            continue;
        };
        if let Err(lost) = &end.outcome {
            return Err(Fault {
                class: lost.class,
                text: lost.text.clone(),
            });
        }
        return Ok(Probe {
            status: plan.requests[0].expect.status,
            head: talk.head().to_vec(),
            body: match first {
                true => Vec::new(),
                false => plan.requests[0].body.to_vec(),
            },
        });
    }
}

fn send(talk: &mut Talk, link: &mut Link, plan: &Plan, deadline: Instant) -> Result<(), Fault> {
    loop {
        let mut pieces = [std::io::IoSlice::new(&[]); PIECES_MAX];
        let count = talk.pieces(&plan.requests, &mut pieces);
        if count == 0 {
            break;
        }
        let sent = link.write(&pieces[..count])?;
        if sent == 0 {
            wait(link, PollFlags::OUT, deadline, FailureClass::Write)?;
        }
        talk.sent(sent, &plan.requests);
    }
    while !link.push_tls()? {
        wait(link, PollFlags::OUT, deadline, FailureClass::Write)?;
    }
    Ok(())
}
