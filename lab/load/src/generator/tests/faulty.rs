//! A server that fails on purpose and counts what it did: a thread per connection, over plain sockets.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::BODY;
use crate::result::FailureClass;

/// What the server does with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The expected response.
    Good,
    /// The expected response, chunked.
    Chunked,
    /// The expected response, in HTTP/1.0 with a body that ends with the connection.
    Old,
    /// The expected response, and closes as announced.
    Last,
    /// A response with another status.
    Status(u16),
    /// A response with a truncated body.
    Short,
    /// A response with another body of the right length.
    OtherBody,
    /// The expected response with more bytes behind it.
    Extra,
    /// The expected response after a pause.
    After(Duration),
    /// Closes without a response.
    Close,
    /// Resets without a response.
    Reset,
    /// Closes inside the head.
    CutHead,
    /// Closes inside the body.
    CutBody,
    /// Resets inside the body.
    ResetBody,
    /// Sends something that is not HTTP.
    Garbage,
    /// Sends nothing until the client gives up.
    Silent,
    /// Sends a head and half a body, then nothing.
    SilentBody,
}

/// What the server has done so far.
#[derive(Clone, Debug, Default)]
pub struct Did {
    /// Connections accepted.
    pub accepted: u64,
    /// Expected responses sent.
    pub good: u64,
    /// Most requests on one connection.
    pub most_on_one: u64,
    faults: BTreeMap<FailureClass, u64>,
}

impl Did {
    /// The failures that the load generator should have counted.
    pub fn failures(&self) -> Vec<(FailureClass, u64)> {
        self.faults
            .iter()
            .map(|(class, count)| (*class, *count))
            .collect()
    }
}

type Choose = dyn Fn(u64) -> Act + Send + Sync;

pub struct Faulty {
    /// Where it listens.
    pub address: SocketAddr,
    did: Arc<Mutex<Did>>,
}

impl Faulty {
    /// Starts a server that calls `choose` for what to do with its n-th request.
    pub fn start(choose: impl Fn(u64) -> Act + Send + Sync + 'static) -> Self {
        Faulty::listen(Arc::new(choose), None)
    }

    /// Starts a server that takes 5 ms per response, and `after` a while stalls for `length`.
    pub fn stalling(after: Duration, length: Duration) -> Self {
        let begin = Instant::now() + after;
        Faulty::listen(Arc::new(|_| Act::Good), Some((begin, begin + length)))
    }

    fn listen(choose: Arc<Choose>, stall: Option<(Instant, Instant)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let did = Arc::new(Mutex::new(Did::default()));
        let (count, requests) = (did.clone(), Arc::new(AtomicU64::new(0)));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (choose, count, requests) = (choose.clone(), count.clone(), requests.clone());
                count.lock().unwrap().accepted += 1;
                std::thread::spawn(move || talk(stream, &*choose, &count, &requests, stall));
            }
        });
        Faulty { address, did }
    }

    /// What was done since the last call.
    pub fn take(&self) -> Did {
        std::mem::take(&mut self.did.lock().unwrap())
    }
}

fn talk(
    mut stream: TcpStream,
    choose: &Choose,
    did: &Mutex<Did>,
    requests: &AtomicU64,
    stall: Option<(Instant, Instant)>,
) {
    let _ = stream.set_nodelay(true);
    let (mut held, mut served) = (Vec::new(), 0_u64);
    while next_request(&mut stream, &mut held) {
        if let Some((begin, end)) = stall {
            // The time of a response, and the stall, are what is measured.
            std::thread::sleep(Duration::from_millis(5));
            let now = Instant::now();
            if begin <= now && now < end {
                // Until the stall is over.
                std::thread::sleep(end - now);
            }
        }
        let act = choose(requests.fetch_add(1, Ordering::Relaxed));
        {
            let mut did = did.lock().unwrap();
            match class(act, served) {
                None => did.good += 1,
                Some(class) => *did.faults.entry(class).or_insert(0) += 1,
            }
            served += 1;
            did.most_on_one = did.most_on_one.max(served);
        }
        if !perform(act, &mut stream) {
            return;
        }
    }
}

