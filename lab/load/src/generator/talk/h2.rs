//! HTTP/2 on one connection, with the client side of `sluice-wire`: many requests at a time.

use std::io::IoSlice;

use sluice_message::ResponseHead;
use sluice_wire::h1::BodyFraming;
use sluice_wire::h2::{Client, ClientEvent, End, ErrorCode, Limits, Side, StreamId};

use super::flights::{Waiting, by_goaway, late, outcome};
use super::{Desk, Done, Ending, Flight, Keep, Lost};
use crate::generator::clock::Ns;
use crate::generator::expect::Judge;
use crate::generator::limits::STREAMS_MAX;
use crate::generator::link::Fault;
use crate::generator::request::Prepared;
use crate::result::FailureClass;

/// Receive window: large, so that flow control is not what is measured.
const WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// HTTP/2 on one connection.
#[derive(Debug)]
pub struct H2 {
    client: Client,
    https: bool,
    head: ResponseHead,
    /// Indexed by slot of the stream.
    streams: Vec<Option<Stream>>,
    in_flight: usize,
    /// Requests started while the server did not accept more streams.
    waiting: Waiting,
    /// Bytes of the output already sent.
    out_at: usize,
    /// Input that could not be consumed while the output was full.
    held: Vec<u8>,
    responses: u64,
    leaving: Option<Leaving>,
}

/// How the server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// Gracefully: what it has not processed can be sent again (RFC 9113, section 6.8).
    Graceful,
    /// Because of an error.
    Error,
}

#[derive(Debug)]
struct Stream {
    id: StreamId,
    flight: Flight,
    judge: Judge,
    /// Bytes of the request body queued; `None` when it has ended.
    uploaded: Option<usize>,
}

impl H2 {
    /// A connection with at most `depth` concurrent streams.
    pub fn new(depth: usize, https: bool) -> Self {
        let limits = Limits {
            streams_max: depth.clamp(1, STREAMS_MAX) as u16,
            stream_window: WINDOW_BYTES,
            stream_window_max: WINDOW_BYTES,
            connection_window: WINDOW_BYTES,
            output_bytes_max: 1024 * 1024,
            // The server under test is trusted not to attack; what it sends is what is measured.
            glitch_points_max: u32::MAX / 2,
            ..Limits::DEFAULT
        };
        H2 {
            client: Client::new(&limits),
            https,
            head: ResponseHead::default(),
            streams: Vec::new(),
            in_flight: 0,
            waiting: Waiting::default(),
            out_at: 0,
            held: Vec::new(),
            responses: 0,
            leaving: None,
        }
    }

    /// Starts a request, or queues it until a stream is free.
    pub fn begin(&mut self, flight: Flight, requests: &[Prepared]) {
        self.in_flight += 1;
        if self.client.streams_free() == 0 {
            self.waiting.push(flight);
            return;
        }
        self.open(flight, requests);
    }

    fn open(&mut self, flight: Flight, requests: &[Prepared]) {
        let prepared = &requests[flight.request];
        let (framing, end) = match prepared.body.len() {
            0 => (BodyFraming::None, End::Here),
            len => (BodyFraming::Length(len as u64), End::Later),
        };
        let opened = self.client.open(&prepared.head, self.https, framing, end);
        let Ok(id) = opened else {
            self.waiting.push(flight);
            return;
        };
        let mut judge = Judge::default();
        judge.begin(&prepared.expect, self.responses);
        if self.streams.len() <= id.slot() {
            self.streams.resize_with(id.slot() + 1, || None);
        }
        self.streams[id.slot()] = Some(Stream {
            id,
            flight,
            judge,
            uploaded: (!end.is_here()).then_some(0),
        });
        self.upload(requests);
    }

    /// Queues as much of the request bodies as flow control allows.
    fn upload(&mut self, requests: &[Prepared]) {
        for stream in self.streams.iter_mut().flatten() {
            while let Some(at) = stream.uploaded {
                let body = &requests[stream.flight.request].body[at..];
                match self.client.send_data(stream.id, body, End::Here) {
                    Ok(taken) if taken == body.len() => stream.uploaded = None,
                    Ok(0) => break,
                    Ok(taken) => stream.uploaded = Some(at + taken),
                    // The server ended the stream early; its response or its reset is on the way.
                    Err(_) => stream.uploaded = None,
                }
            }
        }
    }

