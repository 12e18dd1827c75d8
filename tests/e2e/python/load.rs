//! Clients that ask without end, and fail if a response is not 200.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::client::Client;
use crate::harness::eventually;

/// Clients that ask for a path until they are stopped; each response has to be 200.
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<thread::JoinHandle<()>>,
    done: Arc<AtomicU64>,
}

impl Load {
    /// Starts so many clients.
    pub fn start(port: u16, path: &str, clients: usize) -> Load {
        let (stop, done) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let clients = (0..clients).map(|_| {
            let (stop, done, path) = (stop.clone(), done.clone(), path.to_owned());
            thread::spawn(move || {
                let mut client = Client::connect(port);
                while !stop.load(Ordering::Relaxed) {
                    let response = client.get(&path);
                    assert_eq!(
                        response.status,
                        200,
                        "{} {}",
                        response.head,
                        response.text()
                    );
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        Load {
            clients: clients.collect(),
            stop,
            done,
        }
    }

    /// Waits until so many more requests are done.
    pub fn wait_for(&self, more: u64) {
        let target = self.done.load(Ordering::Relaxed) + more;
        let done = || self.done.load(Ordering::Relaxed);
        eventually(
            "requests are served",
            || done() >= target,
            || done().to_string(),
        );
    }

    /// Stops them; fails if a request of one failed. Returns how many succeeded.
    pub fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("no request failed");
        }
        self.done.load(Ordering::Relaxed)
    }
}
