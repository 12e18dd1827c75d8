//! Groups of servers of an nginx.conf (`upstream`): all handlers that name one share what is known of its servers, and
//! the connections to them. Which server gets a request is left to `sluice-policy`.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluice_message::{Moment, Status};
use sluice_model::proxy::{NginxGroup as Config, UpstreamTls};
use sluice_net::tls::Connector;
use sluice_net::upstream::Load;
use sluice_policy::group::{Group as Servers, Method, Server, Servers as Seen, address_key};
use sluice_route::Template;

use super::build::duration;
use super::sticky::Sticky;
use super::upstream::Upstream;
use crate::build::{Builder, Refusal};
use crate::context::Exchange;
use crate::random;
use crate::values::{client_ip, expanded, remote_ip};

/// What the handlers of one configuration share.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// Whether there is a handler that asks upstreams.
    asks_upstreams: bool,
    groups: HashMap<String, Arc<Group>>,
    /// By what they were made of. Connections are kept for those who have the same one.
    connectors: HashMap<String, Arc<Connector>>,
}

impl Shared {
    /// Notes that there is a handler that asks upstreams.
    pub(super) fn note_proxy(&self) {
        self.known().asks_upstreams = true;
    }

    /// Whether there is one.
    pub(crate) fn asks_upstreams(&self) -> bool {
        self.known().asks_upstreams
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The group of this name.
    fn group(
        &self,
        config: &Config,
        limits: &[u32],
        backups: &[bool],
    ) -> Result<Arc<Group>, Refusal> {
        let mut known = self.known();
        if let Some(group) = known.groups.get(&config.name)
            && group.config == *config
        {
            return Ok(group.clone());
        }
        let group = Arc::new(Group::new(config, limits, backups)?);
        known.groups.insert(config.name.clone(), group.clone());
        Ok(group)
    }

    /// The one that was made of the same settings, or a new one.
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

/// A group.
pub struct Group {
    config: Config,
    servers: Servers,
    loads: Box<[Arc<Load>]>,
    /// Whether anybody asks how many requests a server is working on.
    is_counted: bool,
}

impl Group {
    fn new(config: &Config, limits: &[u32], backups: &[bool]) -> Result<Group, Refusal> {
        let servers: Vec<Server> = config
            .servers
            .iter()
            .zip(limits.iter().zip(backups))
            .map(|(server, (limit, is_backup))| Server {
                name: server.name.clone(),
                weight: server.weight,
                max_fails: server.max_fails,
                fail_timeout: duration(server.fail_timeout).unwrap_or_default(),
                requests_max: *limit,
                is_down: server.down,
                is_backup: *is_backup,
            })
            .collect();
        let method = method(&config.method)?;
        let compares = matches!(method, Method::LeastConn | Method::RandomTwo);
        Ok(Group {
            loads: servers.iter().map(|_| Arc::default()).collect(),
            is_counted: compares || limits.iter().any(|limit| *limit > 0),
            servers: Servers::new(method, &servers)
                .map_err(|error| Refusal::new(format!("upstream `{}`: {error}", config.name)))?,
            config: config.clone(),
        })
    }

    /// Whether requests in progress have to be counted.
    pub fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// How often a request may be tried.
    pub fn tries(&self) -> u32 {
        self.servers.tries()
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
        other => {
            return Err(Refusal::new(format!(
                "`{other}` is no way to choose among the servers of a group"
            )));
        }
    })
}

/// A server of a group, as its upstream knows it.
pub struct Member {
    group: Arc<Group>,
    index: usize,
}

impl Member {
    /// Requests in progress, those of all handlers.
    pub fn load(&self) -> &Arc<Load> {
        &self.group.loads[self.index]
    }

    /// The failures that count now.
    pub fn fails(&self) -> u32 {
        self.group.servers.fails(self.index)
    }

    /// Whether its failures leave it in.
    pub fn is_healthy(&self, now: Moment) -> bool {
        self.group.servers.is_healthy(self.index, now)
    }

    /// Notes that it gave no answer.
    pub fn fail(&self, now: Moment) {
        self.group.servers.fail(self.index, now);
    }

