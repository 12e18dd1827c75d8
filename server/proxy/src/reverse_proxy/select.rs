//! Selects the upstream for a request, excluding those that failed or are at their limit. `sluice-policy` implements
//! the load-balancing policies.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::constant_time;
use sluice_message::{FieldId, Moment, Status};
use sluice_model::proxy::{PassiveChecks, ReverseProxy as Config, SelectionPolicy};
use sluice_net::clock;
use sluice_net::load::Lease;
use sluice_net::queue::Queue;
use sluice_policy::balance::{Choice, Hint};
use sluice_policy::breaker::Went;
use sluice_policy::health::{PassivePolicy, last_ejected};
use sluice_policy::retry::Others;
use sluice_policy::{HashBy, Policy, Turn, Upstreams};
use sluice_route::{query, values as route_values};

use super::Facts;
use super::breaking::Breaking;
use super::directions::Directions;
use super::group::{Beginning, Choosing, Timing};
use super::making::Maker;
use super::tried::{Tried, place};
use super::upstream::{Counted, Role, Upstream};
use crate::limits::SLOW_START_SHARE_MIN;
use sluice_observe::random;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_pipeline::values::{client_ip, remote_ip};

/// The load-balancing state of a directive, shared by all workers.
pub struct Selection {
    policy: Policy,
    turn: Turn,
    pub(super) passive: PassivePolicy,
    breaking: Option<Breaking>,
    cookie: Option<Cookie>,
    load: Counted,
    /// Whether upstreams can be unavailable at all, as configured.
    checks: Checks,
    /// What operators direct for upstreams.
    directions: Arc<Directions>,
    /// How long an upstream that became available again gets a reduced share.
    slow_start: Duration,
    /// The nginx upstream group, which makes the selection instead.
    group: Option<Box<Choosing>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Checks {
    /// Upstreams may be unavailable because of failures, limits or active health checks.
    Some,
    None,
}

/// The cookie with the upstream's ID (`lb_policy cookie`).
struct Cookie {
    name: String,
    max_age: Option<Duration>,
}

impl Selection {
    /// Parses policy and passive health checks.
    pub fn build(
        config: &Config,
        upstreams: &[Arc<Upstream>],
        maker: &Maker,
    ) -> Result<Selection, Refusal> {
        let balancing = config.load_balancing.as_ref();
        let chosen = balancing.and_then(|c| c.selection_policy.as_ref());
        let checks = config.health_checks.as_ref();
        let passive = maker.passive.clone();
        let has_roles = upstreams
            .iter()
            .any(|upstream| upstream.configured_role != Role::Usual);
        let is_watched = passive.is_on() || checks.is_some_and(|c| c.active.is_some());
        let is_limited = is_limited(config, &passive);
        let is_checked = is_limited || is_watched || has_roles || maker.breaking.is_some();
        Ok(Selection {
            policy: policy(chosen, bound(config)?)?,
            turn: Turn::new(),
            cookie: cookie(chosen),
            directions: maker.directions.clone(),
            load: maker.counted,
            checks: if is_checked {
                Checks::Some
            } else {
                Checks::None
            },
            slow_start: balancing
                .and_then(|c| given(c.slow_start))
                .unwrap_or_default(),
            passive,
            breaking: maker.breaking.clone(),
            group: None,
        })
    }

    /// Makes an nginx upstream group select instead.
    pub fn with_group(self, group: Option<Choosing>) -> Selection {
        Selection {
            group: group.map(Box::new),
            ..self
        }
    }

    /// The queue of the group, if it has one.
    pub fn queue(&self) -> Option<&Arc<Queue>> {
        self.group.as_ref()?.group().queue()
    }

    /// Counts a request to `upstream` until the lease is dropped, if requests are counted or others wait for its end.
    pub fn lease(&self, upstream: &Upstream) -> Option<Lease> {
        let ended = self.queue().map(|queue| queue.ended());
        let is_counted = self.counts() || ended.is_some();
        is_counted.then(|| Lease::waking(&upstream.load, ended))
    }

    /// Sets the sticky cookie, if the group has one.
    pub fn bind(&self, exchange: &mut Exchange, upstream: &Upstream) {
        if let (Some(group), Some(member)) = (&self.group, &upstream.member) {
            group.bind(exchange, member);
        }
    }

