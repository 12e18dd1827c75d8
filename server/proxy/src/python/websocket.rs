//! WebSockets: the handshake, and the frames between a client and the messages of an application. Works over HTTP/1.1 and,
//! as an extended CONNECT (RFC 8441), over HTTP/2.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use sluice_message::hop_by_hop::strip_hop_by_hop;
use sluice_message::{FieldId, ResponseHead, Status, Version};
use sluice_net::tunnel::{IdleTimeouts, Peer, RequestEnd, Tunnel};
use sluice_net::{Body, RequestBody, Timer, Worker};
use sluice_python::{CallFailure, Kind, Received, Request, WebSocket, Why};
use sluice_wire::websocket::{
    self as codec, Carrier, Event, Handshake, Refused, SERVICE_RESTART, UNEXPECTED_CONDITION,
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
        accept(exchange, head, &handshake);
        let frames = Frames {
            codec: codec::WebSocket::server(self.websocket),
            application: Some(socket),
            waiting: None,
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
fn accept(exchange: &mut Exchange, mut head: ResponseHead, handshake: &Handshake) {
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
}

/// The peer of a tunnel that is a WebSocket: takes the client's frames, and gives those with the application's messages.
struct Frames {
    codec: codec::WebSocket,
    /// `None` once it takes and sends nothing more; then a Close frame was sent, or the client is gone.
    application: Option<Box<WebSocket>>,
    /// A message that the application has no room for yet. While there is one, nothing is read from the client.
    waiting: Option<(Kind, Vec<u8>)>,
    client: Client,
    liveness: Liveness,
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
                        Some(Event::Message { kind, data }) => {
                            let kind = match kind {
                                codec::Kind::Text => Kind::Text,
                                codec::Kind::Binary => Kind::Binary,
                            };
                            self.waiting = give(&mut self.application, cx, kind, data);
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
}

/// Gives a message to the application, or returns a copy of it if there is no room.
fn give(
    application: &mut Option<Box<WebSocket>>,
    cx: &mut Context<'_>,
    kind: Kind,
    data: &[u8],
) -> Option<(Kind, Vec<u8>)> {
    let receiver = application.as_mut()?;
    match receiver.poll_send_ready(data.len(), cx) {
        // It may have ended meanwhile; how, is what it sends last.
        Poll::Ready(true) => _ = receiver.send(kind, data),
        Poll::Ready(false) => {}
        Poll::Pending => return Some((kind, data.to_vec())),
    }
    None
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
            // Nothing was closed yet, so all of these can be sent.
            let _ = match received {
                Ok(Received::Message(Kind::Text, data)) if std::str::from_utf8(&data).is_err() => {
                    self.application = None;
                    self.codec.close(UNEXPECTED_CONDITION, "")
                }
                Ok(Received::Message(Kind::Text, data)) => {
                    self.codec.send(codec::Kind::Text, &data)
                }
                Ok(Received::Message(Kind::Binary, data)) => {
                    self.codec.send(codec::Kind::Binary, &data)
                }
                Ok(Received::Close(code, reason)) => {
                    self.application = None;
                    self.codec.close(code, &reason)
                }
                // The supervisor has logged what happened.
                Err(_) => {
                    self.application = None;
                    self.codec.close(UNEXPECTED_CONDITION, "")
                }
            };
        }
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.liveness.is_asked = false;
        if let Some((kind, data)) = self.waiting.take() {
            self.waiting = give(&mut self.application, cx, kind, &data);
        }
        let mut taken = 0;
        for slice in slices {
            let count = self.take(cx, slice);
            taken += count;
            if count < slice.len() {
                break;
            }
        }
        match (taken, self.waiting.is_some()) {
            (0, true) => Poll::Pending,
            (taken, _) => Poll::Ready(Ok(taken)),
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
