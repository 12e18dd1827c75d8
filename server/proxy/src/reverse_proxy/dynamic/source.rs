//! A source of upstreams: DNS, Redis or etcd. What the first two reply is cached and shared by all workers, with at most one query per name
//! in flight. `sluice-upstream` sends the queries.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sluice_message::Moment;
use sluice_model::proxy::{
    AUpstreams, EtcdUpstreams, RedisUpstreams, SrvUpstreams, UpstreamSource,
};
use sluice_net::clock;
use sluice_net::signal::Signal;
use sluice_net::tasks::in_background;
use sluice_net::worker::Worker;
use sluice_route::Template;
use sluice_upstream::{Family, Reach, Resolved, Resolver};

use super::super::addresses::Way;
use super::super::dialling::resolver;
use super::super::making::Maker;
use super::etcd::Prefix;
use super::redis::Hash;
use super::{Around, Member, Set};
use crate::limits::{
    NAME_BYTES_MAX, SOURCE_LIFETIME, SOURCE_LIFETIME_MIN, SOURCE_NAMES_MAX, SOURCE_PAUSE,
    SOURCE_STALE_MAX,
};
use sluice_pipeline::build::template;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_pipeline::values::expanded;

/// A source of upstreams.
pub struct Source {
    question: Question,
    resolver: Resolver,
    /// The IP version for connecting to the upstreams.
    dialled: Family,
    /// How long results are used; by default the TTL, at most [`SOURCE_LIFETIME`].
    refresh: Option<Duration>,
    /// How long old results are used if a query fails.
    grace: Duration,
    maker: Arc<Maker>,
    responses: Mutex<HashMap<Box<str>, Known>>,
}

enum Question {
    Addresses {
        name: Template,
        port: Template,
        family: Family,
    },
    Services {
        /// `_service._proto.name`, or only the name.
        name: Template,
    },
    /// A hash in Redis.
    Hash(Hash),
    /// A prefix of etcd, which a thread follows.
    Prefix(Arc<Prefix>),
}

/// The query of one request.
#[derive(Clone)]
struct Asked {
    name: String,
    /// For address records, which do not contain ports.
    port: u16,
}

/// The cached results for one name.
struct Known {
    members: Vec<Member>,
    set: Option<Set>,
    /// The version of the list that the upstreams are from, if a thread follows it.
    version: u64,
    /// No query before this time.
    fresh_until: Moment,
    /// The upstreams may be used up to this time.
    usable_until: Moment,
    asking: Asking,
}

enum Asking {
    /// No query before this time.
    Rest(Moment),
    /// A query is in flight.
    Going(Signal),
}

impl Source {
    /// Parses a source, or the sources of `multi`, and appends them to `out`.
    pub fn build(
        config: &UpstreamSource,
        maker: &Arc<Maker>,
        around: &Around<'_>,
        out: &mut Vec<Arc<Source>>,
    ) -> Result<(), Refusal> {
        match config {
            UpstreamSource::A(config) => out.push(Arc::new(Source::of_addresses(config, maker)?)),
            UpstreamSource::Srv(config) => out.push(Arc::new(Source::of_services(config, maker)?)),
            UpstreamSource::Redis(config) => {
                out.push(Arc::new(Source::of_hash(config, maker, around)?));
            }
            UpstreamSource::Etcd(config) => {
                out.push(Arc::new(Source::of_prefix(config, maker, around)?));
            }
            UpstreamSource::Multi(config) => {
                for source in &config.sources {
                    Source::build(source, maker, around, out)?;
                }
            }
            UpstreamSource::Other(_) => {
                let name = config.module();
                return Err(
                    Refusal::new(format!("unknown source of upstreams `{name}`"))
                        .with_help("the sources are `a`, `srv`, `redis`, `etcd` and `multi`"),
                );
            }
        }
        Ok(())
    }

    fn of_addresses(config: &AUpstreams, maker: &Arc<Maker>) -> Result<Source, Refusal> {
        let (v4, v6) = match &config.versions {
            None => (None, None),
            Some(versions) => (versions.ipv4, versions.ipv6),
        };
        // As in Caddy, an unspecified version is included unless the other one is enabled explicitly.
        let family = match (v4, v6) {
            (Some(true), None | Some(false)) | (None, Some(false)) => Family::V4,
            (None | Some(false), Some(true)) | (Some(false), None) => Family::V6,
            (None, None) | (Some(true), Some(true)) => Family::Any,
            (Some(false), Some(false)) => {
                return Err(Refusal::new("`dynamic a` excludes IPv4 and IPv6")
                    .with_help("write `versions ipv4 ipv6`, or remove `versions` for both"));
            }
        };
        let port = if config.port.is_empty() {
            "80"
        } else {
            &config.port
        };
        let question = Question::Addresses {
            name: template(&config.name)?,
            port: template(port)?,
            family,
        };
        Ok(Source {
            question,
            resolver: resolver(config.resolver.as_ref(), given(config.dial_timeout))?,
            dialled: Family::Any,
            refresh: given(config.refresh),
            grace: Duration::ZERO,
            maker: maker.clone(),
            responses: Mutex::default(),
        })
    }

