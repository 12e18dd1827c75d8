//! What a listener serves, and its replacement by a reload.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use crate::listener_wrapper::ListenerWrapper;
use crate::service::{Protocols, Service};

/// What a listener needs to serve connections.
pub(crate) struct Binding<S: Service> {
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
}

impl<S: Service> Slot<S> {
    pub(crate) fn new(binding: Binding<S>) -> Self {
        Slot {
            binding: RefCell::new(Rc::new(binding)),
            is_retired: Cell::new(false),
        }
    }

    pub(crate) fn binding(&self) -> Rc<Binding<S>> {
        self.binding.borrow().clone()
    }

    pub(crate) fn replace(&self, binding: Binding<S>) {
        *self.binding.borrow_mut() = Rc::new(binding);
    }

    /// Marks the listener as removed: its connections finish the requests they have begun.
    pub(crate) fn retire(&self) {
        self.is_retired.set(true);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.get()
    }
}
