//! `nginx_mirror`: sends copies of requests to other locations and discards the responses. The client does not wait
//! for them: the request continues once its body has been read, and so does the connection.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::Moment;
use sluice_model::nginx::Mirror as Config;
use sluice_net::tasks::in_background;
use sluice_net::{Body, BodyStream, Failure, RequestBody, Worker};

use super::subrequest;
use crate::limits::{
    MIRROR_BODY_BYTES_MAX, MIRROR_BYTES_MAX, MIRROR_LOG_PAUSE, MIRROR_RESPONSE_BYTES_MAX,
    MIRRORS_MAX,
};
use crate::state::NginxContext;
use sluice_observe::log::Log;
use sluice_pipeline::build::Builder;
use sluice_pipeline::collect::collect;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Account, Assumed, Handler, Step, Waiting};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::subrequests::ServerRef;

struct Mirror {
    uris: Box<[Box<[u8]>]>,
    bodies: Bodies,
    site: ServerRef,
    log: Option<Log>,
}

/// Whether copies include the request body (`mirror_request_body`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bodies {
    Sent,
    LeftOut,
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    if let Some(uri) = config.uris.iter().find(|uri| !uri.starts_with('/')) {
        return Err(Refusal::new(format!("mirror `{uri}` is not a path")));
    }
    let uris = config.uris.iter().map(|uri| uri.as_bytes().into());
    Ok(Box::new(Mirror {
        uris: uris.collect(),
        bodies: match config.without_body {
            true => Bodies::LeftOut,
            false => Bodies::Sent,
        },
        site: builder.itself.clone(),
        log: builder.log.cloned(),
    }))
}

impl Handler for Mirror {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        // Copies are not mirrored.
        if exchange.context.nginx().is_subrequest() {
            return Step::Next;
        }
        if self.bodies == Bodies::LeftOut || exchange.body.is_none() {
            self.send(exchange, None);
            return Step::Next;
        }
        // Skip the copy if the declared body length exceeds the limit.
        if exchange
            .body
            .len()
            .is_some_and(|length| length > MIRROR_BODY_BYTES_MAX as u64)
        {
            self.left_out(&exchange.worker);
            return Step::Next;
        }
        Step::Later
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        Box::pin(async move {
            let RequestBody::Stream(body) = exchange.body.take() else {
                return Step::Next;
            };
            let collected = match collect(body, MIRROR_BODY_BYTES_MAX + 1).await {
                Ok(collected) => collected,
                Err(failure) => return Step::Fail(Fault::from(failure)),
            };
            match collected.is_whole() {
                true => self.send(exchange, Some(collected.bytes())),
                false => self.left_out(&exchange.worker),
            }
            exchange.body = RequestBody::Stream(Box::new(collected));
            Step::Next
        })
    }

    fn account(&self, _x: &mut Exchange) -> Account {
        let uris = self.uris.iter();
        let would = |uri: &[u8]| format!("would send a copy to `{}`", String::from_utf8_lossy(uri));
        Account {
            says: uris.map(|uri| would(uri)).collect(),
            assumed: Some(Assumed::Step(Step::Next)),
        }
    }
}

impl Mirror {
    /// Sends the copies.
    fn send(&self, exchange: &mut Exchange, body: Option<&[u8]>) {
        // A draining process starts no new work.
        let site = self.site.get().filter(|_| !exchange.worker.draining.get());
        let Some(site) = site else { return };
        let body: Option<Rc<Sent>> = match body {
            None => None,
            Some(bytes) => match Sent::keep(&exchange.worker, bytes) {
                None => return self.left_out(&exchange.worker),
                kept => kept.map(Rc::new),
            },
        };
        for uri in &self.uris {
            let Some(turn) = Turn::enter(&exchange.worker) else {
                self.left_out(&exchange.worker);
                continue;
            };
            let body = body.clone();
            let bytes = body.as_ref().map(|body| body.bytes.len());
            let mut copy = subrequest::apart(exchange, uri, bytes);
            if let Some(sent) = body {
                copy.body = RequestBody::Stream(Box::new(CopyBody { sent, taken: 0 }));
            }
            let site = site.clone();
            in_background(async move {
                let response = site.fetch(&mut copy).await;
                if let Body::Stream(mut response) = response {
                    read_on(&mut *response).await;
                }
                drop(turn);
            });
        }
    }

    /// Logs that copies were skipped, at most once per interval.
    fn left_out(&self, worker: &Worker) {
        let counts = worker.local::<Counts>();
        counts.left_out.set(counts.left_out.get() + 1);
        let now = worker.clock.coarse();
        let is_known = |logged: Moment| now.since(logged) < MIRROR_LOG_PAUSE;
        if counts.last_logged.get().is_some_and(is_known) {
            return;
        }
        counts.last_logged.set(Some(now));
        if let Some(log) = &self.log {
            let entry = log.warn("http.handlers.nginx_mirror", "requests are not mirrored");
            let entry = entry.integer("requests", counts.left_out.take());
            entry
                .text(
                    "reason",
                    "their bodies are too long, or too many are under way",
                )
                .send();
        }
    }
}

/// Reads the response to a copy up to a size limit.
pub(super) async fn read_on(response: &mut dyn BodyStream) {
    let mut left = MIRROR_RESPONSE_BYTES_MAX;
    loop {
        let count = poll_fn(|cx| response.poll_data(cx).map_ok(<[u8]>::len)).await;
        match count {
            Ok(count) if count > 0 && count <= left => {
                response.consume(count);
                left -= count;
            }
            Ok(_) | Err(_) => return,
        }
    }
}

/// Copies in flight on one worker.
#[derive(Default)]
struct Counts {
    copies: Cell<usize>,
    bytes: Cell<usize>,
    /// Copies skipped since the last log message.
    left_out: Cell<u64>,
    last_logged: Cell<Option<Moment>>,
}

/// One copy in flight.
struct Turn(Rc<Counts>);

impl Turn {
    fn enter(worker: &Worker) -> Option<Turn> {
        let counts = worker.local::<Counts>();
        if counts.copies.get() >= MIRRORS_MAX {
            return None;
        }
        counts.copies.set(counts.copies.get() + 1);
        Some(Turn(counts))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.copies.set(self.0.copies.get() - 1);
    }
}

/// A request body, shared by all copies.
struct Sent {
    bytes: Box<[u8]>,
    counts: Rc<Counts>,
}

impl Sent {
    fn keep(worker: &Worker, bytes: &[u8]) -> Option<Sent> {
        let counts = worker.local::<Counts>();
        let sum = counts.bytes.get() + bytes.len();
        if sum > MIRROR_BYTES_MAX {
            return None;
        }
        counts.bytes.set(sum);
        let bytes = bytes.into();
        Some(Sent { bytes, counts })
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.counts
            .bytes
            .set(self.counts.bytes.get() - self.bytes.len());
    }
}

/// The body of one copy.
struct CopyBody {
    sent: Rc<Sent>,
    taken: usize,
}

impl BodyStream for CopyBody {
    fn len(&self) -> Option<u64> {
        Some((self.sent.bytes.len() - self.taken) as u64)
    }

    fn poll_data(&mut self, _cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        Poll::Ready(Ok(&self.sent.bytes[self.taken..]))
    }

    fn consume(&mut self, count: usize) {
        self.taken += count;
    }

    fn is_rewindable(&self) -> bool {
        true
    }

    fn rewind(&mut self) {
        self.taken = 0;
    }
}
