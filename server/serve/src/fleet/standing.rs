//! What the status, the metrics and the log show of a node's source and of its fleet.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sluice_observe::fleet::{FleetNode, FleetView};
use sluice_observe::sources::{ConfigSource, ConfigSourceStanding};

use super::view::{Fleet, NodeView};
use crate::limits::{FLEET_READ_AFTER_LOOK, FLEET_READ_PERIOD};

/// The state of the source of a node's configuration, shared with the pages that show it.
#[derive(Debug, Default)]
pub struct FollowerStanding {
    own: Mutex<ConfigSourceStanding>,
    fleet: Mutex<Viewed>,
}

/// The fleet as it was read last.
#[derive(Debug, Default)]
struct Viewed {
    looked_at: Option<Instant>,
    read_at: Option<Instant>,
    view: Option<FleetView>,
}

impl FollowerStanding {
    pub(super) fn edit(&self) -> MutexGuard<'_, ConfigSourceStanding> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the fleet is to be read: somebody looks at it, and it was not read a moment ago. Notes that it is read now.
    pub(super) fn begin_read(&self, now: Instant) -> bool {
        let mut viewed = self.viewed();
        let within = |at: Option<Instant>, time| {
            at.is_some_and(|at| now.saturating_duration_since(at) < time)
        };
        let is_due = within(viewed.looked_at, FLEET_READ_AFTER_LOOK)
            && !within(viewed.read_at, FLEET_READ_PERIOD);
        if is_due {
            viewed.read_at = Some(now);
        }
        is_due
    }

    /// Shows the fleet as it was at `at`, in seconds since the Unix epoch.
    pub(super) fn show_fleet(&self, fleet: Fleet, at: f64) {
        let revision = fleet.revision.as_ref();
        let canary = fleet.canary.as_ref();
        let view = FleetView {
            at,
            revision: revision.map(ToString::to_string),
            changed: fleet.changed,
            canary: canary.map(|canary| canary.revision.to_string()),
            pushing: fleet.is_pushing,
            ..FleetView::default()
        };
        let nodes = fleet.nodes.into_iter().map(shown);
        self.viewed().view = Some(view.with_nodes(nodes.collect()));
    }

    fn viewed(&self) -> MutexGuard<'_, Viewed> {
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConfigSource for FollowerStanding {
    fn standing(&self) -> ConfigSourceStanding {
        self.edit().clone()
    }

    fn fleet(&self) -> Option<FleetView> {
        let mut viewed = self.viewed();
        viewed.looked_at = Some(Instant::now());
        viewed.view.clone()
    }
}

fn shown(node: NodeView) -> FleetNode {
    let report = node.report.unwrap_or_default();
    let running = report.running.map(|running| running.revision.to_string());
    FleetNode {
        node: node.node,
        state: node.state.id().to_owned(),
        version: report.version,
        running,
        lag: node.lag,
        reported: (report.at > 0.0).then_some(report.at),
        store_seconds: report.store_seconds,
        error_share: report.recent.error_share(),
        certificates: report.certificates.total,
        certificates_failing: report.certificates.failing,
        expires: report.certificates.expires,
        expires_name: report.certificates.expires_name,
        locks: report.locks,
        refusal: report.refused.map(|refused| refused.error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{NodeReport, NodeState};

    #[test]
    fn the_fleet_is_read_while_somebody_looks() {
        let standing = FollowerStanding::default();
        let now = Instant::now();
        assert!(!standing.begin_read(now), "nobody looks");
        assert_eq!(standing.fleet(), None);
        let now = Instant::now();
        assert!(standing.begin_read(now));
        assert!(!standing.begin_read(now), "it was just read");
        assert!(standing.begin_read(now + FLEET_READ_PERIOD));
        assert!(!standing.begin_read(now + FLEET_READ_AFTER_LOOK));
        let node = |name: &str, state| NodeView {
            node: name.into(),
            state,
            lag: None,
            report: Some(NodeReport {
                version: "1".into(),
                locks: vec!["issue_cert_a.test".into()],
                ..NodeReport::default()
            }),
        };
        let fleet = Fleet {
            revision: None,
            changed: None,
            canary: None,
            is_pushing: true,
            nodes: vec![
                node("a", NodeState::InSync),
                node("b", NodeState::Refuses),
                NodeView {
                    report: None,
                    ..node("c", NodeState::Gone)
                },
            ],
        };
        standing.show_fleet(fleet, 7.0);
        let shown = standing.fleet().unwrap();
        assert_eq!((shown.at, shown.pushing, shown.nodes_total), (7.0, true, 3));
        let rows = shown.nodes.iter();
        let rows: Vec<_> = rows.map(|row| (&*row.node, &*row.state)).collect();
        assert_eq!(rows, [("b", "refuses"), ("c", "gone"), ("a", "in_sync")]);
        assert_eq!(shown.nodes[0].locks, ["issue_cert_a.test"]);
    }
}
