//! Resolves the names of servers in a group; each address is a server of its own. Names are resolved when a request
//! needs them and the cached DNS answers have expired; those remain in use meanwhile. Names that configured DNS servers
//! resolve are from then on resolved again whenever their lifetime ends, also without requests. All workers share the results,
//! with at most one query per name in flight. `sluice-net` sends the queries.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use sluice_message::Moment;
use sluice_model::proxy::UpstreamGroup as Config;
use sluice_net::signal::Signal;
use sluice_net::tasks::in_background;
use sluice_net::timeout::within;
use sluice_net::worker::Worker;
use sluice_upstream::limits::NAME_LIFETIME;
use sluice_upstream::{Address, Resolved, Resolver, by_system, is_reachable};

use super::super::addresses::address_of;
use super::super::dialling::resolver;
use super::peers::{Line, Peers, Spot};
use crate::limits::{
    FIRST_ADDRESSES_WAIT, PEERS_OF_NAME_MAX, REFRESH_PAUSE_MIN, SOURCE_LIFETIME, SOURCE_PAUSE,
    SOURCE_STALE_MAX,
};
use sluice_observe::log::Log;
use sluice_pipeline::refusal::Refusal;

/// The names of a group and their addresses.
pub struct Names {
    config: Config,
    lines: Box<[Line]>,
    questions: Box<[Question]>,
    resolver: Resolver,
    responses: Mutex<Box<[Response]>>,
    peers: RwLock<Arc<Peers>>,
    /// The version of `peers`.
    version: AtomicU64,
    /// The time up to which no query is needed, in nanoseconds.
    quiet_until: AtomicU64,
    /// Raised when a query ends, successful or not.
    resolved: Signal,
    log: Option<Log>,
}

/// A line with a name.
struct Question {
    line: usize,
    host: String,
    port: u16,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Addresses from the system resolver.
    BySystem,
    /// Addresses from the configured DNS servers.
    Addresses,
    /// Addresses of the servers of a service (SRV).
    Service,
}

/// The resolved addresses of a name.
struct Response {
    spots: Vec<Spot>,
    /// No query before this time.
    fresh_until: Moment,
    /// Requests do not wait for a new result before this time.
    usable_until: Moment,
    is_asked: bool,
    /// Whether a task resolves the name again whenever its lifetime ends.
    is_kept_fresh: bool,
}

/// A record on its way to a [`Spot`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    address: SocketAddr,
    /// For a service: the name of the server, its weight, and whether others have a higher priority.
    service: Option<(String, u16, bool)>,
}

/// Whether the address of a line is a name whose addresses are servers. `localhost` is a single server: few programs
/// listen on both of its addresses, so every second request would fail first.
pub fn is_name(dial: &str) -> bool {
    name_of(dial).is_some()
}

fn name_of(dial: &str) -> Option<(String, u16)> {
    match address_of(dial).ok()?.0 {
        Address::Name { host, port } if !host.eq_ignore_ascii_case("localhost") => {
            Some((host.into(), port))
        }
        _ => None,
    }
}

impl Names {
    /// The names among `lines`, with `first`, the servers that have addresses.
    pub fn build(
        config: &Config,
        lines: Box<[Line]>,
        first: Peers,
        log: Option<&Log>,
    ) -> Result<Names, Refusal> {
        let question = |(number, line): (usize, &Line)| {
            let (host, port) = name_of(&line.dial)?;
            let (kind, host) = match (line.server.resolve, line.server.service.as_str()) {
                (false, _) => (Kind::BySystem, host),
                (true, "") => (Kind::Addresses, host),
                // A name with a dot is the complete prefix.
                (true, service) if service.contains('.') => {
                    (Kind::Service, format!("{service}.{host}"))
                }
                (true, service) => (Kind::Service, format!("_{service}._tcp.{host}")),
            };
            Some(Question {
                line: number,
                host,
                port,
                kind,
            })
        };
        let questions: Box<[Question]> = lines.iter().enumerate().filter_map(question).collect();
        let unknown = || Response {
            spots: Vec::new(),
            fresh_until: Moment::START,
            usable_until: Moment::START,
            is_asked: false,
            is_kept_fresh: false,
        };
        Ok(Names {
            config: config.clone(),
            resolver: resolver(config.resolver.as_ref(), None)?,
            responses: Mutex::new(questions.iter().map(|_| unknown()).collect()),
            questions,
            lines,
            peers: RwLock::new(Arc::new(first)),
            version: AtomicU64::new(0),
            quiet_until: AtomicU64::new(0),
            resolved: Signal::default(),
            log: log.cloned(),
        })
    }

