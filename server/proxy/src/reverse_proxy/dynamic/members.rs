//! The upstreams of a handler whose group has servers with names: one upstream for each address. The group, which other
//! handlers share, resolves the names.

use std::rc::Rc;
use std::sync::{Arc, PoisonError, RwLock};

use sluice_model::proxy::Upstream as Config;
use sluice_net::worker::Worker;

use super::super::group::{Member, Names, Peers};
use super::super::making::Maker;
use super::super::upstream::Upstream;
use super::Set;
use sluice_pipeline::context::Exchange;

/// The upstreams of a group with names.
pub struct Members {
    names: Arc<Names>,
    /// The configuration of each line of the group.
    lines: Box<[Config]>,
    maker: Arc<Maker>,
    /// The upstreams of the latest request, and the version of the group they belong to.
    known: RwLock<Option<(u64, Set)>>,
}

impl Members {
    /// Creates the upstreams of a group.
    pub fn new(names: Arc<Names>, lines: &[Config], maker: &Arc<Maker>) -> Members {
        Members {
            names,
            lines: lines.into(),
            maker: maker.clone(),
            known: RwLock::default(),
        }
    }

    /// The current upstreams, if the names are resolved and recent.
    pub fn at_hand(&self, exchange: &Exchange) -> Option<Set> {
        let version = self.names.at_hand(exchange.worker.clock.coarse())?;
        self.known(version)
    }

    fn known(&self, version: u64) -> Option<Set> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let (known, set) = known.as_ref()?;
        (*known == version).then(|| set.clone())
    }

    /// The current upstreams.
    pub async fn list(&self, worker: &Rc<Worker>) -> Set {
        let peers = self.names.list(worker).await;
        if let Some(set) = self.known(peers.version) {
            return set;
        }
        let set: Set = (0..peers.spots.len())
            .filter_map(|index| self.upstream(&peers, index))
            .collect();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *known = Some((peers.version, set.clone()));
        set
    }

    fn upstream(&self, peers: &Arc<Peers>, index: usize) -> Option<Arc<Upstream>> {
        let spot = &peers.spots[index];
        let config = Config {
            dial: spot.dial.clone(),
            ..self.lines[spot.line].clone()
        };
        let member = Member {
            peers: peers.clone(),
            index,
        };
        // DNS yields addresses and ports, and the configured addresses were validated before.
        let upstream = Arc::new(self.maker.member(&config, member).ok()?);
        self.maker.show(&upstream);
        Some(upstream)
    }
}
