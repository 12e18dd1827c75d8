//! The floor of proxies: one upstream connection per client, bytes copied, nothing parsed.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::counts::Counter;
use super::socket::{ByNumber, LISTENER, Poll, accept, dial, read, write};

/// Buffer size of one read, and so the most that is pending for one side.
const READ_BYTES: usize = 256 * 1024;

struct Conn {
    socket: OwnedFd,
    other: RawFd,
    /// Bytes this side could not accept yet. While there are any, the other side is not read, so memory stays bounded.
    pending: Vec<u8>,
}

/// Serves until the process is terminated.
pub fn serve(listener: &OwnedFd, to: &str, mut counter: Counter) -> io::Result<()> {
    let mut poll = Poll::new(listener)?;
    let mut conns: ByNumber<Conn> = ByNumber::new();
    let (mut ready, mut buf) = (Vec::new(), vec![0; READ_BYTES]);
    loop {
        poll.wait(counter.sleep_max(), &mut ready)?;
        for event in &ready {
            if event.who == LISTENER {
                accept(listener, |socket| {
                    counter.counts.accepted += 1;
                    let Ok(upstream) = dial(to) else {
                        return Ok(());
                    };
                    poll.add(&socket)?;
                    poll.add(&upstream)?;
                    let (a, b) = (socket.as_raw_fd(), upstream.as_raw_fd());
                    let conn = |socket, other| Conn {
                        socket,
                        other,
                        pending: Vec::new(),
                    };
                    conns.insert(a, conn(socket, b));
                    conns.insert(b, conn(upstream, a));
                    Ok(())
                })?;
                continue;
            }
            let number = event.who as RawFd;
            if event.writable && !empty(&mut conns, number, &poll)? {
                part(&mut conns, number);
                continue;
            }
            if event.readable && !copy(&mut conns, number, &poll, &mut buf)? {
                part(&mut conns, number);
            }
        }
        counter.show();
    }
}

/// Drops both ends of a pair.
fn part(conns: &mut ByNumber<Conn>, number: RawFd) {
    if let Some(conn) = conns.remove(&number) {
        conns.remove(&conn.other);
    }
}

/// Sends pending bytes of one side. Returns whether the pair is still open.
fn empty(conns: &mut ByNumber<Conn>, number: RawFd, poll: &Poll) -> io::Result<bool> {
    let Some(conn) = conns.get_mut(&number) else {
        return Ok(true);
    };
    let Some(sent) = write(&conn.socket, &conn.pending) else {
        return Ok(false);
    };
    conn.pending.drain(..sent);
    if conn.pending.is_empty() {
        let other = conn.other;
        watch(conns, number, poll)?;
        watch(conns, other, poll)?;
    }
    Ok(true)
}

/// Reads one side and writes to the other. Returns whether the pair is still open.
fn copy(
    conns: &mut ByNumber<Conn>,
    number: RawFd,
    poll: &Poll,
    buf: &mut [u8],
) -> io::Result<bool> {
    let Some(conn) = conns.get(&number) else {
        return Ok(true);
    };
    let other = conn.other;
    let got = match read(&conn.socket, buf) {
        None => return Ok(true),
        Some(0) => return Ok(false),
        Some(got) => got,
    };
    let Some(to) = conns.get_mut(&other) else {
        return Ok(false);
    };
    let sent = match to.pending.is_empty() {
        true => write(&to.socket, &buf[..got]),
        false => Some(0),
    };
    let Some(sent) = sent else {
        return Ok(false);
    };
    if sent < got {
        to.pending.extend_from_slice(&buf[sent..got]);
        watch(conns, number, poll)?;
        watch(conns, other, poll)?;
    }
    Ok(true)
}

/// Sets the epoll interest of one side: readable while the other has nothing pending, writable while it has output
/// pending itself.
fn watch(conns: &ByNumber<Conn>, number: RawFd, poll: &Poll) -> io::Result<()> {
    let Some(conn) = conns.get(&number) else {
        return Ok(());
    };
    let other = conns.get(&conn.other);
    let reads = other.is_none_or(|other| other.pending.is_empty());
    poll.watch(&conn.socket, reads, !conn.pending.is_empty())
}
