//! What placeholders show of the times and the load of upstreams (`{http.reverse_proxy.upstream.latency}` and the like).
//! Nothing here is called where no placeholder asks for it.

use sluice_net::clock;

use super::upstream::Upstream;
use crate::context::{Exchange, ProxyFacts};

/// The request has come to the proxy.
pub fn begin(x: &mut Exchange) {
    x.context.upstream.facts = Some(Box::new(ProxyFacts {
        began: clock::now(),
        ..ProxyFacts::default()
    }));
}

/// `upstream` is turned to. The request itself counts among those that it works on, as in Caddy.
pub fn ask(x: &mut Exchange, upstream: &Upstream) {
    let now = clock::now();
    let fails = upstream.fails(x.worker.clock.coarse());
    if let Some(facts) = &mut x.context.upstream.facts {
        facts.asked = now;
        facts.latency = None;
        facts.requests = upstream.load.in_flight();
        facts.requests_max = upstream.requests_max.unwrap_or(0);
        facts.fails = fails;
    }
}

/// The head of its answer is here.
pub fn answered(x: &mut Exchange) {
    if let Some(facts) = &mut x.context.upstream.facts {
        facts.latency = Some(clock::now().since(facts.asked));
    }
}
