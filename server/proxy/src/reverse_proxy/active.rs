//! Active health checks: requests sent to upstreams periodically. `sluice-policy` interprets the results.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use std::time::Duration;

use sluice_message::{FieldId, FieldName, Fields, Method, RequestHead, Status};
use sluice_model::proxy::ActiveChecks as Config;
use sluice_net::tasks::in_background;
use sluice_net::timeout::within;
use sluice_net::worker::Worker;
use sluice_net::{Body, BodyStream, Failure, FailureKind, RequestBody, Side, clock};
use sluice_policy::ActiveCheck;
use sluice_policy::health::{ActivePolicy, CheckEvent, CheckResult, Initial};
use sluice_route::regexp::Regexp;
use sluice_upstream::{Address, Call, Endpoint, KeepAlive, Response, Upload, Wanted, obtain};
use sluice_wire::h1::{self, BodyFraming};

use super::addresses;
use super::group::Member;
use super::grpc_check::{self, GrpcCheck};
use super::redirects::{Redirects, Step};
use super::response_tests::ResponseTests;
use super::transport::Transport;
use super::upstream::{Checked, Upstream};
use crate::limits::{HEALTH_REDIRECTS_MAX, HEALTH_RESPONSE_BYTES_MAX};
use sluice_observe::events::{Event, Events};
use sluice_observe::random;
use sluice_pipeline::collect::Text;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;

/// Active checks of the configured upstreams. One worker does them for all, starting with the first request; they end
/// with the configuration.
pub struct ActiveChecks {
    checks: Arc<Checks>,
    targets: Box<[Arc<Target>]>,
    begun: AtomicBool,
}

/// The settings of the health checks of a directive.
pub struct Checks {
    policy: ActivePolicy,
    method: Method,
    target: String,
    fields: Fields,
    body: Vec<u8>,
    expect_body: Option<Regexp>,
    response_bytes_max: usize,
    place: Place,
    transport: Transport,
    redirects: Option<Redirects>,
    /// The tests of an nginx.conf, which replace those of the status and the body.
    tests: Tests,
    /// Each check is delayed by a random time up to this.
    jitter: Duration,
    /// Whether servers that were healthy before a reload are not checked before they get requests.
    pub(super) is_persistent: bool,
    /// How long a connection is used for checks, if for more than one.
    keepalive_time: Option<Duration>,
    /// Where changes are announced; `None` if the configuration is only validated.
    events: Option<Events>,
}

/// What a response must be like.
enum Tests {
    /// The status and the body are as configured.
    Expected,
    /// nginx's default: the status is from 200 to 399.
    Usual,
    /// `match` of an nginx.conf.
    Match(ResponseTests),
    /// The health service of gRPC.
    Grpc(GrpcCheck),
}

/// Where health check requests go.
enum Place {
    /// To the upstream itself.
    Same,
    /// To another address.
    Elsewhere(Address, String, Option<u16>),
    /// To another port of the same host.
    Port(u16),
}

/// The destination of checks, and the upstream they are for.
pub struct Target {
    endpoint: Arc<Endpoint>,
    authority: String,
    checked: Arc<Checked>,
    /// Whether these checks, which may not be the only ones of the upstream, found it to be down.
    is_down: AtomicBool,
    initial: Initial,
    /// The server of a group that starts slowly once it is up again.
    member: Option<Member>,
    /// The upstream as it is configured.
    host: String,
    events: Option<Events>,
}

impl Target {
    /// It is down from now on; returns whether it was up.
    fn down(&self) -> bool {
        let was_up = !self.is_down.swap(true, Ordering::Relaxed);
        if was_up {
            self.checked.down();
        }
        was_up
    }

    /// A check has found it to be down.
    fn fail(&self) {
        if self.down() {
            self.emit("unhealthy");
        }
    }

    /// Announces a change, as Caddy does.
    fn emit(&self, name: &'static str) {
        if let Some(events) = &self.events {
            events.emit(Event {
                name,
                module: "http.handlers.reverse_proxy",
                data: vec![("host", self.host.as_str().into())],
            });
        }
    }

    fn up(&self) {
        if self.is_down.swap(false, Ordering::Relaxed) {
            let now = clock::now();
            self.checked.up(now);
            if let Some(member) = &self.member {
                member.recover(now);
            }
            self.emit("healthy");
        }
    }

    /// The upstream's state according to all checks.
    pub fn checked(&self) -> &Arc<Checked> {
        &self.checked
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // What a check found does not outlive it.
        if self.is_down.load(Ordering::Relaxed) {
            self.checked.forget();
        }
    }
}

