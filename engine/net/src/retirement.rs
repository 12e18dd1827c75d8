//! The end of requests that outlive their configuration: after a reload, connections are closed whose requests still use
//! a replaced configuration when its time is over. Connections report when they begin and end requests.

use std::cell::{Cell, RefCell};
use std::rc::Weak;

use slab::Slab;

/// A connection of a worker.
pub trait Outliving {
    /// Closes the connection if a request began on it before configuration `generation`.
    fn close_if_older(&self, generation: u32);
}

/// The connections of a worker, and the number of its configuration.
#[derive(Default)]
pub struct Retirement {
    generation: Cell<u32>,
    all: RefCell<Slab<Weak<dyn Outliving>>>,
}

impl Retirement {
    /// Adds a connection; returns its number, which is free again once it is removed.
    pub fn add(&self, connection: Weak<dyn Outliving>) -> u32 {
        self.all.borrow_mut().insert(connection) as u32
    }

    /// Removes the connection with this number.
    pub fn remove(&self, number: u32) {
        self.all.borrow_mut().try_remove(number as usize);
    }

    /// How many there are.
    pub fn connections(&self) -> usize {
        self.all.borrow().len()
    }

    /// The number of the current configuration.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.get()
    }

    /// Notes that the configuration was replaced; returns the number of the new one.
    pub(crate) fn replace(&self) -> u32 {
        self.generation.set(self.generation.get().wrapping_add(1));
        self.generation.get()
    }

    /// Closes all connections with requests that began before configuration `generation`.
    pub(crate) fn close_older(&self, generation: u32) {
        let all: Vec<_> = self
            .all
            .borrow()
            .iter()
            .map(|(_, one)| one.clone())
            .collect();
        for connection in all.iter().filter_map(Weak::upgrade) {
            connection.close_if_older(generation);
        }
    }
}

/// The requests in progress on a connection.
#[derive(Debug, Default)]
pub struct InProgress {
    count: Cell<u32>,
    /// The configuration of the oldest.
    generation: Cell<u32>,
}

impl InProgress {
    /// A request begins; it ends when the returned value is dropped.
    pub fn enter(&self, retirement: &Retirement) -> Underway<'_> {
        self.begin(retirement.generation());
        Underway(self)
    }

    /// A request begins with this configuration.
    pub(crate) fn begin(&self, generation: u32) {
        if self.count.get() == 0 {
            self.generation.set(generation);
        }
        self.count.set(self.count.get() + 1);
    }

    /// A request has ended.
    pub(crate) fn end(&self) {
        self.count.set(self.count.get().saturating_sub(1));
    }

    /// Whether a request began before configuration `generation`.
    pub fn is_older(&self, generation: u32) -> bool {
        self.count.get() > 0 && generation.wrapping_sub(self.generation.get()) as i32 > 0
    }
}

/// A request in progress on a connection, until it is dropped.
pub struct Underway<'a>(&'a InProgress);

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[derive(Default)]
    struct Connection {
        requests: InProgress,
        is_closed: Cell<bool>,
    }

    impl Outliving for Connection {
        fn close_if_older(&self, generation: u32) {
            if self.requests.is_older(generation) {
                self.is_closed.set(true);
            }
        }
    }

    #[test]
    fn only_requests_of_replaced_configurations_are_ended() {
        let retirement = Retirement::default();
        let all: Vec<Rc<Connection>> = (0..4).map(|_| Rc::default()).collect();
        let [old, ended, new, gone] = &all[..] else {
            panic!("there are four")
        };
        let mut numbers = Vec::new();
        for one in &all {
            let weak: Weak<Connection> = Rc::downgrade(one);
            numbers.push(retirement.add(weak));
        }
        old.requests.begin(retirement.generation());
        ended.requests.begin(retirement.generation());
        gone.requests.begin(retirement.generation());
        let next = retirement.replace();
        ended.requests.end();
        new.requests.begin(retirement.generation());
        retirement.remove(numbers[3]);
        retirement.close_older(next);
        let closed: Vec<bool> = all.iter().map(|one| one.is_closed.get()).collect();
        assert_eq!(closed, [true, false, false, false]);
        // The next replacement reaches those of the second configuration.
        retirement.close_older(retirement.replace());
        assert!(new.is_closed.get() && !ended.is_closed.get());
    }
}
