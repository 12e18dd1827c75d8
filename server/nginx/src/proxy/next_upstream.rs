//! When to try the next server of an nginx upstream group (`proxy_next_upstream`, `proxy_next_upstream_tries`,
//! `proxy_next_upstream_timeout`). `group` selects the server.

use std::time::Duration;

use sluice_message::{Method, Moment, Status};
use sluice_model::nginx::NginxProxy as Config;
use sluice_net::{FailureKind, RequestBody, Retry, Side};
use sluice_upstream::{Call, CallFailure, Response};

use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_proxy::limits::REPLAY_BYTES_MAX;
use sluice_proxy::reverse_proxy::replay::Replay;
use sluice_proxy::reverse_proxy::tried::Tried;

/// The settings.
pub struct NextUpstream {
    error: bool,
    timeout: bool,
    invalid_header: bool,
    non_idempotent: bool,
    /// Statuses that lead to the next server, if there is one.
    statuses: Box<[u16]>,
    /// Maximum number of servers to try.
    tries_max: u32,
    time_max: Option<Duration>,
}

impl NextUpstream {
    /// Parses the settings; `servers` is the number of servers that may be tried.
    pub fn build(config: &Config, servers: u32) -> Result<NextUpstream, Refusal> {
        let has = |name: &str| config.next_upstream.iter().any(|known| known == name);
        let mut statuses = Vec::new();
        for name in &config.next_upstream {
            match (name.as_str(), name.strip_prefix("http_")) {
                ("error" | "timeout" | "invalid_header" | "non_idempotent", _) => {}
                (_, Some(code)) if code.parse::<u16>().is_ok_and(|code| code >= 400) => {
                    statuses.extend(code.parse::<u16>());
                }
                _ => {
                    return Err(Refusal::new(format!(
                        "`{name}` is not a condition for trying the next upstream"
                    )));
                }
            }
        }
        let tries_max = match u32::try_from(config.next_upstream_tries) {
            Ok(tries @ 1..) => tries.min(servers),
            Ok(0) | Err(_) => servers,
        };
        Ok(NextUpstream {
            error: has("error"),
            timeout: has("timeout"),
            invalid_header: has("invalid_header"),
            non_idempotent: has("non_idempotent"),
            statuses: statuses.into(),
            tries_max,
            time_max: given(config.next_upstream_timeout),
        })
    }

    /// Makes the request body rewindable, if there may be further attempts after it was sent.
    pub fn begin(&self, exchange: &Exchange, body: RequestBody, tried: &Tried) -> RequestBody {
        match self.tries_max.min(tried.count_max()) > 1 && self.may_repeat(&exchange.req.method) {
            true => Replay::body(body, REPLAY_BYTES_MAX),
            false => body,
        }
    }

    /// Whether to try the next server after `failed`, the last of those in `tried`.
    pub fn after(&self, exchange: &Exchange, failed: &CallFailure, tried: &Tried) -> bool {
        let failure = &failed.failure;
        let is_wanted = match (failure.side, failure.kind) {
            (Side::Upstream, FailureKind::Unavailable) => false,
            (Side::Upstream, FailureKind::Timeout) => self.timeout,
            (Side::Upstream, FailureKind::Protocol | FailureKind::Limit) => self.invalid_header,
            (Side::Upstream, _) => self.error,
            (Side::Client | Side::Internal, _) => false,
        };
        let was_sent = failure.retry != Retry::Always;
        is_wanted
            && failed.body.is_some()
            && (!was_sent || self.may_repeat(&exchange.req.method))
            && self.has_more(exchange.worker.clock.coarse(), tried, tried.count())
    }

    /// The request body for the next server, if `response` is to be discarded and there is another server.
    pub fn instead(
        &self,
        exchange: &Exchange,
        call: &mut Call,
        response: &Response,
        tried: &Tried,
    ) -> Option<RequestBody> {
        let is_unwanted = self.is_unwanted(response.head.status)
            && self.may_repeat(&exchange.req.method)
            && self.has_more(exchange.worker.clock.coarse(), tried, tried.count() + 1);
        is_unwanted.then(|| call.take_body()).flatten()
    }

    fn is_unwanted(&self, status: Status) -> bool {
        self.statuses.contains(&status.code())
    }

    /// Whether a request may be sent twice; nginx considers only these methods non-idempotent.
    fn may_repeat(&self, method: &Method) -> bool {
        self.non_idempotent || !matches!(method.as_str(), "POST" | "LOCK" | "PATCH")
    }

    fn has_more(&self, now: Moment, tried: &Tried, count: u32) -> bool {
        count < self.tries_max.min(tried.count_max())
            && self
                .time_max
                .is_none_or(|max| now.since(tried.began()) < max)
    }
}