impl ActiveChecks {
    /// Creates the checks of `upstreams`.
    pub fn new(checks: &Arc<Checks>, upstreams: &[Arc<Upstream>]) -> ActiveChecks {
        let initial = checks.policy.initial;
        let targets = upstreams
            .iter()
            .map(|upstream| checks.target_of(upstream, initial));
        ActiveChecks {
            checks: checks.clone(),
            targets: targets.collect(),
            begun: AtomicBool::new(false),
        }
    }

    /// Starts the checks, unless a worker has done so already.
    pub fn begin(&self, worker: &Rc<Worker>) {
        if self.begun.load(Ordering::Relaxed) || self.begun.swap(true, Ordering::Relaxed) {
            return;
        }
        for target in &self.targets {
            let (checks, target) = (Arc::downgrade(&self.checks), Arc::downgrade(target));
            in_background(watch(worker.clone(), checks, target));
        }
    }
}

impl Checks {
    /// Parses the settings; `None` if no active checks are configured.
    pub fn build(
        config: &Config,
        transport: &Transport,
        events: Option<Events>,
    ) -> Result<Option<Checks>, Refusal> {
        if config.uri.is_empty() && config.path.is_empty() && config.port == 0 {
            return Ok(None);
        }
        let expect_body = match config.expect_body.as_str() {
            "" => None,
            pattern => Some(
                Regexp::new(pattern)
                    .map_err(|error| Refusal::new(format!("health_body `{pattern}`: {error}")))?,
            ),
        };
        let method = match config.method.as_str() {
            "" => Method::Get,
            name => FieldName::new(name)
                .and_then(|_| Method::from_token(name.as_bytes()))
                .ok_or_else(|| {
                    Refusal::new(format!("health_method `{name}` is not a valid method"))
                })?,
        };
        let target = if config.uri.is_empty() {
            &config.path
        } else {
            &config.uri
        };
        let place = match (config.upstream.as_str(), config.port) {
            ("", 0) => Place::Same,
            ("", port) => Place::Port(port),
            (elsewhere, _) => {
                let (address, authority, port) = addresses::address_of(elsewhere)?;
                Place::Elsewhere(address, authority, port)
            }
        };
        let redirects = config
            .follow_redirects
            .then(|| Redirects::build(transport))
            .transpose()?;
        let (group, tests) = (config.group.clone().unwrap_or_default(), tests(config)?);
        Ok(Some(Checks {
            policy: policy(config),
            method,
            target: match (&tests, target.as_str()) {
                (Tests::Grpc(_), _) => grpc_check::TARGET.to_owned(),
                (_, "") => "/".to_owned(),
                (_, target) => target.to_owned(),
            },
            fields: fields(config)?,
            body: match &tests {
                Tests::Grpc(grpc) => grpc.message(),
                Tests::Expected | Tests::Usual | Tests::Match(_) => {
                    config.body.clone().into_bytes()
                }
            },
            expect_body,
            response_bytes_max: usize::try_from(config.max_size)
                .ok()
                .filter(|max| *max > 0)
                .unwrap_or(HEALTH_RESPONSE_BYTES_MAX),
            place,
            transport: transport.clone(),
            redirects,
            tests,
            jitter: given(group.jitter).unwrap_or_default(),
            is_persistent: group.persistent,
            keepalive_time: given(group.keepalive_time),
            events,
        }))
    }

    /// The state of an upstream before its first check.
    pub fn initial(&self) -> Initial {
        self.policy.initial
    }

    /// The time between two checks.
    pub fn interval(&self) -> Duration {
        self.policy.interval
    }

    /// Starts to check an upstream on this worker, until the returned target is dropped.
    pub fn follow(self: &Arc<Self>, upstream: &Upstream, worker: &Rc<Worker>) -> Arc<Target> {
        self.follow_from(upstream, self.policy.initial, worker)
    }

    /// Like [`Checks::follow`], with another initial state.
    pub fn follow_from(
        self: &Arc<Self>,
        upstream: &Upstream,
        initial: Initial,
        worker: &Rc<Worker>,
    ) -> Arc<Target> {
        let target = self.target_of(upstream, initial);
        let (checks, watched) = (Arc::downgrade(self), Arc::downgrade(&target));
        in_background(watch(worker.clone(), checks, watched));
        target
    }

    /// The destination of checks, which may be another address or port than the upstream's.
    fn target_of(&self, upstream: &Upstream, initial: Initial) -> Arc<Target> {
        let elsewhere = match (&self.place, upstream.endpoint.address()) {
            (Place::Elsewhere(address, authority, port), _) => {
                Some((address.clone(), authority.clone(), *port))
            }
            (Place::Port(port), Address::Ip(ip)) => {
                Some(addresses::tcp(&ip.ip().to_string(), *port))
            }
            (Place::Port(port), Address::Name { host, .. }) => Some(addresses::tcp(host, *port)),
            (Place::Port(_), Address::Unix(_)) | (Place::Same, _) => None,
        };
        let (endpoint, authority) = match (elsewhere, self.keepalive_time) {
            (None, None) => (upstream.endpoint.clone(), upstream.authority.clone()),
            (None, Some(_)) => {
                let address = upstream.endpoint.address().clone();
                (self.endpoint(address, None), upstream.authority.clone())
            }
            (Some((address, authority, port)), _) => (self.endpoint(address, port), authority),
        };
        let target = Target {
            endpoint,
            authority,
            checked: upstream.checked.clone(),
            is_down: AtomicBool::new(false),
            initial,
            member: upstream.member.clone(),
            host: upstream.address.to_string(),
            events: self.events.clone(),
        };
        if initial == Initial::Checking {
            target.down();
        }
        Arc::new(target)
    }

