//! Groups of servers as in nginx's `upstream` blocks: selection by weight, load, address, hash key or at random, and
//! ejection of servers for a while after failures. Keys, weights and the order of servers select the same server as in
//! nginx. All workers share a group without locks: shared state consists of sums that stay correct under concurrent
//! additions. Reading requests and counting requests in progress is up to the caller.

mod failing;
mod ring;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::net::IpAddr;
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use sluice_message::Moment;

use crate::crc32::Crc32;
use crate::limits::{LOOKS_MAX, RECOVERY_PAUSE_MAX, RECOVERY_PAUSE_MIN, RING_POINTS_MAX};
use crate::random::Random;
use ring::Ring;

/// How a group chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// In turn, by weight.
    #[default]
    RoundRobin,
    /// The one with the fewest requests beside its weight.
    LeastConn,
    /// By the address of the client.
    IpHash,
    /// By a key; a server more or less moves most keys.
    Hash,
    /// By a key on a ring; a server more or less moves its own keys only.
    ConsistentHash,
    /// By chance.
    Random,
    /// The less busy of two drawn by chance.
    RandomTwo,
    /// The one that is expected to be done first, beside its weight.
    LeastTime(Timed, Waiting),
    /// Of two drawn by chance the one that is expected to be done first.
    RandomTwoLeastTime(Timed),
}

/// Which part of the response time counts for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// Its head.
    Header,
    /// All of it.
    LastByte,
}

/// Whether requests still waiting for a response count as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// They count: a hanging server is slow even before it responds.
    Count,
    /// Only completed responses count.
    Ignored,
}

impl Method {
    /// Which response times the policy needs, if any.
    pub fn timed(self) -> Option<Timed> {
        match self {
            Method::LeastTime(timed, _) | Method::RandomTwoLeastTime(timed) => Some(timed),
            Method::RoundRobin
            | Method::LeastConn
            | Method::IpHash
            | Method::Hash
            | Method::ConsistentHash
            | Method::Random
            | Method::RandomTwo => None,
        }
    }

    /// Whether it compares how many requests servers are working on.
    pub fn compares_load(self) -> bool {
        matches!(self, Method::LeastConn | Method::RandomTwo) || self.timed().is_some()
    }
}

/// A server of a group as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address as the configuration writes it: its place on the ring follows from that.
    pub name: String,
    /// Its share beside the others.
    pub weight: u32,
    /// Failures that leave it out; none do when 0.
    pub max_fails: u32,
    /// In which time so many failures leave it out, and for how long.
    pub fail_timeout: Duration,
    /// The most requests at a time; without limit when 0.
    pub requests_max: u32,
    /// It gets none.
    pub is_down: bool,
    /// It gets requests only while no other can take them.
    pub is_backup: bool,
    /// It gets only the requests that are bound to it.
    pub is_draining: bool,
    /// How long its share grows from nothing to its weight after it was left out; zero for at once.
    pub slow_start: Duration,
}

/// Why a group cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooMany {
    /// All weights together give more points of the ring than there may be.
    Points(usize),
}

impl core::fmt::Display for TooMany {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            TooMany::Points(points) => write!(
                f,
                "the weights give {points} points of a ring; there may be {RING_POINTS_MAX}"
            ),
        }
    }
}

/// What a group needs to know about its servers, which are numbered in configuration order.
pub trait Servers {
    /// Whether the request was passed to it before.
    fn was_tried(&self, index: usize) -> bool;
    /// Requests that it is working on.
    fn in_flight(&self, index: usize) -> u32;
    /// Whether it gets only requests that are bound to it, whatever is configured.
    fn is_draining(&self, _index: usize) -> bool {
        false
    }
    /// Its weight in place of the configured one, for methods that go by turns or load.
    fn weight(&self, _index: usize) -> Option<u32> {
        None
    }
}

/// A group of servers.
#[derive(Debug)]
pub struct Group {
    method: Method,
    /// In memory of their own, as those that stay outlive a change of the group.
    peers: Box<[Arc<Peer>]>,
    usual: Tier,
    backup: Tier,
}

/// The servers among which a choice is made.
#[derive(Debug, Default)]
struct Tier {
    /// Their numbers.
    members: Box<[usize]>,
    total_weight: u64,
    ring: Option<Ring>,
}

