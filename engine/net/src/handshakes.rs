//! Fair scheduling of the TLS handshakes on a worker. A handshake costs as much CPU as some ten requests, so only a few
//! steps are done between two polls of the sockets, alternating between client addresses: neither a flood of handshakes
//! nor one busy address delays clients being served. `connection` performs the handshakes.

use std::cell::{Cell, RefCell};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use slab::Slab;
use sluice_message::Remote;

use crate::limits::{HANDSHAKES_PER_ORIGIN_MAX, HANDSHAKES_PER_TURN, HANDSHAKES_WAITING_MAX};

/// The handshakes in progress on one worker.
#[derive(Default)]
pub(crate) struct Handshakes {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    shaking: Slab<Shaking>,
    lines: HashMap<Origin, Line>,
    /// Origins in round-robin order. An origin is listed once, as long as its queue may be non-empty.
    round: VecDeque<Origin>,
    /// Total number of queued handshakes.
    waiting: usize,
    /// Steps started since sockets were last polled.
    taken: usize,
    serial: u64,
    /// The waker of the scheduler task, while it has nothing to do.
    giver: Option<Waker>,
}

/// One handshake.
struct Shaking {
    origin: Origin,
    turn: Turn,
    /// Distinguishes it from an earlier handshake with the same key.
    serial: u64,
}

/// Whether a handshake may continue.
enum Turn {
    /// It has not asked for a turn.
    Unasked,
    Awaited(Waker),
    Given,
}

/// The handshakes of one origin.
#[derive(Default)]
struct Line {
    open: usize,
    /// Keys and serial numbers of queued handshakes, including some that have ended meanwhile.
    waiting: VecDeque<(usize, u64)>,
}

/// The client address for fairness. A client with an IPv6 network controls at least 2^64 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    V4(Ipv4Addr),
    /// The upper half of the address.
    V6([u16; 4]),
    Unix,
}

impl Origin {
    fn of(remote: Remote) -> Origin {
        match remote {
            Remote::Ip(addr) => match addr.ip() {
                IpAddr::V4(ip) => Origin::V4(ip),
                IpAddr::V6(ip) => {
                    let [a, b, c, d, ..] = ip.segments();
                    Origin::V6([a, b, c, d])
                }
            },
            Remote::Unix => Origin::Unix,
        }
    }
}

/// How many connection slots are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Plenty.
    Ample,
    /// So few that one address must not take all of them.
    Scarce,
}

/// The handshake is shed: slots are scarce, or too many handshakes are queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed;

/// A handshake in progress; dropping it ends it.
pub struct Handshake {
    all: Rc<Handshakes>,
    key: usize,
    has_waited: Cell<bool>,
}

impl Handshakes {
    /// Begins a handshake of `remote`. Fails if slots are scarce and the address already has its share of them.
    pub(crate) fn begin(self: &Rc<Self>, remote: Remote, room: Room) -> Result<Handshake, Shed> {
        let state = &mut *self.state.borrow_mut();
        let origin = Origin::of(remote);
        let line = state.lines.entry(origin).or_default();
        if room == Room::Scarce && line.open >= HANDSHAKES_PER_ORIGIN_MAX {
            return Err(Shed);
        }
        line.open += 1;
        state.serial = state.serial.wrapping_add(1);
        let key = state.shaking.insert(Shaking {
            origin,
            turn: Turn::Unasked,
            serial: state.serial,
        });
        Ok(Handshake {
            all: self.clone(),
            key,
            has_waited: Cell::new(false),
        })
    }

    /// The scheduler task. Everything else that is ready runs first, and sockets are polled in between.
    pub(crate) async fn give_turns(self: Rc<Self>) {
        loop {
            poll_fn(|cx| self.poll_taken(cx)).await;
            // The runtime wakes a yielding task only after it has polled the sockets.
            tokio::task::yield_now().await;
            self.state.borrow_mut().next_turn();
        }
    }

