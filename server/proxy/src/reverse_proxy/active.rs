//! Active health checks: requests sent to upstreams periodically. `sluice-policy` interprets the results.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use sluice_message::{FieldId, FieldName, Fields, Method, RequestHead};
use sluice_model::proxy::ActiveChecks as Config;
use sluice_net::tasks::in_background;
use sluice_net::timeout::within;
use sluice_net::worker::Worker;
use sluice_net::{Body, BodyStream, Failure, FailureKind, RequestBody, Side, clock};
use sluice_policy::ActiveCheck;
use sluice_policy::health::{ActivePolicy, CheckEvent, CheckResult};
use sluice_route::regexp::Regexp;
use sluice_upstream::{Address, Call, Endpoint, Response, Upload, Wanted, obtain};
use sluice_wire::h1::{self, BodyFraming};

use super::addresses;
use super::redirects::{Redirects, Step};
use super::transport::Transport;
use super::upstream::{Checked, Upstream};
use crate::limits::{HEALTH_REDIRECTS_MAX, HEALTH_RESPONSE_BYTES_MAX};
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
}

impl ActiveChecks {
    /// Creates the checks of `upstreams`.
    pub fn new(checks: &Arc<Checks>, upstreams: &[Arc<Upstream>]) -> ActiveChecks {
        let targets = upstreams.iter().map(|upstream| checks.target_of(upstream));
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
    pub fn build(config: &Config, transport: &Transport) -> Result<Option<Checks>, Refusal> {
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
        Ok(Some(Checks {
            policy: policy(config),
            method,
            target: if target.is_empty() {
                "/".to_owned()
            } else {
                target.clone()
            },
            fields: fields(config)?,
            body: config.body.clone().into_bytes(),
            expect_body,
            response_bytes_max: usize::try_from(config.max_size)
                .ok()
                .filter(|max| *max > 0)
                .unwrap_or(HEALTH_RESPONSE_BYTES_MAX),
            place,
            transport: transport.clone(),
            redirects,
        }))
    }

    /// Starts to check an upstream on this worker, until the returned target is dropped.
    pub fn follow(self: &Arc<Self>, upstream: &Upstream, worker: &Rc<Worker>) -> Arc<Target> {
        let target = self.target_of(upstream);
        let (checks, watched) = (Arc::downgrade(self), Arc::downgrade(&target));
        in_background(watch(worker.clone(), checks, watched));
        target
    }

    /// The destination of checks, which may be another address or port than the upstream's.
    fn target_of(&self, upstream: &Upstream) -> Arc<Target> {
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
        let (endpoint, authority) = match elsewhere {
            None => (upstream.endpoint.clone(), upstream.authority.clone()),
            Some((address, authority, port)) => {
                let endpoint = Endpoint::new(address, self.transport.options(port));
                (Arc::new(endpoint), authority)
            }
        };
        Arc::new(Target {
            endpoint,
            authority,
            checked: upstream.checked.clone(),
        })
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
    }
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
    let Some(policy) = checks.upgrade().map(|checks| checks.policy.clone()) else {
        return;
    };
    let timeout = policy.timeout;
    let mut machine = ActiveCheck::new(policy, clock::now());
    loop {
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
                    Some(CheckEvent::Up) => target.checked.up(clock::now()),
                    Some(CheckEvent::Down) => target.checked.down(),
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
        let mut carrier = obtain(worker, &place.endpoint, Wanted::Own, b"").await?;
        let mut head = RequestHead {
            method: place.method.clone(),
            ..RequestHead::default()
        };
        head.uri.set(place.target.as_bytes());
        head.authority.extend_from_slice(place.authority.as_bytes());
        head.fields.append(&self.fields);
        if !head.fields.has(FieldId::UserAgent) {
            head.fields.push(FieldId::UserAgent, b"sluice-health-check");
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
        if !self.policy.is_pass(response.head.status) {
            return Ok(CheckResult::Failed);
        }
        let Some(expected) = &self.expect_body else {
            return Ok(CheckResult::Passed);
        };
        let mut text = Vec::new();
        if let Body::Stream(mut body) = call.into_body(worker, response.framing, &mut text)? {
            read_some(&mut *body, self.response_bytes_max, &mut text).await?;
        }
        text.truncate(self.response_bytes_max);
        let is_as_expected = expected.is_match(&text);
        Ok(if is_as_expected {
            CheckResult::Passed
        } else {
            CheckResult::Failed
        })
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