    /// The session that the response of `upstream` creates at its end.
    pub fn begin(&self, exchange: &Exchange, upstream: &Upstream) -> Option<Beginning> {
        self.group
            .as_ref()?
            .begin(exchange, upstream.member.as_ref()?)
    }

    /// Selects an available upstream, preferably one that was not tried. May set a cookie.
    pub fn choose<'a, U: Borrow<Upstream>>(
        &self,
        upstreams: &'a [U],
        exchange: &mut Exchange,
        tried: &Tried,
    ) -> Option<&'a Upstream> {
        if let Some(group) = &self.group {
            let was_tried = |upstream: &Upstream| tried.upstreams.contains(&place(upstream));
            let index = group.choose(upstreams, exchange, &was_tried)?;
            return Some(upstreams[index].borrow());
        }
        if let ([one], Checks::None, None) = (upstreams, self.checks(), &self.cookie) {
            return Some(one.borrow());
        }
        let choice = self.decide(upstreams, exchange, tried, &self.turn)?;
        let chosen: &Upstream = upstreams[choice.index].borrow();
        if let Some(breaker) = &chosen.breaker {
            breaker.begin(exchange.worker.clock.coarse());
        }
        if let Some(cookie) = &self.cookie {
            if tried.count() > 0 {
                cookie.withdraw(exchange);
            }
            if choice.set_cookie {
                cookie.set(exchange, chosen);
            }
        }
        Some(chosen)
    }

    /// Starts to measure a request to `upstream`, if the policy depends on response times.
    pub fn timing(&self, upstream: &Upstream) -> Option<Timing> {
        self.group.as_ref()?.timing(upstream.member.as_ref()?)
    }

    /// The maximum number of attempts with `upstreams`.
    pub fn tries<U: Borrow<Upstream>>(&self, upstreams: &[U]) -> u32 {
        let group = self.group.as_ref();
        group.map_or(u32::MAX, |group| group.tries(upstreams))
    }

    /// The upstream that would be selected, without side effects; for random policies one of the candidates.
    pub fn foresee<'a, U: Borrow<Upstream>>(
        &self,
        upstreams: &'a [U],
        exchange: &Exchange,
    ) -> Option<&'a Upstream> {
        if let Some(group) = &self.group {
            return upstreams
                .get(group.foresee(upstreams, exchange)?)
                .map(Borrow::borrow);
        }
        let choice = self.decide(
            upstreams,
            exchange,
            &Tried::since(exchange.worker.clock.coarse()),
            &Turn::new(),
        )?;
        upstreams.get(choice.index).map(Borrow::borrow)
    }

    /// Whether the same request always gets the same upstream, as long as that is available.
    pub fn is_settled(&self) -> bool {
        match &self.group {
            Some(group) => group.is_settled(),
            None => matches!(self.policy, Policy::First) || self.policy.hash_by().is_some(),
        }
    }

    /// Whether `upstream` may currently get a request.
    pub fn may_get<U: Borrow<Upstream>>(
        &self,
        upstreams: &[U],
        upstream: &Upstream,
        exchange: &Exchange,
    ) -> bool {
        let now = exchange.worker.clock.coarse();
        if let Some(member) = &upstream.member {
            return member.is_healthy(now) && !upstream.directed.is_ejected(now);
        }
        let ejected = self.ejected(upstreams, now);
        self.checks() == Checks::None || self.is_able(upstream, ejected, now)
    }

    /// Whether an untried upstream is available.
    pub fn others<U: Borrow<Upstream>>(
        &self,
        upstreams: &[U],
        exchange: &Exchange,
        tried: &Tried,
    ) -> Others {
        let now = exchange.worker.clock.coarse();
        let ejected = self.ejected(upstreams, now);
        let is_left = |upstream: &Upstream| {
            upstream.role() != Role::Draining
                && !tried.upstreams.contains(&place(upstream))
                && (self.checks() == Checks::None || self.is_able(upstream, ejected, now))
        };
        match upstreams.iter().any(|upstream| is_left(upstream.borrow())) {
            true => Others::Left,
            false => Others::None,
        }
    }

    fn decide<U: Borrow<Upstream>>(
        &self,
        upstreams: &[U],
        exchange: &Exchange,
        tried: &Tried,
        turn: &Turn,
    ) -> Option<Choice> {
        let now = exchange.worker.clock.coarse();
        let mut key = Vec::new();
        if let Some(by) = self.policy.hash_by() {
            push_key(by, exchange, &mut key);
        }
        let ejected = self.ejected(upstreams, now);
        let named = self
            .cookie
            .as_ref()
            .and_then(|cookie| cookie.named(upstreams, exchange));
        if let Some((index, leaving)) = named.map(|named| (named, upstreams[named].borrow()))
            && leaving.role() == Role::Draining
            && self.is_able(leaving, ejected, now)
            && !tried.upstreams.contains(&place(leaving))
        {
            return Some(Choice {
                index,
                set_cookie: false,
            });
        }
        let hint = Hint {
            key: Some(&key),
            named,
        };
        let seed = random::word();
        let look = |stage: Stage| {
            let view = View {
                upstreams,
                selection: self,
                ejected,
                now,
                tried: &tried.upstreams,
                stage,
                seed,
            };
            self.policy.choose(&view, hint, turn, seed)
        };
        match self.checks() {
            Checks::None => look(Stage::First).or_else(|| look(Stage::Again)),
            Checks::Some => STAGES.iter().find_map(|stage| look(*stage)),
        }
    }

    /// Which failed upstreams are ejected, by passive health checks or breakers.
    fn ejected<U: Borrow<Upstream>>(&self, upstreams: &[U], now: Moment) -> Ejected {
        if self.passive.ejected_max_percent >= 100 {
            return Ejected::All;
        }
        let all = upstreams.iter().map(Borrow::borrow);
        let failing = all.filter(|upstream: &&Upstream| has_failed(upstream, now));
        let mut failing: Vec<(Moment, usize)> = failing.map(|one| failed(one, now)).collect();
        let max = self.passive.ejected_max(upstreams.len());
        last_ejected(&mut failing, max).map_or(Ejected::All, Ejected::UpTo)
    }

    /// Whether `upstream` is healthy, not ejected by an operator, and below its limit.
    fn is_able(&self, upstream: &Upstream, ejected: Ejected, now: Moment) -> bool {
        let in_flight = upstream.load.in_flight();
        !upstream.checked.is_down()
            && !upstream.directed.is_ejected(now)
            && (!has_failed(upstream, now) || ejected.spares(upstream, now))
            && upstream.requests_max().is_none_or(|max| in_flight < max)
            && !self.passive.is_full(narrow(in_flight))
    }

    /// Whether upstreams can be unavailable at all.
    fn checks(&self) -> Checks {
        match self.directions.are_given() {
            true => Checks::Some,
            false => self.checks,
        }
    }

    /// Whether clients stay with an upstream, by a cookie or as an nginx upstream group decides.
    pub fn is_sticky(&self) -> bool {
        self.cookie.is_some() || self.group.is_some()
    }

    /// Whether requests in flight are to be counted.
    pub fn counts(&self) -> bool {
        self.load == Counted::Yes || self.directions.are_given()
    }

    /// The exact time, if response times are needed.
    pub fn clock(&self) -> Option<Moment> {
        let is_watched = self.passive.is_on() && !self.passive.unhealthy_latency.is_zero();
        let is_timed = self.breaking.as_ref().is_some_and(Breaking::is_timed);
        (is_watched || is_timed).then(clock::now)
    }

    /// Records a response to a request sent at `sent_at`, which may count as a failure.
    pub fn note_response(
        &self,
        upstream: &Upstream,
        exchange: &mut Exchange,
        status: Status,
        sent_at: Option<Moment>,
    ) {
        if let Some(member) = &upstream.member {
            return member.succeed();
        }
        if !self.passive.is_on() && self.breaking.is_none() {
            return;
        }
        let now = exchange.worker.clock.coarse();
        let latency = sent_at.map_or(Duration::ZERO, |at| clock::now().since(at));
        if self.passive.is_on() && self.passive.is_failure(status, latency) {
            upstream.health.fail(now);
        }
        if let (Some(breaking), Some(breaker)) = (&self.breaking, &upstream.breaker) {
            breaker.note(breaking.went(status, latency), now);
        }
    }

    /// Records a request without a response.
    pub fn note_failure(&self, upstream: &Upstream, exchange: &Exchange) {
        if let Some(member) = &upstream.member {
            return member.fail(exchange.worker.clock.coarse());
        }
        upstream.health.fail(exchange.worker.clock.coarse());
        if let Some(breaker) = &upstream.breaker {
            breaker.note(Went::Wrong, exchange.worker.clock.coarse());
        }
    }
}

