//! Clients that send requests to nodes without end, and count them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::client::Client;
use crate::harness::Server;

/// One client per node, with a connection that it keeps as long as the node does.
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<(u64, u64)>>,
}

impl Load {
    pub fn start(servers: &[Server]) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = servers.iter().map(|server| {
            let (stop, port) = (stop.clone(), server.port);
            thread::spawn(move || request(port, &stop))
        });
        Load {
            threads: threads.collect(),
            stop,
        }
    }

    /// Ends it: the requests, and those of them that failed.
    pub fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Release);
        let counts = self.threads.into_iter();
        let counts = counts.map(|thread| thread.join().expect("a client does not panic"));
        counts.fold((0, 0), |(all, failed), (more, bad)| {
            (all + more, failed + bad)
        })
    }
}

fn request(port: u16, stop: &AtomicBool) -> (u64, u64) {
    let (mut all, mut failed) = (0, 0);
    let mut client = Client::connect(port);
    while !stop.load(Ordering::Acquire) {
        client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let response = client.try_response();
        all += 1;
        let is_last = match &response {
            Ok(response) => response.field("Connection") == Some("close"),
            Err(_) => true,
        };
        failed += u64::from(!response.is_ok_and(|response| response.status == 200));
        if is_last {
            client = Client::connect(port);
        }
    }
    (all, failed)
}
