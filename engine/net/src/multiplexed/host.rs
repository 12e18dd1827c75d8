//! A listener and the worker that serves it, for connections of any transport: limits to enter, the current
//! configuration, exchanges.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use sluice_message::{ConnInfo, Remote};

use crate::binding::Slot;
use crate::connection::{Shared, take_exchange};
use crate::service::{Exchange, Service};
use crate::worker::Worker;

pub use crate::binding::Binding;
pub use crate::connection::Open;
pub use crate::handshakes::{Handshake, Shed};
pub use crate::worker::Entered;

/// A listener of one worker.
pub struct Host<S: Service> {
    slot: Rc<Slot<S>>,
    shared: Rc<Shared<S>>,
}

impl<S: Service> Clone for Host<S> {
    fn clone(&self) -> Self {
        Host {
            slot: self.slot.clone(),
            shared: self.shared.clone(),
        }
    }
}

impl<S: Service> Host<S> {
    pub(crate) fn new(slot: Rc<Slot<S>>, shared: Rc<Shared<S>>) -> Host<S> {
        Host { slot, shared }
    }

    /// The worker.
    pub fn worker(&self) -> &Rc<Worker> {
        &self.shared.worker
    }

    /// What the listener serves now.
    pub fn binding(&self) -> Rc<Binding<S>> {
        self.slot.binding()
    }

    /// Whether the listener was removed: its connections finish the requests they have begun.
    pub fn is_retired(&self) -> bool {
        self.slot.is_retired()
    }

    /// Waits until the listener is removed.
    pub async fn retired(&self) {
        self.slot.retired().await;
    }

    /// Waits until the socket for datagrams with this number is passed to another process; returns the link to that.
    pub async fn link_of(&self, index: u8) -> OwnedFd {
        self.slot.link_of(index).await
    }

    /// Counts a connection, if the limit on client connections leaves room.
    pub fn enter(&self) -> Option<Entered> {
        self.shared.limit.enter()
    }

    /// Takes a connection slot, closing idle connections if necessary. `None`: all are in use, or memory is scarce.
    pub async fn admit(&self, entered: Entered) -> Option<Open> {
        let worker = &self.shared.worker;
        worker.counters.accepted.up();
        if worker.refuses() {
            worker.counters.memory_connections_refused.up();
            return None;
        }
        match worker.take_slot().await {
            Ok(slot) => Some(Open::new(worker, (entered, slot))),
            Err(_) => {
                worker.counters.refused.up();
                None
            }
        }
    }

    /// Begins the handshake of a client.
    ///
    /// # Errors
    ///
    /// Slots are scarce, and the address has its share of them.
    pub fn begin_handshake(&self, remote: Remote) -> Result<Handshake, Shed> {
        let room = self.shared.limit.room();
        self.shared.worker.handshakes.begin(remote, room)
    }

    /// A pooled or new exchange for a request on the connection of `info`.
    pub fn take_exchange(&self, info: &Rc<ConnInfo>) -> Box<Exchange<S::Context>> {
        take_exchange(&self.shared, info)
    }

    /// Returns a used exchange to the pool.
    pub fn give_back(&self, exchange: Box<Exchange<S::Context>>) {
        self.shared.give_back(exchange);
    }
}
