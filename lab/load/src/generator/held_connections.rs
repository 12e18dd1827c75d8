//! Connections held open beside a load: idle ones, which got one response and stay open, and slow readers, which read
//! their responses a little at a time. They measure what carrying such connections costs the server.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::sockopt;

use super::Plan;
use super::limits::{DIALS_MAX, EVENTS_MAX};
use super::link::{Dial, Fault, Input, Link};
use super::response::{Fed, LastHead, Reader, Take};
use crate::result::{FailureClass, HeldConnections};

/// Interval between two reads of a slow reader.
const HELPING_EVERY: Duration = Duration::from_millis(100);

/// The receive buffer of a slow reader: it must be small, or the kernel takes the whole response and the server never
/// waits. The kernel doubles it and has its own minimum (socket(7), 2,304 bytes).
const SLOW_BUFFER_BYTES: usize = 4_096;

/// Connections to hold open beside a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Idle connections.
    pub idle: usize,
    /// Slow readers.
    pub slow: usize,
    /// Bytes that each slow reader reads per second.
    pub slow_bytes_per_s: u64,
}

impl Beside {
    /// Whether any connections are to be held.
    pub fn is_some(&self) -> bool {
        self.idle + self.slow > 0
    }
}

/// Signals between the holder and the load.
#[derive(Debug, Default)]
pub struct Hold {
    /// Connections whose opening has succeeded or failed.
    pub settled: AtomicUsize,
    /// Connections that are open and held.
    pub open: AtomicUsize,
    /// The load has ended.
    pub stop: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Dialling,
    Handshake,
    /// Bytes of the request, or the upgrade, sent so far.
    Asking(usize),
    /// Waiting for the first response.
    Opening,
    Holding,
    Lost,
}

struct Conn {
    link: Link,
    state: State,
    slow: bool,
    reader: Reader,
    /// Last bytes of an upgrade's response: an empty line ends the head.
    tail: [u8; 4],
    since: Instant,
}

/// Opens the connections and holds them until `hold.stop` is set. Blocks the calling thread.
pub fn hold(plan: &Plan, hold: &Hold) -> io::Result<HeldConnections> {
    let mut holder = Holder {
        plan,
        hold,
        epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
        conns: Vec::new(),
        opening: 0,
        found: HeldConnections {
            idle: plan.beside.idle as u64,
            slow: plan.beside.slow as u64,
            slow_bytes_per_s: plan.beside.slow_bytes_per_s,
            ..HeldConnections::default()
        },
        last: LastHead::default(),
        buf: vec![0; 64 * 1024],
    };
    holder.run()?;
    Ok(holder.sum())
}

struct Holder<'a> {
    plan: &'a Plan,
    hold: &'a Hold,
    epoll: OwnedFd,
    conns: Vec<Option<Conn>>,
    opening: usize,
    found: HeldConnections,
    last: LastHead,
    buf: Vec<u8>,
}

/// Ignores the body; the caller counts bytes.
struct Nobody;

impl Take for Nobody {
    fn head(&mut self, _: &super::response::Facts, _: &[u8]) {}
    fn body(&mut self, _: &[u8]) {}
}

