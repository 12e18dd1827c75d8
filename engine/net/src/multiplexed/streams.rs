//! The life cycle of one stream: a request whose head was received, its response, its record. `drive` decides when it
//! is polled.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::{FieldId, Method, RequestHead, Status, Version};
use sluice_wire::h1::{BodyFraming, Expectation};
use sluice_wire::sections::{Connect, End, HeadFault, RequestFacts};

use super::host::Host;
use super::send::Sender;
use super::{Carrier, StreamBody};
use crate::binding::Binding;
use crate::body::RequestBody;
use crate::clock;
use crate::connection::{Asker, SendTimeouts, response, start_of};
use crate::failure::Failure;
use crate::interims::Interim;
use crate::service::{Came, Completion, Exchange, Refused, Service};

/// Connection state that streams need.
pub struct Home<S: Service, M> {
    /// The connection.
    pub carrier: Rc<M>,
    /// Where exchanges are kept.
    pub host: Host<S>,
    /// Whether a response has asked to close the connection.
    pub is_closing: Cell<bool>,
}

/// A request to be served.
pub struct Start<S: Service, M: Carrier> {
    /// The stream.
    pub id: M::Id,
    /// The exchange with the head of the request.
    pub exchange: Box<Exchange<S::Context>>,
    /// The service and settings for the whole request, even across a reload.
    pub binding: Rc<Binding<S>>,
    /// Whether this is a CONNECT request.
    pub connect: Connect,
    /// Why the request is refused, if it is.
    pub refused: Option<(Status, HeadFault)>,
}

/// The head of a request as the codec gave it: what it says about what follows, or why it is refused.
pub type HeadRead<'f> = Result<&'f RequestFacts, HeadFault>;

/// Prepares a request whose head is in `exchange`, unless it is refused. The flag says whether it is the last request of
/// the connection.
pub fn prepare<S: Service, M: Carrier>(
    carrier: &Rc<M>,
    binding: Rc<Binding<S>>,
    mut exchange: Box<Exchange<S::Context>>,
    (id, head, end): (M::Id, HeadRead<'_>, End),
    version: Version,
) -> (Start<S, M>, bool) {
    let settings = binding.service.settings_for(&exchange.conn);
    let clock = &carrier.worker().clock;
    exchange.started = start_of(settings, clock);
    exchange.came = Came::default();
    exchange.close = false;
    let requests = &exchange.conn.facts.requests;
    requests.set(requests.get() + 1);
    let is_last = settings.client.ends(&exchange.conn, clock.coarse());
    exchange.res.clear();
    exchange.inline.clear();
    let connect = head.map_or(Connect::No, |facts| facts.connect);
    if connect == Connect::WebSocket {
        ask_as_in_http1(&mut exchange.req);
    }
    if let Ok(facts) = head
        && !end.is_here()
        && connect == Connect::No
    {
        let length = match facts.body {
            BodyFraming::Length(length) => Some(length),
            BodyFraming::None | BodyFraming::Chunked | BodyFraming::UntilClose => None,
        };
        let awaits = facts.expectation == Expectation::Continue;
        let body = StreamBody::new(carrier.clone(), id, length, awaits, &settings.client);
        exchange.body = RequestBody::Stream(Box::new(body));
    }
    if head.is_err() {
        exchange.req.clear();
        exchange.req.version = version;
    }
    let refused = head.err().and_then(|fault| Some((fault.status()?, fault)));
    let start = Start {
        id,
        exchange,
        binding,
        connect,
        refused,
    };
    (start, is_last)
}

/// Rewrites a WebSocket request (RFC 8441, RFC 9220) as in HTTP/1.1, for matchers and handlers; `send` adapts the
/// response.
fn ask_as_in_http1(head: &mut RequestHead) {
    head.method = Method::Get;
    head.fields.push(FieldId::Connection, b"Upgrade");
    head.fields.push(FieldId::Upgrade, b"websocket");
}

/// How a stream ended, for the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The response was sent completely.
    Complete,
    /// The client no longer waits for it.
    Cancelled,
    /// It failed midway, or there is none.
    Failed,
}

/// Serves one request.
pub async fn serve<S: Service, M: Carrier>(home: Rc<Home<S, M>>, start: Start<S, M>) -> Over {
    let Start {
        id,
        mut exchange,
        binding,
        connect,
        refused,
    } = start;
    let (carrier, service) = (&*home.carrier, &*binding.service);
    let settings = service.settings();
    let refused = refused.as_ref().map(|(status, fault)| Refused {
        status: *status,
        why: fault,
        line: &[],
    });
    let worker = carrier.worker();
    let _underway = carrier.requests().enter(&worker.retirement);
    let asker = StreamAsker { carrier, id };
    let responded = response(service, &mut exchange, refused.as_ref(), worker, &asker).await;
    let limits = service.client_limits(&exchange);
    let timeouts = SendTimeouts {
        idle: limits.write_idle_timeout,
        min_rate: limits.write_min_rate,
        until: service.write_until(&exchange),
    };
    let mut sender = Sender::new(&home.carrier, id, timeouts, connect);
    let sent = sender.send(&mut exchange, responded).await;
    let (body_bytes_sent, head_bytes_sent) = (sender.content_sent, sender.head_sent);
    // A body that a handler took and dropped is returned before it is counted.
    exchange.body = RequestBody::None;
    let now = match settings.exact_times {
        true => clock::now(),
        false => worker.clock.coarse(),
    };
    let completion = Completion {
        ending: sent.ending,
        body_bytes_sent,
        bytes_sent: head_bytes_sent + body_bytes_sent,
        head_bytes_sent,
        body_bytes_read: carrier.bytes_read(id),
        duration: now.since(exchange.started),
    };
    service.record(&mut exchange, &completion);
    if exchange.close {
        home.is_closing.set(true);
    }
    service.reset(&mut exchange.context);
    home.host.give_back(exchange);
    sent.over
}

/// The client of one stream.
struct StreamAsker<'a, M: Carrier> {
    carrier: &'a M,
    id: M::Id,
}

impl<M: Carrier> Asker for StreamAsker<'_, M> {
    fn send_interim(&self, interim: &Interim) {
        self.carrier
            .send_interim(self.id, interim.status, &interim.fields);
    }

    fn poll_gone(&self, _cx: &mut Context<'_>) -> Poll<Failure> {
        match self.carrier.gone(self.id) {
            Some(gone) => Poll::Ready(gone.failure()),
            None => Poll::Pending,
        }
    }
}
