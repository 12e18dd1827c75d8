//! Where the responses of a cache come from: an upstream, as in an nginx.conf, or the handlers that follow the cache in the
//! routes, as in a Caddyfile.

use std::time::Duration;

use sluice_message::{FieldId, Fields, ResponseHead, Status};
use sluice_net::Body;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Account, Assumed, Handler, Step};
use sluice_pipeline::subrequests::ServerRef;

use crate::reverse_proxy::ReverseProxy;

/// What responds on a cache miss.
pub(super) enum Origin {
    /// An upstream.
    Proxy(Box<ReverseProxy>),
    /// The handlers that follow in the routes.
    Rest(Rest),
}

/// The handlers that follow the cache in the routes.
pub(super) struct Rest {
    /// The server with the routes.
    pub site: ServerRef,
    /// How long they may take until their response begins.
    pub timeout: Option<Duration>,
    /// `Cache-Control` of responses that have none.
    pub default_cache_control: Option<Box<[u8]>>,
}

impl Origin {
    /// Has the origin respond.
    pub async fn wait(&self, exchange: &mut Exchange) -> Step {
        match self {
            Origin::Proxy(proxy) => proxy.wait(exchange).await,
            Origin::Rest(rest) => rest.run(exchange).await.0,
        }
    }

    /// As `wait`; also returns the head of the response as it is to be stored, if there is a response.
    pub async fn hear(&self, exchange: &mut Exchange) -> (Step, Option<ResponseHead>) {
        let proxy = match self {
            Origin::Proxy(proxy) => proxy,
            Origin::Rest(rest) => return rest.run(exchange).await,
        };
        exchange.context.aside.get_or_insert_default().shared_head = Some(ResponseHead {
            status: Status::CONTINUE,
            ..ResponseHead::default()
        });
        let step = proxy.wait(exchange).await;
        let aside = exchange.context.aside.as_mut();
        let head = aside.and_then(|aside| aside.shared_head.take());
        (step, head.filter(|head| head.status != Status::CONTINUE))
    }

    /// Makes a cached head the response head.
    pub fn put_on(&self, exchange: &mut Exchange, head: ResponseHead) {
        match self {
            Origin::Proxy(proxy) => proxy.put_on(exchange, head),
            Origin::Rest(_) => {
                exchange.res.status = head.status;
                exchange.reasons = Status::reason;
                exchange.res.fields.remove(FieldId::Server);
                join(&mut exchange.res.fields, &head.fields);
            }
        }
    }

    /// Describes what responds, for `explain`.
    pub fn account(&self, exchange: &mut Exchange) -> Account {
        match self {
            Origin::Proxy(proxy) => proxy.account(exchange),
            Origin::Rest(_) => Account {
                says: vec!["the handlers that follow respond".to_owned()],
                assumed: Some(Assumed::Step(Step::Next)),
            },
        }
    }

    /// Whether the handlers that follow in the routes respond.
    pub fn is_rest(&self) -> bool {
        matches!(self, Origin::Rest(_))
    }
}

impl Rest {
    /// Runs the handlers. They see none of the headers that handlers around the cache have set for this response: those
    /// are set for each response anew, cached or not, so they are not stored.
    async fn run(&self, exchange: &mut Exchange) -> (Step, Option<ResponseHead>) {
        let Some(site) = self.site.get() else {
            let fault = Fault::new(Status::SERVICE_UNAVAILABLE, "the server has ended");
            return (Step::Fail(fault), None);
        };
        let mut around = std::mem::take(&mut exchange.res.fields);
        // Every response begins with this one, and handlers replace or remove it.
        for value in around.all(FieldId::Server) {
            exchange.res.fields.push(FieldId::Server, value);
        }
        around.remove(FieldId::Server);
        exchange
            .context
            .aside
            .get_or_insert_default()
            .is_being_cached = true;
        let step = site.rest(exchange, self.timeout).await;
        if let Some(aside) = &mut exchange.context.aside {
            aside.is_being_cached = false;
        }
        let head = match &step {
            Step::Done(Body::Tunnel(_) | Body::Abort) => None,
            Step::Done(_) => Some(self.described(exchange, &around)),
            Step::Fail(_) | Step::Next | Step::Enter(_) | Step::Later => None,
        };
        let inner = std::mem::replace(&mut exchange.res.fields, around);
        join(&mut exchange.res.fields, &inner);
        (step, head)
    }

    /// The head to store. How long the response is fresh is also up to handlers around the cache, such as `header`.
    fn described(&self, exchange: &mut Exchange, around: &Fields) -> ResponseHead {
        let fields = &mut exchange.res.fields;
        let is_said = fields.has(FieldId::CacheControl) || fields.has(FieldId::Expires);
        for id in [FieldId::CacheControl, FieldId::Expires] {
            for value in around.all(id).filter(|_| !is_said) {
                fields.push(id, value);
            }
        }
        if let Some(value) = &self.default_cache_control
            && !fields.has(FieldId::CacheControl)
            && exchange.res.status != Status::NOT_MODIFIED
        {
            fields.push(FieldId::CacheControl, value);
        }
        let mut head = exchange.res.clone();
        // It follows from the body.
        head.fields.remove(FieldId::ContentLength);
        head
    }
}

/// Adds the headers of a response to those of handlers around the cache. Of those with one name the former count, unless
/// each handler may add to a list.
fn join(around: &mut Fields, inner: &Fields) {
    around.retain(|field| is_list(field.id, field.name) || inner.find_first(field.name).is_none());
    around.append(inner);
}

fn is_list(id: FieldId, name: &[u8]) -> bool {
    matches!(id, FieldId::Vary | FieldId::SetCookie)
        || name.eq_ignore_ascii_case(b"Link")
        || name.eq_ignore_ascii_case(super::cache_status::NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_a_response_replace_those_around_it() {
        let mut around = Fields::new();
        for (id, value) in [
            (FieldId::Vary, "Origin"),
            (FieldId::CacheControl, "no-cache"),
            (FieldId::Via, "around"),
        ] {
            around.push(id, value.as_bytes());
        }
        let mut inner = Fields::new();
        inner.push(FieldId::Vary, b"Accept");
        inner.push(FieldId::CacheControl, b"max-age=1");
        join(&mut around, &inner);
        let values = |id| around.all(id).map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(values(FieldId::Vary), [&b"Origin"[..], b"Accept"]);
        assert_eq!(values(FieldId::CacheControl), [b"max-age=1"]);
        assert_eq!(values(FieldId::Via), [b"around"]);
    }
}