/// How an act is counted after this many responses on the same connection.
fn class(act: Act, served: u64) -> Option<FailureClass> {
    Some(match act {
        Act::Good | Act::Chunked | Act::Old | Act::Last | Act::After(_) => return None,
        Act::Status(_) => FailureClass::Status,
        Act::Short => FailureClass::Length,
        Act::OtherBody => FailureClass::Body,
        Act::Close | Act::Reset if served > 0 => FailureClass::Stale,
        Act::Close => FailureClass::Closed,
        Act::Reset => FailureClass::Reset,
        Act::CutHead => FailureClass::HeadCut,
        Act::CutBody | Act::ResetBody => FailureClass::BodyCut,
        Act::Garbage | Act::Extra => FailureClass::Malformed,
        Act::Silent => FailureClass::HeadTimeout,
        Act::SilentBody => FailureClass::BodyTimeout,
    })
}

/// Reads up to the end of a head.
fn next_request(stream: &mut TcpStream, held: &mut Vec<u8>) -> bool {
    let mut buf = [0; 4096];
    loop {
        if let Some(end) = memchr::memmem::find(held, b"\r\n\r\n") {
            held.drain(..end + 4);
            return true;
        }
        match stream.read(&mut buf) {
            Ok(0) | Err(_) => return false,
            Ok(got) => held.extend_from_slice(&buf[..got]),
        }
    }
}

/// Performs an act. Returns whether the connection stays open.
fn perform(act: Act, stream: &mut TcpStream) -> bool {
    let response = |status: u16, more: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 {status} Word\r\nContent-Length: {}\r\n{more}\r\n",
            body.len()
        );
        [head.as_bytes(), body].concat()
    };
    let whole = response(200, "", BODY);
    let (bytes, goes_on) = match act {
        Act::Good => (whole, true),
        Act::Extra => ([whole.as_slice(), b"more"].concat(), true),
        Act::After(pause) => {
            // The time of a response is what is measured.
            std::thread::sleep(pause);
            (whole, true)
        }
        Act::Chunked => {
            let (a, b) = BODY.split_at(4);
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n";
            let rest = format!("\r\n{:x}\r\n", b.len());
            (
                [head, a, rest.as_bytes(), b, b"\r\n0\r\n\r\n"].concat(),
                true,
            )
        }
        Act::Old => ([b"HTTP/1.0 200 OK\r\n\r\n", BODY].concat(), false),
        Act::Last => (response(200, "Connection: close\r\n", BODY), false),
        Act::Status(status) => (response(status, "", BODY), true),
        Act::Short => (response(200, "", &BODY[..4]), true),
        Act::OtherBody => (response(200, "", &BODY.to_ascii_uppercase()), true),
        Act::Close => (Vec::new(), false),
        Act::Reset => {
            reset(stream);
            return false;
        }
        Act::CutHead => (whole[..20].to_vec(), false),
        Act::CutBody => (whole[..whole.len() - 3].to_vec(), false),
        Act::ResetBody => {
            let _ = stream.write_all(&whole[..whole.len() - 3]);
            // Lets the client read the bytes before the reset discards them.
            std::thread::sleep(Duration::from_millis(5));
            reset(stream);
            return false;
        }
        Act::Garbage => (b"220 mail.example ESMTP\r\n".to_vec(), true),
        Act::Silent => (Vec::new(), true),
        Act::SilentBody => (whole[..whole.len() - 3].to_vec(), true),
    };
    if stream.write_all(&bytes).is_err() {
        return false;
    }
    if !goes_on {
        let _ = stream.shutdown(Shutdown::Both);
    }
    goes_on
}

/// Closes with a reset instead of a FIN.
fn reset(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    let _ = socket.set_linger(Some(Duration::ZERO));
    // The reset is sent when the last handle is dropped, right after this.
}
