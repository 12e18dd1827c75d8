//! Upstreams that are not fixed when the configuration is built: named by DNS (`dynamic`), or by placeholders in
//! their addresses. Which of them gets a request is left to `select`.

mod members;
mod named;
mod source;

use std::rc::Rc;
use std::sync::Arc;

use sluice_model::proxy::{ReverseProxy as Config, UpstreamSource};
use sluice_net::worker::Worker;

use super::active::Target;
use super::group::Choosing;
use super::making::Maker;
use super::upstream::Upstream;
use crate::build::dialects;
use crate::context::Exchange;
use crate::limits::SOURCES_MAX;
use crate::refusal::Refusal;
use members::Members;
use named::Named;
pub use named::{Sockets, at_load};
use source::Source;

/// Upstreams as a request finds them.
pub type Set = Arc<[Arc<Upstream>]>;

/// Where the upstreams of a directive come from.
pub enum Dynamic {
    /// DNS.
    Sources(Box<[Arc<Source>]>),
    /// Addresses with placeholders.
    Named(Named),
    /// The addresses of the names in a group of an nginx.conf.
    Group(Members),
}

/// An upstream and the checks of it, which end when it is dropped.
pub struct Member {
    upstream: Arc<Upstream>,
    _target: Option<Arc<Target>>,
}

impl Dynamic {
    /// Reads the settings; `None` where all upstreams are fixed.
    pub fn build(
        config: &Config,
        maker: &Arc<Maker>,
        group: Option<&Choosing>,
    ) -> Result<Option<Dynamic>, Refusal> {
        if let Some(names) = group.and_then(|group| group.group().names()) {
            let members = Members::new(names.clone(), &config.upstreams, maker);
            return Ok(Some(Dynamic::Group(members)));
        }
        let named = Named::build(&config.upstreams, maker, dialects::sockets(config))?;
        match (&config.dynamic_upstreams, named) {
            (None, named) => Ok(named.map(Dynamic::Named)),
            (Some(source), None) => {
                let mut all = Vec::new();
                Source::build(source, maker, &mut all)?;
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
            .with_help("use either of them; fixed upstreams may stand beside `dynamic`")),
        }
    }

    /// The upstreams of now, where nobody has to be asked for them.
    pub fn at_hand(&self, x: &Exchange) -> Option<Set> {
        match self {
            Dynamic::Group(members) => members.at_hand(x),
            Dynamic::Named(named) => Some(named.list(x)),
            Dynamic::Sources(_) => None,
        }
    }

    /// The upstreams of now; `None` where they cannot be told, and the fixed ones have to do.
    pub async fn list(&self, x: &Exchange) -> Option<Set> {
        match self {
            Dynamic::Named(named) => Some(named.list(x)),
            Dynamic::Group(members) => Some(members.list(x).await),
            Dynamic::Sources(sources) => match &**sources {
                [one] => one.list(x).await,
                several => {
                    let mut all = Vec::new();
                    for source in several {
                        // A source that fails leaves the others.
                        if let Some(set) = source.list(x).await {
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
    /// Begins to check `upstream`, if its directive has checks.
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
