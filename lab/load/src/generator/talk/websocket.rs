//! WebSocket on one connection: the upgrade (RFC 6455, section 4), then messages that the server echoes. A request is
//! one message, its response the echo.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use super::frame::{CLOSE, Frames, PING, Piece, client_frame};
use super::unsent::Unsent;
use super::{Desk, Done, Ending, Flight, Keep, Lost, malformed};
use crate::generator::clock::Ns;
use crate::generator::expect::field;
use crate::generator::limits::HEAD_BYTES_MAX;
use crate::generator::link::Fault;
use crate::generator::request::Prepared;
use crate::result::FailureClass;

/// Requests and expectations shared by all connections of a load.
#[derive(Clone, Debug)]
pub struct Greeting {
    /// The upgrade request.
    pub wire: Arc<[u8]>,
    /// The expected `Sec-WebSocket-Accept`.
    pub accept: String,
    /// The opcode of messages: text or binary.
    pub opcode: u8,
}

/// The mask of pongs; its value does not matter.
const PONG_MASK: [u8; 4] = *b"pong";

/// WebSocket on one connection.
#[derive(Debug)]
pub struct WebSocket {
    greeting: Arc<Greeting>,
    /// When the connection was opened.
    since: Ns,
    /// Bytes of the upgrade request sent.
    greeted: usize,
    /// The response head of the upgrade, once it is complete.
    head: Vec<u8>,
    upgraded: bool,
    frames: Frames,
    flights: VecDeque<Flight>,
    /// Messages not sent in full.
    unsent: Unsent,
    /// Pongs not sent yet. They are sent between messages.
    pongs: Vec<u8>,
    /// Bytes of the echo so far, and whether they differ from what was sent.
    got: u64,
    differs: bool,
    responses: u64,
}

impl WebSocket {
    /// On a connection open since `since`.
    pub fn new(greeting: Arc<Greeting>, since: Ns) -> Self {
        WebSocket {
            greeting,
            since,
            greeted: 0,
            head: Vec::new(),
            upgraded: false,
            frames: Frames::default(),
            flights: VecDeque::new(),
            unsent: Unsent::default(),
            pongs: Vec::new(),
            got: 0,
            differs: false,
            responses: 0,
        }
    }

    /// The response head of the upgrade.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Starts a message.
    pub fn begin(&mut self, flight: Flight) {
        self.flights.push_back(flight);
        self.unsent.push(flight.request);
    }

    /// Consumes bytes from the server.
    pub fn receive(
        &mut self,
        mut input: &[u8],
        now: Ns,
        desk: &mut Desk<'_>,
    ) -> Result<Keep, Fault> {
        if !self.upgraded {
            let Some(used) = self.upgrade(input, desk)? else {
                return Ok(Keep::Open);
            };
            input = &input[used..];
            desk.done.push(Done::opening(self.since, now));
            // Messages that waited for the upgrade are sent now.
            self.flights.iter_mut().for_each(|flight| flight.sent = now);
        }
        loop {
            let (used, piece) = self.frames.next(input).map_err(malformed)?;
            input = &input[used..];
            match piece {
                None => return Ok(Keep::Open),
                Some(Piece::Data(data)) => self.data(data, now, desk.requests)?,
                Some(Piece::End(opcode)) => self.complete(opcode, now, desk)?,
                Some(Piece::Control(PING, payload)) => {
                    let pong = client_frame(super::frame::PONG, &payload, PONG_MASK);
                    self.pongs.extend_from_slice(&pong);
                }
                Some(Piece::Control(CLOSE, payload)) => {
                    let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                    let code = code.map_or("no code".to_string(), |code| format!("code {code}"));
                    let text = format!("the server closed the WebSocket with code {code}");
                    self.lose(
                        &Lost::new(Ending::Closed.class(self.responses), text),
                        desk.done,
                    );
                    return Ok(Keep::Closes);
                }
                Some(Piece::Control(..)) => {}
            }
        }
    }

    /// Parses the response to the upgrade. Returns how many of the bytes belong to it, once it is complete.
    fn upgrade(&mut self, input: &[u8], desk: &mut Desk<'_>) -> Result<Option<usize>, Fault> {
        let before = self.head.len();
        self.head.extend_from_slice(input);
        let from = before.saturating_sub(3);
        let Some(end) = memchr::memmem::find(&self.head[from..], b"\r\n\r\n") else {
            return match self.head.len() > HEAD_BYTES_MAX {
                true => Err(malformed("an unterminated head")),
                false => Ok(None),
            };
        };
        let end = from + end + 4;
        self.head.truncate(end);
        let line = self
            .head
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        if !line.starts_with(b"HTTP/1.1 ") {
            return Err(malformed("not a status line of HTTP/1.1"));
        }
        let status = line
            .get(9..12)
            .and_then(|text| std::str::from_utf8(text).ok());
        let status = status
            .and_then(|text| text.parse::<u16>().ok())
            .unwrap_or(0);
        if status != 101 {
            let mut lost = Lost::new(
                FailureClass::Status,
                format!("status {status} instead of 101"),
            );
            lost.status = status;
            self.lose(&lost, desk.done);
            let text = lost.text;
            let class = FailureClass::Status;
            return Err(Fault { class, text });
        }
        let found = field(&self.head, "sec-websocket-accept");
        if found != Some(self.greeting.accept.as_bytes()) {
            let text = "a Sec-WebSocket-Accept that does not match the key".to_string();
            let class = FailureClass::Field;
            return Err(Fault { class, text });
        }
        self.upgraded = true;
        Ok(Some(end - before))
    }

