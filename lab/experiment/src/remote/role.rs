//! Which part of an experiment runs on a machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Ports or socket paths of upstreams, by name.
pub type Places = BTreeMap<String, String>;

/// The part of an experiment that runs on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The servers under test with their upstreams.
    Both,
    /// The servers under test; their upstreams listen there, on a machine of their own.
    Servers(Places),
    /// The upstreams.
    Upstreams,
}

impl Role {
    /// Whether the servers under test run there.
    pub fn has_servers(&self) -> bool {
        match self {
            Role::Both | Role::Servers(_) => true,
            Role::Upstreams => false,
        }
    }

    /// Whether upstreams run there.
    pub fn has_upstreams(&self) -> bool {
        match self {
            Role::Both | Role::Upstreams => true,
            Role::Servers(_) => false,
        }
    }
}
