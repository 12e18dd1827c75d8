//! HTTP/3 on one QUIC connection, with quinn-proto and the machines of `sluice-wire`: many requests at a time. The owner
//! has the socket: it passes datagrams in and packets out, and calls when a timer expires.

mod control;
mod ended;
mod stream;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig,
    Event, ReadError, StreamEvent, StreamId, Transmit, VarInt,
};
use sluice_message::ResponseHead;
use sluice_wire::h3::qpack::Decoder;
use sluice_wire::h3::{self, Code, HeadReader, HeadWriter, Limits};
use sluice_wire::sections::HeadLimits;

use self::control::{Control, Heard};
use self::ended::{Ended, ended};
use self::stream::{Heads, Stream};
use super::flights::{Waiting, by_goaway, late, outcome};
use super::{Desk, Done, Flight, Keep, Lost};
use crate::generator::clock::{Clock, Ns};
use crate::generator::limits::{BODY_KEPT_MAX, SECTION_BYTES_MAX};
use crate::generator::link::{Fault, Tls};
use crate::generator::probe::Probe;
use crate::generator::request::Prepared;
use crate::generator::udp::Passed;
use crate::result::FailureClass;

/// HTTP/3 on one connection.
#[derive(Debug)]
pub struct H3 {
    clock: Clock,
    remote: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    quic: Connection,
    progress: Progress,
    /// Whether anything came from the server.
    has_heard: bool,
    /// The server accepts no more requests.
    leaving: bool,
    /// The code with which the connection is closed.
    code: Code,
    limits: Limits,
    reader: HeadReader,
    writer: HeadWriter,
    head: ResponseHead,
    control: Control,
    streams: BTreeMap<StreamId, Stream>,
    /// Requests started while the server did not accept more streams.
    waiting: Waiting,
    responses: u64,
    /// Packets that the socket had no room for.
    unsent: Option<(Transmit, Vec<u8>)>,
    kept: Option<Kept>,
}

/// The state of the connection.
#[derive(Debug)]
enum Progress {
    Handshake,
    Open,
    Lost(Ended),
}

/// A response that is kept, for a probe.
#[derive(Debug, Default)]
pub struct Kept {
    probe: Probe,
    is_too_long: bool,
}

impl Kept {
    fn head(&mut self, head: &ResponseHead) {
        let status = head.status.code();
        let mut text = format!("HTTP/3 {status}\r\n").into_bytes();
        head.fields.write_lines(&mut text, |_| true);
        (self.probe.status, self.probe.head) = (status, text);
    }

    fn body(&mut self, bytes: &[u8]) {
        self.is_too_long |= self.probe.body.len() + bytes.len() > BODY_KEPT_MAX;
        if !self.is_too_long {
            self.probe.body.extend_from_slice(bytes);
        }
    }
}

/// What reading a stream gave.
enum Received {
    Data(Bytes),
    End,
    Nothing,
    Reset(Code),
}

/// Reads the next piece of a stream.
fn receive(quic: &mut Connection, id: StreamId) -> Received {
    let mut stream = quic.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else {
        // It was read to its end before.
        return Received::Nothing;
    };
    let received = match chunks.next(usize::MAX) {
        Ok(Some(chunk)) => Received::Data(chunk.bytes),
        Ok(None) => Received::End,
        Err(ReadError::Blocked) => Received::Nothing,
        Err(ReadError::Reset(code)) => Received::Reset(Code(code.into_inner())),
    };
    // The owner sends after each round anyway.
    let _ = chunks.finalize();
    received
}

/// A code as QUIC's number.
fn number(code: Code) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or(VarInt::MAX)
}

/// The stream with this number.
fn stream(number: u64) -> Option<StreamId> {
    VarInt::from_u64(number).ok().map(StreamId::from)
}

impl H3 {
    /// Starts a connection: its first packets are to be sent.
    ///
    /// # Errors
    /// The address or the name cannot be used, or the TLS settings are not for QUIC.
    pub fn connect(
        clock: Clock,
        now: Ns,
        remote: SocketAddr,
        tls: &Tls,
        mtu_discovery: bool,
    ) -> Result<H3, Fault> {
        let unreachable = |text: String| Fault {
            class: FailureClass::Unreachable,
            text,
        };
        let config = tls.quic.clone();
        let config = config.ok_or_else(|| unreachable("no TLS settings for QUIC".into()))?;
        let endpoint = Arc::new(EndpointConfig::default());
        let mut endpoint = Endpoint::new(endpoint, None, mtu_discovery, None);
        let connected = endpoint.connect(clock.instant(now), config, remote, &tls.name.to_str());
        let (handle, quic) = connected.map_err(|error| unreachable(error.to_string()))?;
        let limits = Limits {
            block_bytes_max: SECTION_BYTES_MAX,
            ..Limits::SERVER
        };
        let heads: HeadLimits = sluice_wire::h2::Limits::DEFAULT.heads();
        Ok(H3 {
            clock,
            remote,
            endpoint,
            handle,
            quic,
            progress: Progress::Handshake,
            has_heard: false,
            leaving: false,
            code: Code::NO_ERROR,
            reader: HeadReader::new(Decoder::new(&limits), heads, false),
            limits,
            writer: HeadWriter::default(),
            head: ResponseHead::default(),
            control: Control::default(),
            streams: BTreeMap::new(),
            waiting: Waiting::default(),
            responses: 0,
            unsent: None,
            kept: None,
        })
    }

