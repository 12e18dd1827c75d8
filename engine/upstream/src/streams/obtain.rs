//! Obtains a stream for a call: on a connection that has room, on one that is being established, or on a new one.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use super::connection::{Dialled, Dials, Streams};
use super::membership::Sharing;
use super::reserved_stream::Seat;
use super::shared_pool::Shelf;
use crate::call_transport::{Carrier, Wanted};
use crate::endpoint::{Endpoint, KeepAlive};
use crate::failures::shut;
use crate::link::Origin;
use crate::pool::{Pool, Shelved};
use sluice_net::failure::{Failure, FailureKind, Retry, Side};
use sluice_net::gate::{Gate, Pass};
use sluice_net::timeout::within;
use sluice_net::worker::Worker;

/// Takes a stream on an existing connection to `endpoint`, or an idle HTTP/1 connection if the upstream has chosen
/// that; `None` if there is neither.
pub(crate) fn take<C: Shelved>(worker: &Worker, endpoint: &Arc<Endpoint>) -> Option<Carrier>
where
    Carrier: From<Seat<C>>,
{
    let is_limited = endpoint.gate().is_some();
    if let Some(shelf) = Pool::of(worker).shelf::<C>(endpoint)
        && let Some(mux) = shelf
            .busy(0)
            .or_else(|| shelf.any(0).filter(|_| !is_limited))
    {
        return Some(seat_on(mux, Origin::Kept));
    }
    match is_limited {
        true => None,
        false => Carrier::kept(worker, endpoint),
    }
}

/// Like [`crate::obtain()`], for an upstream whose calls may share connections.
pub(crate) async fn obtain<C: Shelved + Dials>(
    worker: &Rc<Worker>,
    endpoint: &Arc<Endpoint>,
    wanted: Wanted,
    preface: &[u8],
) -> Result<Carrier, Failure>
where
    Carrier: From<Seat<C>>,
{
    let keep_alive = endpoint.options().keep_alive;
    let is_alone = !preface.is_empty() || keep_alive == KeepAlive::Off || wanted == Wanted::Own;
    let timeouts = &endpoint.options().timeouts;
    let shelf = Pool::of(worker).shelf_of::<C>(endpoint);
    if is_alone {
        let permit = match endpoint.gate() {
            None => None,
            Some(gate) => Some(gate.enter(worker, timeouts.queue).await.map_err(shut)?),
        };
        let dialled = C::dial(worker, endpoint, preface, &shelf, Sharing::Alone).await?;
        let mut carrier = carrier_of(dialled);
        carrier.hold(permit);
        return Ok(carrier);
    }
    // A call that requires a new connection may also use one that another call has just established.
    let since = match wanted {
        Wanted::Any => 0,
        Wanted::Fresh | Wanted::Own => shelf.next_number(),
    };
    let limit = timeouts.queue + timeouts.dial;
    let waited = within(worker, limit, find(worker, endpoint, &shelf, since));
    waited.await.unwrap_or_else(|| {
        let failure = Failure::new(Side::Upstream, FailureKind::Limit).with_retry(Retry::Always);
        Err(failure.because("timed out waiting for a free stream"))
    })
}

/// Joins a connection with number `since` or higher, waits for one that is being established, or establishes one. Only
/// the call that establishes it considers it fresh: others may find it about to end.
async fn find<C: Dials>(
    worker: &Rc<Worker>,
    endpoint: &Arc<Endpoint>,
    shelf: &Rc<Shelf<C>>,
    since: u64,
) -> Result<Carrier, Failure>
where
    Carrier: From<Seat<C>>,
{
    let gate = endpoint.gate();
    loop {
        let free = match gate {
            None => shelf.any(since),
            // A connection in use already holds a permit of the concurrency limit.
            Some(_) => shelf.busy(since),
        };
        if let Some(mux) = free {
            return Ok(seat_on(mux, Origin::Kept));
        }
        if shelf.is_worth_waiting() {
            shelf.wait().await?;
            continue;
        }
        let permit = match gate {
            None => None,
            Some(gate) => match enter(worker, endpoint, gate, shelf).await? {
                Entered::Elsewhere => continue,
                Entered::Permit(permit) => Some(permit),
            },
        };
        let kept = shelf.any(since).map(|mux| seat_on(mux, Origin::Kept));
        let link = || match since {
            0 => Carrier::kept(worker, endpoint),
            _ => None,
        };
        let mut carrier = match kept.or_else(link) {
            Some(kept) => kept,
            None => {
                let _dialling = shelf.dialling();
                match C::dial(worker, endpoint, b"", shelf, Sharing::All).await {
                    Ok(dialled) => carrier_of(dialled),
                    Err(failure) => {
                        shelf.note_failure(&failure);
                        return Err(failure);
                    }
                }
            }
        };
        carrier.hold(permit);
        return Ok(carrier);
    }
}

/// The result of waiting for the concurrency limit.
enum Entered {
    Permit(Pass),
    /// A connection in use may have room now.
    Elsewhere,
}

/// Waits for a permit, or for room on a connection that holds one.
async fn enter<C: Dials>(
    worker: &Rc<Worker>,
    endpoint: &Arc<Endpoint>,
    gate: &Gate,
    shelf: &Rc<Shelf<C>>,
) -> Result<Entered, Failure> {
    let mut entering = pin!(gate.enter(worker, endpoint.options().timeouts.queue));
    let mut changed = pin!(shelf.changed());
    poll_fn(|cx| {
        if let Poll::Ready(entered) = entering.as_mut().poll(cx) {
            return Poll::Ready(entered.map(Entered::Permit).map_err(shut));
        }
        changed.as_mut().poll(cx).map(|()| Ok(Entered::Elsewhere))
    })
    .await
}

fn carrier_of<C: Dials>(dialled: Dialled<C>) -> Carrier
where
    Carrier: From<Seat<C>>,
{
    match dialled {
        Dialled::Shared(mux) => seat_on(mux, Origin::Fresh),
        Dialled::Single(link) => Carrier::Link(link),
    }
}

fn seat_on<C: Streams>(mux: Rc<C>, origin: Origin) -> Carrier
where
    Carrier: From<Seat<C>>,
{
    Seat::new(mux, origin).into()
}
