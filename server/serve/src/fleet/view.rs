//! The state of a fleet, as `sluice fleet status` shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use serde::Serialize;
use sluice_store::{Key, Store, StoreError, Value};

use super::layout::{Canary, Layout};
use super::report::{NodeReport, seconds};
use super::revision::Revision;
use crate::limits::LOADED_AT_ONCE;

/// A fleet at a moment. Times are seconds since the Unix epoch.
#[derive(Clone, Debug, Serialize)]
pub struct Fleet {
    /// The revision of the configuration; `None` if there is none.
    pub revision: Option<Revision>,
    /// When it was written, by the clock of the store.
    pub changed: Option<f64>,
    /// The canary, if there is one.
    pub canary: Option<Canary>,
    /// Whether somebody pushes.
    pub is_pushing: bool,
    /// Its nodes, by name.
    pub nodes: Vec<NodeView>,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeView {
    /// Its name.
    pub node: String,
    /// Its state.
    pub state: NodeState,
    /// For how many seconds it has not run what it is to run.
    pub lag: Option<f64>,
    /// Its last report.
    pub report: Option<NodeReport>,
}

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// It runs the configuration, or that of the canary if it is one.
    InSync,
    /// It runs another one, and has not refused the present one.
    Behind,
    /// It has refused it.
    Refuses,
    /// It is alive, and has not reported yet.
    Starting,
    /// It has not renewed its lease.
    Gone,
}

impl NodeState {
    /// As a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            NodeState::InSync => "in sync",
            NodeState::Behind => "behind",
            NodeState::Refuses => "refuses",
            NodeState::Starting => "starting",
            NodeState::Gone => "gone",
        }
    }

    /// As JSON has it.
    pub const fn id(self) -> &'static str {
        match self {
            NodeState::InSync => "in_sync",
            NodeState::Behind => "behind",
            NodeState::Refuses => "refuses",
            NodeState::Starting => "starting",
            NodeState::Gone => "gone",
        }
    }

    /// Whether it is alive.
    pub fn is_alive(self) -> bool {
        self != NodeState::Gone
    }
}

impl Fleet {
    /// Reads it.
    ///
    /// # Errors
    /// The store fails.
    pub fn read(store: &dyn Store, layout: &Layout) -> Result<Fleet, StoreError> {
        let mut found = store.load(&[&layout.text, &layout.canary])?.into_iter();
        let (text, canary) = (found.next().flatten(), found.next().flatten());
        let leases = store.leases()?;
        let is_pushing = leases.contains(&layout.push_lease());
        let living = layout.living(&leases, store)?;
        let reports = reports(store, layout)?;
        let canary = canary.and_then(|value| serde_json::from_slice(&value.bytes).ok());
        let revision = text.as_ref().map(revision_of);
        let changed = text.map(|value| value.modified);
        let names: BTreeSet<&String> = living.iter().chain(reports.keys()).collect();
        let nodes = names.into_iter().map(|name| {
            let own: Option<&Canary> = canary.as_ref();
            let own = own.filter(|canary| canary.nodes.contains(name));
            let wanted = own.map(|canary| &canary.revision).or(revision.as_ref());
            view(
                name,
                reports.get(name),
                living.contains(name),
                wanted,
                changed,
            )
        });
        Ok(Fleet {
            nodes: nodes.collect(),
            revision,
            changed: changed.map(seconds),
            canary,
            is_pushing,
        })
    }

    /// The nodes that are alive.
    pub fn living(&self) -> impl Iterator<Item = &NodeView> {
        self.nodes.iter().filter(|node| node.state.is_alive())
    }
}

/// The revision of a stored text.
pub(super) fn revision_of(value: &Value) -> Revision {
    Revision::of(&String::from_utf8_lossy(&value.bytes))
}

fn reports(store: &dyn Store, layout: &Layout) -> Result<BTreeMap<String, NodeReport>, StoreError> {
    let keys = layout.reports(store)?;
    let mut reports = BTreeMap::new();
    for keys in keys.chunks(LOADED_AT_ONCE) {
        let references: Vec<&Key> = keys.iter().collect();
        for (key, value) in keys.iter().zip(store.load(&references)?) {
            // Values of others are skipped.
            if let Some(report) = value.and_then(|value| NodeReport::read(&value.bytes)) {
                reports.insert(layout.node_of(key).to_owned(), report);
            }
        }
    }
    Ok(reports)
}

fn view(
    name: &str,
    report: Option<&NodeReport>,
    is_alive: bool,
    wanted: Option<&Revision>,
    changed: Option<SystemTime>,
) -> NodeView {
    let state = match (report, wanted) {
        (_, _) if !is_alive => NodeState::Gone,
        (None, _) => NodeState::Starting,
        (Some(report), Some(wanted)) if report.runs(wanted) => NodeState::InSync,
        (Some(report), Some(wanted)) => match &report.refused {
            Some(refused) if refused.revision == *wanted => NodeState::Refuses,
            Some(_) | None => NodeState::Behind,
        },
        (Some(_), None) => NodeState::Behind,
    };
    let lag = match state {
        NodeState::Behind | NodeState::Refuses => changed.and_then(|at| at.elapsed().ok()),
        NodeState::InSync | NodeState::Starting | NodeState::Gone => None,
    };
    NodeView {
        node: name.to_owned(),
        state,
        lag: lag.map(|lag| lag.as_millis() as f64 / 1000.0),
        report: report.cloned(),
    }
}
