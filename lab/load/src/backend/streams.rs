//! Servers of long-lived connections: one echoes every WebSocket message, one sends server-sent events on time.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use super::counts::Counter;
use super::socket::{ByNumber, LISTENER, Poll, accept, read, write};
use crate::generator::expect::field;
use crate::generator::talk::frame::{self, CLOSE, PING, PONG};

/// Buffer size of one read.
const READ_BYTES: usize = 64 * 1024;

/// Largest request, or frame with its payload: the most that one client can make the server buffer.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// Bytes that a client has not read yet; beyond that the connection is closed.
const UNSENT_BYTES_MAX: usize = 64 << 20;

struct Conn {
    socket: OwnedFd,
    upgraded: bool,
    input: Vec<u8>,
    out: Vec<u8>,
    watches_out: bool,
    /// The connection ends once all output is sent.
    ends: bool,
    /// Events still to send on this connection.
    left: u64,
}

/// The protocol served.
#[derive(Clone, Debug)]
pub enum Stream {
    /// WebSocket messages are echoed.
    Echo,
    /// Server-sent events at a fixed interval.
    Events {
        /// Interval between two events.
        every: Duration,
        /// Bytes of data in each.
        bytes: usize,
        /// Number of events; 0 for as long as the client listens.
        count: u64,
    },
}

struct Server<'a> {
    stream: &'a Stream,
    event: Vec<u8>,
    poll: Poll,
    conns: ByNumber<Conn>,
    /// Connections by the time of their next event.
    due: BTreeSet<(Instant, RawFd)>,
    counter: Counter,
}

/// Serves until the process is terminated.
pub fn serve(listener: &OwnedFd, stream: &Stream, counter: Counter) -> io::Result<()> {
    let event = match stream {
        Stream::Echo => Vec::new(),
        Stream::Events { bytes, .. } => format!("data: {}\n\n", "x".repeat(*bytes)).into_bytes(),
    };
    let mut server = Server {
        stream,
        event,
        poll: Poll::new(listener)?,
        conns: ByNumber::new(),
        due: BTreeSet::new(),
        counter,
    };
    let (mut ready, mut buf) = (Vec::new(), vec![0; READ_BYTES]);
    loop {
        let due = server.due.first();
        let nap = due.map(|(at, _)| at.saturating_duration_since(Instant::now()));
        let naps = [nap, server.counter.sleep_max()];
        server
            .poll
            .wait(naps.into_iter().flatten().min(), &mut ready)?;
        for event in &ready {
            if event.who == LISTENER {
                server.accept(listener)?;
                continue;
            }
            let number = event.who as RawFd;
            let Some(mut conn) = server.conns.remove(&number) else {
                continue;
            };
            let mut lives = true;
            if event.readable {
                lives = match read(&conn.socket, &mut buf) {
                    None => true,
                    Some(0) => false,
                    Some(got) => server.take(&mut conn, &buf[..got]),
                };
            }
            server.keep(number, conn, lives)?;
        }
        server.send_due()?;
        server.counter.show();
    }
}