    /// Consumes bytes from the server.
    pub fn receive(&mut self, input: &[u8], now: Ns, desk: &mut Desk<'_>) -> Result<Keep, Fault> {
        let mut joined;
        let mut rest = input;
        if !self.held.is_empty() {
            joined = std::mem::take(&mut self.held);
            joined.extend_from_slice(input);
            rest = &joined;
        }
        loop {
            let received = self
                .client
                .receive(rest, &mut self.head)
                .map_err(|closed| Fault {
                    class: FailureClass::Malformed,
                    text: format!("HTTP/2: {closed:?}"),
                })?;
            rest = &rest[received.consumed..];
            let Some(event) = received.event else {
                break;
            };
            self.act(stream_event(event), now, desk);
        }
        self.held.extend_from_slice(rest);
        while self.client.streams_free() > 0
            && let Some(flight) = self.waiting.pop(now)
        {
            self.open(flight, desk.requests);
        }
        if self.is_leaving() {
            let mut waiting = std::mem::take(&mut self.waiting);
            for flight in waiting.drain() {
                desk.done.push(self.refused(flight, by_goaway()));
                self.in_flight -= 1;
            }
        }
        Ok(if self.is_leaving() && self.in_flight == 0 {
            Keep::Closes
        } else {
            Keep::Open
        })
    }

    fn act(&mut self, stream_event: StreamEvent<'_>, now: Ns, desk: &mut Desk<'_>) {
        match stream_event {
            StreamEvent::Head { id, end } => {
                if let Some(stream) = self.streams.get_mut(id.slot()).and_then(Option::as_mut) {
                    stream.flight.first = now;
                    let expect = &desk.requests[stream.flight.request].expect;
                    let fields = &self.head.fields;
                    let has = |name: &str, value: Option<&str>| {
                        let found = fields.find_first(name.as_bytes());
                        found.is_some_and(|found| value.is_none_or(|v| found == v.as_bytes()))
                    };
                    stream.judge.head(expect, self.head.status.code(), has);
                    if let Some(cookies) = &mut desk.last.cookies {
                        cookies.extend(fields.find(b"set-cookie").map(<[u8]>::to_vec));
                    }
                }
                if end {
                    self.finish(id, desk);
                }
            }
            StreamEvent::Data { id, data, end } => {
                if let Some(stream) = self.streams.get_mut(id.slot()).and_then(Option::as_mut) {
                    let expect = &desk.requests[stream.flight.request].expect;
                    stream.judge.body(expect, data);
                }
                self.client.consumed(id, data.len());
                if end {
                    self.finish(id, desk);
                }
            }
            StreamEvent::End { id } => self.finish(id, desk),
            StreamEvent::Lost { id, lost, refused } => self.lost(id, lost, refused, desk),
            StreamEvent::Window => self.upload(desk.requests),
            StreamEvent::Leaving(how) => self.leaving = Some(how),
            StreamEvent::Nothing => {}
        }
    }

    /// Whether the server accepts no more requests.
    pub fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// How a request ends that the server has certainly not processed.
    fn refused(&self, flight: Flight, lost: Lost) -> Done {
        let by_goaway = Lost {
            class: FailureClass::GoAway,
            ..lost.clone()
        };
        match self.leaving {
            Some(Leaving::Graceful) => flight.unprocessed(by_goaway),
            Some(Leaving::Error) => flight.end(Err(by_goaway)),
            None => flight.end(Err(lost)),
        }
    }

    /// A stream was reset; `refused` if the server has not processed it.
    fn lost(&mut self, id: StreamId, lost: Lost, refused: bool, desk: &mut Desk<'_>) {
        if let Some(stream) = self.close(id) {
            let done = match refused {
                true => self.refused(stream.flight, lost),
                false => stream.flight.end(Err(lost)),
            };
            desk.done.push(done);
        }
    }

    fn close(&mut self, id: StreamId) -> Option<Stream> {
        let place = self.streams.get_mut(id.slot()).and_then(Option::take);
        self.client.release(id);
        self.in_flight -= usize::from(place.is_some());
        place
    }

    /// A stream has ended with a response.
    fn finish(&mut self, id: StreamId, desk: &mut Desk<'_>) {
        let Some(stream) = self.close(id) else {
            return;
        };
        self.responses += 1;
        let prepared = &desk.requests[stream.flight.request];
        let outcome = outcome(&stream.judge, prepared);
        desk.done.push(stream.flight.end(outcome));
    }