/// A server of a group.
#[derive(Debug)]
struct Peer {
    weight: u32,
    max_fails: u32,
    fail_timeout: Duration,
    requests_max: u32,
    is_down: bool,
    is_draining: bool,
    slow_start: Duration,
    /// When it was found to be back after it was left out, in nanoseconds; 0 if it never was.
    recovered_at: AtomicU64,
    /// Its weight, less after failures.
    effective: AtomicI64,
    /// How far its turn has come: it grows by the weight, and shrinks by that of all when it is chosen.
    current: AtomicI64,
    fails: AtomicU32,
    /// When it failed last, in nanoseconds.
    failed_at: AtomicU64,
    /// When it was tried last after a while without, or failed, in nanoseconds.
    checked_at: AtomicU64,
    times: Times,
}

/// How fast a server was, in milliseconds.
#[derive(Debug, Default)]
struct Times {
    /// On average, the latest counting one part in twenty; 0 before the first.
    average: AtomicU64,
    /// Requests still waiting for a response.
    waiting: AtomicU64,
    /// The sum of the moments when these began.
    began: AtomicU64,
}

impl Group {
    /// A group whose servers have not failed yet.
    pub fn new(method: Method, servers: &[Server]) -> Result<Group, TooMany> {
        let fresh = servers.iter().map(|server| Arc::new(Peer::new(server)));
        Group::of(method, servers, fresh.collect())
    }

    /// The same group with other servers. Those that stay keep their failures and their turns: `was` says which number
    /// each of `servers` had, if it was there.
    pub fn renewed(&self, servers: &[Server], was: &[Option<usize>]) -> Result<Group, TooMany> {
        let peer = |(index, server): (usize, &Server)| {
            let number = was.get(index).copied().flatten();
            match number.and_then(|number| self.peers.get(number)) {
                Some(kept) => kept.clone(),
                None => Arc::new(Peer::new(server)),
            }
        };
        let peers = servers.iter().enumerate().map(peer).collect();
        Group::of(self.method, servers, peers)
    }

    fn of(method: Method, servers: &[Server], peers: Box<[Arc<Peer>]>) -> Result<Group, TooMany> {
        let tier = |is_backup: bool| -> Result<Tier, TooMany> {
            let all = servers.iter().enumerate();
            let members: Box<[usize]> = all
                .filter(|(_, server)| server.is_backup == is_backup)
                .map(|(index, _)| index)
                .collect();
            let weights = members.iter().map(|index| servers[*index].weight);
            let total_weight = weights.map(u64::from).sum();
            let ring = match method {
                Method::ConsistentHash => Some(Ring::new(servers, &members)?),
                _ => None,
            };
            Ok(Tier {
                members,
                total_weight,
                ring,
            })
        };
        Ok(Group {
            method,
            usual: tier(false)?,
            backup: tier(true)?,
            peers,
        })
    }

    /// How it chooses.
    pub fn method(&self) -> Method {
        self.method
    }

    /// How often a request may be tried: once with each server that is not taken out.
    pub fn tries(&self) -> u32 {
        let up = self
            .peers
            .iter()
            .filter(|peer| !peer.is_down && !peer.is_draining)
            .count();
        u32::try_from(up).unwrap_or(u32::MAX)
    }

    /// The server that gets a request; `key` is what methods that hash go by, the bytes of the address for
    /// [`Method::IpHash`]. `None` if no server can take it. Where failures have left out every server that could, one of
    /// them is tried again after a short pause rather than none for `fail_timeout`.
    pub fn choose(
        &self,
        servers: &impl Servers,
        key: &[u8],
        seed: u64,
        now: Moment,
    ) -> Option<usize> {
        let chosen = self.look(servers, now, |look| look.choose(self.method, key, seed));
        let Some(chosen) = chosen else {
            return self.look(servers, now, |look| look.recover(Claim::Take));
        };
        self.peers[chosen].begin(now);
        Some(chosen)
    }

    /// Whether a server that a request is bound to can take it, which then counts as its turn to have been tried.
    pub fn take(&self, index: usize, servers: &impl Servers, now: Moment) -> bool {
        let look = Look {
            peers: &self.peers,
            tier: &self.usual,
            servers,
            now,
        };
        let is_able = index < self.peers.len() && look.is_able_if_bound(index);
        if is_able {
            self.peers[index].begin(now);
        }
        is_able
    }

    /// The server that a request would get now, without a turn being taken; where chance or turns decide the first that
    /// can take it.
    pub fn foresee(&self, servers: &impl Servers, key: &[u8], now: Moment) -> Option<usize> {
        let live = self.look(servers, now, |look| match self.is_settled() {
            true => look.choose(self.method, key, 0),
            false => {
                let mut members = look.tier.members.iter().copied();
                members.find(|index| look.is_able(*index))
            }
        });
        live.or_else(|| self.look(servers, now, |look| look.recover(Claim::Leave)))
    }

