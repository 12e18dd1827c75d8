//! What makes a connection one of many calls: its place in the pool, its open streams, and its driver.

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;

use super::shared_pool::{Shared, Shelf};
use crate::endpoint::{Endpoint, KeepAlive};
use sluice_net::gate::Pass;

/// Which calls may use a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// All calls to the upstream.
    All,
    /// A single call.
    Alone,
}

/// The part of a shared connection that does not depend on its protocol.
pub struct Membership<C> {
    endpoint: Arc<Endpoint>,
    shelf: Weak<Shelf<C>>,
    sharing: Sharing,
    number: u64,
    open: Cell<usize>,
    /// Its permit of the upstream's concurrency limit, while it is in use.
    permit: Cell<Option<Pass>>,
    /// The driver task, while it sleeps.
    driver: Cell<Option<Waker>>,
}

impl<C: Shared> Membership<C> {
    pub fn new(endpoint: &Arc<Endpoint>, shelf: &Rc<Shelf<C>>, sharing: Sharing) -> Membership<C> {
        Membership {
            endpoint: endpoint.clone(),
            shelf: Rc::downgrade(shelf),
            sharing,
            number: shelf.take_number(),
            open: Cell::new(0),
            permit: Cell::default(),
            driver: Cell::default(),
        }
    }

    /// The upstream.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// See [`Shared::number`].
    pub fn number(&self) -> u64 {
        self.number
    }

    /// See [`Shared::open_streams`].
    pub fn open_streams(&self) -> usize {
        self.open.get()
    }

    /// The pool, as long as it exists.
    pub fn shelf(&self) -> Option<Rc<Shelf<C>>> {
        self.shelf.upgrade()
    }

    /// Takes `connection`, to which this belongs, out of the pool.
    pub fn leave(&self, connection: &C) {
        if let Some(shelf) = self.shelf() {
            shelf.remove(connection);
        }
    }

    /// Holds a permit of the upstream's concurrency limit while the connection is in use.
    pub fn hold(&self, permit: Option<Pass>) {
        if permit.is_some() {
            self.permit.set(permit);
        }
    }

    /// A stream was opened.
    pub fn begin(&self) {
        self.open.set(self.open.get() + 1);
    }

    /// A stream of `connection` has ended.
    pub fn end(&self, connection: &C) {
        self.open.set(self.open.get() - 1);
        self.rest(connection);
        if let Some(shelf) = self.shelf() {
            shelf.note_ended();
        }
    }

    /// Without streams, `connection` needs no permit, and is retired if it is one too many.
    pub fn rest(&self, connection: &C) {
        if self.open.get() == 0 {
            self.permit.take();
            if self.is_spare() {
                connection.retire();
            }
        }
        self.wake_driver();
    }

    /// Whether a connection without streams is one too many.
    fn is_spare(&self) -> bool {
        match (self.sharing, self.endpoint.options().keep_alive) {
            (Sharing::Alone, _) => true,
            (Sharing::All, KeepAlive::Keep { idle_max, .. }) => {
                self.shelf().is_some_and(|shelf| shelf.idle() > idle_max)
            }
            (Sharing::All, KeepAlive::Off | KeepAlive::Briefly(_)) => false,
        }
    }

    /// Wakes the driver to send what is pending.
    pub fn wake_driver(&self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// Stores the waker of the driver, which is about to sleep.
    pub fn sleep(&self, driver: &Waker) {
        self.driver.set(Some(driver.clone()));
    }
}
