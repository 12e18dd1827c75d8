//! A server that ends each HTTP/2 connection gracefully after a few requests, as nginx does after `keepalive_requests`:
//! no request is lost, and none counts as a failure.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluice_message::{Fields, RequestHead, Status};
use sluice_wire::h1::BodyFraming;
use sluice_wire::h2::{End, Event, Limits, Server, StreamId};

use super::*;

/// Requests of one connection.
const EACH: u64 = 3;

const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

/// Serves the first requests of a connection, refuses the others with GOAWAY, and closes.
fn serve(mut stream: TcpStream, served: &AtomicU64) -> Option<()> {
    let mut server = Server::new(&Limits::DEFAULT, false);
    let (mut asked, mut buf, mut done) = (Vec::new(), [0; 16 * 1024], 0);
    while done < EACH {
        let got = stream.read(&mut buf).ok().filter(|got| *got > 0)?;
        ends_of(&mut server, &buf[..got], &mut asked);
        for id in asked.drain(..).take((EACH - done) as usize) {
            done += 1;
            if done == EACH {
                // Before the last response: what the client has sent beyond it is refused.
                stream.write_all(&std::mem::take(server.output())).ok()?;
                stream.write_all(&goaway()).ok()?;
            }
            respond(&mut server, id)?;
            served.fetch_add(1, Ordering::Relaxed);
        }
        stream.write_all(&std::mem::take(server.output())).ok()?;
    }
    stream.shutdown(Shutdown::Write).ok()?;
    // Until the client has closed: unread bytes would turn the end into a reset.
    while stream.read(&mut buf).ok()? > 0 {}
    Some(())
}

/// GOAWAY without an error, with the last stream that is processed; those of clients are odd (RFC 9113, section 5.1.1).
fn goaway() -> Vec<u8> {
    let last = 2 * EACH as u32 - 1;
    let head = [0, 0, 8, 7, 0, 0, 0, 0, 0];
    [&head[..], &last.to_be_bytes(), &0_u32.to_be_bytes()].concat()
}

fn respond(server: &mut Server, id: StreamId) -> Option<()> {
    let framing = BodyFraming::Length(BODY.len() as u64);
    let fields = Fields::default();
    let sent = server.send_head(id, Status::OK, &fields, framing, DATE, End::Later);
    sent.ok()?;
    server.send_data(id, BODY, End::Here).ok()?;
    server.release(id);
    Some(())
}

/// The streams whose requests are complete.
fn ends_of(server: &mut Server, mut bytes: &[u8], asked: &mut Vec<StreamId>) {
    let mut head = RequestHead::default();
    loop {
        let received = server.receive(bytes, &mut head).unwrap();
        bytes = &bytes[received.consumed..];
        match received.event {
            None => return,
            Some(Event::Head { id, end, .. }) if end.is_here() => asked.push(id),
            Some(_) => {}
        }
    }
}

fn start() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = Arc::new(AtomicU64::new(0));
    let count = served.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let count = count.clone();
            std::thread::spawn(move || serve(stream, &count));
        }
    });
    (address, served)
}

#[test]
fn graceful_ends_of_connections_lose_no_request() {
    let (address, served) = start();
    let mut plan = plan(address, Some(60));
    let url = format!("http://{address}/x");
    plan.target = Target::parse(&url, HttpVersion::Http2, None, Reach::Loopback).unwrap();
    // Each connection has more requests in flight than the server takes.
    (plan.connections, plan.depth) = (2, 5);
    let load = load(&plan);
    assert_eq!(failures(&load), []);
    assert_eq!((load.ok, served.load(Ordering::Relaxed)), (60, 60));
    assert!(load.connections.opened >= 60 / EACH);
}

/// A server that takes no request at all: each is sent again until its timeout, and then has failed.
#[test]
fn a_server_that_refuses_all_has_failed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // Its settings, and GOAWAY for all streams, without an error.
            let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
            let goaway = [[0, 0, 8, 7, 0, 0, 0, 0, 0].as_slice(), &[0; 8]].concat();
            std::thread::spawn(move || {
                let mut buf = [0; 16 * 1024];
                let mut received = 0;
                // The request is on its way when the first bytes are here.
                while received == 0 {
                    received = stream.read(&mut buf).ok()?;
                }
                stream.write_all(&[&settings[..], &goaway].concat()).ok()?;
                while stream.read(&mut buf).ok()? > 0 {}
                Some(())
            });
        }
    });
    let mut plan = plan(address, Some(4));
    let url = format!("http://{address}/x");
    plan.target = Target::parse(&url, HttpVersion::Http2, None, Reach::Loopback).unwrap();
    plan.timeout = Duration::from_secs(1);
    let load = load(&plan);
    assert_eq!(failures(&load), [(FailureClass::GoAway, 4)]);
    assert!(load.connections.opened > 4, "they were sent again before");
}

#[test]
fn an_open_loop_sends_them_again_as_well() {
    let (address, _) = start();
    let mut plan = plan(address, None);
    let url = format!("http://{address}/x");
    plan.target = Target::parse(&url, HttpVersion::Http2, None, Reach::Loopback).unwrap();
    (plan.connections, plan.depth) = (4, 5);
    plan.mode = Mode::Open {
        rate: 200.0,
        poisson: false,
    };
    let load = load(&plan);
    assert_eq!(failures(&load), []);
    assert_eq!(Some(load.ok), load.due);
}
