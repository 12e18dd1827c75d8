//! The threads that wait for changes of a key.

use std::io;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use sluice_store::{Key, Store, Watch};

use super::wakes::Wake;
use crate::limits::{RETRY_PAUSE_MAX, RETRY_PAUSE_MIN, WATCH_TIMEOUT};

/// Whether watching makes sense: not while the store is away, so that one thread alone tries to reach it.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct GateState {
    is_open: bool,
    is_ended: bool,
    /// A wake is in the queue already.
    is_woken: bool,
}

impl Gate {
    /// The store has responded.
    pub fn open(&self) {
        self.state().is_open = true;
        self.changed.notify_all();
    }

    /// The store is away.
    pub fn close(&self) {
        self.state().is_open = false;
    }

    /// Nothing is watched any more.
    pub fn end(&self) {
        self.state().is_ended = true;
        self.changed.notify_all();
    }

    /// The wake has arrived.
    pub fn seen(&self) {
        self.state().is_woken = false;
    }

    /// Waits until it is open; false if watching has ended.
    fn wait(&self) -> bool {
        let waits = |state: &mut GateState| !state.is_open && !state.is_ended;
        let state = self.changed.wait_while(self.state(), waits);
        !state.unwrap_or_else(PoisonError::into_inner).is_ended
    }

    /// Waits for a time, or until watching has ended.
    fn sleep(&self, pause: Duration) {
        let waits = |state: &mut GateState| !state.is_ended;
        let _ = self.changed.wait_timeout_while(self.state(), pause, waits);
    }

    /// Wakes the follower, once for several changes.
    fn wake(&self, wakes: &SyncSender<Wake>) -> bool {
        if std::mem::replace(&mut self.state().is_woken, true) {
            return true;
        }
        match wakes.try_send(Wake::Look) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                // Something else is about to wake it.
                self.seen();
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches a key, and wakes the follower when it changes or when changes may have been missed.
pub(super) fn start(
    store: Arc<dyn Store>,
    key: Key,
    gate: Arc<Gate>,
    wakes: SyncSender<Wake>,
) -> io::Result<()> {
    let work = move || {
        let mut pause = RETRY_PAUSE_MIN;
        while gate.wait() {
            let watch = store.watch(&key);
            // What changed before this moment was not reported; and without a watch the follower has to look itself.
            if !gate.wake(&wakes) {
                return;
            }
            if let Ok(mut watch) = watch
                && !follow(&mut *watch, &gate, &wakes, &mut pause)
            {
                return;
            }
            gate.sleep(pause);
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
    };
    thread::Builder::new()
        .name("fleet-watch".into())
        .spawn(work)
        .map(drop)
}

/// Reports changes until the watch fails; false if nobody is there to hear them.
fn follow(
    watch: &mut dyn Watch,
    gate: &Gate,
    wakes: &SyncSender<Wake>,
    pause: &mut Duration,
) -> bool {
    loop {
        let changes = watch.next(WATCH_TIMEOUT);
        if gate.state().is_ended {
            return false;
        }
        match changes {
            Ok(changes) => {
                *pause = RETRY_PAUSE_MIN;
                if !changes.is_empty() && !gate.wake(wakes) {
                    return false;
                }
            }
            Err(_) => return gate.wake(wakes),
        }
    }
}