/// Which of the upstreams with too many failures are ejected.
#[derive(Clone, Copy)]
enum Ejected {
    All,
    /// Those whose last failure is not later than this one; ejecting the others would exceed the maximum.
    UpTo((Moment, usize)),
}

impl Ejected {
    fn spares(self, upstream: &Upstream, now: Moment) -> bool {
        match self {
            Ejected::All => false,
            Ejected::UpTo(last) => failed(upstream, now) > last,
        }
    }
}

/// Whether passive health checks or its breaker eject an upstream.
fn has_failed(upstream: &Upstream, now: Moment) -> bool {
    let breaker = upstream.breaker.as_ref();
    !upstream.health.is_healthy(now) || breaker.is_some_and(|breaker| !breaker.allows(now))
}

/// The time of the latest failure, with a tie-breaker.
fn failed(upstream: &Upstream, now: Moment) -> (Moment, usize) {
    (
        upstream.health.latest_failure().unwrap_or(now),
        place(upstream),
    )
}

/// Which upstreams are candidates. A later stage applies only if the earlier ones have none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Untried ones; those in slow start only with their reduced probability.
    First,
    /// Untried ones.
    Warm,
    /// Untried backups.
    Backup,
    /// All primary ones, including tried ones.
    Again,
    /// All backups, including tried ones.
    BackupAgain,
}