    /// What is found among the usual servers, or else among the backup ones.
    fn look<S: Servers>(
        &self,
        servers: &S,
        now: Moment,
        find: impl Fn(&Look<'_, S>) -> Option<usize>,
    ) -> Option<usize> {
        [&self.usual, &self.backup].into_iter().find_map(|tier| {
            find(&Look {
                peers: &self.peers,
                tier,
                servers,
                now,
            })
        })
    }

    /// Whether the same request always gets the same server, as long as that can take it.
    pub fn is_settled(&self) -> bool {
        matches!(
            self.method,
            Method::IpHash | Method::Hash | Method::ConsistentHash
        )
    }

    /// Whether a server may get requests, as far as its failures go.
    pub fn is_healthy(&self, index: usize, now: Moment) -> bool {
        let peer = &self.peers[index];
        !peer.is_down && !peer.is_out(now)
    }

    /// The failures of a server that still count.
    pub fn fails(&self, index: usize) -> u32 {
        self.peers[index].fails.load(Relaxed)
    }

    /// Notes that a server failed.
    pub fn fail(&self, index: usize, now: Moment) {
        // The failures of the only server do not count: nobody else could be asked.
        if self.peers.len() > 1 {
            self.peers[index].fail(now);
        }
    }

    /// Records that a server took `time` to respond.
    pub fn note_time(&self, index: usize, time: Duration) {
        let latest = u64::try_from(time.as_millis())
            .unwrap_or(u64::MAX)
            .min(TIME_MAX);
        let next = |average: u64| match average {
            0 => Some(latest),
            _ => Some((average * 19 + latest) / 20),
        };
        let average = &self.peers[index].times.average;
        // It always gives a value.
        let _: Result<u64, u64> = average.fetch_update(Relaxed, Relaxed, next);
    }

    /// Records that a request has been waiting for its response since `began`.
    pub fn wait(&self, index: usize, began: Moment) {
        let times = &self.peers[index].times;
        times.waiting.fetch_add(1, Relaxed);
        times.began.fetch_add(millis(began), Relaxed);
    }

    /// Notes that it waits no longer.
    pub fn end_wait(&self, index: usize, began: Moment) {
        let times = &self.peers[index].times;
        times.began.fetch_sub(millis(began), Relaxed);
        times.waiting.fetch_sub(1, Relaxed);
    }

    /// Notes that a server became healthy again according to health checks: failures before that no longer count, and
    /// its share starts slowly if it is to.
    pub fn recover(&self, index: usize, now: Moment) {
        let peer = &self.peers[index];
        peer.fails.store(0, Relaxed);
        peer.recovered_at.store(nanos(now).max(1), Relaxed);
    }

    /// Notes that a server did what it was asked.
    pub fn succeed(&self, index: usize) {
        self.peers[index].succeed();
    }
}

impl Peer {
    fn new(server: &Server) -> Peer {
        Peer {
            weight: server.weight,
            max_fails: server.max_fails,
            fail_timeout: server.fail_timeout,
            requests_max: server.requests_max,
            is_down: server.is_down,
            is_draining: server.is_draining,
            slow_start: server.slow_start,
            recovered_at: AtomicU64::new(0),
            effective: AtomicI64::new(i64::from(server.weight)),
            current: AtomicI64::new(0),
            fails: AtomicU32::new(0),
            failed_at: AtomicU64::new(0),
            checked_at: AtomicU64::new(0),
            times: Times::default(),
        }
    }

    /// How long it is expected to take for a request, in milliseconds.
    fn expected(&self, waiting_counts: Waiting, now: Moment) -> u64 {
        let mut time = self.times.average.load(Relaxed);
        // One that was not asked for long gets another chance: it counts half as slow after each such time.
        let quiet = nanos(now).saturating_sub(self.checked_at.load(Relaxed));
        if quiet > self.quiet_time() {
            let halves = quiet / self.quiet_time().max(1_000_000_000);
            time >>= halves.min(63);
        }
        let waiting = self.times.waiting.load(Relaxed);
        if waiting_counts == Waiting::Count && waiting > 0 {
            let began = self.times.began.load(Relaxed);
            let all = waiting.saturating_mul(millis(now));
            time = time.max(all.saturating_sub(began) / waiting);
        }
        match time {
            // All that are so slow are equally bad, and what they are working on counts alone.
            TIME_MAX.. => TIME_MAX,
            // Those that are about as fast take turns.
            _ => time + TIME_STEP - time % TIME_STEP,
        }
    }

