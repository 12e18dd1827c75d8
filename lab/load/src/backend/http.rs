//! An HTTP server with a fixed response, slow, large or faulty on purpose. It parses requests properly, reads uploads,
//! and responds to paths under `/sum` with the size and SHA-256 of the upload.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, SHA256};

use super::Corpus;
use super::counts::Counter;
use super::socket::{ByNumber, LISTENER, Poll, accept, read, write};
use crate::generator::response::{Facts, Fed, LastHead, Reader, Take};
use crate::random::Random;

/// Buffer size of one read.
const READ_BYTES: usize = 64 * 1024;

/// Bytes of a request body that are stored for the corpus lookup; those of the lab have about 90.
const QUESTION_BYTES_MAX: usize = 1024;

/// Behaviour of the server.
#[derive(Clone, Debug)]
pub struct Respond {
    /// The response body.
    pub body: Arc<[u8]>,
    /// The `Content-Type`.
    pub content_type: String,
    /// Whether it closes the connection after each response.
    pub close: bool,
    /// Delay before each response.
    pub delay: Duration,
    /// Whether `delay` is the mean of random delays.
    pub random_delay: bool,
    /// Additional delay before the first response of each connection.
    pub first_delay: Duration,
    /// How many requests it works on at a time, each for its delay; others wait in order of arrival. Unlimited if `None`.
    pub concurrency: Option<usize>,
    /// Bodies selected by number, instead of `body`.
    pub corpus: Option<Corpus>,
    /// Faults injected on purpose.
    pub faults: Faults,
    /// Seed of the random choices.
    pub seed: u64,
}

/// Shares of requests that fail in each way, from 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Status 500.
    pub errors: f64,
    /// The connection is reset.
    pub resets: f64,
    /// The connection ends in the middle of the body.
    pub cuts: f64,
}

