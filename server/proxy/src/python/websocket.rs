//! WebSockets: the handshake, and the frames between a client and the messages of an application. Works over HTTP/1.1 and,
//! as an extended CONNECT (RFC 8441), over HTTP/2.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use sluice_message::hop_by_hop::strip_hop_by_hop;
use sluice_message::{FieldId, ResponseHead, Status, Version};
use sluice_net::tunnel::{IdleTimeouts, Peer, RequestEnd, Tunnel};
use sluice_net::{Body, RequestBody, Timer, Worker};
use sluice_python::{CallFailure, Kind, MessagePart, Received, Request, Sent, WebSocket, Why};
use sluice_wire::websocket::{
    self as codec, Carrier, Compression, Deflate, Deflater, Event, Handshake, Refused,
    SERVICE_RESTART, TRY_AGAIN_LATER, UNEXPECTED_CONDITION,
};

use super::attempt::{believed, facts};
use super::root_path::RootPath;
use super::{Chosen, Python, failure};
use crate::limits::{PYTHON_ATTEMPTS_MAX, WEBSOCKET_PING_EVERY};
use crate::reverse_proxy::upstream_response::merge;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::Step;

/// The version of the protocol, for clients that ask for another one (RFC 6455, section 4.4).
const VERSION: &[u8] = b"13";

impl Python {
    /// Performs the handshake and turns the connection into a WebSocket, or sends the response with which the application
    /// refuses it.
    pub(super) async fn open_websocket(
        &self,
        exchange: &mut Exchange,
        chosen: &Chosen,
    ) -> Result<Step, Fault> {
        let carrier = match exchange.req.version {
            Version::Http10 | Version::Http11 => Carrier::Http1,
            Version::Http2 | Version::Http3 => Carrier::Stream,
        };
        let handshake = Handshake::check(&exchange.req, carrier).map_err(|refused| {
            if refused == Refused::Version {
                let fields = &mut exchange.res.fields;
                fields.set(FieldId::SecWebsocketVersion, VERSION);
            }
            Fault::new(refused.status(), refused.to_string())
        })?;
        let deflate = match self.websocket.compression {
            true => Deflate::offered(&exchange.req.fields),
            false => None,
        };
        let (socket, decision) = self.ask(exchange, chosen).await?;
        self.note(exchange, chosen, socket.process().0);
        let head = match decision {
            sluice_python::Handshake::Accepted(head) => head,
            sluice_python::Handshake::Responded(response) => {
                let call = socket.into_call();
                let step = self.take_response(exchange, chosen.interface(), call, response);
                return Ok(step);
            }
            sluice_python::Handshake::Refused => {
                let message = "the application refused the WebSocket";
                return Err(Fault::new(Status::FORBIDDEN, message));
            }
        };
        accept(exchange, head, &handshake, deflate);
        let compression = deflate.map_or(Compression::Off, Deflate::compression);
        let frames = Frames {
            codec: codec::WebSocket::server(self.websocket.limits, compression),
            compressor: exchange.worker.local(),
            application: Some(socket),
            waiting: None,
            withheld: 0,
            client: Client::Present,
            liveness: Liveness::new(&exchange.worker),
        };
        Ok(Step::Done(Body::Tunnel(Box::new(Tunnel {
            peer: Box::new(frames),
            slot: None,
            received: Vec::new(),
            lifetime: None,
            idle: IdleTimeouts::default(),
            lease: None,
            notice: None,
            buffer_bytes: None,
            // A configuration that is kept would keep the application from being replaced.
            request: RequestEnd::AtBegin,
        }))))
    }

    /// The application's decision, after as many attempts as it needs and may have.
    async fn ask(
        &self,
        exchange: &mut Exchange,
        chosen: &Chosen,
    ) -> Result<(Box<WebSocket>, sluice_python::Handshake), Fault> {
        let root = RootPath::of(exchange);
        for left in (0..PYTHON_ATTEMPTS_MAX).rev() {
            match attempt(exchange, chosen, &root).await {
                Ok(decided) => return Ok(decided),
                // A handshake is a GET, which may be repeated.
                Err(CallFailure {
                    why: Why::Died { .. },
                    ..
                }) if left > 0 => {}
                Err(failed) => return Err(failure::fault(exchange, chosen, failed.why)),
            }
        }
        unreachable!("the last attempt returns")
    }
}

