//! A DNS service with its settings, as each provider's file needs it. The table of services is in `providers`.

use std::collections::BTreeMap;
use std::fmt;

use crate::renewal::seed_of;

/// A DNS service with its credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Service {
    pub(super) name: &'static str,
    pub(super) base: String,
    pub(super) values: BTreeMap<String, String>,
}

impl Service {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// A setting; empty if it was omitted.
    pub(super) fn value(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// The same service with another base URL, for tests.
    #[cfg(test)]
    pub(super) fn at(self, base: &str) -> Service {
        Service {
            base: base.to_owned(),
            ..self
        }
    }
}

impl fmt::Debug for Service {
    /// Omits the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("name", &self.name)
            .field("base", &self.base)
            .field("values", &seed_of(&format!("{:?}", self.values)))
            .finish()
    }
}
