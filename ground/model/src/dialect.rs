//! The dialect of a module that Caddy and nginx both have.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Whose rules a module follows where the two differ. In JSON a boolean, true for nginx.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Those of Caddy.
    #[default]
    Caddy,
    /// Those of nginx.
    Nginx,
}

crate::walk::without_text!(Dialect);

impl Serialize for Dialect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(*self == Dialect::Nginx)
    }
}

impl<'de> Deserialize<'de> for Dialect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match bool::deserialize(deserializer)? {
            true => Dialect::Nginx,
            false => Dialect::Caddy,
        })
    }
}