async fn attempt(
    exchange: &Exchange,
    chosen: &Chosen,
    root: &RootPath,
) -> Result<(Box<WebSocket>, sluice_python::Handshake), CallFailure> {
    let head = believed(exchange);
    let request = Request {
        facts: facts(exchange, root, Some(0)),
        head: &head,
        body: RequestBody::None,
    };
    let asked = chosen.application.websocket(&exchange.worker, request);
    let mut socket = asked.await?;
    let decision = poll_fn(|cx| socket.poll_handshake(cx)).await?;
    Ok((socket, decision))
}

/// The response that opens a WebSocket. Over HTTP/2 the connection makes a plain 200 of it.
fn accept(
    exchange: &mut Exchange,
    mut head: ResponseHead,
    handshake: &Handshake,
    deflate: Option<Deflate>,
) {
    strip_hop_by_hop(&mut head.fields);
    let ours = |id| {
        matches!(
            id,
            FieldId::ContentLength
                | FieldId::SecWebsocketAccept
                | FieldId::SecWebsocketExtensions
                | FieldId::SecWebsocketVersion
        )
    };
    head.fields.retain(|field| !ours(field.id));
    exchange.res.status = Status::SWITCHING_PROTOCOLS;
    if head.fields.has(FieldId::Server) {
        exchange.res.fields.remove(FieldId::Server);
    }
    merge(&mut exchange.res.fields, &mut head.fields);
    let fields = &mut exchange.res.fields;
    fields.push(FieldId::Upgrade, b"websocket");
    if let Some(accept) = &handshake.accept {
        fields.push(FieldId::SecWebsocketAccept, accept);
    }
    if let Some(deflate) = deflate {
        let extension = deflate.response();
        fields.push(FieldId::SecWebsocketExtensions, extension.as_bytes());
    }
}

/// The peer of a tunnel that is a WebSocket: takes the client's frames, and gives those with the application's messages.
struct Frames {
    codec: codec::WebSocket,
    /// `None` once it takes and sends nothing more; then a Close frame was sent, or the client is gone.
    application: Option<Box<WebSocket>>,
    /// A message, or a piece of one, that the application has no room for yet. While there is one, nothing is read from the
    /// client.
    waiting: Option<Waiting>,
    /// Bytes that were taken and not reported as taken, while there is something waiting.
    withheld: usize,
    compressor: Rc<Compressor>,
    client: Client,
    liveness: Liveness,
}

/// Compresses the messages of all WebSockets of a thread, from the first one that is to be compressed on.
#[derive(Default)]
struct Compressor(RefCell<Option<Deflater>>);

/// What the application has no room for yet.
struct Waiting {
    kind: Kind,
    data: Vec<u8>,
    piece: MessagePart,
}

/// Whether the client can still send something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Client {
    Present,
    Gone,
}

/// Pings, so that a client that vanished without a word is noticed, and that no middlebox takes the connection for idle.
struct Liveness {
    worker: Rc<Worker>,
    timer: Timer,
    /// Fires when the process drains.
    drain: Timer,
    /// Whether a Ping was sent and nothing has arrived since.
    is_asked: bool,
}

impl Liveness {
    fn new(worker: &Rc<Worker>) -> Liveness {
        let timer = worker.timers.timer();
        timer.set(&worker.clock, WEBSOCKET_PING_EVERY);
        let drain = worker.timers.timer();
        drain.set_for_drain();
        Liveness {
            worker: worker.clone(),
            timer,
            drain,
            is_asked: false,
        }
    }

    /// Ready when it is time for the next Ping; an error if the last one had no effect.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.timer.poll_expired(cx));
        if self.is_asked {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.is_asked = true;
        self.timer.set(&self.worker.clock, WEBSOCKET_PING_EVERY);
        Poll::Ready(Ok(()))
    }
}

impl Frames {
    /// Takes frames up to the first message that the application has no room for. Returns the number of bytes taken.
    fn take(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while self.waiting.is_none() {
            match self.codec.receive(&bytes[taken..]) {
                Ok(received) => {
                    taken += received.consumed;
                    match received.event {
                        None => break,
                        Some(Event::Ping | Event::Pong(_)) => {}
                        Some(Event::Message { kind, data, piece }) => {
                            let kind = match kind {
                                codec::Kind::Text => Kind::Text,
                                codec::Kind::Binary => Kind::Binary,
                            };
                            match give(&mut self.application, cx, (kind, data, piece)) {
                                Poll::Ready(Sent::Taken | Sent::Ended) => {}
                                Poll::Ready(Sent::Overloaded) => self.shed(),
                                Poll::Pending => {
                                    let data = data.to_vec();
                                    self.waiting = Some(Waiting { kind, data, piece });
                                }
                            }
                        }
                        Some(Event::Close { code, reason }) => {
                            if let Some(mut application) = self.application.take() {
                                application.close(code, reason.as_bytes());
                            }
                        }
                    }
                }
                Err(fault) => {
                    // The Close frame for the client is in the output.
                    if let Some(mut application) = self.application.take() {
                        application.close(fault.code(), b"");
                    }
                    return bytes.len();
                }
            }
        }
        taken
    }

