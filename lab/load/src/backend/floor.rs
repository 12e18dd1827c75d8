//! The floor: the cost of the least possible server. It responds to whatever arrives and parses nothing, so it relies
//! on clients to send one request at a time. It is a yardstick, not a usable server.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::counts::Counter;
use super::socket::{LISTENER, Poll, accept, read, write};

/// Buffer size of one read; requests are short.
const READ_BYTES: usize = 64 * 1024;

struct Conn {
    socket: OwnedFd,
    /// Bytes of a partial response already sent.
    at: usize,
}

/// Serves until the process is terminated.
pub fn serve(
    listener: &OwnedFd,
    response: &[u8],
    close: bool,
    mut counter: Counter,
) -> io::Result<()> {
    let mut poll = Poll::new(listener)?;
    // Indexed by descriptor: the kernel assigns the lowest free one, so a vector is the fastest table.
    let mut conns: Vec<Option<Conn>> = Vec::new();
    let (mut ready, mut buf) = (Vec::new(), vec![0; READ_BYTES]);
    loop {
        poll.wait(counter.sleep_max(), &mut ready)?;
        for event in &ready {
            if event.who == LISTENER {
                accept(listener, |socket| {
                    counter.counts.accepted += 1;
                    poll.add(&socket)?;
                    let number = socket.as_raw_fd() as usize;
                    if conns.len() <= number {
                        conns.resize_with(number + 1, || None);
                    }
                    conns[number] = Some(Conn { socket, at: 0 });
                    Ok(())
                })?;
                continue;
            }
            let place = &mut conns[event.who as RawFd as usize];
            let Some(conn) = place else { continue };
            if !event.writable {
                match read(&conn.socket, &mut buf) {
                    None => continue,
                    Some(0) => {
                        *place = None;
                        continue;
                    }
                    Some(_) => {}
                }
                conn.at = 0;
                counter.counts.requests += 1;
            }
            let Some(sent) = write(&conn.socket, &response[conn.at..]) else {
                *place = None;
                continue;
            };
            conn.at += sent;
            if conn.at < response.len() {
                poll.watch(&conn.socket, false, true)?;
            } else if close {
                *place = None;
            } else if event.writable {
                poll.watch(&conn.socket, true, false)?;
            }
        }
        counter.show();
    }
}