    /// An endpoint for checks only.
    fn endpoint(&self, address: Address, port: Option<u16>) -> Arc<Endpoint> {
        let mut options = self.transport.options(port);
        if let Some(time) = self.keepalive_time {
            options.keep_alive = KeepAlive::Keep {
                idle_timeout: time,
                idle_max: 1,
            };
            options.wear.age_max = Some(time);
        }
        Arc::new(Endpoint::new(address, options))
    }
}

fn policy(config: &Config) -> ActivePolicy {
    let defaults = ActivePolicy::default();
    let at_least_one = |count: i64| u32::try_from(count).unwrap_or(0).max(1);
    ActivePolicy {
        interval: given(config.interval).unwrap_or(defaults.interval),
        timeout: given(config.timeout).unwrap_or(defaults.timeout),
        passes: at_least_one(config.passes),
        fails: at_least_one(config.fails),
        expect_status: Some(config.expect_status).filter(|status| *status != 0),
        initial: match config.group.as_ref().is_some_and(|group| group.mandatory) {
            true => Initial::Checking,
            false => Initial::Healthy,
        },
    }
}

fn tests(config: &Config) -> Result<Tests, Refusal> {
    let Some(group) = &config.group else {
        return Ok(Tests::Expected);
    };
    Ok(match (&group.grpc, &group.tests) {
        (Some(grpc), _) => Tests::Grpc(GrpcCheck::new(grpc)),
        (None, Some(tests)) => Tests::Match(ResponseTests::build(tests)?),
        (None, None) => Tests::Usual,
    })
}

fn fields(config: &Config) -> Result<Fields, Refusal> {
    let mut fields = Fields::new();
    for (name, values) in &config.headers {
        let field = FieldName::new(name)
            .ok_or_else(|| Refusal::new(format!("`{name}` is not a valid header name")))?;
        for value in values {
            fields.push_name(&field, value.as_bytes());
        }
    }
    Ok(fields)
}

/// Checks one upstream periodically, for as long as it and its configuration exist.
async fn watch(worker: Rc<Worker>, checks: Weak<Checks>, target: Weak<Target>) {
    let (Some(known), Some(initial)) = (
        checks.upgrade(),
        target.upgrade().map(|target| target.initial),
    ) else {
        return;
    };
    let policy = ActivePolicy {
        initial,
        ..known.policy.clone()
    };
    let (timeout, jitter) = (policy.timeout, known.jitter);
    drop(known);
    let mut machine = ActiveCheck::new(policy, clock::now());
    loop {
        delay(&worker, jitter).await;
        {
            let (Some(checks), Some(target)) = (checks.upgrade(), target.upgrade()) else {
                return;
            };
            if machine.expire(clock::now()) == Some(CheckEvent::Start) {
                let responded = within(&worker, timeout, checks.check(&worker, &target)).await;
                let result = match responded {
                    Some(Ok(result)) => result,
                    Some(Err(_)) | None => CheckResult::Failed,
                };
                match machine.receive(result, clock::now()) {
                    Some(CheckEvent::Up) => target.up(),
                    Some(CheckEvent::Down) => target.fail(),
                    Some(CheckEvent::Start) | None => {}
                }
            }
        }
        let timer = worker.timers.timer();
        timer.set(
            &worker.clock,
            machine.deadline().since(worker.clock.coarse()),
        );
        poll_fn(|cx| timer.poll_expired(cx)).await;
    }
}

/// Waits for a random time up to `jitter`.
async fn delay(worker: &Rc<Worker>, jitter: Duration) {
    if jitter.is_zero() {
        return;
    }
    let part = (u128::from(random::word() >> 32) * jitter.as_nanos()) >> 32;
    let timer = worker.timers.timer();
    let part = Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX));
    timer.set(&worker.clock, part);
    poll_fn(|cx| timer.poll_expired(cx)).await;
}

