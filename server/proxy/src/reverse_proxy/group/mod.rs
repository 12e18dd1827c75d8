//! nginx upstream groups (`upstream`). All handlers that use a group share the state of its servers and their
//! connections. `sluice-policy` selects the server.

mod names;
pub mod peers;
mod sessions;
mod timing;

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluice_message::Moment;
use sluice_model::proxy::{
    GroupServer, Upstream as UpstreamConfig, UpstreamGroup as Config, UpstreamTls,
};
use sluice_net::queue::Queue;
use sluice_net::spool::Folder;
use sluice_net::tls::Connector;
use sluice_net::worker::Worker;
use sluice_policy::group::{Method, Servers as Seen, Timed, Waiting, address_key};
use sluice_route::Template;

use super::directions::Directions;
use super::sticky::Sticky;
use super::upstream::Upstream;
use crate::limits::QUEUE_TIMEOUT;
pub use names::Names;
use names::is_name;
use peers::{Line, Spot};
pub use peers::{Member, Peers};
pub use sessions::{Beginning, Sessions};
use sluice_observe::log::Log;
use sluice_observe::random;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_pipeline::values::{client_ip, expanded, remote_ip};
pub use timing::Timing;

/// State shared by the handlers of one configuration.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Known>>);

/// Servers that are up, by group and address.
pub type Up = HashSet<(String, String)>;

/// Health checks of a group by one directive. They end when they are dropped.
pub trait Checking: Send + Sync {
    /// Starts the checks, on this worker. `up` are the servers that were up before.
    fn begin(self: Arc<Self>, up: &Arc<Up>, worker: &Rc<Worker>);
}

#[derive(Default)]
struct Known {
    /// Whether there is a handler that proxies to upstreams.
    asks_upstreams: bool,
    groups: HashMap<String, Arc<Group>>,
    /// TLS connectors by their settings. Idle connections are shared among handlers with the same connector.
    connectors: HashMap<String, Arc<Connector>>,
    /// Folders for temporary files; each is checked once.
    folders: HashMap<String, Arc<Folder>>,
    /// The health checks of groups.
    checks: Vec<Arc<dyn Checking>>,
    /// Servers of the previous configuration that are up, by group and address.
    up_before: Arc<Up>,
    /// What operators direct for upstreams.
    directions: Arc<Directions>,
}

impl Shared {
    /// The folder for temporary files at `path`; `prepare` checks it on first use.
    pub(super) fn folder(
        &self,
        path: &str,
        prepare: impl FnOnce(&Folder) -> Result<(), Refusal>,
    ) -> Result<Arc<Folder>, Refusal> {
        let mut known = self.known();
        if let Some(folder) = known.folders.get(path) {
            return Ok(folder.clone());
        }
        let folder = Folder::new(path);
        prepare(&folder)?;
        known.folders.insert(path.to_owned(), folder.clone());
        Ok(folder)
    }

    /// The state of a configuration that follows another one.
    pub fn after(before: &Shared) -> Shared {
        let before = before.known();
        let groups = before.groups.iter();
        let up = groups.flat_map(|(name, group)| {
            let peers = group.current();
            let dials: Vec<String> = peers.up().map(str::to_owned).collect();
            dials.into_iter().map(|dial| (name.clone(), dial))
        });
        let known = Known {
            // Without checks nothing is known about servers.
            up_before: match before.checks.is_empty() {
                true => Arc::default(),
                false => Arc::new(up.collect()),
            },
            directions: Arc::new(Directions::after(&before.directions)),
            ..Known::default()
        };
        Shared(Arc::new(Mutex::new(known)))
    }

    /// What operators direct for upstreams.
    pub(super) fn directions(&self) -> Arc<Directions> {
        self.known().directions.clone()
    }

    /// Adds health checks of a group.
    pub(super) fn add_checks(&self, checks: Arc<dyn Checking>) {
        self.known().checks.push(checks);
    }

    /// Starts the health checks of all groups, on this worker.
    pub fn begin_checks(&self, worker: &Rc<Worker>) {
        let (checks, up) = {
            let known = self.known();
            (known.checks.clone(), known.up_before.clone())
        };
        for checks in checks {
            checks.begin(&up, worker);
        }
    }

    /// Records that a handler proxies to upstreams.
    pub(super) fn note_proxy(&self) {
        self.known().asks_upstreams = true;
    }