    /// The connection has ended.
    pub fn end(&mut self, ending: Ending, desk: &mut Desk<'_>) {
        let how = ending.words();
        for stream in self.streams.iter_mut().filter_map(Option::take) {
            let class = match ending {
                _ if stream.flight.first != 0 => FailureClass::BodyCut,
                _ if self.responses > 0 => FailureClass::Stale,
                Ending::Closed => FailureClass::Closed,
                Ending::Reset => FailureClass::Reset,
            };
            let lost = Lost::new(class, how);
            desk.done.push(stream.flight.end(Err(lost)));
        }
        let lost = Lost::new(FailureClass::StreamReset, how);
        self.lose(&lost, desk.done);
    }

    /// Fails everything in flight.
    pub fn lose(&mut self, lost: &Lost, done: &mut Vec<Done>) {
        let open = self.streams.iter_mut().filter_map(Option::take);
        let flights = open.map(|stream| stream.flight);
        for flight in flights.chain(self.waiting.drain()) {
            done.push(flight.end(Err(lost.clone())));
        }
        self.in_flight = 0;
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Fails what was sent at or before `before`, stream by stream, and what was due then and had no stream yet: the
    /// server never saw that.
    pub fn expire(&mut self, before: Ns, done: &mut Vec<Done>) -> Keep {
        for place in &mut self.streams {
            let Some(stream) = place.take_if(|stream| stream.flight.sent <= before) else {
                continue;
            };
            self.client.reset(stream.id, ErrorCode::CANCEL);
            self.client.release(stream.id);
            let lost = late(stream.flight.first != 0);
            done.push(stream.flight.end(Err(lost)));
            self.in_flight -= 1;
        }
        self.in_flight -= self.waiting.expire(before, done);
        Keep::Open
    }

    /// The oldest request in flight.
    pub fn oldest(&self) -> Option<Flight> {
        let open = self.streams.iter().flatten().map(|stream| stream.flight);
        self.waiting.oldest(open)
    }

    /// The next bytes to send.
    pub fn pieces<'a>(&'a mut self, pieces: &mut [IoSlice<'a>]) -> usize {
        let out = &self.client.output()[self.out_at..];
        match pieces.first_mut() {
            Some(slot) if !out.is_empty() => {
                *slot = IoSlice::new(out);
                1
            }
            _ => 0,
        }
    }

    /// Advances the output by `bytes`.
    pub fn sent(&mut self, bytes: usize, requests: &[Prepared]) {
        self.out_at += bytes;
        if self.out_at == self.client.output().len() {
            self.client.output().clear();
            self.out_at = 0;
            self.upload(requests);
        }
    }

    /// Responses received on this connection.
    pub fn responses(&self) -> u64 {
        self.responses
    }
}

/// An event of the codec, without its borrow of the head.
enum StreamEvent<'a> {
    Head {
        id: StreamId,
        end: bool,
    },
    Data {
        id: StreamId,
        data: &'a [u8],
        end: bool,
    },
    End {
        id: StreamId,
    },
    Lost {
        id: StreamId,
        lost: Lost,
        refused: bool,
    },
    Window,
    Leaving(Leaving),
    Nothing,
}

fn stream_event<'a>(event: ClientEvent<'a>) -> StreamEvent<'a> {
    match event {
        ClientEvent::Interim { .. } | ClientEvent::Settings => StreamEvent::Nothing,
        ClientEvent::Head { id, end, .. } => StreamEvent::Head {
            id,
            end: end.is_here(),
        },
        ClientEvent::Data { id, data, end } => StreamEvent::Data {
            id,
            data,
            end: end.is_here(),
        },
        ClientEvent::Trailers { id, .. } => StreamEvent::End { id },
        ClientEvent::Reset {
            id,
            code,
            by,
            fault,
        } => StreamEvent::Lost {
            id,
            lost: reset(code, by, fault.is_some()),
            refused: by == Side::Peer && code == ErrorCode::REFUSED_STREAM,
        },
        ClientEvent::Window { .. } => StreamEvent::Window,
        ClientEvent::GoAway { code } => StreamEvent::Leaving(match code {
            ErrorCode::NO_ERROR => Leaving::Graceful,
            _ => Leaving::Error,
        }),
    }
}

fn reset(code: ErrorCode, by: Side, in_head: bool) -> Lost {
    match by {
        Side::Peer => Lost::new(
            FailureClass::StreamReset,
            format!("the server reset the stream: {code:?}"),
        ),
        Side::Us if in_head => Lost::new(FailureClass::Malformed, "an invalid head"),
        Side::Us => Lost::new(
            FailureClass::Malformed,
            format!("a response that breaks the protocol: {code:?}"),
        ),
    }
}