    fn of_services(config: &SrvUpstreams, maker: &Arc<Maker>) -> Result<Source, Refusal> {
        let (service, proto, name) = (&config.service, &config.proto, &config.name);
        let name = match (service.is_empty(), proto.is_empty()) {
            (true, true) => name.clone(),
            (false, false) => format!("_{service}._{proto}.{name}"),
            (true, false) | (false, true) => {
                return Err(
                    Refusal::new("`dynamic srv` with only one of `service` and `proto`")
                        .with_help("give both, or the whole name alone"),
                );
            }
        };
        let question = Question::Services {
            name: template(&name)?,
        };
        let dialled = match config.dial_network.as_str() {
            "" | "tcp" => Family::Any,
            "tcp4" => Family::V4,
            "tcp6" => Family::V6,
            other => {
                return Err(Refusal::new(format!(
                    "dial_network `{other}`; it is `tcp`, `tcp4` or `tcp6`"
                )));
            }
        };
        Ok(Source {
            question,
            resolver: resolver(config.resolver.as_ref(), given(config.dial_timeout))?,
            dialled,
            refresh: given(config.refresh),
            grace: given(config.grace_period).unwrap_or_default(),
            maker: maker.clone(),
            responses: Mutex::default(),
        })
    }

    fn of_hash(
        config: &RedisUpstreams,
        maker: &Arc<Maker>,
        around: &Around<'_>,
    ) -> Result<Source, Refusal> {
        Ok(Source {
            question: Question::Hash(Hash::build(config, around.log)?),
            resolver: resolver(None, None)?,
            dialled: Family::Any,
            refresh: given(config.refresh),
            grace: given(config.grace_period).unwrap_or_default(),
            maker: maker.clone(),
            responses: Mutex::default(),
        })
    }

    fn of_prefix(
        config: &EtcdUpstreams,
        maker: &Arc<Maker>,
        around: &Around<'_>,
    ) -> Result<Source, Refusal> {
        Ok(Source {
            question: Question::Prefix(Prefix::build(config, around)?),
            resolver: resolver(None, None)?,
            dialled: Family::Any,
            refresh: None,
            grace: given(config.grace_period).unwrap_or_default(),
            maker: maker.clone(),
            responses: Mutex::default(),
        })
    }

    /// The current upstreams; `None` if they cannot be resolved.
    pub async fn list(self: &Arc<Self>, exchange: &Exchange) -> Option<Set> {
        if let Question::Prefix(prefix) = &self.question {
            return self.followed(prefix, &exchange.worker).await;
        }
        let asked = self.question.of(exchange)?;
        loop {
            let wait = match self.find(&asked, &exchange.worker) {
                Found::Set(set) => return Some(set),
                Found::Nothing => return None,
                Found::Wait(signal) => signal,
            };
            wait.await;
        }
    }

    /// The upstreams of a list that a thread follows: those of the latest one, and for the grace period after it became
    /// empty those before.
    async fn followed(&self, prefix: &Prefix, worker: &Rc<Worker>) -> Option<Set> {
        let list = prefix.list().await?;
        let now = clock::now();
        let mut responses = self.responses();
        let known = responses
            .entry(Box::default())
            .or_insert_with(|| Known::nothing(now));
        if !list.records.is_empty() {
            // Another request may have seen a later list.
            if known.version < list.version {
                self.take(known, &list.records, worker);
                known.version = list.version;
            }
        } else if now >= list.since + self.grace {
            known.members.clear();
            known.set = None;
        }
        known.set.clone()
    }

    /// Looks up the cached upstreams. Starts a query if they are missing or outdated; outdated ones are used meanwhile,
    /// up to a limit.
    fn find(
        self: &Arc<Self>,
        asked: &Asked,
        worker: &Rc<Worker>,
    ) -> Found<impl Future<Output = ()> + use<>> {
        let (now, key) = (clock::now(), asked.key());
        let mut responses = self.responses();
        if !responses.contains_key(&*key) {
            make_room(&mut responses, now);
            responses.insert((&*key).into(), Known::nothing(now));
        }
        let known = responses.get_mut(&*key).expect("it was made above");
        let may_ask = matches!(known.asking, Asking::Rest(until) if now >= until);
        if may_ask && now >= known.fresh_until {
            let signal = Signal::default();
            known.asking = Asking::Going(signal.clone());
            let end = EndOfAsking {
                source: Arc::downgrade(self),
                key,
                signal,
            };
            let (asked, worker) = (asked.clone(), worker.clone());
            // Detached from the request, since others may be waiting even if this one is cancelled.
            in_background(async move {
                if let Some(source) = end.source.upgrade() {
                    source.ask(&asked, &worker).await;
                }
                drop(end);
            });
        }
        match (&known.set, &known.asking) {
            (Some(set), _) if now < known.usable_until => Found::Set(set.clone()),
            (_, Asking::Going(signal)) => Found::Wait(signal.wait()),
            (_, Asking::Rest(_)) => Found::Nothing,
        }
    }