    /// The current version, if no query is needed.
    pub fn at_hand(&self, now: Moment) -> Option<u64> {
        (nanos(now) < self.quiet_until.load(Relaxed)).then(|| self.version.load(Relaxed))
    }

    /// The current servers. The first request waits until all names are resolved, but only briefly if some are known.
    pub async fn list(self: &Arc<Self>, worker: &Rc<Worker>) -> Arc<Peers> {
        let began = worker.clock.coarse();
        loop {
            let resolved = self.resolved.wait();
            let is_missing = self.look(worker);
            let peers = self.now();
            if !is_missing {
                return peers;
            }
            if peers.spots.is_empty() {
                resolved.await;
                continue;
            }
            let waited = worker.clock.coarse().since(began);
            let left = FIRST_ADDRESSES_WAIT.saturating_sub(waited);
            if left.is_zero() || within(worker, left, resolved).await.is_none() {
                return peers;
            }
        }
    }

    /// The current servers, as far as names are resolved.
    pub fn now(&self) -> Arc<Peers> {
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        peers.clone()
    }

    fn responses(&self) -> MutexGuard<'_, Box<[Response]>> {
        // A panic while the lock was held cannot have left a partial change.
        self.responses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the queries that are due; returns whether to wait for one.
    fn look(self: &Arc<Self>, worker: &Rc<Worker>) -> bool {
        let now = worker.clock.coarse();
        let mut responses = self.responses();
        let mut is_missing = false;
        for (number, response) in responses.iter_mut().enumerate() {
            if !response.is_asked && now >= response.fresh_until {
                response.is_asked = true;
                let end = EndOfAsking {
                    names: Arc::downgrade(self),
                    number,
                };
                let worker = worker.clone();
                // Detached from the request, since others may be waiting even if this one is cancelled.
                in_background(async move {
                    if let Some(names) = end.names.upgrade() {
                        names.ask(number, &worker).await;
                    }
                    let names = end.names.clone();
                    drop(end);
                    keep_fresh(names, number, &worker).await;
                });
            }
            is_missing |= response.is_asked && now >= response.usable_until;
        }
        self.settle(&responses);
        is_missing
    }

    /// Records when the next query is due.
    fn settle(&self, responses: &[Response]) {
        let until = |response: &Response| match response.is_asked {
            true => response.usable_until,
            false => response.fresh_until,
        };
        let until = responses.iter().map(until).min();
        self.quiet_until
            .store(until.map_or(u64::MAX, nanos), Relaxed);
    }

    async fn ask(&self, number: usize, worker: &Rc<Worker>) {
        let question = &self.questions[number];
        let found = match question.kind {
            Kind::BySystem => by_system(&question.host).await.map(|ips| Resolved {
                records: at(&ips, question.port, None),
                lifetime: NAME_LIFETIME,
            }),
            Kind::Addresses => {
                let family = self.resolver.family;
                let found = self.resolver.addresses(&question.host, family).await;
                found.map(|found| Resolved {
                    lifetime: self.resolver.lifetime.of(found.lifetime, NAME_LIFETIME),
                    records: at(&found.records, question.port, None),
                })
            }
            Kind::Service => self.service(&question.host).await,
        };
        let now = worker.clock.coarse();
        let mut responses = self.responses();
        let response = &mut responses[number];
        match found {
            Ok(Resolved { records, lifetime }) if !records.is_empty() => {
                response.spots = self.spots(question, records);
                response.fresh_until = now + lifetime;
                // They remain in use while they are refreshed. After a long time without requests, the next one waits
                // for the refresh.
                response.usable_until = response.fresh_until + lifetime.max(SOURCE_LIFETIME);
            }
            failed => {
                let why = failed.err();
                // A negative response is authoritative; a timeout is not.
                let kind = why.as_ref().map(io::Error::kind);
                if kind == Some(io::ErrorKind::NotFound) && question.kind != Kind::BySystem {
                    response.spots.clear();
                }
                response.fresh_until = now + SOURCE_PAUSE;
                response.usable_until = now + SOURCE_STALE_MAX;
                self.log_failure(question, why);
            }
        }
        self.renew(&responses);
    }

