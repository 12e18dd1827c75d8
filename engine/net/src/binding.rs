//! What a listener serves, and its replacement by a reload.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::listener_wrapper::ListenerWrapper;
use crate::service::{Protocols, Service};

/// What a listener needs to serve connections.
pub struct Binding<S: Service> {
    /// Serves its requests.
    pub service: Arc<S>,
    /// Creates TLS sessions; `None` for a plain listener.
    pub tls: Option<Arc<dyn crate::tls::Acceptor>>,
    /// The listener wrappers; `None` if there are none.
    pub wrapper: Option<Arc<ListenerWrapper>>,
    /// The HTTP versions on plain connections. On TLS connections ALPN decides.
    pub protocols: Protocols,
}

/// What a listener of a worker currently serves. A reload replaces it; running requests finish with the binding they
/// began with.
pub(crate) struct Slot<S: Service> {
    binding: RefCell<Rc<Binding<S>>>,
    is_retired: Cell<bool>,
    /// Notified when the listener is removed.
    retired: Notify,
}

impl<S: Service> Slot<S> {
    pub(crate) fn new(binding: Rc<Binding<S>>) -> Self {
        Slot {
            binding: RefCell::new(binding),
            is_retired: Cell::new(false),
            retired: Notify::new(),
        }
    }

    pub(crate) fn binding(&self) -> Rc<Binding<S>> {
        self.binding.borrow().clone()
    }

    pub(crate) fn replace(&self, binding: Rc<Binding<S>>) {
        *self.binding.borrow_mut() = binding;
    }

    /// Marks the listener as removed: its connections finish the requests they have begun.
    pub(crate) fn retire(&self) {
        self.is_retired.set(true);
        self.retired.notify_waiters();
    }

    /// Takes [`Slot::retire`] back.
    pub(crate) fn revive(&self) {
        self.is_retired.set(false);
    }

    /// Waits until the listener is removed.
    pub(crate) async fn retired(&self) {
        let notified = self.retired.notified();
        if !self.is_retired() {
            notified.await;
        }
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.get()
    }
}