impl Checks {
    /// Sends one check request to `target`, and follows redirects if that is configured.
    async fn check(&self, worker: &Rc<Worker>, target: &Target) -> Result<CheckResult, Failure> {
        let mut place = Step {
            endpoint: target.endpoint.clone(),
            authority: target.authority.clone(),
            target: self.target.clone(),
            method: self.method.clone(),
        };
        for _ in 0..=HEALTH_REDIRECTS_MAX {
            let (call, response) = self.ask(worker, &place).await?;
            let next = self.redirects.as_ref().and_then(|redirects| {
                let location = response.head.fields.first(FieldId::Location)?;
                redirects.next(&place, response.head.status, location)
            });
            match next {
                Some(next) => place = next,
                None => return self.judge(worker, call, response).await,
            }
        }
        Ok(CheckResult::Failed)
    }

    async fn ask(&self, worker: &Rc<Worker>, place: &Step) -> Result<(Call, Response), Failure> {
        let wanted = match self.keepalive_time {
            Some(_) => Wanted::Any,
            None => Wanted::Own,
        };
        let mut carrier = obtain(worker, &place.endpoint, wanted, b"").await?;
        let mut head = RequestHead {
            method: place.method.clone(),
            ..RequestHead::default()
        };
        head.uri.set(place.target.as_bytes());
        head.fields.append(&self.fields);
        // Over HTTP/2 and FastCGI the host is not among the headers.
        match self.fields.first(FieldId::Host) {
            Some(host) => {
                head.authority.extend_from_slice(host);
                head.fields.remove(FieldId::Host);
            }
            None => head.authority.extend_from_slice(place.authority.as_bytes()),
        }
        if !head.fields.has(FieldId::UserAgent) {
            head.fields.push(FieldId::UserAgent, b"sluice-health-check");
        }
        if let Tests::Grpc(grpc) = &self.tests {
            grpc.add_headers(&mut head.fields);
        }
        let sends_body = place.method == self.method && !self.body.is_empty();
        let (framing, body) = match sends_body {
            false => (BodyFraming::None, RequestBody::None),
            true => (
                BodyFraming::Length(self.body.len() as u64),
                Text::body(self.body.clone()),
            ),
        };
        let mut encoded = worker.buffers.small();
        match self.transport.fastcgi() {
            None if carrier.open(&head, framing) => {}
            None => h1::encode_request_head(&head, framing, &mut encoded).map_err(|unfit| {
                Failure::new(Side::Internal, FailureKind::Io).because(unfit.to_string())
            })?,
            Some(fastcgi) => {
                head.target.extend_from_slice(place.target.as_bytes());
                let length = self.body.len() as u64;
                fastcgi
                    .encode_check(&head, if sends_body { length } else { 0 }, &mut encoded)
                    .map_err(|fault| {
                        Failure::new(Side::Internal, FailureKind::Io).because(fault.message)
                    })?;
            }
        }
        let mut call = Call::new(carrier, Upload::new(encoded, framing, body), None);
        let response = call.response(worker, &place.method).await;
        Ok((call, response.map_err(|failed| failed.failure)?))
    }

    async fn judge(
        &self,
        worker: &Rc<Worker>,
        call: Call,
        response: Response,
    ) -> Result<CheckResult, Failure> {
        let head = response.head;
        let (is_passed, needs_body) = match &self.tests {
            Tests::Expected => (self.policy.is_pass(head.status), self.expect_body.is_some()),
            Tests::Usual => ((200..400).contains(&head.status.code()), false),
            Tests::Match(tests) => (tests.is_head_passed(&head), tests.needs_body()),
            Tests::Grpc(_) => (head.status == Status::OK, true),
        };
        // A connection can be used again only after the whole response.
        if !is_passed || (!needs_body && self.keepalive_time.is_none()) {
            return Ok(result(is_passed));
        }
        let (mut text, mut trailers) = (Vec::new(), None);
        if let Body::Stream(mut body) = call.into_body(worker, response.framing, &mut text)? {
            read_some(&mut *body, self.response_bytes_max, &mut text).await?;
            trailers = body.trailers();
        }
        text.truncate(self.response_bytes_max);
        Ok(result(match &self.tests {
            Tests::Expected => {
                let expected = self.expect_body.as_ref();
                expected.is_none_or(|expected| expected.is_match(&text))
            }
            Tests::Usual => true,
            Tests::Match(tests) => tests.is_body_passed(&text),
            Tests::Grpc(grpc) => grpc.is_passed(&head, &text, trailers.as_ref()),
        }))
    }
}

fn result(is_passed: bool) -> CheckResult {
    match is_passed {
        true => CheckResult::Passed,
        false => CheckResult::Failed,
    }
}

/// Reads a body up to its end or up to `bytes_max`.
async fn read_some(
    body: &mut dyn BodyStream,
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    loop {
        let count = poll_fn(|cx| {
            body.poll_data(cx).map_ok(|data| {
                out.extend_from_slice(data);
                data.len()
            })
        })
        .await?;
        if count == 0 || out.len() >= bytes_max {
            return Ok(());
        }
        body.consume(count);
    }
}