    /// Keeps the next response as a whole.
    pub fn keep(&mut self) {
        self.kept = Some(Kept::default());
    }

    /// The response that was kept; `None` if its body was too long to be.
    pub fn kept(&mut self) -> Option<Probe> {
        let kept = self.kept.take()?;
        (!kept.is_too_long).then_some(kept.probe)
    }

    /// Whether the handshake is complete.
    pub fn is_open(&self) -> bool {
        matches!(self.progress, Progress::Open)
    }

    /// Whether anything came from the server.
    pub fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// How the connection has ended, if it has.
    pub fn ended(&self) -> Option<&Ended> {
        match &self.progress {
            Progress::Lost(ended) => Some(ended),
            Progress::Handshake | Progress::Open => None,
        }
    }

    /// Takes a datagram from the server. What it means comes out of [`H3::advance`].
    pub fn datagram(&mut self, now: Ns, ecn: Option<EcnCodepoint>, datagram: &[u8]) {
        self.has_heard = true;
        let (now, bytes) = (self.clock.instant(now), BytesMut::from(datagram));
        // Only a server would have to respond to strangers.
        let mut response = Vec::new();
        let event = self
            .endpoint
            .handle(now, self.remote, None, ecn, bytes, &mut response);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.quic.handle_event(event);
        }
    }

    /// When [`H3::expire_timers`] has to be called.
    pub fn deadline(&mut self) -> Option<Ns> {
        self.quic.poll_timeout().map(|at| self.clock.at(at))
    }

    /// QUIC's timers that have expired.
    pub fn expire_timers(&mut self, now: Ns) {
        let now = self.clock.instant(now);
        if self.quic.poll_timeout().is_some_and(|due| due <= now) {
            self.quic.handle_timeout(now);
        }
    }

    /// Sends packets until there are none or the socket has no room. Returns their bytes, and whether there was room.
    pub fn send(
        &mut self,
        now: Ns,
        segments_max: usize,
        out: &mut Vec<u8>,
        mut pass: impl FnMut(&Transmit, &[u8]) -> Passed,
    ) -> (usize, Passed) {
        let mut sent = 0;
        if let Some((transmit, bytes)) = self.unsent.take() {
            if pass(&transmit, &bytes) == Passed::Full {
                self.unsent = Some((transmit, bytes));
                return (sent, Passed::Full);
            }
            sent += transmit.size;
        }
        let now = self.clock.instant(now);
        loop {
            out.clear();
            let Some(transmit) = self.quic.poll_transmit(now, segments_max, out) else {
                return (sent, Passed::On);
            };
            if pass(&transmit, out) == Passed::Full {
                self.unsent = Some((transmit, out.clone()));
                return (sent, Passed::Full);
            }
            sent += transmit.size;
        }
    }

    /// Closes the connection: its last packet is to be sent.
    pub fn close(&mut self, now: Ns) {
        if !self.quic.is_closed() {
            let now = self.clock.instant(now);
            self.quic.close(now, number(self.code), Bytes::new());
        }
    }

    /// Starts a request, or queues it until a stream is free.
    pub fn begin(&mut self, flight: Flight, requests: &[Prepared]) {
        self.waiting.push(flight);
        self.open(flight.sent, requests);
    }

    /// Begins the requests that wait, as far as the server allows streams.
    fn open(&mut self, now: Ns, requests: &[Prepared]) {
        while !self.waiting.is_empty()
            && let Some(id) = self.quic.streams().open(Dir::Bi)
            && let Some(flight) = self.waiting.pop(now)
        {
            let request = &requests[flight.request];
            let mut stream = Stream::new(flight, request, self.responses, &mut self.writer);
            stream.upload(&mut self.quic, id, requests);
            self.streams.insert(id, stream);
        }
    }

    /// Consumes one datagram.
    pub fn receive(&mut self, input: &[u8], now: Ns, desk: &mut Desk<'_>) -> Result<Keep, Fault> {
        self.datagram(now, None, input);
        self.advance(now, desk)
    }

    /// Acts on what datagrams and timers have brought. After the end of the connection, which [`H3::ended`] tells, all
    /// requests in flight have failed.
    ///
    /// # Errors
    /// The server broke a rule of HTTP/3: the connection has to be closed.
    pub fn advance(&mut self, now: Ns, desk: &mut Desk<'_>) -> Result<Keep, Fault> {
        let (mut heard, mut readable, mut lost) = (Heard::default(), Vec::new(), None);
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => {
                    self.progress = Progress::Open;
                    self.control.open(&mut self.quic, &self.limits);
                }
                // What arrived before comes first.
                Event::ConnectionLost { reason } => lost = Some(ended(&reason)),
                Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Bi => {
                    readable.push(id);
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read_control(id, &mut heard)?,
                Event::Stream(StreamEvent::Writable { id }) => {
                    if let Some(stream) = self.streams.get_mut(&id) {
                        stream.upload(&mut self.quic, id, desk.requests);
                    }
                }
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    if id.dir() == Dir::Uni {
                        return Err(self.fault(Code::CLOSED_CRITICAL_STREAM));
                    }
                    if let Some(stream) = self.streams.get_mut(&id) {
                        stream.stop_upload();
                    }
                    let _ = self.quic.send_stream(id).reset(error_code);
                }
                Event::Stream(
                    StreamEvent::Opened { .. }
                    | StreamEvent::Finished { .. }
                    | StreamEvent::Available { .. },
                )
                | Event::HandshakeDataReady
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => {}
            }
        }
        while let Some(id) = self.quic.streams().accept(Dir::Uni) {
            self.control.accept(id);
            self.read_control(id, &mut heard)?;
        }
        // GOAWAY before the resets that follow from it.
        if let Some(from) = heard.goaway {
            self.go_away(from, desk.done);
        }
        for id in heard.unblocked {
            self.read(id, now, desk)?;
        }
        for id in readable {
            self.read(id, now, desk)?;
        }
        if let Some(ended) = lost {
            self.lost(ended, desk.done);
        }
        if !self.leaving && self.is_open() {
            self.open(now, desk.requests);
        }
        self.control.flush(&mut self.quic, &mut self.reader.decoder);
        self.inform();
        Ok(match self.leaving && self.in_flight() == 0 {
            true => Keep::Closes,
            false => Keep::Open,
        })
    }

    /// Exchanges what the endpoint has to know of its connection.
    fn inform(&mut self) {
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(reply) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(reply);
            }
        }
    }

    /// The server broke a rule: what the connection is closed with, and the failure of its requests.
    fn fault(&mut self, code: Code) -> Fault {
        self.code = code;
        Fault {
            class: FailureClass::Malformed,
            text: format!("HTTP/3: {code}"),
        }
    }

    fn read_control(&mut self, id: StreamId, heard: &mut Heard) -> Result<(), Fault> {
        let (quic, decoder) = (&mut self.quic, &mut self.reader.decoder);
        let read = self.control.read(quic, id, &self.limits, decoder, heard);
        read.map_err(|code| self.fault(code))
    }

    /// The server takes no requests from stream `from` on (RFC 9114, section 5.2).
    fn go_away(&mut self, from: u64, done: &mut Vec<Done>) {
        self.leaving = true;
        let refused = stream(from).map(|from| self.streams.split_off(&from));
        for (id, stream) in refused.unwrap_or_default() {
            self.abandon(id, &stream);
            done.push(stream.flight.unprocessed(by_goaway()));
        }
        for flight in self.waiting.drain() {
            done.push(flight.unprocessed(by_goaway()));
        }
    }

    /// Neither sends nor receives any more on the stream of a request.
    fn abandon(&mut self, id: StreamId, stream: &Stream) {
        let code = number(Code::REQUEST_CANCELLED);
        // Each fails if that side of the stream has ended.
        let _ = self.quic.recv_stream(id).stop(code);
        if stream.is_uploading() {
            let _ = self.quic.send_stream(id).reset(code);
        }
        self.reader.decoder.cancel(u64::from(id));
    }

    /// Reads what has arrived of a response.
    fn read(&mut self, id: StreamId, now: Ns, desk: &mut Desk<'_>) -> Result<(), Fault> {
        loop {
            let Some(stream) = self.streams.get_mut(&id) else {
                return Ok(());
            };
            let request = &desk.requests[stream.flight.request];
            let mut heads = Heads {
                reader: &mut self.reader,
                limits: &self.limits,
                head: &mut self.head,
                cookies: &mut desk.last.cookies,
                kept: &mut self.kept,
            };
            let mut taken = stream.unblock(id, request, &mut heads);
            if taken.is_ok() && !stream.is_blocked() {
                taken = match receive(&mut self.quic, id) {
                    Received::Nothing => return Ok(()),
                    Received::Data(bytes) => {
                        if stream.flight.first == 0 {
                            stream.flight.first = now;
                        }
                        stream.take(id, &bytes, request, &mut heads)
                    }
                    Received::Reset(code) => {
                        self.reset(id, code, desk);
                        return Ok(());
                    }
                    Received::End => match stream.end() {
                        Ok(()) => {
                            self.finish(id, desk);
                            return Ok(());
                        }
                        Err(fault) => Err(fault),
                    },
                };
            } else if taken.is_ok() {
                return Ok(());
            }
            match taken {
                Ok(()) => {}
                Err(h3::Fault::Connection(code)) => return Err(self.fault(code)),
                Err(h3::Fault::Stream(code)) => {
                    self.refuse(id, code, desk.done);
                    return Ok(());
                }
            }
        }
    }

    /// The response on a stream breaks the protocol.
    fn refuse(&mut self, id: StreamId, code: Code, done: &mut Vec<Done>) {
        if let Some(stream) = self.streams.remove(&id) {
            self.abandon(id, &stream);
            let text = format!("a response that breaks the protocol: {code}");
            let lost = Lost::new(FailureClass::Malformed, text);
            done.push(stream.flight.end(Err(lost)));
        }
    }

    /// The server has reset a stream.
    fn reset(&mut self, id: StreamId, code: Code, desk: &mut Desk<'_>) {
        let Some(stream) = self.streams.remove(&id) else {
            return;
        };
        self.abandon(id, &stream);
        let text = format!("the server reset the stream: {code}");
        let lost = Lost::new(FailureClass::StreamReset, text);
        // RFC 9114, section 8.1: a rejected request was not processed.
        desk.done.push(match code {
            Code::REQUEST_REJECTED if self.leaving => stream.flight.unprocessed(by_goaway()),
            _ => stream.flight.end(Err(lost)),
        });
    }

    /// A stream has ended with a response.
    fn finish(&mut self, id: StreamId, desk: &mut Desk<'_>) {
        let Some(stream) = self.streams.remove(&id) else {
            return;
        };
        if stream.is_uploading() {
            let _ = self
                .quic
                .send_stream(id)
                .reset(number(Code::REQUEST_CANCELLED));
        }
        self.responses += 1;
        let request = &desk.requests[stream.flight.request];
        let outcome = outcome(&stream.judge, request);
        desk.done.push(stream.flight.end(outcome));
    }

    /// The connection has ended, and with it everything in flight.
    fn lost(&mut self, ended: Ended, done: &mut Vec<Done>) {
        let responses = self.responses;
        let lost = |flight: &Flight| match ended.in_order {
            false => ended.requests.clone(),
            true => {
                let class = match flight.first {
                    0 if responses > 0 => FailureClass::Stale,
                    0 => FailureClass::Closed,
                    _ => FailureClass::BodyCut,
                };
                Lost::new(class, ended.requests.text.clone())
            }
        };
        let open = std::mem::take(&mut self.streams).into_values();
        let flights = open.map(|stream| stream.flight);
        for flight in flights.chain(self.waiting.drain()) {
            done.push(flight.end(Err(lost(&flight))));
        }
        self.progress = Progress::Lost(ended);
    }

    /// Fails everything in flight.
    pub fn lose(&mut self, lost: &Lost, done: &mut Vec<Done>) {
        let open = std::mem::take(&mut self.streams).into_values();
        let flights = open.map(|stream| stream.flight);
        for flight in flights.chain(self.waiting.drain()) {
            done.push(flight.end(Err(lost.clone())));
        }
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.streams.len() + self.waiting.len()
    }

    /// Whether the server accepts no more requests.
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Fails what was sent at or before `before`, stream by stream, and what was due then and had no stream yet: the
    /// server never saw that.
    pub fn expire(&mut self, before: Ns, done: &mut Vec<Done>) -> Keep {
        let is_late = |stream: &Stream| stream.flight.sent <= before;
        let expired: Vec<StreamId> = self
            .streams
            .iter()
            .filter(|(_, stream)| is_late(stream))
            .map(|(id, _)| *id)
            .collect();
        for id in expired {
            let Some(stream) = self.streams.remove(&id) else {
                continue;
            };
            self.abandon(id, &stream);
            let lost = late(stream.flight.first != 0);
            done.push(stream.flight.end(Err(lost)));
        }
        self.waiting.expire(before, done);
        Keep::Open
    }

    /// The oldest request in flight.
    pub fn oldest(&self) -> Option<Flight> {
        let open = self.streams.values().map(|stream| stream.flight);
        self.waiting.oldest(open)
    }

    /// Responses received on this connection.
    pub fn responses(&self) -> u64 {
        self.responses
    }
}