const STAGES: [Stage; 5] = [
    Stage::First,
    Stage::Warm,
    Stage::Backup,
    Stage::Again,
    Stage::BackupAgain,
];

impl Stage {
    fn role(self) -> Role {
        match self {
            Stage::First | Stage::Warm | Stage::Again => Role::Usual,
            Stage::Backup | Stage::BackupAgain => Role::Backup,
        }
    }

    fn passes_over_tried(self) -> bool {
        match self {
            Stage::First | Stage::Warm | Stage::Backup => true,
            Stage::Again | Stage::BackupAgain => false,
        }
    }
}

/// The upstreams as seen by a policy.
struct View<'a, U> {
    upstreams: &'a [U],
    selection: &'a Selection,
    ejected: Ejected,
    now: Moment,
    tried: &'a [usize],
    stage: Stage,
    seed: u64,
}

impl<U: Borrow<Upstream>> Upstreams for View<'_, U> {
    fn count(&self) -> usize {
        self.upstreams.len()
    }

    fn is_available(&self, index: usize) -> bool {
        let upstream: &Upstream = self.upstreams[index].borrow();
        if self.stage.passes_over_tried() && self.tried.contains(&place(upstream)) {
            return false;
        }
        if self.selection.checks() == Checks::None {
            return true;
        }
        upstream.role() == self.stage.role()
            && self.selection.is_able(upstream, self.ejected, self.now)
            && (self.stage != Stage::First || self.takes_part(index, upstream))
    }

    fn in_flight(&self, index: usize) -> u32 {
        narrow(self.upstreams[index].borrow().load.in_flight())
    }

    fn address(&self, index: usize) -> &str {
        &self.upstreams[index].borrow().address
    }

    fn weight(&self, index: usize) -> Option<u32> {
        self.upstreams[index].borrow().directed.weight()
    }
}

