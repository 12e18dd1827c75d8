//! What the connections of a worker share, and the count of those that are open.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use sluice_message::{ConnFacts, ConnInfo, Fields, LocalEnd, Remote, RequestHead};
use sluice_policy::memory::Pressure;

use crate::connection_slots::ConnectionSlot;
use crate::limits::{EXCHANGES_KEPT_MAX, HEAD_KEPT_BYTES_MAX, INLINE_KEPT_BYTES_MAX};
use crate::service::{Exchange, Service};
use crate::worker::{ConnectionLimit, Entered, Worker};

/// State shared by the connections of a worker for one type of service.
pub(crate) struct Shared<S: Service> {
    pub(crate) worker: Rc<Worker>,
    pub(crate) limit: Arc<ConnectionLimit>,
    pub(crate) exchanges: RefCell<Vec<Box<Exchange<S::Context>>>>,
    /// The connection of the pooled exchanges: they must not keep the information about their last one.
    no_connection: Rc<ConnInfo>,
}

impl<S: Service> Shared<S> {
    /// The state of connections that have not begun.
    pub(crate) fn new(worker: Rc<Worker>, limit: Arc<ConnectionLimit>) -> Shared<S> {
        Shared {
            worker,
            limit,
            exchanges: RefCell::new(Vec::new()),
            no_connection: Rc::new(ConnInfo {
                remote: Remote::Unix,
                local: LocalEnd::default(),
                tls: None,
                facts: ConnFacts::default(),
            }),
        }
    }

    /// Frees the pooled exchanges while memory is scarce.
    pub(crate) fn save_memory(&self) {
        if self.worker.memory.level() >= Pressure::SmallBuffers {
            let freed = self.exchanges.take().len();
            self.worker.counters.memory_buffers_freed.add(freed as u64);
        }
    }

    /// Returns a used exchange to the pool.
    pub(crate) fn give_back(&self, mut exchange: Box<Exchange<S::Context>>) {
        let mut kept = self.exchanges.borrow_mut();
        let is_scarce = self.worker.memory.level() >= Pressure::SmallBuffers;
        if kept.len() < EXCHANGES_KEPT_MAX && !is_scarce {
            if exchange.req.capacity_bytes() > HEAD_KEPT_BYTES_MAX {
                exchange.req = RequestHead::default();
            }
            if exchange.res.fields.capacity_bytes() > HEAD_KEPT_BYTES_MAX {
                exchange.res.fields = Fields::new();
            }
            exchange.req.clear();
            exchange.res.clear();
            if exchange.inline.capacity() > INLINE_KEPT_BYTES_MAX {
                exchange.inline = Vec::new();
            }
            exchange.conn = self.no_connection.clone();
            kept.push(exchange);
        }
    }
}

/// An open connection of a worker; dropping it, also during a panic, decrements the counter.
pub struct Open(
    Rc<Worker>,
    #[expect(dead_code, reason = "held to be counted")] (Entered, ConnectionSlot),
);

impl Open {
    /// Counts a connection as open.
    pub(crate) fn new(worker: &Rc<Worker>, limits: (Entered, ConnectionSlot)) -> Open {
        worker.counters.open.up();
        Open(worker.clone(), limits)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.counters.open.down();
    }
}
