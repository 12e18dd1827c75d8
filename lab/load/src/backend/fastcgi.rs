//! A FastCGI responder with a fixed response. It handles one request at a time per connection, as all common servers
//! send them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::counts::Counter;
use super::socket::{ByNumber, LISTENER, Poll, accept, read, write};

/// Buffer size of one read.
const READ_BYTES: usize = 64 * 1024;

/// The longest content of a record that is a multiple of 8 (FastCGI 1.0, section 3.3).
const RECORD_BYTES_MAX: usize = 65_528;

/// Record types (FastCGI 1.0, section 8).
const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;

/// Flag of a request: keep the connection open.
const KEEP_CONN: u8 = 1;

struct Conn {
    socket: OwnedFd,
    parser: Parser,
    out: Vec<u8>,
    at: usize,
}

/// Incremental record parser.
#[derive(Debug, Default)]
struct Parser {
    head: [u8; 8],
    have: usize,
    /// Bytes of content and padding left, and how much of the content was seen.
    content: usize,
    padding: usize,
    seen: usize,
    keeps: bool,
}

/// A complete request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    id: [u8; 2],
    keeps: bool,
}

impl Parser {
    /// Consumes bytes; calls `each` for every request that is now complete.
    fn feed(&mut self, mut input: &[u8], mut each: impl FnMut(Asked)) {
        while let Some(first) = input.first() {
            if self.have < 8 {
                self.head[self.have] = *first;
                self.have += 1;
                input = &input[1..];
                if self.have == 8 {
                    self.content = usize::from(u16::from_be_bytes([self.head[4], self.head[5]]));
                    self.padding = usize::from(self.head[6]);
                    self.seen = 0;
                }
            } else if self.content > 0 {
                let used = input.len().min(self.content);
                // The flags are the third byte of the content, after the role.
                let begins = self.head[1] == BEGIN_REQUEST && self.seen <= 2;
                if let Some(flags) = input[..used]
                    .get(2_usize.wrapping_sub(self.seen))
                    .filter(|_| begins)
                {
                    self.keeps = flags & KEEP_CONN != 0;
                }
                self.seen += used;
                self.content -= used;
                input = &input[used..];
            } else {
                let used = input.len().min(self.padding);
                self.padding -= used;
                input = &input[used..];
            }
            if self.have == 8 && self.content == 0 && self.padding == 0 {
                self.have = 0;
                // An empty record of this type ends the request body.
                if self.head[1] == STDIN && self.seen == 0 {
                    let id = [self.head[2], self.head[3]];
                    each(Asked {
                        id,
                        keeps: self.keeps,
                    });
                }
            }
        }
    }
}

/// The response with request id 0, and the offsets at which the id has to be inserted.
fn response(body: &[u8], content_type: &str) -> (Vec<u8>, Vec<usize>) {
    let head = format!(
        "Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let content = [head.as_bytes(), body].concat();
    let (mut bytes, mut ids) = (Vec::new(), Vec::new());
    let mut record = |kind: u8, content: &[u8]| {
        ids.push(bytes.len() + 2);
        let [high, low] = (content.len() as u16).to_be_bytes();
        bytes.extend_from_slice(&[1, kind, 0, 0, high, low, 0, 0]);
        bytes.extend_from_slice(content);
    };
    for piece in content.chunks(RECORD_BYTES_MAX) {
        record(STDOUT, piece);
    }
    record(STDOUT, &[]);
    record(END_REQUEST, &[0; 8]);
    (bytes, ids)
}

/// Serves until the process is terminated.
pub fn serve(
    listener: &OwnedFd,
    body: &[u8],
    content_type: &str,
    mut counter: Counter,
) -> io::Result<()> {
    let mut poll = Poll::new(listener)?;
    let (fixed, ids) = response(body, content_type);
    let mut conns: ByNumber<Conn> = ByNumber::new();
    let (mut ready, mut buf) = (Vec::new(), vec![0; READ_BYTES]);
    loop {
        poll.wait(counter.sleep_max(), &mut ready)?;
        for event in &ready {
            if event.who == LISTENER {
                accept(listener, |socket| {
                    counter.counts.accepted += 1;
                    poll.add(&socket)?;
                    let parser = Parser::default();
                    let conn = Conn {
                        socket,
                        parser,
                        out: Vec::new(),
                        at: 0,
                    };
                    conns.insert(conn.socket.as_raw_fd(), conn);
                    Ok(())
                })?;
                continue;
            }
            let number = event.who as RawFd;
            let Some(conn) = conns.get_mut(&number) else {
                continue;
            };
            let mut lives = true;
            if !event.writable {
                match read(&conn.socket, &mut buf) {
                    None => continue,
                    Some(0) => lives = false,
                    Some(got) => {
                        let out = &mut conn.out;
                        conn.parser.feed(&buf[..got], |asked| {
                            counter.counts.requests += 1;
                            let from = out.len();
                            out.extend_from_slice(&fixed);
                            for id in &ids {
                                out[from + id..from + id + 2].copy_from_slice(&asked.id);
                            }
                        });
                    }
                }
            }
            if !lives || !push(conn, &poll, event.writable)? {
                conns.remove(&number);
            }
        }
        counter.show();
    }
}

/// Sends pending output. Returns whether the connection is still open.
fn push(conn: &mut Conn, poll: &Poll, was_waiting: bool) -> io::Result<bool> {
    if conn.out.is_empty() {
        return Ok(true);
    }
    let Some(sent) = write(&conn.socket, &conn.out[conn.at..]) else {
        return Ok(false);
    };
    conn.at += sent;
    if conn.at < conn.out.len() {
        poll.watch(&conn.socket, false, true)?;
        return Ok(true);
    }
    conn.out.clear();
    conn.at = 0;
    if was_waiting {
        poll.watch(&conn.socket, true, false)?;
    }
    Ok(conn.parser.keeps)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request as servers send it: begin, parameters with padding, end of parameters, body, end of body.
    fn request(id: u8, keep: u8) -> Vec<u8> {
        let record = |kind: u8, content: &[u8], padding: u8| {
            let mut bytes = vec![1, kind, 0, id, 0, content.len() as u8, padding, 0];
            bytes.extend_from_slice(content);
            bytes.extend(std::iter::repeat_n(0, usize::from(padding)));
            bytes
        };
        [
            record(1, &[0, 1, keep, 0, 0, 0, 0, 0], 0),
            record(4, b"\x01\x01ab\x01\x01cd", 3),
            record(4, b"", 0),
            record(5, b"body", 4),
            record(5, b"", 0),
        ]
        .concat()
    }

    #[test]
    fn requests_are_read_in_pieces_of_any_size() {
        let bytes = [request(1, 1), request(2, 0)].concat();
        for size in 1..=bytes.len() {
            let (mut parser, mut asked) = (Parser::default(), Vec::new());
            for piece in bytes.chunks(size) {
                parser.feed(piece, |one| asked.push(one));
            }
            let expected = [
                Asked {
                    id: [0, 1],
                    keeps: true,
                },
                Asked {
                    id: [0, 2],
                    keeps: false,
                },
            ];
            assert_eq!(asked, expected, "pieces of {size}");
        }
    }

    #[test]
    fn long_responses_take_several_records() {
        let (bytes, ids) = response(&[b'x'; 100_000], "text/plain");
        assert_eq!(ids.len(), 4);
        assert!(ids.iter().all(|at| bytes[at - 2] == 1));
        let content: usize = bytes.iter().filter(|byte| **byte == b'x').count();
        assert!(content >= 100_000);
    }
}