    /// Offers what is waiting again.
    fn retry(&mut self, cx: &mut Context<'_>) {
        let Some(waiting) = &self.waiting else {
            return;
        };
        let message = (waiting.kind, &waiting.data[..], waiting.piece);
        let Poll::Ready(sent) = give(&mut self.application, cx, message) else {
            return;
        };
        self.waiting = None;
        if sent == Sent::Overloaded {
            self.shed();
        }
    }

    /// The processes of the application hold too much: the client may come again later.
    fn shed(&mut self) {
        if let Some(mut application) = self.application.take() {
            application.close(TRY_AGAIN_LATER, b"");
        }
        // Unless it is closed already.
        let _ = self.codec.close(TRY_AGAIN_LATER, "");
    }

    /// Sends what the application has sent. Nothing was closed before, so all of it can be sent.
    fn pass(&mut self, received: Result<Received, CallFailure>) {
        let (kind, data, piece) = match received {
            Ok(Received::Message(kind, data, piece)) => (kind, data, piece),
            Ok(Received::Close(code, reason)) => {
                self.application = None;
                let _ = self.codec.close(code, &reason);
                return;
            }
            // The supervisor has logged what happened.
            Err(_) => {
                self.application = None;
                let _ = self.codec.close(UNEXPECTED_CONDITION, "");
                return;
            }
        };
        let kind = match kind {
            Kind::Text => codec::Kind::Text,
            Kind::Binary => codec::Kind::Binary,
        };
        let mut compressor = self.compressor.0.borrow_mut();
        let deflater = self
            .codec
            .compresses()
            .then(|| compressor.get_or_insert_default());
        let _ = self.codec.send(kind, &data, piece, deflater);
    }
}

/// Gives a message to the application. One that has ended meanwhile says how in what it sends last.
fn give(
    application: &mut Option<Box<WebSocket>>,
    cx: &mut Context<'_>,
    (kind, data, piece): (Kind, &[u8], MessagePart),
) -> Poll<Sent> {
    match application {
        Some(receiver) => receiver.poll_send(kind, data, piece, cx),
        None => Poll::Ready(Sent::Ended),
    }
}

impl Peer for Frames {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        loop {
            let output = self.codec.output();
            if !output.is_empty() {
                let count = output.len().min(buf.capacity() - buf.len());
                buf.extend_from_slice(&output[..count]);
                self.codec.sent(count);
                return Poll::Ready(Ok(count));
            }
            if self.client == Client::Gone || self.codec.is_closed_here() {
                return Poll::Ready(Ok(0));
            }
            if self.liveness.drain.poll_expired(cx).is_ready() {
                if let Some(mut application) = self.application.take() {
                    application.close(SERVICE_RESTART, b"");
                }
                // It is open: what closes it leaves the loop above.
                let _ = self.codec.close(SERVICE_RESTART, "");
                continue;
            }
            let Some(application) = &mut self.application else {
                return Poll::Ready(Ok(0));
            };
            let Poll::Ready(received) = application.poll_receive(cx) else {
                ready!(self.liveness.poll(cx))?;
                let _ = self.codec.ping(b"");
                continue;
            };
            self.pass(received);
        }
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.liveness.is_asked = false;
        if self.waiting.is_some() {
            self.retry(cx);
            // The codec may have more of the message than the piece that was waiting.
            self.take(cx, &[]);
        }
        let mut taken = 0;
        let mut skipped = std::mem::take(&mut self.withheld);
        for slice in slices {
            let skip = skipped.min(slice.len());
            skipped -= skip;
            let count = skip + self.take(cx, &slice[skip..]);
            taken += count;
            if count < slice.len() {
                break;
            }
        }
        if self.waiting.is_none() {
            return Poll::Ready(Ok(taken));
        }
        // The last byte is reported as taken when the application has what is waiting; nobody would call again before, and
        // the end of the connection must not come first.
        self.withheld = 1;
        match taken {
            0 | 1 => Poll::Pending,
            taken => Poll::Ready(Ok(taken - 1)),
        }
    }

    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Without a Close frame before, the application learns that the connection was lost.
        self.application = None;
        self.client = Client::Gone;
        Poll::Ready(Ok(()))
    }
}
