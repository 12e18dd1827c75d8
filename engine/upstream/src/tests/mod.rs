//! Calls against fake upstreams: threads with real sockets on free loopback ports, each following a script.

mod bodies;
mod calls;
mod fastcgi;
mod keeping;
mod secured;
mod shared;
mod tunnels;
mod uploads;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use sluice_message::{Fields, Method, ResponseHead};
use sluice_wire::h1::BodyFraming;

use super::*;
use sluice_net::body::{Body, BodyStream, RequestBody};
use sluice_net::failure::Failure;
use sluice_net::upstream_pool::UpstreamPool;
use sluice_net::worker::Worker;

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// Runs `test` on a worker with a ticking clock, for at most ten seconds.
pub(crate) fn on_worker<F: Future>(test: impl FnOnce(Rc<Worker>) -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let local = tokio::task::LocalSet::new();
    let worker = Rc::new(Worker::default());
    local.block_on(&runtime, async {
        let ticking = worker.clone();
        tokio::task::spawn_local(async move {
            loop {
                // The tick of a worker.
                tokio::time::sleep(Duration::from_millis(10)).await;
                ticking.clock.tick();
                ticking.timers.sweep(ticking.clock.coarse());
                Pool::of(&ticking).sweep(ticking.clock.coarse());
            }
        });
        let limited = tokio::time::timeout(Duration::from_secs(10), test(worker)).await;
        limited.expect("the test ends within ten seconds")
    })
}

