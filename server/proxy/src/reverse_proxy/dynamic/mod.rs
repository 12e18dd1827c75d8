//! Dynamic upstreams: found in DNS, Redis or etcd (`dynamic`), or by placeholders in their addresses. `select` chooses among them.

mod etcd;
mod members;
mod named;
mod record;
mod redis;
mod source;

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use sluice_model::proxy::{ReverseProxy as Config, UpstreamSource};
use sluice_net::worker::Worker;
use sluice_observe::Recorder;
use sluice_observe::log::Log;

use super::active::Target;
use super::addresses::Sockets;
use super::group::Choosing;
use super::making::Maker;
use super::upstream::Upstream;
use crate::limits::SOURCES_MAX;
pub use members::Members;
use named::Named;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use source::Source;

/// The upstreams available to a request.
pub type Set = Arc<[Arc<Upstream>]>;

/// The source of a directive's upstreams.
pub enum Dynamic {
    /// DNS, Redis and etcd.
    Sources(Box<[Arc<Source>]>),
    /// Addresses with placeholders.
    Named(Named),
    /// The resolved addresses of an nginx upstream group.
    Group(Arc<Members>),
}

/// An upstream and its health checks, which end when it is dropped.
pub struct Member {
    upstream: Arc<Upstream>,
    _target: Option<Arc<Target>>,
}

/// What sources need of the server around them.
pub struct Around<'a> {
    /// The log; `None` if the configuration is only validated, as are the others.
    pub log: Option<&'a Log>,
    /// State that outlives the configuration.
    pub recorder: Option<&'a Arc<Recorder>>,
    /// The folder of this node, for copies.
    pub data_dir: Option<&'a Path>,
}

impl Dynamic {
    /// Parses the settings; `None` if all upstreams are fixed.
    pub fn build(
        config: &Config,
        maker: &Arc<Maker>,
        group: Option<&Choosing>,
        sockets: Sockets,
        around: &Around<'_>,
    ) -> Result<Option<Dynamic>, Refusal> {
        if let Some(names) = group.and_then(|group| group.group().names()) {
            let members = Members::new(names.clone(), &config.upstreams, maker);
            return Ok(Some(Dynamic::Group(Arc::new(members))));
        }
        let named = Named::build(&config.upstreams, maker, sockets)?;
        match (&config.dynamic_upstreams, named) {
            (None, named) => Ok(named.map(Dynamic::Named)),
            (Some(source), None) => {
                let mut all = Vec::new();
                Source::build(source, maker, around, &mut all)?;
                if all.len() > SOURCES_MAX {
                    let all = all.len();
                    return Err(Refusal::new(format!(
                        "{all} sources of upstreams; there may be {SOURCES_MAX}"
                    )));
                }
                Ok(Some(Dynamic::Sources(all.into())))
            }
            (Some(source), Some(_)) => Err(Refusal::new(format!(
                "an upstream with a placeholder beside `dynamic {}`",
                source_name(source)
            ))
            .with_help("use one of the two; fixed upstreams without placeholders may be listed beside `dynamic`")),
        }
    }

    /// The current upstreams, if they are known without waiting.
    pub fn at_hand(&self, exchange: &Exchange) -> Option<Set> {
        match self {
            Dynamic::Group(members) => members.at_hand(exchange),
            Dynamic::Named(named) => Some(named.list(exchange)),
            Dynamic::Sources(_) => None,
        }
    }

    /// The current upstreams; `None` if they cannot be determined, so that the fixed ones are used.
    pub async fn list(&self, exchange: &Exchange) -> Option<Set> {
        match self {
            Dynamic::Named(named) => Some(named.list(exchange)),
            Dynamic::Group(members) => Some(members.list(&exchange.worker).await),
            Dynamic::Sources(sources) => match &**sources {
                [one] => one.list(exchange).await,
                several => {
                    let mut all = Vec::new();
                    for source in several {
                        // A source that fails does not affect the others.
                        if let Some(set) = source.list(exchange).await {
                            all.extend_from_slice(&set);
                        }
                    }
                    Some(all).filter(|all| !all.is_empty()).map(Set::from)
                }
            },
        }
    }
}

impl Member {
    /// Starts to check `upstream`, if its directive has health checks.
    fn new(upstream: Upstream, maker: &Maker, worker: &Rc<Worker>) -> Member {
        let upstream = Arc::new(upstream);
        maker.show(&upstream);
        let target = maker
            .checks()
            .map(|checks| checks.follow(&upstream, worker));
        Member {
            upstream,
            _target: target,
        }
    }
}

fn source_name(source: &UpstreamSource) -> String {
    source.module().to_owned()
}