    /// The servers of a service. Those with the highest priority are primary servers, the others are backups.
    async fn service(&self, name: &str) -> io::Result<Resolved<Found>> {
        let found = self.resolver.services(name).await?;
        let mut lifetime = found.lifetime;
        let first = found.records.iter().map(|one| one.priority).min();
        let mut all = Vec::new();
        for service in found.records {
            let family = self.resolver.family;
            // A server without an address does not affect the others.
            let Ok(ips) = self.resolver.addresses(&service.host, family).await else {
                continue;
            };
            lifetime = lifetime.min(ips.lifetime);
            let later = Some(service.priority) != first;
            let of = Some((service.host, service.weight, later));
            all.extend(at(&ips.records, service.port, of));
        }
        Ok(Resolved {
            records: all,
            lifetime: self.resolver.lifetime.of(lifetime, NAME_LIFETIME),
        })
    }

    fn spots(&self, question: &Question, mut records: Vec<Found>) -> Vec<Spot> {
        let line = &self.lines[question.line];
        // Names may have IPv6 addresses even if the system does not support IPv6.
        let is_far = |found: &Found| !is_reachable(found.address.ip());
        if !records.iter().all(is_far) {
            records.retain(|found| !is_far(found));
        }
        // The same order after each query and on each machine; as in nginx, IPv4 comes first.
        let key = |found: &Found| {
            let (name, weight, later) = found.service.clone().unwrap_or_default();
            (later, std::cmp::Reverse(weight), name, found.address)
        };
        records.sort_by_cached_key(key);
        records.dedup();
        records.truncate(PEERS_OF_NAME_MAX);
        let spot = |found: Found| {
            let later = found.service.as_ref().is_some_and(|(_, _, later)| *later);
            // A line with `backup` does not have backups of its own.
            if later && line.is_backup {
                return None;
            }
            let usual = line.server.weight;
            Some(Spot {
                line: question.line,
                dial: found.address.to_string(),
                is_backup: line.is_backup || later,
                weight: match &found.service {
                    Some((_, weight, _)) if usual == 1 => u32::from(*weight).max(1),
                    _ => usual,
                },
                name: match found.service {
                    Some((name, _, _)) => name,
                    None => line.server.name.clone(),
                },
            })
        };
        records.into_iter().filter_map(spot).collect()
    }

    /// Makes the resolved addresses the current servers.
    fn renew(&self, responses: &[Response]) {
        let mut spots = Vec::new();
        for (number, line) in self.lines.iter().enumerate() {
            match self.questions.iter().position(|one| one.line == number) {
                None => spots.push(Spot::of(number, line)),
                Some(question) => spots.extend_from_slice(&responses[question].spots),
            }
        }
        let before = self.now();
        if *before.spots == *spots {
            return;
        }
        match before.renewed(&self.config, &self.lines, spots) {
            Ok(peers) => {
                self.version.store(peers.version, Relaxed);
                *self.peers.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(peers);
            }
            Err(error) => {
                if let Some(log) = &self.log {
                    log.error(LOGGER, "the servers of a group stay as they were")
                        .text("upstream", &self.config.name)
                        .shown("error", error)
                        .send();
                }
            }
        }
    }

    /// Logs that a name has no address, in nginx's wording.
    fn log_failure(&self, question: &Question, why: Option<io::Error>) {
        let Some(log) = &self.log else { return };
        let kind = why.as_ref().map(io::Error::kind);
        let cause = match (question.kind, kind) {
            (Kind::BySystem, _) => String::new(),
            (_, Some(io::ErrorKind::TimedOut)) => " (110: Operation timed out)".to_owned(),
            (_, _) => " (3: Host not found)".to_owned(),
        };
        let host = &question.host;
        let message = format!("{host} could not be resolved{cause}");
        let entry = log
            .error(LOGGER, &message)
            .text("upstream", &self.config.name);
        match why {
            Some(why) => entry.shown("error", why).send(),
            None => entry.send(),
        }
    }
}

const LOGGER: &str = "http.reverse_proxy.upstreams";

/// Converts addresses to records for `port`.
fn at(ips: &[IpAddr], port: u16, service: Option<(String, u16, bool)>) -> Vec<Found> {
    let found = |ip: &IpAddr| Found {
        address: SocketAddr::new(*ip, port),
        service: service.clone(),
    };
    ips.iter().map(found).collect()
}

fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.since_start().as_nanos()).unwrap_or(u64::MAX)
}