/// An upstream that runs `script` on each connection, in a thread for each.
struct Fake {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Fake {
    fn new(script: impl Fn(TcpStream) + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let (count, script) = (accepted.clone(), Arc::new(script));
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (socket, script) = (socket.unwrap(), script.clone());
                count.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || script(socket));
            }
        });
        Fake { address, accepted }
    }

    /// An upstream that sends `response` after each request head.
    fn responding(response: &'static str) -> Fake {
        Fake::new(move |mut socket| {
            while read_head(&mut socket).is_some() {
                socket.write_all(response.as_bytes()).unwrap();
            }
        })
    }

    /// An upstream that sends `response` after the first head and closes.
    fn closing(response: &'static str) -> Fake {
        Fake::new(move |mut socket| {
            read_head(&mut socket);
            socket.write_all(response.as_bytes()).unwrap();
        })
    }

    fn endpoint(&self) -> Arc<Endpoint> {
        self.endpoint_with(Options::default())
    }

    fn endpoint_with(&self, options: Options) -> Arc<Endpoint> {
        Arc::new(Endpoint::new(Address::Ip(self.address), options))
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

/// Reads to the end of a head, byte by byte so as not to read more; `None` at the end of the connection.
fn read_head(socket: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if socket.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Waits until a condition is true; `on_worker` limits how long.
async fn eventually(is_true: impl Fn() -> bool) {
    while !is_true() {
        // The condition is polled: nothing announces it.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until everything written before has had its effect, where the effect is that nothing happens.
async fn settle() {
    // An arrival on the other side of a socket is not announced to this one.
    tokio::time::sleep(Duration::from_millis(50)).await;
}

struct Got {
    head: ResponseHead,
    body: Vec<u8>,
    /// The number of slices the body arrived in.
    pieces: usize,
    trailers: Option<Fields>,
}

/// One complete request and response.
async fn fetch(worker: &Rc<Worker>, endpoint: &Arc<Endpoint>) -> Result<Got, Failure> {
    fetch_with(
        worker,
        endpoint,
        Method::Get,
        upload(GET, BodyFraming::None, RequestBody::None),
    )
    .await
}

async fn fetch_with(
    worker: &Rc<Worker>,
    endpoint: &Arc<Endpoint>,
    method: Method,
    upload: Upload,
) -> Result<Got, Failure> {
    let (response, call) = begin(worker, endpoint, method, upload)
        .await
        .map_err(|f| f.failure)?;
    let mut inline = Vec::new();
    let body = call.into_body(worker, response.framing, &mut inline)?;
    let (mut pieces, mut trailers) = (1, None);
    match body {
        Body::Empty | Body::Inline => {}
        Body::Stream(mut stream) => {
            pieces = read_all(&mut *stream, &mut inline).await?;
            trailers = stream.trailers();
        }
        Body::Shared(_) | Body::File(_) | Body::Tunnel(_) | Body::Abort => panic!("no such body"),
    }
    Ok(Got {
        head: response.head,
        body: inline,
        pieces,
        trailers,
    })
}

async fn begin(
    worker: &Rc<Worker>,
    endpoint: &Arc<Endpoint>,
    method: Method,
    upload: Upload,
) -> Result<(Response, Call), Box<CallFailure>> {
    let link = obtain(worker, endpoint, Wanted::Any, b"")
        .await
        .map_err(|failure| {
            Box::new(CallFailure {
                failure,
                origin: Origin::Fresh,
                heard: Heard::Nothing,
                body: None,
            })
        })?;
    let mut call = Call::new(link, upload, None);
    let response = call.response(worker, &method).await?;
    Ok((response, call))
}

/// An exclusive connection.
async fn obtain_link(worker: &Rc<Worker>, endpoint: &Arc<Endpoint>) -> Link {
    match obtain(worker, endpoint, Wanted::Any, b"").await.unwrap() {
        Carrier::Link(link) => link,
        Carrier::Seat(_) | Carrier::Quic(_) => panic!("it is not shared"),
    }
}

fn upload(head: &str, framing: BodyFraming, body: RequestBody) -> Upload {
    Upload::new(head.as_bytes().to_vec(), framing, body)
}

async fn read_all(stream: &mut dyn BodyStream, out: &mut Vec<u8>) -> Result<usize, Failure> {
    let mut pieces = 0;
    loop {
        let count = poll_fn(|cx| {
            stream.poll_data(cx).map_ok(|data| {
                out.extend_from_slice(data);
                data.len()
            })
        })
        .await?;
        if count == 0 {
            return Ok(pieces);
        }
        pieces += 1;
        stream.consume(count);
    }
}

/// The body of the response to a request, of which each look takes a third, or what is left of a hundred bytes.
async fn read_slowly(worker: &Rc<Worker>, endpoint: &Arc<Endpoint>, request: Upload) -> Vec<u8> {
    let begun = begin(worker, endpoint, Method::Get, request).await;
    let (response, call) = begun.map_err(|f| f.failure).unwrap();
    let body = call.into_body(worker, response.framing, &mut Vec::new());
    let Ok(Body::Stream(mut stream)) = body else {
        panic!("a long body is a stream")
    };
    let mut got = Vec::new();
    loop {
        let count = poll_fn(|cx| {
            stream.poll_data(cx).map_ok(|data| {
                let count = data.len().min((data.len() / 3).max(100));
                got.extend_from_slice(&data[..count]);
                count
            })
        });
        match count.await.unwrap() {
            0 => return got,
            count => stream.consume(count),
        }
    }
}

/// A request body made of pieces; an empty one stands for "not yet".
struct Pieces {
    pieces: VecDeque<Vec<u8>>,
    at: usize,
    consumed: Rc<std::cell::Cell<usize>>,
    trailers: Option<Fields>,
    endless: bool,
}

impl Pieces {
    fn new(pieces: &[&str]) -> Pieces {
        Pieces {
            pieces: pieces.iter().map(|p| p.as_bytes().to_vec()).collect(),
            at: 0,
            consumed: Rc::default(),
            trailers: None,
            endless: false,
        }
    }

    /// A body that never ends.
    fn endless() -> Pieces {
        let mut pieces = Pieces::new(&[]);
        pieces.pieces.push_back(vec![b'x'; 32 * 1024]);
        pieces.endless = true;
        pieces
    }
}

impl BodyStream for Pieces {
    fn len(&self) -> Option<u64> {
        None
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if self.pieces.front().is_some_and(Vec::is_empty) {
            self.pieces.pop_front();
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(self
            .pieces
            .front()
            .map_or(&[], |piece| &piece[self.at..])))
    }

    fn consume(&mut self, count: usize) {
        self.consumed.set(self.consumed.get() + count);
        self.at += count;
        if self.at == self.pieces[0].len() {
            self.at = 0;
            if !self.endless {
                self.pieces.pop_front();
            }
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.trailers.take()
    }
}
