//! Active health checks: upstreams are asked from time to time whether they are well. What the answers mean is
//! left to `sluice-policy`.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use sluice_message::{FieldId, FieldName, Fields, Method, RequestHead};
use sluice_model::proxy::ActiveChecks as Config;
use sluice_net::upstream::{
    Address, Call, Endpoint, Upload, Wanted, in_background, obtain, within,
};
use sluice_net::worker::Worker;
use sluice_net::{Body, BodyStream, Failure, RequestBody, clock};
use sluice_policy::ActiveCheck;
use sluice_policy::health::{ActivePolicy, CheckEvent, CheckResult};
use sluice_route::regexp::Regexp;
use sluice_wire::h1::{self, BodyFraming};

use super::build::{self, duration};
use super::transport::Transport;
use super::upstream::Upstream;
use crate::build::Refusal;
use crate::limits::HEALTH_ANSWER_BYTES_MAX;

/// The checks of one directive. One worker does them for all, from the first request on; they end with the
/// configuration.
pub struct ActiveChecks {
    checks: Arc<Checks>,
    begun: AtomicBool,
}

struct Checks {
    policy: ActivePolicy,
    method: Method,
    target: String,
    fields: Fields,
    body: Vec<u8>,
    expect_body: Option<Regexp>,
    answer_bytes_max: usize,
    targets: Vec<Target>,
}

/// Who is asked, and for which upstream.
struct Target {
    endpoint: Arc<Endpoint>,
    authority: String,
    is_down: Arc<AtomicBool>,
}

impl ActiveChecks {
    /// Reads the settings; `None` where there is nothing to ask for.
    pub fn build(
        config: &Config,
        upstreams: &[Upstream],
        transport: &Transport,
    ) -> Result<Option<ActiveChecks>, Refusal> {
        if config.uri.is_empty() && config.path.is_empty() && config.port == 0 {
            return Ok(None);
        }
        if config.follow_redirects {
            let instead = "name the address that answers by itself with `health_uri`";
            return Err(Refusal::not_yet("`health_follow_redirects`", instead));
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
                .ok_or_else(|| Refusal::new(format!("health_method `{name}` is no method")))?,
        };
        let target = if config.uri.is_empty() {
            &config.path
        } else {
            &config.uri
        };
        let targets = upstreams
            .iter()
            .map(|upstream| target_of(config, upstream, transport));
        let checks = Checks {
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
            answer_bytes_max: usize::try_from(config.max_size)
                .ok()
                .filter(|max| *max > 0)
                .unwrap_or(HEALTH_ANSWER_BYTES_MAX),
            targets: targets.collect::<Result<_, _>>()?,
        };
        Ok(Some(ActiveChecks {
            checks: Arc::new(checks),
            begun: AtomicBool::new(false),
        }))
    }

    /// Begins the checks, if no worker has yet.
    pub fn begin(&self, worker: &Rc<Worker>) {
        if self.begun.load(Ordering::Relaxed) || self.begun.swap(true, Ordering::Relaxed) {
            return;
        }
        for index in 0..self.checks.targets.len() {
            in_background(watch(worker.clone(), Arc::downgrade(&self.checks), index));
        }
    }
}

fn policy(config: &Config) -> ActivePolicy {
    let defaults = ActivePolicy::default();
    let at_least_one = |count: i64| u32::try_from(count).unwrap_or(0).max(1);
    ActivePolicy {
        interval: duration(config.interval).unwrap_or(defaults.interval),
        timeout: duration(config.timeout).unwrap_or(defaults.timeout),
        passes: at_least_one(config.passes),
        fails: at_least_one(config.fails),
        expect_status: Some(config.expect_status).filter(|status| *status != 0),
    }
}

fn fields(config: &Config) -> Result<Fields, Refusal> {
    let mut fields = Fields::new();
    for (name, values) in &config.headers {
        let field = FieldName::new(name)
            .ok_or_else(|| Refusal::new(format!("`{name}` is no header field name")))?;
        for value in values {
            fields.push_name(&field, value.as_bytes());
        }
    }
    Ok(fields)
}