impl<U> View<'_, U> {
    /// Whether an upstream takes part in this selection: during slow start with increasing probability.
    fn takes_part(&self, index: usize, upstream: &Upstream) -> bool {
        let slow_start = self.selection.slow_start;
        if slow_start.is_zero() {
            return true;
        }
        let warm_for = match upstream.recovered_at() {
            None => return true,
            Some(at) => self.now.since(at),
        };
        if warm_for >= slow_start {
            return true;
        }
        let share = warm_for.as_secs_f64() / slow_start.as_secs_f64();
        // Constant within one selection, but different for each upstream.
        let drawn = self.seed.rotate_left(7 * (index as u32 % 9)) % 1000;
        (drawn as f64) < (share * 1000.0).max(SLOW_START_SHARE_MIN)
    }
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Appends the key of a hash policy; nothing if the request lacks it.
fn push_key(by: &HashBy, exchange: &Exchange, out: &mut Vec<u8>) {
    let mut push_ip = |ip: Option<std::net::IpAddr>| {
        if let Some(ip) = ip {
            out.extend_from_slice(ip.to_string().as_bytes());
        }
    };
    match by {
        HashBy::RemoteIp => push_ip(remote_ip(&exchange.conn)),
        HashBy::ClientIp => push_ip(client_ip(exchange)),
        HashBy::Uri => out.extend_from_slice(exchange.req.uri.as_bytes()),
        HashBy::Header(name) if name.eq_ignore_ascii_case("host") => {
            out.extend_from_slice(&exchange.req.authority);
        }
        HashBy::Header(name) => {
            out.extend_from_slice(
                exchange
                    .req
                    .fields
                    .find_first(name.as_bytes())
                    .unwrap_or_default(),
            );
        }
        HashBy::Query(key) => {
            query::join_values(
                exchange.req.uri.query().unwrap_or_default(),
                key.as_bytes(),
                out,
            );
        }
    }
}

impl Cookie {
    /// The upstream in the client's cookie.
    fn named<U: Borrow<Upstream>>(&self, upstreams: &[U], exchange: &Exchange) -> Option<usize> {
        let value = route_values::cookie(&exchange.req.fields, self.name.as_bytes())?;
        upstreams.iter().position(|upstream| {
            let known = upstream.borrow().cookie.as_deref();
            // Constant time, so that the duration does not reveal how much of a guess was right.
            known.is_some_and(|known| {
                constant_time::verify_slices_are_equal(known.as_bytes(), value).is_ok()
            })
        })
    }

    /// Removes the cookie of an upstream that could not be reached.
    fn withdraw(&self, exchange: &mut Exchange) {
        let is_ours = |value: &[u8]| {
            let rest = value.strip_prefix(self.name.as_bytes());
            rest.is_some_and(|rest| rest.starts_with(b"="))
        };
        let fields = &mut exchange.res.fields;
        fields.retain(|field| field.id != FieldId::SetCookie || !is_ours(field.value));
    }

    fn set(&self, exchange: &mut Exchange, upstream: &Upstream) {
        let value = upstream.cookie.as_deref().unwrap_or_default();
        let mut text = format!("{}={value}; Path=/", self.name);
        if let Some(max_age) = self.max_age {
            text.push_str(&format!("; Max-Age={}", max_age.as_secs()));
        }
        let forwarded = exchange.req.fields.first(FieldId::XForwardedProto);
        let is_https = exchange.conn.tls.is_some()
            || (exchange.context.from_trusted_proxy && forwarded == Some(b"https"));
        if is_https {
            text.push_str("; Secure; SameSite=None");
        }
        exchange
            .res
            .fields
            .push(FieldId::SetCookie, text.as_bytes());
    }
}

/// Whether requests in flight have to be counted, for a policy, a limit or a placeholder.
pub(super) fn counted(
    config: &Config,
    passive: &PassivePolicy,
    facts: Facts,
) -> Result<Counted, Refusal> {
    let balancing = config.load_balancing.as_ref();
    let chosen = balancing.and_then(|c| c.selection_policy.as_ref());
    let compares = needs_load(&policy(chosen, bound(config)?)?);
    Ok(
        match is_limited(config, passive) || compares || facts == Facts::Shown {
            true => Counted::Yes,
            false => Counted::No,
        },
    )
}

/// Whether there is a limit on requests in flight.
fn is_limited(config: &Config, passive: &PassivePolicy) -> bool {
    passive.unhealthy_request_count > 0 || config.upstreams.iter().any(|one| one.max_requests > 0)
}

fn bound(config: &Config) -> Result<Option<u32>, Refusal> {
    let percent = config
        .load_balancing
        .as_ref()
        .map_or(0, |balancing| balancing.bounded_load);
    if percent == 0 {
        return Ok(None);
    }
    let bound = u32::try_from(percent).ok().filter(|bound| *bound >= 100);
    bound.map(Some).ok_or_else(|| {
        Refusal::new(format!("bounded_load {percent}"))
            .with_help("give percent of an even share, 100 or more; 125 is usual")
    })
}

