//! A DNS service with its settings, as each provider's file needs it. The table of services is in `providers`.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A DNS service with its credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Service {
    pub(crate) name: &'static str,
    pub(crate) base: String,
    pub(crate) values: BTreeMap<String, String>,
}

impl Service {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// A setting; empty if it was omitted.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// The same service with another base URL, for tests.
    #[cfg(test)]
    pub(crate) fn at(self, base: &str) -> Service {
        Service {
            base: base.to_owned(),
            ..self
        }
    }
}

impl fmt::Debug for Service {
    /// Shows a hash instead of the secrets, so that other credentials give another text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values = DefaultHasher::new();
        self.values.hash(&mut values);
        f.debug_struct("Service")
            .field("name", &self.name)
            .field("base", &self.base)
            .field("values", &values.finish())
            .finish()
    }
}