/// Another address or port may answer for an upstream.
fn target_of(
    config: &Config,
    upstream: &Upstream,
    transport: &Transport,
) -> Result<Target, Refusal> {
    let is_down = upstream.is_down.clone();
    let elsewhere = if !config.upstream.is_empty() {
        Some(build::address_of(&config.upstream)?)
    } else if config.port != 0 {
        match upstream.endpoint.address() {
            Address::Ip(ip) => Some(build::tcp(&ip.ip().to_string(), config.port)),
            Address::Name { host, .. } => Some(build::tcp(host, config.port)),
            Address::Unix(_) => None,
        }
    } else {
        None
    };
    let Some((address, authority, port)) = elsewhere else {
        let (endpoint, authority) = (upstream.endpoint.clone(), upstream.authority.clone());
        return Ok(Target {
            endpoint,
            authority,
            is_down,
        });
    };
    let endpoint = Arc::new(Endpoint::new(address, transport.options(port)));
    Ok(Target {
        endpoint,
        authority,
        is_down,
    })
}

/// Asks one upstream again and again, for as long as its configuration lives.
async fn watch(worker: Rc<Worker>, checks: Weak<Checks>, index: usize) {
    let Some(policy) = checks.upgrade().map(|checks| checks.policy.clone()) else {
        return;
    };
    let timeout = policy.timeout;
    let mut machine = ActiveCheck::new(policy, clock::now());
    loop {
        {
            let Some(checks) = checks.upgrade() else {
                return;
            };
            if machine.expire(clock::now()) == Some(CheckEvent::Start) {
                let answered = within(&worker, timeout, checks.ask(&worker, index)).await;
                let result = match answered {
                    Some(Ok(result)) => result,
                    Some(Err(_)) | None => CheckResult::Failed,
                };
                match machine.receive(result, clock::now()) {
                    Some(CheckEvent::Up) => checks.tell(index, false),
                    Some(CheckEvent::Down) => checks.tell(index, true),
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
    fn tell(&self, index: usize, is_down: bool) {
        self.targets[index]
            .is_down
            .store(is_down, Ordering::Relaxed);
    }

    async fn ask(&self, worker: &Rc<Worker>, index: usize) -> Result<CheckResult, Failure> {
        let target = &self.targets[index];
        let link = obtain(worker, &target.endpoint, Wanted::Fresh, b"").await?;
        let mut head = RequestHead {
            method: self.method.clone(),
            ..RequestHead::default()
        };
        head.uri.set(self.target.as_bytes());
        head.authority
            .extend_from_slice(target.authority.as_bytes());
        head.fields.append(&self.fields);
        if !head.fields.has(FieldId::UserAgent) {
            head.fields.push(FieldId::UserAgent, b"sluice-health-check");
        }
        let (framing, body) = match self.body.len() as u64 {
            0 => (BodyFraming::None, RequestBody::None),
            length => {
                let text = Text {
                    bytes: self.body.clone(),
                    taken: 0,
                };
                (
                    BodyFraming::Length(length),
                    RequestBody::Stream(Box::new(text)),
                )
            }
        };
        let mut encoded = worker.buffers.small();
        h1::encode_request_head(&head, framing, &mut encoded);
        let mut call = Call::new(link, Upload::new(encoded, framing, body), None);
        let answer = call
            .answer(worker, &self.method)
            .await
            .map_err(|failed| failed.failure)?;
        if !self.policy.is_pass(answer.head.status) {
            return Ok(CheckResult::Failed);
        }
        let Some(expected) = &self.expect_body else {
            return Ok(CheckResult::Passed);
        };
        let mut text = Vec::new();
        if let Body::Stream(mut body) = call.into_body(worker, answer.framing, &mut text)? {
            read_some(&mut *body, self.answer_bytes_max, &mut text).await?;
        }
        text.truncate(self.answer_bytes_max);
        let is_as_expected = expected.is_match(&text);
        Ok(if is_as_expected {
            CheckResult::Passed
        } else {
            CheckResult::Failed
        })
    }
}

/// Reads until the end or until `bytes_max` are there.
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

/// A body that is at hand.
struct Text {
    bytes: Vec<u8>,
    taken: usize,
}

impl BodyStream for Text {
    fn len(&self) -> Option<u64> {
        Some((self.bytes.len() - self.taken) as u64)
    }

    fn poll_data(&mut self, _cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        Poll::Ready(Ok(&self.bytes[self.taken..]))
    }

    fn consume(&mut self, count: usize) {
        self.taken += count;
    }
}