    /// Ready when steps were started since the last round. Otherwise no handshake is queued.
    fn poll_taken(&self, cx: &mut Context<'_>) -> Poll<()> {
        let state = &mut *self.state.borrow_mut();
        if state.taken > 0 {
            return Poll::Ready(());
        }
        state.giver = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl State {
    /// Releases the next handshakes, one of each origin before a second of any.
    fn next_turn(&mut self) {
        self.taken = 0;
        while self.taken < HANDSHAKES_PER_TURN {
            let Some(origin) = self.round.pop_front() else {
                return;
            };
            let Some(line) = self.lines.get_mut(&origin) else {
                continue;
            };
            while let Some((key, serial)) = line.waiting.pop_front() {
                let found = self.shaking.get_mut(key);
                let Some(shaking) = found.filter(|shaking| shaking.serial == serial) else {
                    continue;
                };
                if let Turn::Awaited(waker) = std::mem::replace(&mut shaking.turn, Turn::Given) {
                    waker.wake();
                    self.waiting -= 1;
                    self.taken += 1;
                    break;
                }
            }
            if !line.waiting.is_empty() {
                self.round.push_back(origin);
            } else if line.open == 0 {
                self.lines.remove(&origin);
            }
        }
    }

    /// Counts a step.
    fn take(&mut self) {
        self.taken += 1;
        if let Some(giver) = self.giver.take() {
            giver.wake();
        }
    }

    /// Queues a handshake behind others of its origin. If too many are queued, sheds it when its origin already has one
    /// in the queue.
    fn stand_in_line(&mut self, key: usize, cx: &mut Context<'_>) -> Result<(), Shed> {
        let shaking = &mut self.shaking[key];
        let line = self.lines.entry(shaking.origin).or_default();
        if self.waiting >= HANDSHAKES_WAITING_MAX && !line.waiting.is_empty() {
            return Err(Shed);
        }
        if line.waiting.is_empty() {
            self.round.push_back(shaking.origin);
        }
        line.waiting.push_back((key, shaking.serial));
        shaking.turn = Turn::Awaited(cx.waker().clone());
        self.waiting += 1;
        Ok(())
    }
}

impl Handshake {
    /// Ready when the next step of the handshake may run. To be polled before each step.
    pub fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<Result<(), Shed>> {
        let state = &mut *self.all.state.borrow_mut();
        let shaking = &mut state.shaking[self.key];
        match &mut shaking.turn {
            Turn::Given => {
                shaking.turn = Turn::Unasked;
                Poll::Ready(Ok(()))
            }
            Turn::Awaited(waker) => {
                waker.clone_from(cx.waker());
                Poll::Pending
            }
            Turn::Unasked if state.taken < HANDSHAKES_PER_TURN && state.waiting == 0 => {
                state.take();
                Poll::Ready(Ok(()))
            }
            Turn::Unasked => match state.stand_in_line(self.key, cx) {
                Ok(()) => {
                    self.has_waited.set(true);
                    Poll::Pending
                }
                Err(shed) => Poll::Ready(Err(shed)),
            },
        }
    }

    /// Whether it was ever queued.
    pub fn has_waited(&self) -> bool {
        self.has_waited.get()
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let state = &mut *self.all.state.borrow_mut();
        let shaking = state.shaking.remove(self.key);
        // Its queue entry is skipped when it comes up.
        if let Turn::Awaited(_) = shaking.turn {
            state.waiting -= 1;
        }
        if let Entry::Occupied(mut line) = state.lines.entry(shaking.origin) {
            line.get_mut().open -= 1;
            // A queue that is still listed in the round is removed with that entry.
            if line.get().open == 0 && line.get().waiting.is_empty() {
                line.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(host: u8) -> Remote {
        Remote::Ip(([192, 0, 2, host], 1000).into())
    }

    fn ask(handshake: &Handshake) -> Poll<Result<(), Shed>> {
        handshake.poll_turn(&mut Context::from_waker(Waker::noop()))
    }

    fn begin(all: &Rc<Handshakes>, host: u8) -> Handshake {
        all.begin(client(host), Room::Ample).unwrap()
    }

    /// Counts the handshakes that may continue now.
    fn given(handshakes: &[Handshake]) -> usize {
        handshakes.iter().filter(|one| ask(one).is_ready()).count()
    }

    #[test]
    fn a_few_go_on_at_once_and_a_few_more_with_each_turn() {
        let all = Rc::new(Handshakes::default());
        let many: Vec<_> = (0..HANDSHAKES_PER_TURN * 3)
            .map(|_| begin(&all, 1))
            .collect();
        assert_eq!(given(&many), HANDSHAKES_PER_TURN);
        // Drops those that were released.
        let rest = &many[HANDSHAKES_PER_TURN..];
        assert_eq!(given(rest), 0);
        assert!(rest.iter().all(Handshake::has_waited));
        assert!(!many[0].has_waited());
        all.state.borrow_mut().next_turn();
        assert_eq!(given(rest), HANDSHAKES_PER_TURN);
        all.state.borrow_mut().next_turn();
        assert_eq!(all.state.borrow().waiting, 0);
    }

    #[test]
    fn who_has_one_goes_before_the_second_of_who_has_a_thousand() {
        let all = Rc::new(Handshakes::default());
        let flood: Vec<_> = (0..1000).map(|_| begin(&all, 1)).collect();
        assert_eq!(given(&flood), HANDSHAKES_PER_TURN);
        let other = begin(&all, 2);
        assert!(ask(&other).is_pending());
        all.state.borrow_mut().next_turn();
        assert_eq!(ask(&other), Poll::Ready(Ok(())));
        // The second step of its handshake waits no longer than the first.
        assert!(ask(&other).is_pending());
        all.state.borrow_mut().next_turn();
        assert_eq!(ask(&other), Poll::Ready(Ok(())));
    }

    #[test]
    fn one_address_has_a_limit_only_where_room_is_scarce() {
        let all = Rc::new(Handshakes::default());
        let mut open: Vec<_> = (0..HANDSHAKES_PER_ORIGIN_MAX + 5)
            .map(|_| begin(&all, 1))
            .collect();
        assert!(all.begin(client(1), Room::Scarce).is_err());
        assert!(all.begin(client(2), Room::Scarce).is_ok());
        open.truncate(HANDSHAKES_PER_ORIGIN_MAX - 1);
        assert!(all.begin(client(1), Room::Scarce).is_ok());
        // All addresses of a network count as one origin.
        let network = |text: &str| Remote::Ip((text.parse::<IpAddr>().unwrap(), 1).into());
        let own: Vec<_> = (0..HANDSHAKES_PER_ORIGIN_MAX)
            .map(|n| all.begin(network(&format!("2001:db8::{n:x}")), Room::Scarce))
            .collect();
        assert!(own.iter().all(Result::is_ok));
        let scarce = |text: &str| all.begin(network(text), Room::Scarce);
        assert!(scarce("2001:db8::ffff:1").is_err());
        assert!(scarce("2001:db8:0:1::1").is_ok());
    }

    #[test]
    fn too_many_handshakes_of_one_address_are_shed() {
        let all = Rc::new(Handshakes::default());
        let flood: Vec<_> = (0..HANDSHAKES_WAITING_MAX + HANDSHAKES_PER_TURN)
            .map(|_| begin(&all, 1))
            .collect();
        assert_eq!(given(&flood), HANDSHAKES_PER_TURN);
        assert_eq!(ask(&begin(&all, 1)), Poll::Ready(Err(Shed)));
        let (other, second) = (begin(&all, 2), begin(&all, 2));
        assert!(ask(&other).is_pending(), "it waits");
        assert_eq!(ask(&second), Poll::Ready(Err(Shed)));
        all.state.borrow_mut().next_turn();
        assert_eq!(ask(&other), Poll::Ready(Ok(())));
    }

    #[test]
    fn a_departed_client_leaves_nothing_behind() {
        let all = Rc::new(Handshakes::default());
        for _ in 0..3 {
            let many: Vec<_> = (0..50).map(|n| begin(&all, n % 3)).collect();
            assert_eq!(given(&many), HANDSHAKES_PER_TURN);
            let kept = begin(&all, 0);
            assert!(ask(&kept).is_pending());
            drop(many);
            // Nothing is queued before it any more.
            all.state.borrow_mut().next_turn();
            assert_eq!(ask(&kept), Poll::Ready(Ok(())));
            drop(kept);
            let state = &mut *all.state.borrow_mut();
            state.next_turn();
            assert!(state.shaking.is_empty() && state.lines.is_empty());
            assert!(state.round.is_empty() && state.waiting == 0);
        }
    }

    #[test]
    fn turns_are_given_while_requests_wait() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let (runtime, local) = (runtime.unwrap(), tokio::task::LocalSet::new());
        let all = Rc::new(Handshakes::default());
        local.block_on(&runtime, async {
            tokio::task::spawn_local(all.clone().give_turns());
            for _ in 0..2 {
                let many = (0..50).map(|n| {
                    let one = begin(&all, n % 7);
                    let going_on = async move { poll_fn(|cx| one.poll_turn(cx)).await };
                    tokio::task::spawn_local(going_on)
                });
                for one in many.collect::<Vec<_>>() {
                    assert_eq!(one.await.unwrap(), Ok(()));
                }
            }
        });
    }
}