    async fn ask(&self, asked: &Asked, worker: &Rc<Worker>) {
        let response = match &self.question {
            Question::Addresses { family, .. } => {
                let found = self.resolver.addresses(&asked.name, *family).await;
                found.map(|found| found.map(|ip| (ip.to_string(), asked.port)))
            }
            Question::Services { .. } => {
                let found = self.resolver.services(&asked.name).await;
                found.map(|found| found.map(|service| (service.host, service.port)))
            }
            Question::Hash(hash) => hash.list(worker).await,
            // Its thread asks.
            Question::Prefix(_) => return,
        };
        let (now, key) = (clock::now(), asked.key());
        let mut responses = self.responses();
        let Some(known) = responses.get_mut(&*key) else {
            return;
        };
        match response {
            Ok(Resolved { records, lifetime }) => {
                let refresh = self
                    .refresh
                    .unwrap_or_else(|| lifetime.clamp(SOURCE_LIFETIME_MIN, SOURCE_LIFETIME));
                self.take(known, &records, worker);
                known.fresh_until = now + refresh;
                // They remain in use while they are refreshed. After a long time without requests, the next one waits
                // for the refresh.
                known.usable_until = known.fresh_until + refresh.max(SOURCE_LIFETIME);
            }
            // A negative response is authoritative; a timeout is not.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                known.usable_until = known.fresh_until + self.grace;
            }
            Err(_) => {
                known.usable_until = known.fresh_until + self.grace.max(SOURCE_STALE_MAX);
            }
        }
    }

    /// Makes `records` the current upstreams. Upstreams that were known before keep their state.
    fn take(&self, known: &mut Known, records: &[(String, u16)], worker: &Rc<Worker>) {
        let mut before = std::mem::take(&mut known.members);
        for (host, port) in records {
            let way = Way {
                family: self.dialled,
                reach: Reach::Anywhere,
            };
            let fresh = self.maker.named(host, *port, way);
            let is_same = |member: &Member| member.upstream.address == fresh.address;
            if known.members.iter().any(is_same) {
                continue;
            }
            let kept = before
                .iter()
                .position(is_same)
                .map(|at| before.swap_remove(at));
            let member = kept.unwrap_or_else(|| Member::new(fresh, &self.maker, worker));
            known.members.push(member);
        }
        known.set = Some(
            known
                .members
                .iter()
                .map(|member| member.upstream.clone())
                .collect(),
        );
    }

    fn responses(&self) -> MutexGuard<'_, HashMap<Box<str>, Known>> {
        // A panic while the lock was held cannot have left a partial change.
        self.responses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

enum Found<W> {
    Set(Set),
    Nothing,
    Wait(W),
}

impl Known {
    fn nothing(now: Moment) -> Known {
        Known {
            members: Vec::new(),
            set: None,
            version: 0,
            fresh_until: now,
            usable_until: now,
            asking: Asking::Rest(now),
        }
    }
}

impl Asked {
    fn key(&self) -> Box<str> {
        format!("{}:{}", self.name, self.port).into()
    }
}

impl Question {
    /// The query for `exchange`; `None` if its placeholders do not yield a name or port.
    fn of(&self, exchange: &Exchange) -> Option<Asked> {
        let text = |template| String::from_utf8(expanded(template, exchange)).ok();
        match self {
            Question::Addresses { name, port, .. } => Some(Asked {
                name: text(name).filter(|name| is_name(name))?,
                port: text(port)?.parse().ok().filter(|port| *port != 0)?,
            }),
            Question::Hash(_) | Question::Prefix(_) => Some(Asked {
                name: String::new(),
                port: 0,
            }),
            Question::Services { name } => Some(Asked {
                name: text(name).filter(|name| is_name(name))?,
                port: 0,
            }),
        }
    }
}

/// Whether `name`, which may come from a client, may be sent to a DNS server.
fn is_name(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_usual)
}

/// Marks the end of a query, successful or not, and wakes those who wait.
struct EndOfAsking {
    source: Weak<Source>,
    key: Box<str>,
    signal: Signal,
}

impl Drop for EndOfAsking {
    fn drop(&mut self) {
        if let Some(source) = self.source.upgrade()
            && let Some(known) = source.responses().get_mut(&*self.key)
        {
            known.asking = Asking::Rest(clock::now() + SOURCE_PAUSE);
        }
        self.signal.raise();
    }
}

/// Evicts names that are not in use; if that is not enough, all except those with a query in flight.
fn make_room(responses: &mut HashMap<Box<str>, Known>, now: Moment) {
    if responses.len() < SOURCE_NAMES_MAX {
        return;
    }
    let is_going = |known: &Known| matches!(known.asking, Asking::Going(_));
    responses.retain(|_, known| is_going(known) || now < known.usable_until);
    if responses.len() >= SOURCE_NAMES_MAX {
        responses.retain(|_, known| is_going(known));
    }
}