impl Holder<'_> {
    fn run(&mut self) -> io::Result<()> {
        let beside = self.plan.beside;
        let all = beside.idle + beside.slow;
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        let mut helping = Instant::now() + HELPING_EVERY;
        while !self.hold.stop.load(Ordering::Acquire) {
            while self.conns.len() < all && self.opening < DIALS_MAX {
                self.dial(self.conns.len() >= beside.idle);
            }
            let nap = helping.saturating_duration_since(Instant::now());
            let timeout = Timespec {
                tv_sec: 0,
                tv_nsec: nap.subsec_nanos() as _,
            };
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for event in events.drain(..) {
                let data = event.data;
                self.event(data.u64() as usize);
            }
            if Instant::now() >= helping {
                helping = Instant::now() + HELPING_EVERY;
                self.helpings();
            }
        }
        Ok(())
    }

    fn dial(&mut self, slow: bool) {
        let at = self.conns.len();
        match Link::dial(&self.plan.target.address, self.plan.source(at)) {
            Dial::Begun(link) => {
                if slow {
                    let _ = sockopt::set_socket_recv_buffer_size(&link, SLOW_BUFFER_BYTES);
                }
                let conn = Conn {
                    link,
                    state: State::Dialling,
                    slow,
                    reader: Reader::default(),
                    tail: [0; 4],
                    since: Instant::now(),
                };
                let data = epoll::EventData::new_u64(at as u64);
                let both = epoll::EventFlags::IN | epoll::EventFlags::OUT;
                let added = epoll::add(&self.epoll, &conn.link, data, both);
                self.conns.push(Some(conn));
                self.opening += 1;
                if added.is_err() {
                    self.lost(at, FailureClass::NoLocalResource);
                }
            }
            Dial::Busy => {
                self.conns.push(None);
                self.not_there(FailureClass::ConnectTimeout);
            }
            Dial::Failed(fault) => {
                self.conns.push(None);
                self.not_there(fault.class);
            }
        }
    }

    fn not_there(&mut self, class: FailureClass) {
        self.found.count(class);
        self.hold.settled.fetch_add(1, Ordering::Release);
    }

    /// Counts a connection that was lost or never opened.
    fn lost(&mut self, at: usize, class: FailureClass) {
        let Some(conn) = self.conns[at]
            .as_mut()
            .filter(|conn| conn.state != State::Lost)
        else {
            return;
        };
        let held = conn.state == State::Holding;
        conn.state = State::Lost;
        if held {
            self.hold.open.fetch_sub(1, Ordering::Release);
        }
        let _ = epoll::delete(&self.epoll, &conn.link);
        if held {
            self.found.count(class);
        } else {
            self.opening -= 1;
            self.not_there(class);
        }
    }

    fn event(&mut self, at: usize) {
        let Some(mut conn) = self.conns[at].take() else {
            return;
        };
        let went = self.go_on(&mut conn, at);
        self.conns[at] = Some(conn);
        if let Err(fault) = went {
            self.lost(at, fault.class);
        }
    }

    fn go_on(&mut self, conn: &mut Conn, at: usize) -> Result<(), Fault> {
        if conn.state == State::Dialling {
            conn.link.finish_dial()?;
            conn.state = State::Asking(0);
            if let Some(tls) = &self.plan.tls {
                conn.link.begin_tls(tls)?;
                conn.state = State::Handshake;
            }
        }
        if conn.state == State::Handshake {
            if !conn.link.handshake()? {
                self.watch(conn, at, conn.link.wants_write());
                return Ok(());
            }
            conn.state = State::Asking(0);
        }
        if let State::Asking(from) = conn.state {
            let wire = self.plan.greeting();
            let sent = from + conn.link.write(&[IoSlice::new(&wire[from..])])?;
            conn.state = State::Asking(sent);
            if sent < wire.len() || conn.link.wants_write() {
                self.watch(conn, at, true);
                return Ok(());
            }
            conn.state = State::Opening;
            self.watch(conn, at, false);
            if conn.slow {
                // From here on it is not polled, only read at intervals.
                let _ = epoll::delete(&self.epoll, &conn.link);
                self.held(conn);
            }
        }
        if !conn.slow {
            self.read(conn)?;
        }
        Ok(())
    }

    fn watch(&self, conn: &Conn, at: usize, writes: bool) {
        let data = epoll::EventData::new_u64(at as u64);
        let mut flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        flags.set(epoll::EventFlags::OUT, writes);
        let _ = epoll::modify(&self.epoll, &conn.link, data, flags);
    }

    fn held(&mut self, conn: &mut Conn) {
        conn.state = State::Holding;
        self.opening -= 1;
        self.hold.open.fetch_add(1, Ordering::Release);
        self.hold.settled.fetch_add(1, Ordering::Release);
    }

    /// Reads an idle connection: its first response, later the end of the connection.
    fn read(&mut self, conn: &mut Conn) -> Result<(), Fault> {
        loop {
            match conn.link.read(&mut self.buf)? {
                Input::Nothing => return Ok(()),
                Input::End => return Err(ended(FailureClass::Stale)),
                Input::Reset => return Err(ended(FailureClass::Reset)),
                Input::Bytes(_) if conn.state == State::Holding => {
                    // Events, pings: whatever a server sends unasked.
                }
                Input::Bytes(got) => {
                    let complete = if self.plan.kind.is_requests() {
                        let bytes = &self.buf[..got];
                        let fed = conn.reader.feed(bytes, false, &mut self.last, &mut Nobody);
                        matches!(fed, Ok(Fed::Complete(_)))
                    } else {
                        is_head(&mut conn.tail, &self.buf[..got])
                    };
                    if complete {
                        self.held(conn);
                    }
                }
            }
        }
    }

    /// Lets each slow reader read a little, and send its next request when the response is complete.
    fn helpings(&mut self) {
        let part = HELPING_EVERY.as_secs_f64();
        let helping = (self.plan.beside.slow_bytes_per_s as f64 * part).ceil() as usize;
        let helping = helping.clamp(1, self.buf.len());
        for at in 0..self.conns.len() {
            let Some(mut conn) = self.conns[at].take() else {
                continue;
            };
            let late = conn.state != State::Holding
                && conn.state != State::Lost
                && conn.since.elapsed() > self.plan.timeout;
            let taken = match conn.slow && conn.state == State::Holding {
                true => self.helping(&mut conn, helping),
                false => Ok(()),
            };
            self.conns[at] = Some(conn);
            match taken {
                Err(fault) => self.lost(at, fault.class),
                Ok(()) if late => self.lost(at, FailureClass::ConnectTimeout),
                Ok(()) => {}
            }
        }
    }

    fn helping(&mut self, conn: &mut Conn, helping: usize) -> Result<(), Fault> {
        match conn.link.read(&mut self.buf[..helping])? {
            Input::Nothing => Ok(()),
            Input::End => Err(ended(FailureClass::BodyCut)),
            Input::Reset => Err(ended(FailureClass::Reset)),
            Input::Bytes(got) => {
                self.found.slow_received_bytes += got as u64;
                let bytes = &self.buf[..got];
                let fed = conn.reader.feed(bytes, false, &mut self.last, &mut Nobody);
                match fed {
                    Err(_) => Err(ended(FailureClass::Malformed)),
                    Ok(Fed::More) => Ok(()),
                    Ok(Fed::Complete(_)) => {
                        self.found.slow_responses += 1;
                        // Requests are short: they fit the socket's empty buffer.
                        let wire = self.plan.greeting();
                        conn.link.write(&[IoSlice::new(wire)]).map(|_| ())
                    }
                }
            }
        }
    }

    fn sum(mut self) -> HeldConnections {
        let open = |slow: bool| {
            let conns = self.conns.iter().flatten();
            let open = conns.filter(|conn| conn.state == State::Holding && conn.slow == slow);
            open.count() as u64
        };
        (self.found.idle_open, self.found.slow_open) = (open(false), open(true));
        self.found
    }
}

/// Whether these bytes complete a head; `tail` has the last four bytes before them.
fn is_head(tail: &mut [u8; 4], bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| {
        tail.rotate_left(1);
        tail[3] = *byte;
        tail == b"\r\n\r\n"
    })
}

fn ended(class: FailureClass) -> Fault {
    Fault {
        class,
        text: String::new(),
    }
}
