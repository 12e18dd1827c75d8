//! One worker: a thread with a single-threaded runtime, its own listening sockets, clock, timers, buffers and
//! upstream connections. Workers share nothing on the way of a request but the running configuration.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use crate::buffers::Buffers;
use crate::clock::Clock;
use crate::timer::Timers;
use crate::upstream;

/// What the tasks of one worker share.
#[derive(Default)]
pub struct Worker {
    /// Its number, from 0.
    pub index: usize,
    /// Its time.
    pub clock: Clock,
    /// Its timeouts.
    pub timers: Rc<Timers>,
    /// Its spare buffers.
    pub buffers: Buffers,
    /// Its upstream connections.
    pub upstreams: upstream::Pool,
    /// Client connections open now.
    pub connections: Cell<usize>,
    /// Whether the process is ending: connections close after the request they serve.
    pub draining: Cell<bool>,
    locals: RefCell<HashMap<TypeId, Rc<dyn Any>>>,
}

impl Worker {
    /// The worker's own instance of `T`, made at first use: what the floor above keeps per worker, such as
    /// opened files. It outlives configurations.
    pub fn local<T: Default + 'static>(&self) -> Rc<T> {
        let found = self.locals.borrow().get(&TypeId::of::<T>()).cloned();
        let any = found.unwrap_or_else(|| {
            let made: Rc<dyn Any> = Rc::new(T::default());
            self.locals.borrow_mut().insert(TypeId::of::<T>(), made.clone());
            made
        });
        any.downcast().expect("an entry is stored under its own type")
    }
}
