//! Obtains a connection or stream for a call: an idle or shared one, or a new one.

use std::rc::Rc;
use std::sync::Arc;

use crate::call_transport::{Carrier, Wanted, take_idle};
use crate::dial::dial;
use crate::endpoint::Endpoint;
use crate::failures::shut;
use crate::h2;
use crate::link::Link;
use sluice_net::failure::Failure;
use sluice_net::worker::Worker;

/// Takes an idle connection to `endpoint`, or a stream on a shared one, if that is acceptable and the upstream has no
/// concurrency limit. To be tried first: [`obtain`] is a large future and seldom needed.
pub fn take_kept(worker: &Worker, endpoint: &Arc<Endpoint>, wanted: Wanted) -> Option<Carrier> {
    let is_limited = endpoint.gate().is_some();
    match (wanted, endpoint.options().protocol.may_share()) {
        (Wanted::Fresh | Wanted::Own, _) => None,
        (Wanted::Any, true) => h2::take(worker, endpoint),
        (Wanted::Any, false) if is_limited => None,
        (Wanted::Any, false) => Carrier::kept(worker, endpoint),
    }
}

/// Obtains a connection or stream for a request to `endpoint`. Waits while the endpoint's concurrency limit is reached.
///
/// `preface`, if any, is sent on a new connection before anything else: a PROXY protocol header. Every failure may be
/// retried, as nothing of the request was sent.
pub async fn obtain(
    worker: &Rc<Worker>,
    endpoint: &Arc<Endpoint>,
    wanted: Wanted,
    preface: &[u8],
) -> Result<Carrier, Failure> {
    if endpoint.options().protocol.may_share() {
        return Box::pin(h2::obtain(worker, endpoint, wanted, preface)).await;
    }
    let permit = match endpoint.gate() {
        None => None,
        Some(gate) => Some(
            gate.enter(worker, endpoint.options().timeouts.queue)
                .await
                .map_err(shut)?,
        ),
    };
    let kept = match wanted {
        Wanted::Any => take_idle(worker, endpoint),
        Wanted::Fresh | Wanted::Own => None,
    };
    let mut link = match kept {
        Some(link) => link,
        None => {
            let (stream, place) = dial(worker, endpoint, preface).await?;
            Link::new(stream, endpoint.clone(), place)
        }
    };
    link.permit = permit;
    Ok(Carrier::Link(link))
}
