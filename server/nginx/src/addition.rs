//! `nginx_addition`: inserts the responses of other locations before and after a response. Both subrequests are
//! sent before the response begins; their bodies are streamed one after the other.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sluice_message::{FieldId, Fields, Method, Status};
use sluice_model::nginx::Addition as Config;
use sluice_net::{Body, BodyStream, Failure};

use super::types::Kinds;
use super::{changed, subrequest};
use crate::state::NginxContext;
use sluice_handlers::filters::encode::{Silence, Source};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Account, Filter, Handler, Step, Waiting};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::subrequests::ServerRef;

struct Addition(Arc<Settings>);

struct Settings {
    before: Box<[u8]>,
    after: Box<[u8]>,
    types: Kinds,
    site: ServerRef,
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    for uri in [&config.before, &config.after] {
        if !uri.is_empty() && !uri.starts_with('/') {
            return Err(Refusal::new(format!("`{uri}` is not a path")));
        }
    }
    Ok(Box::new(Addition(Arc::new(Settings {
        before: config.before.as_bytes().into(),
        after: config.after.as_bytes().into(),
        types: Kinds::build(&config.types),
        site: builder.itself.clone(),
    }))))
}

impl Handler for Addition {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        // Subrequests are not added to.
        if !exchange.context.nginx().is_subrequest() {
            exchange.context.filters.push(self.0.clone());
        }
        Step::Next
    }

    fn account(&self, _x: &mut Exchange) -> Account {
        let (before, after) = (&self.0.before, &self.0.after);
        let would = |what: &str, uri: &[u8]| {
            let uri = String::from_utf8_lossy(uri);
            (!uri.is_empty()).then(|| format!("would add the response of `{uri}` {what}"))
        };
        let says = [would("in front", before), would("behind", after)];
        Account {
            says: says.into_iter().flatten().collect(),
            assumed: None,
        }
    }
}

impl Settings {
    /// Whether the filter applies. Adding to a compressed body would corrupt it.
    fn is_for(&self, exchange: &Exchange, body: &Body) -> bool {
        exchange.res.status == Status::OK
            && !matches!(body, Body::Tunnel(_) | Body::Abort)
            && !exchange.res.fields.has(FieldId::ContentEncoding)
            && self.types.include(&exchange.res.fields)
    }

    /// The body of a location's response; `None` if it has none.
    async fn ask(&self, exchange: &mut Exchange, uri: &[u8]) -> Option<Source> {
        let site = self.site.get().filter(|_| !uri.is_empty())?;
        let mut sub = subrequest::begin(exchange, uri);
        let body = Box::pin(site.fetch(&mut sub)).await;
        let source = Source::of(&mut sub, body).ok();
        subrequest::end(exchange, sub);
        source
    }
}

impl Filter for Settings {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        if !self.is_for(exchange, &body) {
            return body;
        }
        changed::note(&mut exchange.res.fields);
        // The length is only known by running the subrequests, which HEAD does not do.
        Body::Stream(Box::new(Silence))
    }

    fn waits(&self, exchange: &Exchange, body: &Body) -> bool {
        exchange.req.method != Method::Head && self.is_for(exchange, body)
    }

    fn wait<'a>(self: Arc<Self>, exchange: &'a mut Exchange, body: Body) -> Waiting<'a> {
        Box::pin(async move {
            let own = Source::of(exchange, body).ok();
            let before = self.ask(exchange, &self.before).await;
            let after = self.ask(exchange, &self.after).await;
            changed::note(&mut exchange.res.fields);
            Step::Done(Body::Stream(Box::new(Joined {
                parts: [before, own, after],
                at: 0,
            })))
        })
    }
}

/// Concatenated bodies.
struct Joined {
    parts: [Option<Source>; 3],
    at: usize,
}

impl BodyStream for Joined {
    fn len(&self) -> Option<u64> {
        None
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        match self.parts.get_mut(self.at) {
            Some(Some(part)) => part.poll_ahead(cx),
            Some(None) | None => Poll::Pending,
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        while let Some(part) = self.parts.get_mut(self.at) {
            let count = match part {
                Some(part) => ready!(part.poll_piece(cx))?.len(),
                None => 0,
            };
            if count > 0 {
                break;
            }
            self.at += 1;
        }
        match self.parts.get_mut(self.at) {
            // The previous `poll_piece` returned a piece, so this returns the same one.
            Some(Some(part)) => part.poll_piece(cx),
            Some(None) | None => Poll::Ready(Ok(&[])),
        }
    }

    fn consume(&mut self, count: usize) {
        if let Some(Some(part)) = self.parts.get_mut(self.at) {
            part.take(count);
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.parts[1].as_mut()?.trailers()
    }
}