fn policy(config: Option<&SelectionPolicy>, bound: Option<u32>) -> Result<Policy, Refusal> {
    let fallback =
        |config: &Option<Box<SelectionPolicy>>| policy(config.as_deref(), bound).map(Box::new);
    let hash = |by| Policy::Hash {
        by,
        fallback: Box::new(Policy::Random),
        bound,
    };
    Ok(match config {
        None | Some(SelectionPolicy::Random(_)) => Policy::Random,
        Some(SelectionPolicy::RandomChoose(config)) => {
            let choices = usize::try_from(config.choose)
                .ok()
                .filter(|choices| *choices >= 2);
            Policy::RandomChoose(choices.ok_or_else(|| {
                Refusal::new(format!(
                    "random_choose {}; it takes at least 2",
                    config.choose
                ))
            })?)
        }
        Some(SelectionPolicy::First(_)) => Policy::First,
        Some(SelectionPolicy::RoundRobin(_)) => Policy::RoundRobin,
        Some(SelectionPolicy::WeightedRoundRobin(config)) => {
            let weight = |weight: &i64| {
                u32::try_from(*weight)
                    .map_err(|_| Refusal::new(format!("weight {weight}; it is 0 or more")))
            };
            Policy::WeightedRoundRobin(
                config
                    .weights
                    .iter()
                    .map(weight)
                    .collect::<Result<_, _>>()?,
            )
        }
        Some(SelectionPolicy::LeastConn(_)) => Policy::LeastConn,
        Some(SelectionPolicy::IpHash(_)) => hash(HashBy::RemoteIp),
        Some(SelectionPolicy::ClientIpHash(_)) => hash(HashBy::ClientIp),
        Some(SelectionPolicy::UriHash(_)) => hash(HashBy::Uri),
        Some(SelectionPolicy::Header(config)) => Policy::Hash {
            by: HashBy::Header(config.field.clone()),
            fallback: fallback(&config.fallback)?,
            bound,
        },
        Some(SelectionPolicy::Query(config)) => Policy::Hash {
            by: HashBy::Query(config.key.clone()),
            fallback: fallback(&config.fallback)?,
            bound,
        },
        Some(SelectionPolicy::Cookie(config)) => Policy::Cookie {
            fallback: fallback(&config.fallback)?,
        },
        // The group makes the selection.
        Some(SelectionPolicy::Group(_)) => Policy::First,
        Some(other @ SelectionPolicy::Other(_)) => {
            return Err(Refusal::new(format!(
                "unknown lb_policy `{}`",
                other.module()
            )));
        }
    })
}

/// Whether a policy compares requests in flight.
fn needs_load(policy: &Policy) -> bool {
    match policy {
        Policy::LeastConn | Policy::RandomChoose(_) => true,
        Policy::Hash {
            fallback, bound, ..
        } => bound.is_some() || needs_load(fallback),
        Policy::Cookie { fallback } => needs_load(fallback),
        Policy::Random | Policy::First | Policy::RoundRobin | Policy::WeightedRoundRobin(_) => {
            false
        }
    }
}

fn cookie(config: Option<&SelectionPolicy>) -> Option<Cookie> {
    let Some(SelectionPolicy::Cookie(config)) = config else {
        return None;
    };
    let name = if config.name.is_empty() {
        "lb"
    } else {
        &config.name
    };
    Some(Cookie {
        name: name.to_owned(),
        max_age: given(config.max_age),
    })
}

/// Parses the passive health checks.
pub(super) fn passive(config: Option<&PassiveChecks>) -> Result<PassivePolicy, Refusal> {
    let Some(config) = config else {
        return Ok(PassivePolicy::default());
    };
    let ejected_max_percent = match config.max_ejected {
        0 => 100,
        percent => u32::try_from(percent)
            .ok()
            .filter(|percent| (1..=100).contains(percent))
            .ok_or_else(|| {
                Refusal::new(format!("max_ejected {percent}"))
                    .with_help("give percent of all upstreams, 1 to 100")
            })?,
    };
    Ok(PassivePolicy {
        fail_duration: given(config.fail_duration).unwrap_or_default(),
        max_fails: u32::try_from(config.max_fails).unwrap_or(0).max(1),
        unhealthy_statuses: config.unhealthy_status.clone(),
        unhealthy_latency: given(config.unhealthy_latency).unwrap_or_default(),
        unhealthy_request_count: u32::try_from(config.unhealthy_request_count).unwrap_or(0),
        ejected_max_percent,
    })
}
