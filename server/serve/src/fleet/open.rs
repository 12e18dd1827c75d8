//! Opens the store of a location.

use std::sync::Arc;

use sluice_store::{Fault, Store, StoreError};

use super::location::{Location, Scheme};

/// The store, and the key of the text in it. Nothing is sent yet.
pub(super) fn open(location: &Location) -> Result<(Arc<dyn Store>, String), StoreError> {
    let place = location.to_string();
    match location.scheme {
        Scheme::Etcd | Scheme::EtcdTls | Scheme::Redis | Scheme::RedisTls | Scheme::Postgres => {
            let what = format!("this build has no support for {}", location.scheme.as_str());
            Err(StoreError::new(Fault::Setting, &place, what))
        }
        Scheme::Http | Scheme::Https => {
            let what = "an HTTP server cannot be written";
            Err(StoreError::new(Fault::Setting, &place, what))
        }
    }
}
