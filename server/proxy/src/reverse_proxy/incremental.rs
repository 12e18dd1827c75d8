//! Messages that ask to be forwarded incrementally (`Incremental`, RFC 10036). They are forwarded as they arrive unless
//! the configuration, or the protocol of the upstream, needs them as a whole: then they are refused with 501, as
//! section 4.1 recommends, and `Proxy-Status` (RFC 9209) names this proxy if it has a name.

use sluice_message::structured::{Bare, is_string, is_token, item, list};
use sluice_message::{FieldId, Fields, Method, Status};
use sluice_model::proxy::ReverseProxy as Config;
use sluice_net::RequestBody;
use sluice_wire::h1::{BodyFraming, ResponseFraming};

use super::buffering::Buffering;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::refusal::Refusal;

/// What such messages get.
#[derive(Debug)]
pub(super) struct Incremental {
    /// This proxy as an item of `Proxy-Status`; empty if it has no name.
    status_item: Box<[u8]>,
}

impl Incremental {
    /// Reads the name of this proxy. Only Caddy's dialect follows the field.
    pub(super) fn build(config: &Config) -> Result<Option<Incremental>, Refusal> {
        let name = config.proxy_status_name.as_str();
        if !is_string(name.as_bytes()) {
            let what = format!("`proxy_status_name` `{name}` has a character that is not ASCII");
            let help = "name the deployment in printable ASCII, such as `edge-1.example.com`";
            return Err(Refusal::new(what).with_help(help));
        }
        let shown = match is_token(name.as_bytes()) {
            true => name.to_owned(),
            false => format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")),
        };
        let status_item = match name {
            "" => String::new(),
            _ => format!("{shown};error=incremental_refused"),
        };
        let follows = config.dialect.is_none();
        Ok(follows.then(|| Incremental {
            status_item: status_item.into_bytes().into(),
        }))
    }

    /// Refuses a request that is to be forwarded incrementally and would be collected first.
    ///
    /// # Errors
    /// It is refused.
    pub(super) fn admit_request(
        &self,
        exchange: &mut Exchange,
        body: &RequestBody,
        buffering: &Buffering,
        needs_length: bool,
    ) -> Result<(), Fault> {
        let is_collected = buffering.collects_requests() || needs_length && body.len().is_none();
        if is_collected && has_content(&exchange.req.method, body) && is_asked(&exchange.req.fields)
        {
            return Err(self.refuse(exchange, None));
        }
        Ok(())
    }

    /// Refuses a response that is to be forwarded incrementally and would be collected first.
    ///
    /// # Errors
    /// It is refused.
    pub(super) fn admit_response(
        &self,
        exchange: &mut Exchange,
        fields: &Fields,
        framing: &ResponseFraming,
        buffering: &Buffering,
    ) -> Result<(), Fault> {
        let has_content = match framing.body {
            BodyFraming::None | BodyFraming::Length(0) => false,
            BodyFraming::Length(_) | BodyFraming::Chunked | BodyFraming::UntilClose => true,
        };
        if has_content && buffering.collects_responses() && is_asked(fields) {
            return Err(self.refuse(exchange, Some(fields)));
        }
        Ok(())
    }

    /// The refusal; `upstream` are the fields of the response that is refused.
    fn refuse(&self, exchange: &mut Exchange, upstream: Option<&Fields>) -> Fault {
        if !self.status_item.is_empty() {
            let status = self.status(upstream);
            exchange
                .res
                .fields
                .set_raw(FieldId::of(PROXY_STATUS), PROXY_STATUS, &status);
        }
        let message = "the message asks to be forwarded incrementally, which buffering prevents";
        Fault::new(Status::NOT_IMPLEMENTED, message)
    }

    /// The value of `Proxy-Status`: what the proxies behind us reported, and this proxy. A malformed value of theirs
    /// is dropped.
    fn status(&self, upstream: Option<&Fields>) -> Vec<u8> {
        let mut received = Vec::new();
        for value in upstream
            .into_iter()
            .flat_map(|fields| fields.find(PROXY_STATUS))
        {
            if !received.is_empty() {
                received.extend_from_slice(b", ");
            }
            received.extend_from_slice(value);
        }
        let mut status = Vec::new();
        for (kind, text) in list(&received).unwrap_or_default() {
            match kind {
                Bare::String | Bare::Token => {
                    status.extend_from_slice(text);
                    status.extend_from_slice(b", ");
                }
                Bare::Boolean(_) | Bare::Other => {
                    status.clear();
                    break;
                }
            }
        }
        status.extend_from_slice(&self.status_item);
        status
    }
}

const PROXY_STATUS: &[u8] = b"Proxy-Status";

/// Whether a message asks to be forwarded incrementally: by one `Incremental` that is true (RFC 10036, section 3).
fn is_asked(fields: &Fields) -> bool {
    let mut values = fields.find(b"Incremental");
    let asked = values.next().and_then(item) == Some(Bare::Boolean(true));
    asked && values.next().is_none()
}

/// Whether a request may have content. One of unknown length may, unless its method rarely has any.
fn has_content(method: &Method, body: &RequestBody) -> bool {
    match (body.len(), body) {
        (_, RequestBody::None) => false,
        (Some(length), RequestBody::Stream(_)) => length > 0,
        (None, RequestBody::Stream(_)) => !matches!(
            method,
            Method::Get
                | Method::Head
                | Method::Options
                | Method::Delete
                | Method::Trace
                | Method::Connect
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Incremental {
        let config = Config {
            proxy_status_name: name.into(),
            ..Config::default()
        };
        Incremental::build(&config).unwrap().unwrap()
    }

    #[test]
    fn the_name_is_appended_to_what_upstreams_reported() {
        let upstream = |values: &[&str]| {
            let mut fields = Fields::default();
            for value in values {
                fields.push_raw(FieldId::of(PROXY_STATUS), PROXY_STATUS, value.as_bytes());
            }
            fields
        };
        let own = "edge;error=incremental_refused";
        for (values, expected) in [
            (
                &["a;error=x, \"b c\""][..],
                format!("a;error=x, \"b c\", {own}"),
            ),
            (&["a", "b"][..], format!("a, b, {own}")),
            (&["a, (b)"][..], own.to_owned()),
            (&["a, 5"][..], own.to_owned()),
        ] {
            let status = named("edge").status(Some(&upstream(values)));
            assert_eq!(String::from_utf8(status).unwrap(), expected);
        }
        let status = named("my \"edge\"").status(None);
        assert_eq!(status, b"\"my \\\"edge\\\"\";error=incremental_refused");
    }

    #[test]
    fn a_name_is_printable_ascii() {
        let config = Config {
            proxy_status_name: "caf\u{e9}".into(),
            ..Config::default()
        };
        let refusal = Incremental::build(&config).unwrap_err();
        assert!(!refusal.help.is_empty());
    }
}
