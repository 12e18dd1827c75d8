//! Accepting connections on the listeners of a worker, as far as there is room for them.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;

use sluice_message::Remote;

use crate::binding::Slot;
use crate::connection::{self, Connection, Open, Shared};
use crate::limits::{ACCEPT_BURST_MAX, ACCEPT_PAUSE};
use crate::listener::Listener;
use crate::service::Service;
use crate::stream::Stream;
use crate::tasks::yield_once;
use crate::worker::Entered;

/// Accepts connections on one listener, for ever.
pub(crate) async fn accept<S: Service>(
    listener: Rc<Listener>,
    slot: Rc<Slot<S>>,
    shared: Rc<Shared<S>>,
) {
    let mut burst = 0;
    loop {
        let (stream, remote) = match poll_fn(|cx| listener.poll_accept(cx)).await {
            Ok(accepted) => accepted,
            Err(error) if is_of_connection(&error) => continue,
            Err(_) => {
                make_room(&shared).await;
                continue;
            }
        };
        // Only after a client has arrived, so that no idle connection is closed in vain.
        let entered = loop {
            match shared.limit.enter() {
                Some(entered) => break entered,
                None => make_room(&shared).await,
            }
        };
        admit((stream, remote), entered, &slot, &shared).await;
        burst = rest_after(burst).await;
    }
}

/// Serves an accepted connection.
pub(crate) async fn admit<S: Service>(
    (stream, remote): (Stream, Remote),
    entered: Entered,
    slot: &Rc<Slot<S>>,
    shared: &Rc<Shared<S>>,
) {
    let counters = &shared.worker.counters;
    counters.accepted.up();
    if shared.worker.refuses() {
        counters.memory_connections_refused.up();
        return;
    }
    let Ok(taken) = shared.worker.take_slot().await else {
        // As in nginx. A client left in the accept queue would not learn that the server is full.
        counters.refused.up();
        return;
    };
    let open = Open::new(&shared.worker, (entered, taken));
    let (slot, shared) = (slot.clone(), shared.clone());
    if slot.binding().wrapper.is_some() {
        tokio::task::spawn_local(connection::enter(stream, remote, slot, shared, open));
    } else {
        let ends = (remote, stream.local_end());
        let mut connection = Connection::new(stream, ends, slot, shared, open);
        // Called inside the async block: a future holds an argument passed by value twice, and this is most of an idle
        // connection.
        tokio::task::spawn_local(async move { connection.run().await });
    }
}

/// Counts a connection of a burst, and yields after a number of them.
async fn rest_after(burst: usize) -> usize {
    if burst + 1 < ACCEPT_BURST_MAX {
        return burst + 1;
    }
    yield_once().await;
    0
}

/// Connections or file descriptors have run out: closes the connections idle longest, including stalled handshakes, and
/// pauses accepting.
async fn make_room<S: Service>(shared: &Shared<S>) {
    shared.worker.counters.accept_pauses.up();
    let timers = &shared.worker.timers;
    timers.expire_oldest_idle(ACCEPT_BURST_MAX, 1);
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Whether accepting failed because of the connection itself, which is already gone.
pub(crate) fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(
        error.kind(),
        E::ConnectionAborted | E::ConnectionReset | E::Interrupted
    )
}
