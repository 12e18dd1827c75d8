//! Obtains a connection or stream for a call: an idle or shared one, or a new one.

use std::rc::Rc;
use std::sync::Arc;

use crate::call_transport::{Carrier, Wanted, take_idle};
use crate::dial::dial;
use crate::endpoint::{Endpoint, Protocol};
use crate::failures::shut;
use crate::link::Link;
use crate::streams;
use crate::{h2, h3};
use sluice_net::failure::Failure;
use sluice_net::worker::Worker;

/// Takes an idle connection to `endpoint`, or a stream on a shared one, if that is acceptable and the upstream has no
/// concurrency limit. To be tried first: [`obtain`] is a large future and seldom needed.
pub fn take_kept(worker: &Worker, endpoint: &Arc<Endpoint>, wanted: Wanted) -> Option<Carrier> {
    let is_limited = endpoint.gate().is_some();
    let protocol = endpoint.options().protocol;
    match (wanted, protocol.may_share()) {
        (Wanted::Fresh | Wanted::Own, _) => None,
        (Wanted::Any, true) if protocol == Protocol::Http3 => {
            streams::take::<h3::Mux>(worker, endpoint)
        }
        (Wanted::Any, true) => streams::take::<h2::Mux>(worker, endpoint),
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
    let protocol = endpoint.options().protocol;
    if protocol == Protocol::Http3 {
        let obtaining = streams::obtain::<h3::Mux>(worker, endpoint, wanted, preface);
        return Box::pin(obtaining).await;
    }
    if protocol.may_share() {
        let obtaining = streams::obtain::<h2::Mux>(worker, endpoint, wanted, preface);
        return Box::pin(obtaining).await;
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