    /// Whether it is left out for its failures.
    fn is_out(&self, now: Moment) -> bool {
        self.max_fails > 0
            && self.fails.load(Relaxed) >= self.max_fails
            && nanos(now).saturating_sub(self.checked_at.load(Relaxed)) <= self.quiet_time()
    }

    /// Whether an ejected server may be tried again. The pause doubles with each failure, so that a server that
    /// recovers is found at once, and one that does not costs few requests.
    fn is_due(&self, now: Moment) -> bool {
        let beyond = self.fails.load(Relaxed).saturating_sub(self.max_fails);
        let doubled = RECOVERY_PAUSE_MIN.saturating_mul(1 << beyond.min(16));
        let pause = doubled.min(RECOVERY_PAUSE_MAX).min(self.fail_timeout);
        let since = nanos(now).saturating_sub(self.checked_at.load(Relaxed));
        u128::from(since) >= pause.as_nanos()
    }

    /// Whether the caller is the one that tries it again: others wait for another pause.
    fn claim(&self, now: Moment) -> bool {
        let checked = self.checked_at.load(Relaxed);
        self.is_due(now)
            && self
                .checked_at
                .compare_exchange(checked, nanos(now), Relaxed, Relaxed)
                .is_ok()
    }

    fn quiet_time(&self) -> u64 {
        u64::try_from(self.fail_timeout.as_nanos()).unwrap_or(u64::MAX)
    }

    /// It gets a request. After a time without failures the next of them begins now; so only one request asks whether
    /// a server that was left out is back.
    fn begin(&self, now: Moment) {
        let now = nanos(now);
        let checked = self.checked_at.load(Relaxed);
        if now.saturating_sub(checked) > self.quiet_time() {
            self.checked_at.store(now, Relaxed);
        }
    }

    fn fail(&self, now: Moment) {
        let now = nanos(now);
        self.failed_at.store(now, Relaxed);
        self.checked_at.store(now, Relaxed);
        self.fails.fetch_add(1, Relaxed);
        if let Some(less) = self.weight.checked_div(self.max_fails) {
            let lower = |effective: i64| Some((effective - i64::from(less)).max(0));
            // It always gives a value.
            let _: Result<i64, i64> = self.effective.fetch_update(Relaxed, Relaxed, lower);
        }
    }

    fn succeed(&self) {
        if self.fails.load(Relaxed) > 0
            && self.failed_at.load(Relaxed) < self.checked_at.load(Relaxed)
        {
            let fails = self.fails.swap(0, Relaxed);
            if self.max_fails > 0 && fails >= self.max_fails {
                // It was left out, and has been tried again at that moment.
                let back_at = self.checked_at.load(Relaxed).max(1);
                self.recovered_at.store(back_at, Relaxed);
            }
        }
    }

    /// The part of its share that it gets at `now`, in 1024ths: all of it, or less while it starts slowly.
    fn ramp(&self, now: Moment) -> u64 {
        let back_at = self.recovered_at.load(Relaxed);
        if self.slow_start.is_zero() || back_at == 0 {
            return RAMP_FULL;
        }
        let since = u128::from(nanos(now).saturating_sub(back_at));
        let part = since * u128::from(RAMP_FULL) / self.slow_start.as_nanos().max(1);
        // At the very beginning it gets a little, as otherwise the only server left would get nothing.
        u64::try_from(part).unwrap_or(RAMP_FULL).clamp(1, RAMP_FULL)
    }
}

/// The bytes of an address that [`Method::IpHash`] goes by: three of IPv4, so that a network keeps its server, and all of
/// IPv6.
pub fn address_key(ip: IpAddr) -> AddressKey {
    let mut bytes = [0; 16];
    let count = match ip {
        IpAddr::V4(ip) => {
            bytes[..3].copy_from_slice(&ip.octets()[..3]);
            3
        }
        IpAddr::V6(ip) => {
            bytes = ip.octets();
            16
        }
    };
    AddressKey { bytes, count }
}

/// See [`address_key`].
#[derive(Clone, Copy, Debug)]
pub struct AddressKey {
    bytes: [u8; 16],
    count: usize,
}

impl core::ops::Deref for AddressKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.count]
    }
}

