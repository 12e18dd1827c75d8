//! Makes an application's response that of the exchange.

use sluice_message::FieldId;
use sluice_net::{Body, BodyStream};
use sluice_python::{Call, Interface, Response};
use sluice_wire::h1::BodyFraming;

use super::Python;
use crate::limits::BUFFER_RESPONSE_BYTES_MIN;
use crate::reverse_proxy::buffering::Ahead;
use crate::reverse_proxy::upstream_response::{described, merge};
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::Step;

impl Python {
    /// Makes `response` the response of the exchange.
    pub(super) fn take_response(
        &self,
        exchange: &mut Exchange,
        interface: Interface,
        call: Box<Call>,
        response: Response,
    ) -> Step {
        let Response { mut head, framing } = response;
        exchange.res.status = head.status;
        let described = described(exchange, &head);
        head.fields.remove(FieldId::ContentLength);
        if head.fields.has(FieldId::Server) {
            exchange.res.fields.remove(FieldId::Server);
        }
        merge(&mut exchange.res.fields, &mut head.fields);
        let is_long = match framing.body {
            BodyFraming::None => false,
            BodyFraming::Length(length) => length > BUFFER_RESPONSE_BYTES_MIN,
            BodyFraming::Chunked | BodyFraming::UntilClose => true,
        };
        exchange.inline.clear();
        let body = match call.into_body(framing, &mut exchange.inline) {
            Ok(body) => body,
            Err(failure) => return Step::Fail(failure.into()),
        };
        if let Some(described) = described {
            return Step::Done(Body::Stream(Box::new(described)));
        }
        Step::Done(match body {
            Body::Stream(body) if is_long && interface == Interface::Wsgi => {
                self.ahead(exchange, body)
            }
            body => body,
        })
    }

    /// Reads a response ahead of a slow client, so that the application's thread is free for others.
    fn ahead(&self, exchange: &Exchange, body: Box<dyn BodyStream>) -> Body {
        Body::Stream(match &self.buffering.ahead {
            Some(ahead) => Box::new(Ahead::new(&exchange.worker, &ahead.rules, body)),
            None => body,
        })
    }
}
