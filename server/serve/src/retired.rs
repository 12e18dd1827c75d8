//! Frees the sites of earlier configurations. Ten thousand sites take long to free, and without this the last request or
//! connection that used them would do it, on a worker, while others wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How often to look whether the last request has ended.
const PAUSE: Duration = Duration::from_millis(250);

/// Sites of earlier configurations, until nothing else uses them.
#[derive(Debug)]
pub(crate) struct Retired<T>(Arc<Mutex<Waiting<T>>>);

#[derive(Debug)]
struct Waiting<T> {
    sites: Vec<Arc<T>>,
    /// Whether a thread looks after them.
    is_watched: bool,
}

impl<T: Send + Sync + 'static> Retired<T> {
    /// None yet.
    pub(crate) fn new() -> Retired<T> {
        Retired(Arc::new(Mutex::new(Waiting {
            sites: Vec::new(),
            is_watched: false,
        })))
    }

    /// Frees `sites` on a thread of its own once nothing else uses them. Without a thread their last user frees them.
    pub(crate) fn add(&self, sites: impl Iterator<Item = Arc<T>>) {
        let mut waiting = lock(&self.0);
        waiting.sites.extend(sites);
        if waiting.is_watched || waiting.sites.is_empty() {
            return;
        }
        let shared = self.0.clone();
        let thread = thread::Builder::new().name("retired sites".to_owned());
        match thread.spawn(move || watch(&shared)) {
            Ok(_) => waiting.is_watched = true,
            Err(_) => waiting.sites.clear(),
        }
    }
}

/// Frees what nothing else uses, until nothing is left.
fn watch<T>(shared: &Mutex<Waiting<T>>) {
    loop {
        thread::sleep(PAUSE);
        let mut waiting = lock(shared);
        let sites = std::mem::take(&mut waiting.sites);
        let (unused, used) = sites
            .into_iter()
            .partition::<Vec<_>, _>(|site| Arc::strong_count(site) == 1);
        waiting.sites = used;
        waiting.is_watched = !waiting.sites.is_empty();
        let is_over = !waiting.is_watched;
        drop(waiting);
        drop(unused);
        if is_over {
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Reports the name of the thread that frees it.
    struct Site(Sender<Option<String>>);

    impl Drop for Site {
        fn drop(&mut self) {
            let name = thread::current().name().map(str::to_owned);
            self.0.send(name).expect("the test waits");
        }
    }

    #[test]
    fn sites_are_freed_apart_once_they_are_unused() {
        let (sender, freed) = channel();
        let retired = Retired::new();
        for _ in 0..2 {
            let site = Arc::new(Site(sender.clone()));
            let used = site.clone();
            retired.add([site].into_iter());
            assert!(freed.try_recv().is_err(), "it is in use");
            drop(used);
            assert_eq!(
                freed.recv().expect("it is freed").as_deref(),
                Some("retired sites")
            );
        }
    }
}
