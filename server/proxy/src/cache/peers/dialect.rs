//! How a node of a cache sends a client's request to another node: as it came, so that it takes the same way through the
//! configuration there. What comes back is the upstream's response, which this node changes for the client.

use std::sync::Arc;

use sluice_message::{FieldId, Fields, Moment, ResponseHead, Status, Version};
use sluice_model::proxy::ReverseProxy as Config;
use sluice_net::tunnel::IdleTimeouts;
use sluice_net::{Body, Failure, RequestBody};
use sluice_policy::retry::Others;
use sluice_upstream::{Call, Response, Timeouts};
use sluice_wire::h1::{Leniency, TargetBytes};

use crate::reverse_proxy::addresses::Sockets;
use crate::reverse_proxy::buffering::{Ahead, Buffering, Rules};
use crate::reverse_proxy::dialect::{Destination, Dialect, FailedTry, Original, Reported};
use crate::reverse_proxy::language::{EmptyFields, Language, ShownFields};
use crate::reverse_proxy::retry::Sharing;
use crate::reverse_proxy::tried::Tried;
use crate::reverse_proxy::upstream::Upstream;
use crate::reverse_proxy::upstream_response::merge;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::Step;
use sluice_pipeline::refusal::Refusal;

/// The language of proxies between nodes.
pub(super) struct BetweenNodes;

impl Language for BetweenNodes {
    fn dialect(
        &self,
        _config: &Config,
        _servers: u32,
        _sharing: Sharing,
        _builder: &Builder<'_>,
    ) -> Result<Box<dyn Dialect>, Refusal> {
        Ok(Box::new(BetweenNodes))
    }

    fn buffering(&self, config: &Config, builder: &Builder<'_>) -> Result<Buffering, Refusal> {
        Buffering::build(config, builder)
    }

    fn empty_fields(&self) -> EmptyFields {
        EmptyFields::Sent
    }

    fn drops_body(&self) -> bool {
        false
    }

    fn sockets(&self) -> Sockets {
        Sockets::Refused
    }

    fn leniency(&self) -> Leniency {
        Leniency::default()
    }

    fn shown_fields(&self) -> ShownFields {
        ShownFields::AsReceived
    }
}

impl Dialect for BetweenNodes {
    fn outlives_client(&self) -> bool {
        false
    }

    fn begin(&self, _exchange: &Exchange, body: RequestBody, _tried: &Tried) -> RequestBody {
        body
    }

    fn next(
        &self,
        _exchange: &Exchange,
        _failed: &FailedTry<'_>,
        _tried: &Tried,
        _others: &mut dyn FnMut() -> Others,
    ) -> Option<Moment> {
        // This node fetches the response itself then.
        None
    }

    fn retry_instead(
        &self,
        _exchange: &mut Exchange,
        _call: &mut Call,
        _response: &Response,
        _tried: &Tried,
    ) -> Option<RequestBody> {
        None
    }

    fn unavailable(&self) -> Status {
        Status::SERVICE_UNAVAILABLE
    }

    fn report_failure(
        &self,
        _exchange: &mut Exchange,
        _failure: &Failure,
        _of: &Destination<'_>,
    ) -> Reported {
        Reported::WithRequest
    }

    fn replaced_body(&self, _exchange: &Exchange) -> Option<Vec<u8>> {
        None
    }

    /// The target is the client's, whatever this node has made of it.
    fn rewrite(&self, exchange: &mut Exchange) -> Result<Option<Original>, Fault> {
        let before = (exchange.req.method.clone(), exchange.req.uri.clone());
        exchange.req.uri.set(&exchange.req.target);
        Ok(Some(before))
    }

    fn forwards_fields(&self) -> bool {
        true
    }

    fn forwards_upgrades(&self) -> bool {
        false
    }

    fn tunnel_timeouts(&self, _exchange: &Exchange, _upstream: &Timeouts) -> IdleTimeouts {
        IdleTimeouts::default()
    }

    fn forwards_interims(&self, _exchange: &Exchange) -> bool {
        false
    }

    fn version(&self) -> Version {
        Version::Http11
    }

    fn targets(&self) -> TargetBytes {
        TargetBytes::Raw
    }

    fn set_fields(&self, exchange: &Exchange, upstream: &Upstream, out: &mut Fields) {
        let host = match &exchange.req.authority[..] {
            [] => upstream.authority.as_bytes(),
            authority => authority,
        };
        out.set(FieldId::Host, host);
    }

    fn redirect_internally(
        &self,
        _exchange: &mut Exchange,
        _fields: &Fields,
        _call: &mut Call,
    ) -> Option<Step> {
        None
    }

    fn intercepts(&self, _status: Status) -> bool {
        false
    }

    fn take_fields(&self, exchange: &mut Exchange, head: &mut ResponseHead, _is_shown: bool) {
        merge(&mut exchange.res.fields, &mut head.fields);
    }

    fn add_type(&self, _exchange: &mut Exchange) {}

    fn forward(&self, exchange: &mut Exchange, body: Body, ahead: Option<Arc<Rules>>) -> Step {
        Step::Done(match (body, ahead) {
            (Body::Stream(body), Some(rules)) => {
                Body::Stream(Box::new(Ahead::new(&exchange.worker, &rules, body)))
            }
            (body, _) => body,
        })
    }
}
