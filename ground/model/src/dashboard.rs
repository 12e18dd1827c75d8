//! The dashboard of the control interface: what its buttons may do.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::object::objects;

objects! {
    /// The dashboard.
    pub struct Dashboard {
        /// What its buttons may do; without any it is read-only.
        pub actions: Vec<DashboardAction>,
    }
}

/// What a button of the dashboard does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DashboardAction {
    /// Reads the configuration again.
    Reload,
    /// Sends an upstream no new requests, or new ones again.
    Drain,
    /// Sends an upstream no requests for some time.
    Eject,
    /// Removes responses from a cache.
    Purge,
}

crate::walk::without_text!(DashboardAction);

impl DashboardAction {
    /// All of them.
    pub const ALL: [DashboardAction; 4] = [
        DashboardAction::Reload,
        DashboardAction::Drain,
        DashboardAction::Eject,
        DashboardAction::Purge,
    ];

    /// Their names, in the same order.
    pub const NAMES: [&'static str; 4] = ["reload", "drain", "eject", "purge"];

    /// Its name in configurations and paths.
    pub const fn name(self) -> &'static str {
        match self {
            DashboardAction::Reload => "reload",
            DashboardAction::Drain => "drain",
            DashboardAction::Eject => "eject",
            DashboardAction::Purge => "purge",
        }
    }

    /// The action with this name.
    pub fn named(name: &str) -> Option<DashboardAction> {
        DashboardAction::ALL
            .into_iter()
            .find(|action| action.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_json() {
        assert_eq!(
            DashboardAction::ALL.map(DashboardAction::name),
            DashboardAction::NAMES
        );
        for action in DashboardAction::ALL {
            assert_eq!(DashboardAction::named(action.name()), Some(action));
            let json = serde_json::to_value(action).expect("a name");
            assert_eq!(json, action.name());
        }
        assert_eq!(DashboardAction::named("restart"), None);
    }
}
