//! What the tests share: clients, upstreams and other peers over raw sockets, the server under test, temporary folders,
//! ports, waiting, and what a machine is able to run. Unit tests of other packages include single files of it.
#![allow(
    dead_code,
    reason = "a build without one kind of tests leaves parts unused"
)]

pub mod abilities;
pub mod any_certificate;
pub mod certificates;
pub mod cgi;
pub mod client;
pub mod client_load;
pub mod dns;
pub mod executable;
pub mod fastcgi;
pub mod harness;
pub mod php;
pub mod ports;
pub mod program;
pub mod python;
pub mod redis_server;
pub mod servers;
pub mod service;
pub mod sites;
pub mod temp_folder;
pub mod upstream;
pub mod wait;
pub mod wire;

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;

use wire::Wire;

/// Listens on a free port and calls `serve` for each connection in a thread of its own, until the test process ends.
pub fn listen(serve: impl Fn(Wire) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listen_on(listener, serve)
}

/// Like `listen`, for each of these addresses, on one port that is free on all of them.
pub fn listen_at<S: Fn(Wire) + Send + Sync + 'static>(all: Vec<(IpAddr, S)>) -> u16 {
    loop {
        let port = ports::free_port();
        let bind = |(ip, _): &(IpAddr, S)| TcpListener::bind((*ip, port)).ok();
        let listeners: Vec<TcpListener> = all.iter().filter_map(bind).collect();
        if listeners.len() == all.len() {
            for (listener, (_, serve)) in listeners.into_iter().zip(all) {
                listen_on(listener, serve);
            }
            return port;
        }
    }
}

fn listen_on(listener: TcpListener, serve: impl Fn(Wire) + Send + Sync + 'static) -> u16 {
    let port = listener.local_addr().expect("it is bound").port();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(Wire::with_timeout(stream)));
        }
    });
    port
}