    /// Notes an answer that another server is asked for in place of: those that say that there is no such thing, or
    /// that it is not for this client, are no failures.
    pub fn refuse(&self, status: Status, now: Moment) {
        match status {
            Status::FORBIDDEN | Status::NOT_FOUND => {}
            _ => self.fail(now),
        }
    }

    /// Notes an answer.
    pub fn succeed(&self) {
        self.group.servers.succeed(self.index);
    }
}

/// The choice among the servers of a group, as one handler makes it.
pub struct Choosing {
    group: Arc<Group>,
    key: Template,
    sticky: Option<Box<Sticky>>,
}

impl Choosing {
    /// The group of `config`, beside the upstreams of its handler: the most requests of each, and whether it is for
    /// emergencies only.
    pub fn build(
        config: &Config,
        limits: &[u32],
        backups: &[bool],
        cx: &Builder<'_>,
    ) -> Result<Choosing, Refusal> {
        if config.servers.len() != limits.len() {
            return Err(Refusal::new(format!(
                "group `{}` has {} servers, and the handler {} upstreams",
                config.name,
                config.servers.len(),
                limits.len()
            ))
            .with_help("give as many"));
        }
        Ok(Choosing {
            group: cx.shared.group(config, limits, backups)?,
            key: cx.template(&config.key)?,
            sticky: Sticky::build(config, cx)?.map(Box::new),
        })
    }

    /// Tells the client which server it stays with, if it is told by us and was not told so before.
    pub fn bind(&self, x: &mut Exchange, member: &Member) {
        if let Some(sticky) = &self.sticky {
            sticky.tell(x, member.index);
        }
    }

    /// The group.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The upstreams as members.
    pub fn member(&self, index: usize) -> Member {
        Member {
            group: self.group.clone(),
            index,
        }
    }

    /// The server that gets a request, one that was not `tried`.
    pub fn choose<U: Borrow<Upstream>>(
        &self,
        upstreams: &[U],
        x: &Exchange,
        was_tried: &dyn Fn(&Upstream) -> bool,
    ) -> Option<usize> {
        let view = View {
            upstreams,
            was_tried,
        };
        let (seed, now) = (random::word(), x.worker.clock.coarse());
        if let Some(sticky) = &self.sticky
            && let Some(name) = sticky.named(x)
        {
            let mut bound = sticky.servers_of(&name);
            let servers = &self.group.servers;
            if let Some(index) = bound.find(|index| servers.take(*index, &view, now)) {
                return Some(index);
            }
        }
        self.with_key(x, |key| self.group.servers.choose(&view, key, seed, now))
    }

    /// What would be chosen, where that is settled.
    pub fn foresee<U: Borrow<Upstream>>(&self, upstreams: &[U], x: &Exchange) -> Option<usize> {
        let view = View {
            upstreams,
            was_tried: &|_| false,
        };
        let now = x.worker.clock.coarse();
        self.with_key(x, |key| self.group.servers.foresee(&view, key, now))
    }

    /// Whether the same request always gets the same server.
    pub fn is_settled(&self) -> bool {
        self.group.servers.is_settled()
    }

    fn with_key<R>(&self, x: &Exchange, then: impl FnOnce(&[u8]) -> R) -> R {
        match self.group.servers.method() {
            Method::IpHash => match client_ip(x).or_else(|| remote_ip(&x.conn)) {
                Some(ip) => then(&address_key(ip)),
                // The clients of a unix socket are one.
                None => then(&[0; 3]),
            },
            Method::Hash | Method::ConsistentHash => then(&expanded(&self.key, x)),
            Method::RoundRobin | Method::LeastConn | Method::Random | Method::RandomTwo => {
                then(&[])
            }
        }
    }
}

struct View<'a, U> {
    upstreams: &'a [U],
    was_tried: &'a dyn Fn(&Upstream) -> bool,
}

impl<U: Borrow<Upstream>> Seen for View<'_, U> {
    fn was_tried(&self, index: usize) -> bool {
        self.upstreams
            .get(index)
            .is_none_or(|upstream| (self.was_tried)(upstream.borrow()))
    }

    fn in_flight(&self, index: usize) -> u32 {
        let load = self.upstreams.get(index).map_or(0, |upstream| {
            let upstream: &Upstream = upstream.borrow();
            upstream.load.in_flight()
        });
        u32::try_from(load).unwrap_or(u32::MAX)
    }
}
