//! Leases: locks that end by themselves when their holder dies. A thread renews a lease while it is held.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::failure::{Fault, StoreError};

/// What proves to the engine that a write comes from the present holder of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The name of the lease.
    pub name: String,
    /// What the engine compares: etcd's create revision, PostgreSQL's token, a random text for others.
    pub token: String,
}

/// How an engine renews and ends a lease.
pub trait Keep: Send + 'static {
    /// Renews the lease.
    ///
    /// # Errors
    /// [`Fault::Refused`] if it has passed to another holder; anything else is tried again.
    fn renew(&mut self) -> Result<(), StoreError>;

    /// Ends the lease, if it is still ours.
    fn release(&mut self);
}

/// A lease, held until it is dropped.
pub struct Lease {
    fence: Fence,
    is_lost: Arc<AtomicBool>,
    stop: Option<SyncSender<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl Lease {
    /// A lease that was just taken, renewed after every `renewal`, or sooner if that fails.
    ///
    /// # Errors
    /// The system has no thread left. The lease is released.
    pub fn held(
        fence: Fence,
        renewal: Duration,
        mut keep: impl Keep,
    ) -> Result<Lease, std::io::Error> {
        let (stop, stopped) = sync_channel::<()>(1);
        let is_lost = Arc::new(AtomicBool::new(false));
        let lost = Arc::clone(&is_lost);
        let keeper = std::thread::Builder::new()
            .name("lease".to_owned())
            .spawn(move || {
                let mut pause = renewal;
                while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    pause = match keep.renew() {
                        Ok(()) => renewal,
                        Err(error) if error.fault == Fault::Refused => {
                            lost.store(true, Ordering::Release);
                            return;
                        }
                        // A call that fails may take as long as a renewal, and the lease goes on ending.
                        Err(_) => renewal / 4,
                    };
                }
                keep.release();
            })?;
        Ok(Lease {
            fence,
            is_lost,
            stop: Some(stop),
            keeper: Some(keeper),
        })
    }

    /// What guards the writes made under this lease.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Whether another holder is known to have it. `false` proves nothing: only a guarded write does.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(keeper) = self.keeper.take() {
            // The thread ends because its channel is closed; a panic in it does not matter.
            let _ = keeper.join();
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&self.fence).finish()
    }
}