/// A complete HTTP/1.1 response.
pub fn response(body: &[u8], content_type: &str, status: u16, close: bool) -> Vec<u8> {
    let reason = if status == 200 {
        "OK"
    } else {
        "Internal Server Error"
    };
    let connection = if close { "close" } else { "keep-alive" };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nServer: sluice-lab\r\nContent-Type: {content_type}\r\n\
         Content-Length: {}\r\nConnection: {connection}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A response without its body.
fn head_of(response: &[u8]) -> Arc<[u8]> {
    let end = memchr::memmem::find(response, b"\r\n\r\n").map_or(response.len(), |at| at + 4);
    response[..end].into()
}

/// The responses, serialized once.
struct FixedResponses {
    keep: Arc<[u8]>,
    close: Arc<[u8]>,
    error: Arc<[u8]>,
    cut: Arc<[u8]>,
    /// By index of the corpus: with keep-alive, and with `Connection: close`.
    numbered: Vec<[Arc<[u8]>; 2]>,
}

struct Conn {
    socket: OwnedFd,
    reader: Reader,
    request: Request,
    /// Responses not yet sent in full: bytes, how many of them have been sent, and whether the connection ends
    /// afterwards.
    out: VecDeque<(Arc<[u8]>, usize, Then)>,
    /// Bytes of later requests, held while a response is delayed.
    held: Vec<u8>,
    /// When the delayed response to the current request is due.
    asleep: Option<Instant>,
    watches_out: bool,
    /// Whether this connection has carried a request before.
    known: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    GoOn,
    Close,
}

/// State of the request being read.
#[derive(Default)]
struct Request {
    closes: bool,
    /// Whether the response has no body (HEAD).
    bodiless: bool,
    sums: bool,
    uploaded: u64,
    digest: Option<Context>,
    /// The request body, if a corpus is served.
    question: Option<Vec<u8>>,
}

impl Take for Request {
    fn head(&mut self, facts: &Facts, raw: &[u8]) {
        let target = raw.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        let sums = target.starts_with(b"/sum");
        *self = Request {
            closes: facts.closes,
            bodiless: raw.starts_with(b"HEAD "),
            sums,
            uploaded: 0,
            digest: sums.then(|| Context::new(&SHA256)),
            question: self.question.take().map(|mut question| {
                question.clear();
                question
            }),
        };
    }

    fn body(&mut self, bytes: &[u8]) {
        self.uploaded += bytes.len() as u64;
        if let Some(digest) = &mut self.digest {
            digest.update(bytes);
        }
        if let Some(question) = &mut self.question {
            let room = QUESTION_BYTES_MAX.saturating_sub(question.len());
            question.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }
}

struct Server<'a> {
    respond: &'a Respond,
    responses: FixedResponses,
    poll: Poll,
    conns: ByNumber<Conn>,
    /// Connections with a delayed response, by due time.
    sleepers: BTreeSet<(Instant, RawFd)>,
    /// When each of the places for requests is free, if their number is limited.
    places: BinaryHeap<Reverse<Instant>>,
    chance: Random,
    counter: Counter,
    last: LastHead,
}

/// Serves until the process is terminated.
pub fn serve(listener: &OwnedFd, respond: &Respond, counter: Counter) -> io::Result<()> {
    let (body, kind) = (&respond.body, &respond.content_type);
    let mut cut = response(body, kind, 200, false);
    cut.truncate(cut.len() - body.len().div_ceil(2));
    let bodies = respond.corpus.as_ref().map_or(&[][..], Corpus::bodies);
    let numbered = bodies.iter().map(|body| {
        let written = |close| response(body, kind, 200, close).into();
        [written(respond.close), written(true)]
    });
    let mut server = Server {
        respond,
        responses: FixedResponses {
            numbered: numbered.collect(),
            keep: response(body, kind, 200, respond.close).into(),
            close: response(body, kind, 200, true).into(),
            error: response(b"on purpose\n", "text/plain", 500, respond.close).into(),
            cut: cut.into(),
        },
        poll: Poll::new(listener)?,
        conns: ByNumber::new(),
        sleepers: BTreeSet::new(),
        places: {
            let free = Reverse(Instant::now());
            std::iter::repeat_n(free, respond.concurrency.unwrap_or(0)).collect()
        },
        chance: Random::new(respond.seed),
        counter,
        last: LastHead::default(),
    };
    let (mut ready, mut buf) = (Vec::new(), vec![0; READ_BYTES]);
    loop {
        let nap = server
            .sleepers
            .first()
            .map(|(at, _)| at.saturating_duration_since(Instant::now()));
        let most = [nap, server.counter.sleep_max()]
            .into_iter()
            .flatten()
            .min();
        server.poll.wait(most, &mut ready)?;
        for event in &ready {
            if event.who == LISTENER {
                server.accept(listener)?;
            } else {
                server.event(event.who as RawFd, event.readable, event.writable, &mut buf)?;
            }
        }
        server.wake()?;
        server.counter.show();
    }
}

impl Server<'_> {
    fn accept(&mut self, listener: &OwnedFd) -> io::Result<()> {
        let (poll, conns, counter) = (&self.poll, &mut self.conns, &mut self.counter);
        let asks = self.respond.corpus.is_some();
        accept(listener, |socket| {
            counter.counts.accepted += 1;
            poll.add(&socket)?;
            let conn = Conn {
                socket,
                reader: Reader::of_requests(),
                request: Request {
                    question: asks.then(Vec::new),
                    ..Request::default()
                },
                out: VecDeque::new(),
                held: Vec::new(),
                asleep: None,
                watches_out: false,
                known: false,
            };
            conns.insert(conn.socket.as_raw_fd(), conn);
            Ok(())
        })
    }

    fn event(
        &mut self,
        number: RawFd,
        reads: bool,
        writes: bool,
        buf: &mut [u8],
    ) -> io::Result<()> {
        let Some(mut conn) = self.conns.remove(&number) else {
            return Ok(());
        };
        let mut lives = true;
        if writes {
            lives = self.push(&mut conn)?;
        }
        if reads && lives {
            lives = match read(&conn.socket, buf) {
                None => true,
                Some(0) => false,
                Some(got) => self.feed(&mut conn, &buf[..got])?,
            };
        }
        self.keep(number, conn, lives);
        Ok(())
    }

    fn keep(&mut self, number: RawFd, conn: Conn, lives: bool) {
        if lives {
            self.conns.insert(number, conn);
        } else if let Some(at) = conn.asleep {
            self.sleepers.remove(&(at, number));
        }
    }

    /// Consumes request bytes. Returns whether the connection is still open.
    fn feed(&mut self, conn: &mut Conn, mut input: &[u8]) -> io::Result<bool> {
        while !input.is_empty() {
            if conn.asleep.is_some() {
                conn.held.extend_from_slice(input);
                return Ok(conn.held.len() <= READ_BYTES * 4);
            }
            let fed = conn
                .reader
                .feed(input, false, &mut self.last, &mut conn.request);
            let used = match fed {
                Err(_) => return Ok(false),
                Ok(Fed::More) => return Ok(true),
                Ok(Fed::Complete(used)) => used,
            };
            input = &input[used..];
            self.counter.counts.requests += 1;
            let first = !std::mem::replace(&mut conn.known, true);
            let delay = self.delay()
                + if first {
                    self.respond.first_delay
                } else {
                    Duration::ZERO
                };
            if delay.is_zero() {
                if !self.reply(conn)? {
                    return Ok(false);
                }
                continue;
            }
            let at = self.due_after(delay);
            conn.asleep = Some(at);
            self.sleepers.insert((at, conn.socket.as_raw_fd()));
        }
        Ok(true)
    }

    /// When a request is done that arrives now and takes so long. Work on it goes on if its client disconnects, as in most
    /// applications.
    fn due_after(&mut self, delay: Duration) -> Instant {
        let now = Instant::now();
        let Some(Reverse(free)) = self.places.pop() else {
            return now + delay;
        };
        let due = free.max(now) + delay;
        self.places.push(Reverse(due));
        due
    }

    fn delay(&mut self) -> Duration {
        let delay = self.respond.delay;
        if delay.is_zero() || !self.respond.random_delay {
            return delay;
        }
        delay.mul_f64(-(1.0 - self.chance.unit()).ln())
    }

    /// Responds to the current request, or fails it on purpose. Returns whether the connection is still open.
    fn reply(&mut self, conn: &mut Conn) -> io::Result<bool> {
        let Faults {
            errors,
            resets,
            cuts,
        } = self.respond.faults;
        let lot = self.chance.unit();
        let closes = self.respond.close || conn.request.closes;
        let then = if closes { Then::Close } else { Then::GoOn };
        let (bytes, then) = if lot < resets {
            // A linger time of zero makes the kernel send RST instead of FIN.
            let _ = socket2::SockRef::from(&conn.socket).set_linger(Some(Duration::ZERO));
            return Ok(false);
        } else if lot < resets + cuts {
            (self.responses.cut.clone(), Then::Close)
        } else if lot < resets + cuts + errors {
            (self.responses.error.clone(), then)
        } else if conn.request.sums {
            let digest = conn.request.digest.take().map(Context::finish);
            let hex = digest.iter().flat_map(|digest| digest.as_ref());
            let hex: String = hex.map(|byte| format!("{byte:02x}")).collect();
            let text = format!("{} {hex}", conn.request.uploaded);
            (
                response(text.as_bytes(), "text/plain", 200, closes).into(),
                then,
            )
        } else {
            (self.expected_response(&conn.request, closes), then)
        };
        let bytes = match conn.request.bodiless {
            true => head_of(&bytes),
            false => bytes,
        };
        conn.out.push_back((bytes, 0, then));
        self.push(conn)
    }

    /// The response without any fault. A request for an unknown body gets an error.
    fn expected_response(&self, request: &Request, closes: bool) -> Arc<[u8]> {
        let FixedResponses {
            keep, close, error, ..
        } = &self.responses;
        let Some(corpus) = &self.respond.corpus else {
            return if closes { close.clone() } else { keep.clone() };
        };
        let asked = corpus.asked(request.question.as_deref().unwrap_or_default());
        asked.map_or_else(
            || error.clone(),
            |at| self.responses.numbered[at][usize::from(closes)].clone(),
        )
    }

    /// Sends pending output. Returns whether the connection is still open.
    fn push(&mut self, conn: &mut Conn) -> io::Result<bool> {
        while let Some((bytes, at, then)) = conn.out.front_mut() {
            let Some(sent) = write(&conn.socket, &bytes[*at..]) else {
                return Ok(false);
            };
            *at += sent;
            if *at < bytes.len() {
                break;
            }
            if *then == Then::Close {
                return Ok(false);
            }
            conn.out.pop_front();
        }
        let wants = !conn.out.is_empty();
        if wants != conn.watches_out {
            conn.watches_out = wants;
            self.poll.watch(&conn.socket, !wants, wants)?;
        }
        Ok(true)
    }

    /// Sends the delayed responses that are due.
    fn wake(&mut self) -> io::Result<()> {
        let now = Instant::now();
        while let Some((at, number)) = self.sleepers.first().copied().filter(|(at, _)| *at <= now) {
            self.sleepers.remove(&(at, number));
            let Some(mut conn) = self.conns.remove(&number) else {
                continue;
            };
            conn.asleep = None;
            let mut lives = self.reply(&mut conn)?;
            if lives && !conn.held.is_empty() {
                let held = std::mem::take(&mut conn.held);
                lives = self.feed(&mut conn, &held)?;
            }
            self.keep(number, conn, lives);
        }
        Ok(())
    }
}