    /// A part of an echo.
    fn data(&mut self, data: &[u8], now: Ns, requests: &[Prepared]) -> Result<(), Fault> {
        let Some(flight) = self.flights.front_mut() else {
            return Err(malformed("an unexpected message"));
        };
        if flight.first == 0 {
            flight.first = now;
        }
        let whole = &requests[flight.request].body;
        let from = usize::try_from(self.got).unwrap_or(usize::MAX);
        let same = whole.get(from..from.saturating_add(data.len())) == Some(data);
        self.differs |= !same;
        self.got += data.len() as u64;
        Ok(())
    }

    /// An echo is complete.
    fn complete(&mut self, opcode: u8, now: Ns, desk: &mut Desk<'_>) -> Result<(), Fault> {
        let Some(mut flight) = self.flights.pop_front() else {
            return Err(malformed("an unexpected message"));
        };
        if flight.first == 0 {
            flight.first = now;
        }
        self.responses += 1;
        let wanted = desk.requests[flight.request].body.len() as u64;
        let outcome = if self.got != wanted {
            let text = format!("{} bytes came back instead of {wanted}", self.got);
            Err(Lost::new(FailureClass::Length, text))
        } else if self.differs || opcode != self.greeting.opcode {
            let text = "a different message of the same length came back";
            Err(Lost::new(FailureClass::Body, text))
        } else {
            Ok(self.got)
        };
        (self.got, self.differs) = (0, false);
        desk.done.push(flight.end(outcome));
        Ok(())
    }

    /// The connection has ended.
    pub fn end(&mut self, ending: Ending, desk: &mut Desk<'_>) {
        let how = ending.words();
        if !self.upgraded && !self.head.is_empty() {
            let text = format!("{how} inside the response to the upgrade");
            self.lose(&Lost::new(FailureClass::HeadCut, text), desk.done);
        }
        if self.frames.is_inside()
            && let Some(flight) = self.flights.pop_front()
        {
            let lost = Lost::new(FailureClass::BodyCut, format!("{how} inside a message"));
            desk.done.push(flight.end(Err(lost)));
        }
        let text = format!(
            "{how} without a close frame, after {} messages",
            self.responses
        );
        self.lose(&Lost::new(ending.class(self.responses), text), desk.done);
    }

    /// Fails everything in flight.
    pub fn lose(&mut self, lost: &Lost, done: &mut Vec<Done>) {
        for flight in self.flights.drain(..) {
            done.push(flight.end(Err(lost.clone())));
        }
        self.unsent.clear();
    }

    /// Messages in flight.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Fails what was sent at or before `before`.
    pub fn expire(&mut self, before: Ns, done: &mut Vec<Done>) -> Keep {
        let late = self
            .flights
            .front()
            .is_some_and(|flight| flight.sent <= before);
        if !late {
            return Keep::Open;
        }
        let (class, text) = match (self.upgraded, self.frames.is_inside()) {
            (false, _) => (FailureClass::HeadTimeout, "no upgrade in time"),
            (true, false) => (FailureClass::BodyTimeout, "no message came back in time"),
            (true, true) => (FailureClass::BodyTimeout, "no whole message in time"),
        };
        self.lose(&Lost::new(class, text), done);
        Keep::Closes
    }

    /// The oldest message in flight.
    pub fn oldest(&self) -> Option<Flight> {
        self.flights.front().copied()
    }

    /// The next bytes to send: the upgrade alone, then messages, pongs between them.
    pub fn pieces<'a>(&'a self, requests: &'a [Prepared], pieces: &mut [IoSlice<'a>]) -> usize {
        if self.greeted < self.greeting.wire.len() {
            pieces[0] = IoSlice::new(&self.greeting.wire[self.greeted..]);
            return 1;
        }
        if !self.upgraded {
            return 0;
        }
        if !self.pongs.is_empty() && !self.unsent.is_begun() {
            pieces[0] = IoSlice::new(&self.pongs);
            return 1;
        }
        // One message while a pong is pending, so that it comes next.
        let most = if self.pongs.is_empty() {
            pieces.len()
        } else {
            1
        };
        self.unsent.pieces(requests, &mut pieces[..most])
    }

    /// Advances the output by `bytes`.
    pub fn sent(&mut self, bytes: usize, requests: &[Prepared]) {
        if self.greeted < self.greeting.wire.len() {
            self.greeted += bytes;
            return;
        }
        if !self.pongs.is_empty() && !self.unsent.is_begun() {
            self.pongs.drain(..bytes);
            return;
        }
        self.unsent.sent(bytes, requests);
    }

    /// Echoes received on this connection.
    pub fn responses(&self) -> u64 {
        self.responses
    }
}