impl Server<'_> {
    fn accept(&mut self, listener: &OwnedFd) -> io::Result<()> {
        let (poll, conns, counter) = (&self.poll, &mut self.conns, &mut self.counter);
        accept(listener, |socket| {
            counter.counts.accepted += 1;
            poll.add(&socket)?;
            let conn = Conn {
                socket,
                upgraded: false,
                input: Vec::new(),
                out: Vec::new(),
                watches_out: false,
                ends: false,
                left: 0,
            };
            conns.insert(conn.socket.as_raw_fd(), conn);
            Ok(())
        })
    }

    /// Sends pending output, and stores the connection if it is still open.
    fn keep(&mut self, number: RawFd, mut conn: Conn, lives: bool) -> io::Result<()> {
        let sent = match conn.out.is_empty() {
            true => Some(0),
            false => write(&conn.socket, &conn.out),
        };
        let Some(sent) = sent.filter(|_| lives) else {
            self.due.retain(|(_, other)| *other != number);
            return Ok(());
        };
        conn.out.drain(..sent);
        let wants = !conn.out.is_empty();
        if (conn.ends && !wants) || conn.out.len() > UNSENT_BYTES_MAX {
            self.due.retain(|(_, other)| *other != number);
            return Ok(());
        }
        if wants != conn.watches_out {
            conn.watches_out = wants;
            self.poll.watch(&conn.socket, true, wants)?;
        }
        self.conns.insert(number, conn);
        Ok(())
    }

    /// Consumes bytes of a client. Returns whether the connection is still open.
    fn take(&mut self, conn: &mut Conn, bytes: &[u8]) -> bool {
        conn.input.extend_from_slice(bytes);
        if !conn.upgraded {
            let Some(end) = memchr::memmem::find(&conn.input, b"\r\n\r\n") else {
                return conn.input.len() <= KEPT_BYTES_MAX;
            };
            let head: Vec<u8> = conn.input.drain(..end + 4).collect();
            self.greet(conn, &head);
        }
        match self.stream {
            Stream::Echo => self.echo(conn),
            Stream::Events { .. } => true,
        }
    }

    fn greet(&mut self, conn: &mut Conn, head: &[u8]) {
        conn.upgraded = true;
        match self.stream {
            Stream::Events { every, count, .. } => {
                self.counter.counts.requests += 1;
                conn.left = *count;
                conn.out.extend_from_slice(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
                );
                let number = conn.socket.as_raw_fd();
                self.due.insert((Instant::now() + *every, number));
            }
            Stream::Echo => match field(head, "sec-websocket-key") {
                Some(key) => {
                    let response = frame::accept(&String::from_utf8_lossy(key));
                    let head = format!(
                        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {response}\r\n\r\n"
                    );
                    conn.out.extend_from_slice(head.as_bytes());
                }
                None => {
                    // 426 (RFC 9110, section 15.5.22): only WebSocket is supported.
                    conn.out.extend_from_slice(
                        b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                    );
                    conn.ends = true;
                }
            },
        }
    }

    /// Echoes complete frames, unmasked.
    fn echo(&mut self, conn: &mut Conn) -> bool {
        let mut from = 0;
        while let Some((head, length)) = frame_of_client(&conn.input[from..]) {
            if length > KEPT_BYTES_MAX {
                return false;
            }
            let Some(whole) = conn.input.get(from..from + head + length) else {
                break;
            };
            let (first, payload) = (whole[0], &whole[head..]);
            let mask = &whole[head - 4..head];
            let unmasked = payload.iter().zip(mask.iter().cycle());
            let unmasked = unmasked.map(|(byte, mask)| byte ^ mask);
            match first & 0x0F {
                PONG => {}
                opcode => {
                    let first = if opcode == PING { 0x80 | PONG } else { first };
                    conn.out.push(first);
                    push_length(length, &mut conn.out);
                    conn.out.extend(unmasked);
                    conn.ends |= opcode == CLOSE;
                    self.counter.counts.requests += u64::from(opcode < 8 && first & 0x80 != 0);
                }
            }
            from += head + length;
        }
        conn.input.drain(..from);
        true
    }

    fn send_due(&mut self) -> io::Result<()> {
        let Stream::Events { every, .. } = self.stream else {
            return Ok(());
        };
        let now = Instant::now();
        while let Some((at, number)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, number));
            let Some(mut conn) = self.conns.remove(&number) else {
                continue;
            };
            conn.out.extend_from_slice(&self.event);
            conn.left = conn.left.saturating_sub(1);
            // Without a count it starts at 0, so it never reaches 0 by counting down.
            let last = conn.left == 0 && !matches!(self.stream, Stream::Events { count: 0, .. });
            conn.ends |= last;
            if !last {
                // Relative to the due time, so that lateness does not accumulate.
                self.due.insert((at + *every, number));
            }
            self.keep(number, conn, true)?;
        }
        Ok(())
    }
}

/// Length of the head of a client's frame, mask included, and of its payload, once the head is complete.
fn frame_of_client(bytes: &[u8]) -> Option<(usize, usize)> {
    let short = usize::from(bytes.get(1)? & 0x7F);
    let (head, length) = match short {
        126 => {
            let length = bytes.get(2..4)?;
            (8, usize::from(u16::from_be_bytes([length[0], length[1]])))
        }
        127 => {
            let length: [u8; 8] = bytes.get(2..10)?.try_into().ok()?;
            let length = u64::from_be_bytes(length);
            (14, usize::try_from(length).unwrap_or(usize::MAX - 14))
        }
        short => (6, short),
    };
    (bytes.len() >= head).then_some((head, length))
}

fn push_length(length: usize, out: &mut Vec<u8>) {
    match length {
        0..=125 => out.push(length as u8),
        126..=0xFFFF => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_clients_are_measured() {
        for length in [0, 125, 126, 65_535, 65_536] {
            let bytes = frame::client_frame(frame::BINARY, &vec![1; length], [9; 4]);
            let (head, found) = frame_of_client(&bytes).unwrap();
            assert_eq!((head + found, found), (bytes.len(), length));
            let mut out = vec![0x82];
            push_length(length, &mut out);
            assert_eq!(out.len() + 4, head);
            for cut in 0..head {
                assert_eq!(frame_of_client(&bytes[..cut]), None);
            }
        }
    }
}
