//! `coalesce`: among identical concurrent requests only the first is sent to the upstream, and the others share its
//! response. Nothing is kept afterwards, so this is not a cache. Responses are shared only if a shared cache could
//! store them (RFC 9111, section 3); all other requests are sent individually.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use sluice_message::{FieldId, Fields, Method, ResponseHead, Scheme};
use sluice_net::{Body, BodyStream, Failure, FailureKind, Side};

use super::ReverseProxy;
use crate::limits::{COALESCE_BYTES_MAX, COALESCE_FOLLOWERS_MAX, COALESCE_KEYS_MAX};
use sluice_pipeline::collect::{Measured, measure};
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::Step;

/// The requests in flight by key, shared by all workers.
#[derive(Default)]
pub struct Coalescing(Mutex<HashMap<Box<[u8]>, Arc<Flight>>>);

/// A request in flight that others may join.
struct Flight(Mutex<State>);

enum State {
    /// In flight, with the wakers of the requests that wait.
    UnderWay(Vec<Waker>),
    /// Finished, with the response if it may be shared.
    Landed(Option<Arc<Shared>>),
}

/// A response for several requests.
struct Shared {
    /// The head from the upstream without hop-by-hop headers.
    head: ResponseHead,
    body: Vec<u8>,
    /// The headers of the request, if the response varies by them.
    asked: Option<Fields>,
}

enum Joined<'a> {
    /// This request is sent to the upstream; others may join it.
    First(Lead<'a>),
    /// The response of another request.
    Response(Arc<Shared>),
    /// This request is sent individually.
    Alone,
}

/// The first of several identical requests. When dropped, it wakes those that wait, whatever the outcome.
struct Lead<'a> {
    coalescing: &'a Coalescing,
    key: Box<[u8]>,
    flight: Arc<Flight>,
}

const NEVER_POISONED: &str = "nothing panics while it holds a request under way";

impl ReverseProxy {
    /// Like [`ReverseProxy::run`], but shares responses among identical requests.
    pub(super) async fn coalesced(&self, coalescing: &Coalescing, exchange: &mut Exchange) -> Step {
        let lead = match coalescing.join(exchange).await {
            Joined::Alone => return self.run(exchange).await,
            Joined::Response(shared) => return self.pass_shared(exchange, &shared),
            Joined::First(lead) => lead,
        };
        exchange.context.aside.get_or_insert_default().shared_head = Some(ResponseHead::default());
        let step = self.run(exchange).await;
        let aside = exchange.context.aside.as_mut();
        let head = aside.and_then(|aside| aside.shared_head.take());
        let Some(head) = head.filter(is_for_all) else {
            return step;
        };
        let asked = head
            .fields
            .has(FieldId::Vary)
            .then(|| exchange.req.fields.clone());
        let (step, body) = match step {
            Step::Done(Body::Empty) => (Step::Done(Body::Empty), Vec::new()),
            Step::Done(Body::Inline) => (Step::Done(Body::Inline), exchange.inline.clone()),
            Step::Done(Body::Stream(stream)) if is_short(&*stream) => {
                match measure(stream, COALESCE_BYTES_MAX + 1).await {
                    Ok(Measured::Whole(mut whole)) => match copy(&mut *whole).await {
                        Some(body) => (Step::Done(Body::Stream(whole)), body),
                        None => return Step::Done(Body::Stream(whole)),
                    },
                    Ok(Measured::TooLong) => {
                        let failure = Failure::new(Side::Upstream, FailureKind::Protocol);
                        let failure =
                            failure.because("the response is longer than its Content-Length");
                        return Step::Fail(failure.into());
                    }
                    Err(failure) => return Step::Fail(failure.into()),
                }
            }
            step => return step,
        };
        lead.land(Some(Shared { head, body, asked }));
        step
    }

    fn pass_shared(&self, exchange: &mut Exchange, shared: &Shared) -> Step {
        exchange.context.upstream.status = Some(shared.head.status);
        self.put_on(exchange, shared.head.clone());
        exchange.inline.clear();
        exchange.inline.extend_from_slice(&shared.body);
        Step::Done(match shared.body.is_empty() {
            true => Body::Empty,
            false => Body::Inline,
        })
    }
}

fn is_short(stream: &dyn BodyStream) -> bool {
    stream
        .len()
        .is_some_and(|len| len <= COALESCE_BYTES_MAX as u64)
}

/// A copy of a body that is in memory completely.
async fn copy(body: &mut dyn BodyStream) -> Option<Vec<u8>> {
    let shown = poll_fn(|cx| body.poll_data(cx).map_ok(<[u8]>::to_vec)).await;
    shown
        .ok()
        .filter(|bytes| Some(bytes.len() as u64) == body.len())
}