/// Resolves a name again whenever its lifetime ends, as long as its group is in use. One task does so for each name; the
/// system's own resolver says nothing about lifetimes, so its names are resolved for requests only.
async fn keep_fresh(names: Weak<Names>, number: usize, worker: &Rc<Worker>) {
    let Some(task) = Refresher::begin(&names, number) else {
        return;
    };
    loop {
        let Some(left) = task.time_left(worker.clock.coarse()) else {
            return;
        };
        within(worker, left, std::future::pending::<()>()).await;
        let Some(names) = task.names.upgrade() else {
            return;
        };
        let is_due = {
            let mut responses = names.responses();
            let response = &mut responses[number];
            let now = worker.clock.coarse();
            let is_due = !response.is_asked && now >= response.fresh_until;
            response.is_asked |= is_due;
            is_due
        };
        if is_due {
            let end = EndOfAsking {
                names: task.names.clone(),
                number,
            };
            names.ask(number, worker).await;
            drop(end);
        }
    }
}

/// The task that keeps a name fresh.
struct Refresher {
    names: Weak<Names>,
    number: usize,
}

impl Refresher {
    /// `None` if another task does so, or nobody has to.
    fn begin(of: &Weak<Names>, number: usize) -> Option<Refresher> {
        let names = of.upgrade()?;
        if names.questions[number].kind == Kind::BySystem {
            return None;
        }
        let was_kept = std::mem::replace(&mut names.responses()[number].is_kept_fresh, true);
        (!was_kept).then(|| Refresher {
            names: of.clone(),
            number,
        })
    }

    /// How long the name is fresh; `None` once its group is not in use any more.
    fn time_left(&self, now: Moment) -> Option<Duration> {
        let names = self.names.upgrade()?;
        let left = names.responses()[self.number].fresh_until.since(now);
        // The worker's clock lags behind by up to one tick.
        Some(left.max(REFRESH_PAUSE_MIN))
    }
}

impl Drop for Refresher {
    fn drop(&mut self) {
        if let Some(names) = self.names.upgrade() {
            names.responses()[self.number].is_kept_fresh = false;
        }
    }
}

/// Marks the end of a query, successful or not, and wakes those who wait.
struct EndOfAsking {
    names: Weak<Names>,
    number: usize,
}

impl Drop for EndOfAsking {
    fn drop(&mut self) {
        let Some(names) = self.names.upgrade() else {
            return;
        };
        let mut responses = names.responses();
        responses[self.number].is_asked = false;
        names.settle(&responses);
        drop(responses);
        names.resolved.raise();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use sluice_model::proxy::GroupServer;
    use sluice_policy::group::Method;

    use super::*;

    fn names(weight: u32, is_backup: bool) -> Names {
        let config = Config::default();
        let line = || Line {
            server: GroupServer {
                name: "a.test".to_owned(),
                weight,
                ..GroupServer::default()
            },
            dial: "a.test:80".to_owned(),
            requests_max: 0,
            is_backup,
        };
        let first = Peers::new(&config, Method::RoundRobin, &[line()], Vec::new());
        let first = first.unwrap_or_else(|error| panic!("{error}"));
        let names = Names::build(&config, Box::new([line()]), first, None);
        names.unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    #[test]
    fn a_name_stands_for_so_many_servers_at_most() {
        let names = names(3, false);
        let ips: Vec<IpAddr> = (0..300u32)
            .rev()
            .map(|number| Ipv4Addr::from(0x7f00_0001 + number).into())
            .collect();
        let spots = names.spots(&names.questions[0], at(&ips, 80, None));
        assert_eq!(spots.len(), PEERS_OF_NAME_MAX);
        // Sorted, so that keys map to the same servers on all machines.
        assert_eq!(spots[0].dial, "127.0.0.1:80");
        assert_eq!((&*spots[9].dial, spots[9].weight), ("127.0.0.10:80", 3));
    }

    #[test]
    fn services_have_weights_and_those_that_come_later_stand_by() {
        let near = [IpAddr::V4(Ipv4Addr::LOCALHOST)];
        let of = |weight, later| Some(("host.test".to_owned(), weight, later));
        let records = || [at(&near, 1, of(0, false)), at(&near, 2, of(7, true))].concat();
        let list = |names: &Names| {
            let spots = names.spots(&names.questions[0], records());
            let short = spots
                .into_iter()
                .map(|spot| (spot.dial, spot.weight, spot.is_backup));
            short.collect::<Vec<_>>()
        };
        let one = ("127.0.0.1:1".to_owned(), 1, false);
        let two = ("127.0.0.1:2".to_owned(), 7, true);
        assert_eq!(list(&names(1, false)), [one, two]);
        let one = ("127.0.0.1:1".to_owned(), 4, true);
        assert_eq!(list(&names(4, true)), [one], "the later ones have no place");
    }
}
