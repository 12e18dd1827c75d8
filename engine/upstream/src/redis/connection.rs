//! Drives the connection of a line: dials, greets, sends commands together, reads replies, and backs off when it is lost.

use std::future::poll_fn;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_net::ConnectionSlot;
use sluice_net::clock;
use sluice_net::limits::TIMER_TICK;
use sluice_net::stream::Stream;
use sluice_net::timeout::within;
use sluice_net::timer::Timer;
use sluice_net::worker::Worker;
use sluice_policy::backoff::Backoff;
use sluice_wire::limits::RESP_REPLY_BYTES_MAX;
use sluice_wire::resp::{Reply, decode_reply};

use super::RedisServer;
use super::lines::Line;
use crate::dial::dial;
use crate::limits::{
    REDIS_BACKOFF_FIRST, REDIS_BACKOFF_MAX, REDIS_CONNECT_TIMEOUT, REDIS_SILENCE_MAX,
    REDIS_UNUSED_CHECK,
};

/// Why a connection has ended.
enum End {
    /// No configuration uses the server any more.
    Unused,
    /// The server closed it while no call was waiting.
    Closed,
    /// It cannot be used, for this reason.
    Failed(String),
}

const BACKOFF: Backoff = Backoff {
    first: REDIS_BACKOFF_FIRST,
    max: REDIS_BACKOFF_MAX,
};

/// Keeps the line connected until no configuration uses its server any more.
pub(super) async fn drive(worker: Rc<Worker>, line: Rc<Line>) {
    let mut failures = 0;
    loop {
        let Some(server) = line.server.upgrade() else {
            return;
        };
        line.dial();
        let opened = open(&worker, &server).await;
        drop(server);
        let end = match opened {
            Ok((stream, slot)) => {
                line.open();
                line.note_success();
                let mut connection = Connection::new(&worker, line.clone(), stream);
                let end = poll_fn(|cx| connection.poll(cx)).await;
                if connection.has_replied {
                    failures = 0;
                }
                drop(slot);
                end
            }
            Err(reason) => End::Failed(reason),
        };
        line.back_off();
        match end {
            End::Unused => return,
            // A server may close idle connections; whether it is away shows at the next attempt.
            End::Closed => {}
            End::Failed(reason) => line.note_trouble(&reason),
        }
        failures += 1;
        let seed = clock::now().since_start().as_nanos() as u64;
        tokio::time::sleep(BACKOFF.delay(failures, seed)).await;
    }
}

/// Dials and greets the server.
async fn open(
    worker: &Rc<Worker>,
    server: &RedisServer,
) -> Result<(Stream, ConnectionSlot), String> {
    let (greeting, replies) = &server.greeting;
    // The greeting of a server without TLS could be sent while dialling; with TLS only inside of it.
    let dialled = dial(worker, &server.endpoint, b"").await;
    let (mut stream, slot) = dialled.map_err(|failure| failure.to_string())?;
    let greeted = async {
        stream
            .write_all(greeting)
            .await
            .map_err(|e| e.to_string())?;
        let mut input = Vec::new();
        for _ in 0..*replies {
            if let Reply::Error(message) = read_reply(&mut stream, &mut input).await? {
                return Err(String::from_utf8_lossy(&message).into_owned());
            }
        }
        Ok(())
    };
    let greeted = within(worker, REDIS_CONNECT_TIMEOUT, greeted).await;
    greeted.unwrap_or_else(|| Err("no reply to the greeting".to_owned()))?;
    Ok((stream, slot))
}