impl Coalescing {
    async fn join(&self, exchange: &Exchange) -> Joined<'_> {
        if !is_common(exchange) {
            return Joined::Alone;
        }
        let key = key(exchange);
        let flight = {
            let mut flights = self.0.lock().expect(NEVER_POISONED);
            match flights.get(&key) {
                Some(flight) => flight.clone(),
                None if flights.len() >= COALESCE_KEYS_MAX => return Joined::Alone,
                None => {
                    let flight = Arc::new(Flight(Mutex::new(State::UnderWay(Vec::new()))));
                    flights.insert(key.clone(), flight.clone());
                    return Joined::First(Lead {
                        coalescing: self,
                        key,
                        flight,
                    });
                }
            }
        };
        let mut place = None;
        let landed = poll_fn(|cx| flight.poll(cx, &mut place)).await;
        match landed.filter(|shared| shared.suits(exchange)) {
            Some(shared) => Joined::Response(shared),
            None => Joined::Alone,
        }
    }
}

impl Flight {
    /// Ready with the response, or with `None` if it may not be shared or if too many requests wait for it.
    fn poll(&self, cx: &mut Context<'_>, place: &mut Option<usize>) -> Poll<Option<Arc<Shared>>> {
        let mut state = self.0.lock().expect(NEVER_POISONED);
        match (&mut *state, *place) {
            (State::Landed(shared), _) => Poll::Ready(shared.clone()),
            (State::UnderWay(wakers), Some(at)) => {
                wakers[at].clone_from(cx.waker());
                Poll::Pending
            }
            (State::UnderWay(wakers), None) if wakers.len() < COALESCE_FOLLOWERS_MAX => {
                *place = Some(wakers.len());
                wakers.push(cx.waker().clone());
                Poll::Pending
            }
            (State::UnderWay(_), None) => Poll::Ready(None),
        }
    }
}

impl Lead<'_> {
    fn land(&self, shared: Option<Shared>) {
        // Later requests start a new flight.
        let mut flights = self.coalescing.0.lock().expect(NEVER_POISONED);
        flights.remove(&self.key);
        drop(flights);
        let landed = State::Landed(shared.map(Arc::new));
        let before = std::mem::replace(&mut *self.flight.0.lock().expect(NEVER_POISONED), landed);
        if let State::UnderWay(wakers) = before {
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let is_under_way = matches!(
            *self.flight.0.lock().expect(NEVER_POISONED),
            State::UnderWay(_)
        );
        if is_under_way {
            self.land(None);
        }
    }
}

impl Shared {
    /// Whether the response is valid for the request of `exchange`: the headers in `Vary` have to match.
    fn suits(&self, exchange: &Exchange) -> bool {
        let Some(asked) = &self.asked else {
            return true;
        };
        let mut names = self
            .head
            .fields
            .all(FieldId::Vary)
            .flat_map(|value| value.split(|byte| *byte == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|name| !name.is_empty());
        names.all(|name| asked.find(name).eq(exchange.req.fields.find(name)))
    }
}

/// Whether a request may be coalesced: a GET without conditions, ranges, credentials or cache directives.
fn is_common(exchange: &Exchange) -> bool {
    const OWN: [FieldId; 12] = [
        FieldId::Authorization,
        FieldId::CacheControl,
        FieldId::Cookie,
        FieldId::Expect,
        FieldId::IfMatch,
        FieldId::IfModifiedSince,
        FieldId::IfNoneMatch,
        FieldId::IfRange,
        FieldId::IfUnmodifiedSince,
        FieldId::Pragma,
        FieldId::Range,
        FieldId::Upgrade,
    ];
    exchange.req.method == Method::Get
        && exchange.body.is_none()
        && !exchange.req.fields.ids().any(|id| OWN.contains(&id))
}

/// The key that identifies identical requests.
fn key(exchange: &Exchange) -> Box<[u8]> {
    let scheme: &[u8] = match exchange.conn.scheme() {
        Scheme::Http => b"http",
        Scheme::Https => b"https",
    };
    [
        scheme,
        b"\0",
        &exchange.req.authority,
        b"\0",
        exchange.req.uri.as_bytes(),
    ]
    .concat()
    .into()
}

/// Whether a response may be sent to all clients.
fn is_for_all(head: &ResponseHead) -> bool {
    let fields = &head.fields;
    let is_lasting = matches!(
        head.status.code(),
        200 | 203 | 204 | 300 | 301 | 308 | 404 | 410
    );
    let is_private = fields
        .all(FieldId::CacheControl)
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(|item| item.trim_ascii().to_ascii_lowercase())
        .any(|item| {
            [&b"private"[..], b"no-store", b"no-cache"]
                .iter()
                .any(|word| item.starts_with(word))
        });
    let varies_by_all = fields.all(FieldId::Vary).any(|value| value.contains(&b'*'));
    is_lasting && !is_private && !varies_by_all && !fields.has(FieldId::SetCookie)
}