    /// Whether a handler proxies to upstreams.
    pub fn asks_upstreams(&self) -> bool {
        self.known().asks_upstreams
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The group with this name.
    fn group(
        &self,
        config: &Config,
        upstreams: &[UpstreamConfig],
        log: Option<&Log>,
    ) -> Result<Arc<Group>, Refusal> {
        let mut known = self.known();
        if let Some(group) = known.groups.get(&config.name)
            && group.config == *config
        {
            return Ok(group.clone());
        }
        let group = Arc::new(Group::new(config, upstreams, log)?);
        known.groups.insert(config.name.clone(), group.clone());
        Ok(group)
    }

    /// The connector for these settings; created on first use.
    pub fn connector(
        &self,
        config: &UpstreamTls,
        offer: &[&[u8]],
        make: impl FnOnce() -> Result<Connector, Refusal>,
    ) -> Result<Arc<Connector>, Refusal> {
        let Ok(settings) = serde_json::to_string(&(config, offer)) else {
            return make().map(Arc::new);
        };
        let mut known = self.known();
        if let Some(connector) = known.connectors.get(&settings) {
            return Ok(connector.clone());
        }
        let connector = Arc::new(make()?);
        known.connectors.insert(settings, connector.clone());
        Ok(connector)
    }
}

/// An upstream group.
pub struct Group {
    config: Config,
    method: Method,
    /// The servers, if all of them have fixed addresses.
    peers: Option<Arc<Peers>>,
    /// Otherwise, the resolver of their names.
    names: Option<Arc<Names>>,
    /// Whether requests in flight have to be counted.
    is_counted: bool,
    /// The learned sessions (`sticky learn`).
    sessions: Option<Arc<Sessions>>,
    /// Where requests wait for a server.
    queue: Option<Arc<Queue>>,
}

impl Group {
    fn new(
        config: &Config,
        upstreams: &[UpstreamConfig],
        log: Option<&Log>,
    ) -> Result<Group, Refusal> {
        let line = |(server, upstream): (&GroupServer, &UpstreamConfig)| Line {
            server: server.clone(),
            dial: upstream.dial.clone(),
            requests_max: u32::try_from(upstream.max_requests).unwrap_or(0),
            is_backup: upstream.backup,
        };
        let lines: Box<[Line]> = config.servers.iter().zip(upstreams).map(line).collect();
        let method = method(&config.method)?;
        let is_counted = method.compares_load() || lines.iter().any(|line| line.requests_max > 0);
        let queue = config.queue.as_ref();
        let fixed = lines.iter().enumerate();
        let fixed = fixed.filter(|(_, line)| !is_name(&line.dial));
        let spots = fixed.map(|(number, line)| Spot::of(number, line)).collect();
        let peers = Peers::new(config, method, &lines, spots)
            .map_err(|error| Refusal::new(format!("upstream `{}`: {error}", config.name)))?;
        let (peers, names) = match lines.iter().any(|line| is_name(&line.dial)) {
            false => (Some(Arc::new(peers)), None),
            true => {
                let names = Names::build(config, lines, peers, log)?;
                (None, Some(Arc::new(names)))
            }
        };
        let learn = config
            .sticky
            .as_ref()
            .and_then(|sticky| sticky.learn.as_ref());
        Ok(Group {
            sessions: learn.map(|learn| Arc::new(Sessions::new(learn))),
            queue: queue.map(|queue| {
                let max = usize::try_from(queue.max).unwrap_or(usize::MAX);
                let timeout = given(queue.timeout).unwrap_or(QUEUE_TIMEOUT);
                Arc::new(Queue::new(max, timeout))
            }),
            config: config.clone(),
            method,
            peers,
            names,
            is_counted,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// The current servers, as far as they are known.
    fn current(&self) -> Arc<Peers> {
        match (&self.peers, &self.names) {
            (Some(peers), _) => peers.clone(),
            (None, Some(names)) => names.now(),
            (None, None) => unreachable!("a group has fixed servers, or names"),
        }
    }

    /// Whether requests in flight have to be counted.
    pub fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// The maximum number of attempts; with names, the number of addresses limits it further.
    pub fn tries(&self) -> u32 {
        let peers = self.peers.as_ref();
        peers.map_or(u32::MAX, |peers| peers.servers.tries())
    }

    /// The queue for requests that no server can take, if there is one.
    pub fn queue(&self) -> Option<&Arc<Queue>> {
        self.queue.as_ref()
    }

    /// The names of the servers, if there are any.
    pub fn names(&self) -> Option<&Arc<Names>> {
        self.names.as_ref()
    }
}

fn method(name: &str) -> Result<Method, Refusal> {
    Ok(match name {
        "" | "round_robin" => Method::RoundRobin,
        "least_conn" => Method::LeastConn,
        "ip_hash" => Method::IpHash,
        "hash" => Method::Hash,
        "consistent_hash" => Method::ConsistentHash,
        "random" => Method::Random,
        "random_two" => Method::RandomTwo,
        "least_time_header" => Method::LeastTime(Timed::Header, Waiting::Ignored),
        "least_time_last_byte" => Method::LeastTime(Timed::LastByte, Waiting::Ignored),
        "least_time_header_inflight" => Method::LeastTime(Timed::Header, Waiting::Count),
        "least_time_last_byte_inflight" => Method::LeastTime(Timed::LastByte, Waiting::Count),
        "random_two_least_time_header" => Method::RandomTwoLeastTime(Timed::Header),
        "random_two_least_time_last_byte" => Method::RandomTwoLeastTime(Timed::LastByte),
        other => {
            return Err(Refusal::new(format!(
                "`{other}` is not a load-balancing policy"
            )));
        }
    })
}

/// Selects servers of a group for one handler.
pub struct Choosing {
    group: Arc<Group>,
    key: Template,
    sticky: Option<Box<Sticky>>,
}

impl Choosing {
    /// The group of `config`, given the upstreams of its handler.
    pub fn build(
        config: &Config,
        upstreams: &[UpstreamConfig],
        builder: &Builder<'_>,
    ) -> Result<Choosing, Refusal> {
        if config.servers.len() != upstreams.len() {
            return Err(Refusal::new(format!(
                "group `{}` has {} servers, and the handler {} upstreams",
                config.name,
                config.servers.len(),
                upstreams.len()
            ))
            .with_help("give as many"));
        }
        Ok(Choosing {
            group: builder
                .shared
                .get::<Shared>()
                .group(config, upstreams, builder.log)?,
            key: builder.template(&config.key)?,
            sticky: Sticky::build(config, builder)?.map(Box::new),
        })
    }

    /// Starts to measure a request to a server, if the method depends on response times.
    pub fn timing(&self, member: &Member) -> Option<Timing> {
        Timing::begin(self.group.method, member)
    }

    /// Sets the sticky cookie, if there is one and the client does not have it.
    pub fn bind(&self, exchange: &mut Exchange, member: &Member) {
        let Some(sticky) = &self.sticky else { return };
        sticky.set_cookie(exchange, member.route());
        if sticky.learns_at_header()
            && let Some(session) = self.beginning(exchange, member)
        {
            let now = exchange.worker.clock.coarse();
            session.sessions.learn(&session.name, &session.dial, now);
        }
    }

    /// The session that the response creates at its end.
    pub fn begin(&self, exchange: &Exchange, member: &Member) -> Option<Beginning> {
        let sticky = self.sticky.as_ref()?;
        (!sticky.learns_at_header()).then(|| self.beginning(exchange, member))?
    }

    fn beginning(&self, exchange: &Exchange, member: &Member) -> Option<Beginning> {
        let (sticky, sessions) = (self.sticky.as_ref()?, self.group.sessions.as_ref()?);
        Some(Beginning {
            name: sticky.created(exchange)?,
            sessions: sessions.clone(),
            dial: member.peers.spots[member.index].dial.clone(),
        })
    }

    /// The group.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The group member of an upstream, if all servers have fixed addresses.
    pub fn member(&self, index: usize) -> Option<Member> {
        let peers = self.group.peers.clone()?;
        Some(Member { peers, index })
    }

    /// Selects a server that was not tried.
    pub fn choose<U: Borrow<Upstream>>(
        &self,
        upstreams: &[U],
        exchange: &Exchange,
        was_tried: &dyn Fn(&Upstream) -> bool,
    ) -> Option<usize> {
        let (seed, now) = (random::word(), exchange.worker.clock.coarse());
        let view = View {
            upstreams,
            was_tried,
            now,
        };
        let peers = peers_of(upstreams)?;
        if let Some(sticky) = &self.sticky
            && let Some(name) = sticky.named(exchange)
        {
            let index = match &self.group.sessions {
                None => {
                    let mut bound = peers.called(&name);
                    bound.find(|index| peers.servers.take(*index, &view, now))
                }
                Some(sessions) => {
                    let dial = sessions.find(&name, now);
                    let at = |dial: Arc<str>| peers.spots.iter().position(|one| *one.dial == *dial);
                    let bound = dial.and_then(at);
                    bound.filter(|index| peers.servers.take(*index, &view, now))
                }
            };
            if index.is_some() {
                return index;
            }
        }
        self.with_key(exchange, |key| peers.servers.choose(&view, key, seed, now))
    }

    /// The server that would be selected, if that is deterministic.
    pub fn foresee<U: Borrow<Upstream>>(
        &self,
        upstreams: &[U],
        exchange: &Exchange,
    ) -> Option<usize> {
        let now = exchange.worker.clock.coarse();
        let view = View {
            upstreams,
            was_tried: &|_| false,
            now,
        };
        let peers = peers_of(upstreams)?;
        self.with_key(exchange, |key| peers.servers.foresee(&view, key, now))
    }

    /// The maximum number of attempts with `upstreams`.
    pub fn tries<U: Borrow<Upstream>>(&self, upstreams: &[U]) -> u32 {
        peers_of(upstreams).map_or(0, |peers| peers.servers.tries())
    }

    /// Whether the same request always gets the same server.
    pub fn is_settled(&self) -> bool {
        matches!(
            self.group.method,
            Method::IpHash | Method::Hash | Method::ConsistentHash
        )
    }

    fn with_key<R>(&self, exchange: &Exchange, then: impl FnOnce(&[u8]) -> R) -> R {
        match self.group.method {
            Method::IpHash => match client_ip(exchange).or_else(|| remote_ip(&exchange.conn)) {
                Some(ip) => then(&address_key(ip)),
                // All clients on a Unix domain socket count as one.
                None => then(&[0; 3]),
            },
            Method::Hash | Method::ConsistentHash => then(&expanded(&self.key, exchange)),
            Method::RoundRobin
            | Method::LeastConn
            | Method::Random
            | Method::RandomTwo
            | Method::LeastTime(..)
            | Method::RandomTwoLeastTime(_) => then(&[]),
        }
    }
}

/// The state of the group at the time `upstreams` were listed.
fn peers_of<U: Borrow<Upstream>>(upstreams: &[U]) -> Option<&Peers> {
    let first: &Upstream = upstreams.first()?.borrow();
    first.member.as_ref().map(|member| &*member.peers)
}

/// Whether an upstream has as many requests as an operator lets it have. The group itself looks after its configured
/// maximum.
fn is_full(upstream: &Upstream) -> bool {
    let directed = upstream.directed.requests_max();
    directed.is_some_and(|max| upstream.load.in_flight() >= max as usize)
}

struct View<'a, U> {
    upstreams: &'a [U],
    was_tried: &'a dyn Fn(&Upstream) -> bool,
    now: Moment,
}

impl<U: Borrow<Upstream>> Seen for View<'_, U> {
    fn was_tried(&self, index: usize) -> bool {
        // A server that health checks found to be down, or that an operator ejected, is not available to any request.
        self.upstreams.get(index).is_none_or(|upstream| {
            let upstream: &Upstream = upstream.borrow();
            upstream.checked.is_down()
                || upstream.directed.is_ejected(self.now)
                || is_full(upstream)
                || (self.was_tried)(upstream)
        })
    }

    fn is_draining(&self, index: usize) -> bool {
        self.upstreams.get(index).is_some_and(|upstream| {
            let upstream: &Upstream = upstream.borrow();
            upstream.directed.is_draining()
        })
    }

    fn weight(&self, index: usize) -> Option<u32> {
        let upstream: &Upstream = self.upstreams.get(index)?.borrow();
        upstream.directed.weight()
    }

    fn in_flight(&self, index: usize) -> u32 {
        let load = self.upstreams.get(index).map_or(0, |upstream| {
            let upstream: &Upstream = upstream.borrow();
            upstream.load.in_flight()
        });
        u32::try_from(load).unwrap_or(u32::MAX)
    }
}