async fn read_reply(stream: &mut Stream, input: &mut Vec<u8>) -> Result<Reply, String> {
    loop {
        if let Some((reply, taken)) = decode_reply(input).map_err(|fault| fault.to_string())? {
            input.drain(..taken);
            return Ok(reply);
        }
        input.reserve(READ_BYTES);
        let read = poll_fn(|cx| stream.poll_read(cx, input)).await;
        match read {
            Ok(0) => return Err("the server closed the connection".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// The room for one read: dozens of replies of a few numbers.
const READ_BYTES: usize = 4096;

/// An open connection.
struct Connection {
    line: Rc<Line>,
    worker: Rc<Worker>,
    stream: Stream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Whether written output is still buffered in the stream (TLS).
    is_unflushed: bool,
    /// Whether a call has got a reply.
    has_replied: bool,
    timer: Timer,
}

impl Connection {
    fn new(worker: &Rc<Worker>, line: Rc<Line>, stream: Stream) -> Connection {
        let timer = worker.timers.timer();
        timer.set(&worker.clock, TIMER_TICK);
        Connection {
            timer,
            worker: worker.clone(),
            line,
            stream,
            input: Vec::new(),
            output: Vec::new(),
            is_unflushed: false,
            has_replied: false,
        }
    }

    /// Makes progress until nothing is left to do for now. Ready when the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        self.line.wakes(cx.waker());
        loop {
            if let Some(end) = self.receive(cx).or_else(|| self.send(cx)) {
                return Poll::Ready(end);
            }
            if self.timer.poll_expired(cx).is_pending() {
                return Poll::Pending;
            }
            if let Some(end) = self.look() {
                return Poll::Ready(end);
            }
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>) -> Option<End> {
        loop {
            if self.input.len() > 2 * RESP_REPLY_BYTES_MAX {
                return Some(failed("a reply longer than expected"));
            }
            self.input.reserve(READ_BYTES);
            match self.stream.poll_read(cx, &mut self.input) {
                Poll::Pending => {
                    if self.input.is_empty() {
                        // An idle connection holds no memory for what may come.
                        self.input = Vec::new();
                    }
                    return None;
                }
                Poll::Ready(Ok(0)) => {
                    return Some(match self.line.awaited_since() {
                        None => End::Closed,
                        Some(_) => failed("the server closed the connection"),
                    });
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Some(End::Failed(error.to_string())),
            }
            if let Some(end) = self.deliver() {
                return Some(end);
            }
        }
    }

    /// Delivers the replies that are complete.
    fn deliver(&mut self) -> Option<End> {
        let mut at = 0;
        let end = loop {
            match decode_reply(&self.input[at..]) {
                Ok(Some((reply, taken))) => {
                    at += taken;
                    self.has_replied = true;
                    if !self.line.deliver(reply) {
                        break Some(failed("a reply without a command"));
                    }
                }
                Ok(None) => break None,
                Err(fault) => break Some(End::Failed(fault.to_string())),
            }
        };
        self.input.drain(..at);
        end
    }

    fn send(&mut self, cx: &mut Context<'_>) -> Option<End> {
        self.line.take_unsent(&mut self.output);
        let mut sent = 0;
        while sent < self.output.len() {
            let rest = [IoSlice::new(&self.output[sent..])];
            match self.stream.poll_write(cx, &rest) {
                Poll::Ready(Ok(0)) => return Some(failed("the server closed the connection")),
                Poll::Ready(Ok(count)) => sent += count,
                Poll::Ready(Err(error)) => return Some(End::Failed(error.to_string())),
                Poll::Pending => break,
            }
        }
        self.output.drain(..sent);
        if self.output.is_empty() && (sent > 0 || self.is_unflushed) {
            self.output = Vec::new();
            match self.stream.poll_flush(cx) {
                Poll::Ready(Ok(())) => self.is_unflushed = false,
                Poll::Ready(Err(error)) => return Some(End::Failed(error.to_string())),
                Poll::Pending => self.is_unflushed = true,
            }
        }
        None
    }

    /// Looks after what takes time: a silent server, and one that is no longer used.
    fn look(&mut self) -> Option<End> {
        if self.line.server.strong_count() == 0 {
            return Some(End::Unused);
        }
        let now = clock::now();
        let awaited = self.line.awaited_since();
        if awaited.is_some_and(|since| now.since(since) > REDIS_SILENCE_MAX) {
            return Some(failed("no reply for too long"));
        }
        let next = match awaited {
            Some(_) => TIMER_TICK,
            None => REDIS_UNUSED_CHECK,
        };
        self.timer.set(&self.worker.clock, next);
        None
    }
}

fn failed(reason: &str) -> End {
    End::Failed(reason.to_owned())
}