/// The longest time that makes a difference, in milliseconds, as in nginx.
const TIME_MAX: u64 = 5000;

/// The whole share of a server; see [`Peer::ramp`].
const RAMP_FULL: u64 = 1024;

/// Times that differ by less are the same, in milliseconds, as in nginx.
const TIME_STEP: u64 = 20;

fn millis(moment: Moment) -> u64 {
    u64::try_from(moment.since_start().as_millis()).unwrap_or(u64::MAX)
}

fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.since_start().as_nanos()).unwrap_or(u64::MAX)
}

/// Whether the turn of a server is taken, or only looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    Take,
    Leave,
}

/// One look for a server.
struct Look<'a, S> {
    peers: &'a [Arc<Peer>],
    tier: &'a Tier,
    servers: &'a S,
    now: Moment,
}

impl<S: Servers> Look<'_, S> {
    fn choose(&self, method: Method, key: &[u8], seed: u64) -> Option<usize> {
        let members = &*self.tier.members;
        let found = match method {
            _ if members.len() < 2 => None,
            Method::RoundRobin => None,
            Method::LeastConn => return self.least(&|index| self.busy(index)),
            Method::LeastTime(_, waiting_counts) => {
                return self.least(&|index| self.done_in(index, waiting_counts));
            }
            Method::IpHash => self.by_address(key),
            Method::Hash if key.is_empty() => None,
            Method::Hash => self.by_key(key),
            Method::ConsistentHash if key.is_empty() => None,
            Method::ConsistentHash => self.by_ring(key),
            Method::Random => self.by_chance(&mut Random::new(seed)),
            Method::RandomTwo => self.of_two(&mut Random::new(seed), &|index| self.busy(index)),
            Method::RandomTwoLeastTime(_) => {
                let cost = |index| self.done_in(index, Waiting::Ignored);
                self.of_two(&mut Random::new(seed), &cost)
            }
        };
        found.or_else(|| self.in_turn(members.iter().copied()))
    }

    /// The server left out for its failures that was not tried for longest, if one may be tried again.
    fn recover(&self, claim: Claim) -> Option<usize> {
        let members = self.tier.members.iter().copied();
        let due = members.filter(|index| {
            let peer = &self.peers[*index];
            !self.is_draining(*index)
                && self.has_room(*index)
                && peer.is_out(self.now)
                && peer.is_due(self.now)
        });
        let index = due.min_by_key(|index| self.peers[*index].checked_at.load(Relaxed))?;
        (claim == Claim::Leave || self.peers[index].claim(self.now)).then_some(index)
    }

    fn is_able(&self, index: usize) -> bool {
        !self.is_draining(index) && self.is_able_if_bound(index)
    }

    fn is_draining(&self, index: usize) -> bool {
        self.peers[index].is_draining || self.servers.is_draining(index)
    }

    fn weight(&self, index: usize) -> u32 {
        let directed = self.servers.weight(index);
        directed.unwrap_or(self.peers[index].weight)
    }

    /// As [`Look::is_able`], for a request that is bound to it: one that is draining takes those.
    fn is_able_if_bound(&self, index: usize) -> bool {
        self.has_room(index) && !self.peers[index].is_out(self.now)
    }

    /// Whether it may get this request, as far as its failures do not matter.
    fn has_room(&self, index: usize) -> bool {
        let peer = &self.peers[index];
        !peer.is_down
            && !self.servers.was_tried(index)
            && (peer.requests_max == 0 || self.servers.in_flight(index) < peer.requests_max)
    }

    /// The one whose turn has come. Each grows by its weight and the chosen one shrinks by that of all, so that heavy
    /// ones do not get all of theirs in a row.
    fn in_turn(&self, members: impl Iterator<Item = usize>) -> Option<usize> {
        let mut best: Option<(i64, usize)> = None;
        let mut total = 0;
        for index in members.filter(|index| self.is_able(*index)) {
            let peer = &self.peers[index];
            let effective = peer.effective.load(Relaxed);
            let ramp = i64::try_from(peer.ramp(self.now)).unwrap_or(1);
            let share = self.beside(index, effective).saturating_mul(ramp);
            let current = peer.current.fetch_add(share, Relaxed) + share;
            total += share;
            if effective < i64::from(peer.weight) {
                // What failures took away comes back bit by bit.
                peer.effective.fetch_add(1, Relaxed);
            }
            if best.is_none_or(|(most, _)| current > most) {
                best = Some((current, index));
            }
        }
        let (_, index) = best?;
        self.peers[index].current.fetch_sub(total, Relaxed);
        Some(index)
    }

    /// The weight that failures have left of a server: `effective`, in proportion to another weight if there is one.
    fn beside(&self, index: usize, effective: i64) -> i64 {
        match self.servers.weight(index) {
            None => effective,
            Some(weight) => {
                let configured = i64::from(self.peers[index].weight.max(1));
                (effective.saturating_mul(i64::from(weight)) / configured).max(1)
            }
        }
    }

    /// How many requests one is working on.
    fn busy(&self, index: usize) -> u64 {
        u64::from(self.servers.in_flight(index))
    }

    /// When one is expected to be done with what it is working on, and one request more.
    fn done_in(&self, index: usize, waiting_counts: Waiting) -> u64 {
        let expected = self.peers[index].expected(waiting_counts, self.now);
        expected * (self.busy(index) + 1)
    }

    /// The one that costs least beside its weight; those that cost the same take turns.
    fn least(&self, cost: &dyn Fn(usize) -> u64) -> Option<usize> {
        // Products instead of quotients: what one costs beside its weight.
        let load = |index: usize| {
            let peer = &self.peers[index];
            let weight = u64::from(self.weight(index).max(1)) * peer.ramp(self.now);
            (cost(index), weight)
        };
        let able = || {
            let members = self.tier.members.iter().copied();
            members.filter(|index| self.is_able(*index))
        };
        let (busy, weight) = able()
            .map(load)
            .min_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)))?;
        let idlest = able().filter(|index| {
            let (own_busy, own_weight) = load(*index);
            own_busy * weight <= busy * own_weight
        });
        // The numbers move while we look; if none is as idle any more, any will do.
        self.in_turn(idlest).or_else(|| self.in_turn(able()))
    }

    /// The server in whose part of all weights a number lies.
    fn at(&self, number: u64) -> usize {
        let mut left = number % self.tier.total_weight.max(1);
        for index in &self.tier.members {
            let weight = u64::from(self.peers[*index].weight);
            if left < weight {
                return *index;
            }
            left -= weight;
        }
        self.tier.members[0]
    }

    /// The first that is able among the places to which `next` leads.
    fn first_able(&self, mut next: impl FnMut() -> u64) -> Option<usize> {
        (0..LOOKS_MAX)
            .map(|_| self.at(next()))
            .find(|index| self.is_able(*index))
    }

    fn by_address(&self, address: &[u8]) -> Option<usize> {
        let mut hash: u64 = 89;
        self.first_able(|| {
            let add = |hash: u64, byte: &u8| (hash * 113 + u64::from(*byte)) % 6271;
            hash = address.iter().fold(hash, add);
            hash
        })
    }

    fn by_key(&self, key: &[u8]) -> Option<usize> {
        let (mut hash, mut round) = (0u64, 0u32);
        self.first_able(|| {
            let mut sum = Crc32::new();
            if round > 0 {
                sum = sum.with(alloc::format!("{round}").as_bytes());
            }
            round += 1;
            // Such numbers were drawn by the servers whose keys this follows (Cache::Memcached).
            hash += u64::from((sum.with(key).sum() >> 16) & 0x7fff);
            hash
        })
    }

    fn by_ring(&self, key: &[u8]) -> Option<usize> {
        let ring = self.tier.ring.as_ref()?;
        let start = ring.place(Crc32::new().with(key).sum());
        let names = (0..LOOKS_MAX).map(|step| ring.name_at(start + step));
        names.into_iter().find_map(|name| {
            let same = ring.members(name).iter().copied();
            self.in_turn(same)
        })
    }

    fn by_chance(&self, random: &mut Random) -> Option<usize> {
        let total = self.tier.total_weight;
        self.first_able(|| random.below(total))
    }

    fn of_two(&self, random: &mut Random, cost: &dyn Fn(usize) -> u64) -> Option<usize> {
        let total = self.tier.total_weight;
        let mut first: Option<usize> = None;
        for _ in 0..LOOKS_MAX {
            let index = self.at(random.below(total));
            if first == Some(index) || !self.is_able(index) {
                continue;
            }
            let Some(other) = first else {
                first = Some(index);
                continue;
            };
            let busy = |one: usize, beside: usize| cost(one) * u64::from(self.peers[beside].weight);
            return Some(match busy(index, other) > busy(other, index) {
                true => other,
                false => index,
            });
        }
        first
    }
}
