//! Where Caddy and nginx differ in how they proxy. What they have in common is left to the modules beside this one.

mod caddy;

use sluice_message::{Fields, Method, Moment, ResponseHead, Status, Uri, Version};
use sluice_net::tunnel::IdleTimeouts;
use sluice_net::{Body, Failure, RequestBody};
use sluice_policy::retry::Others;
use sluice_upstream::{Call, CallFailure, Response, Timeouts};
use sluice_wire::h1::TargetBytes;

use std::sync::Arc;

pub use caddy::Caddyfile;

use super::buffering::Rules;
use super::tried::Tried;
use super::upstream::Upstream;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::Step;

/// The method and the target that a request had before they were rewritten for its upstream.
pub type Original = (Method, Uri);

/// How a request is proxied where Caddy and nginx differ.
pub trait Dialect: Send + Sync {
    /// Whether the request goes on after the client has disconnected, until the response begins.
    fn outlives_client(&self) -> bool;

    /// Makes the body of a request fit for being sent more than once, if it may have to be.
    fn begin(&self, exchange: &Exchange, body: RequestBody, tried: &Tried) -> RequestBody;

    /// When to try again after `failed`, the last of those `tried`; `None` if not at all. `others` reports whether
    /// another upstream is left; it is called only where that matters.
    fn next(
        &self,
        exchange: &Exchange,
        failed: &FailedTry<'_>,
        tried: &Tried,
        others: &mut dyn FnMut() -> Others,
    ) -> Option<Moment>;

    /// The body for another try, if this response is not to be forwarded and there may be another try.
    fn retry_instead(
        &self,
        exchange: &mut Exchange,
        call: &mut Call,
        response: &Response,
        tried: &Tried,
    ) -> Option<RequestBody>;

    /// Changes the kind of a failure where this language has another one for it.
    fn classify(&self, _failure: &mut Failure) {}

    /// The status when no upstream is available.
    fn unavailable(&self) -> Status;

    /// Reports a failed try.
    fn report_failure(
        &self,
        exchange: &mut Exchange,
        failure: &Failure,
        of: &Destination<'_>,
    ) -> Reported;

    /// What is sent in place of the body of the request.
    fn replaced_body(&self, exchange: &Exchange) -> Option<Vec<u8>>;

    /// Rewrites method and target for the upstream; returns what they were, if anything may have changed.
    ///
    /// # Errors
    /// The values of the request do not make a method or a target.
    fn rewrite(&self, exchange: &mut Exchange) -> Result<Option<Original>, Fault>;

    /// Whether the header fields of the request are forwarded.
    fn forwards_fields(&self) -> bool;

    /// Whether clients may upgrade the connection.
    fn forwards_upgrades(&self) -> bool;

    /// How long a tunnel may be idle. `upstream` are the timeouts of its connection to the upstream.
    fn tunnel_timeouts(&self, exchange: &Exchange, upstream: &Timeouts) -> IdleTimeouts;

    /// Whether 103 (Early Hints) and other interim responses are forwarded.
    fn forwards_interims(&self, exchange: &Exchange) -> bool;

    /// The version that a request to an HTTP/1 upstream names.
    fn version(&self) -> Version;

    /// Which bytes the target of a request to an HTTP/1 upstream may have; others are percent-encoded.
    fn targets(&self) -> TargetBytes;

    /// Sets the fields that identify the client and the target: `Host`, `Via`, `X-Forwarded-*`, `TE`.
    fn set_fields(&self, exchange: &Exchange, upstream: &Upstream, out: &mut Fields);

    /// Where the response sends the request to within this server, if it does.
    fn redirect_internally(
        &self,
        exchange: &mut Exchange,
        fields: &Fields,
        call: &mut Call,
    ) -> Option<Step>;

    /// Whether a response with this status is replaced by an error page of this server.
    fn intercepts(&self, status: Status) -> bool;

    /// Takes over what the page in place of an intercepted response needs of its header.
    fn keep_of_intercepted(&self, _exchange: &mut Exchange, _head: &ResponseHead) {}

    /// Whether the `Upgrade` header of a response that switches nothing is forwarded, such as that of 426.
    fn keeps_upgrade_offers(&self, _exchange: &Exchange) -> bool {
        false
    }

    /// Makes the fields of the upstream's response, in `head`, those of the response. `is_shown` if variables show them
    /// as they came.
    fn take_fields(&self, exchange: &mut Exchange, head: &mut ResponseHead, is_shown: bool);

    /// Adds a `Content-Type` to a response of a protocol that has none.
    fn add_type(&self, exchange: &mut Exchange);

    /// Forwards a body whose head is in `exchange.res`; `ahead` if it may be read ahead of its client.
    fn forward(&self, exchange: &mut Exchange, body: Body, ahead: Option<Arc<Rules>>) -> Step;
}

/// How a failed try is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// It was logged at once, by itself.
    AtOnce,
    /// The entry about the request reports it, if the request fails.
    WithRequest,
}

/// A try that failed.
pub struct FailedTry<'a> {
    /// Why, and what is left of the request.
    pub call: &'a CallFailure,
    /// Whether there was an upstream to ask.
    pub was_asked: bool,
}

/// What a request was for, as logs of failures show it.
pub struct Destination<'a> {
    /// The upstream that was chosen, if there was one to choose.
    pub chosen: Option<&'a Upstream>,
    /// One that could have been chosen.
    pub any: Option<&'a Upstream>,
    /// The protocol, where it is not HTTP.
    pub protocol: Option<&'a str>,
}
