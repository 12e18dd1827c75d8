//! How to reach etcd.

use std::fmt;
use std::time::Duration;

use crate::limits::{CALL_TIMEOUT, LEASE_TTL, WATCH_REQUEST_TIME};
use crate::tls::TlsVerification;

/// Options of an [`EtcdStore`](super::EtcdStore).
#[derive(Clone)]
pub struct EtcdOptions {
    /// The URLs of the members: `https://10.0.0.5:2379`. A call goes to the one that responded last, and to the next if
    /// that fails.
    pub endpoints: Vec<String>,
    /// The certificates (PEM) of the CAs that are trusted; those of the system if `None`.
    pub ca: Option<Vec<u8>>,
    /// The certificate chain (PEM) that is presented to members, with its private key (PEM). etcd's JSON gateway does
    /// not derive a user from it.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// How far the certificates of members are verified.
    pub verification: TlsVerification,
    /// The user and its password.
    pub login: Option<(String, String)>,
    /// What the keys begin with, followed by a slash. The leases and the metadata of values have keys that begin with
    /// it as well, so the role of the user needs the prefix without a slash.
    pub prefix: String,
    /// The time limit of a call. A read that no quorum confirms within it takes up to as long again.
    pub timeout: Duration,
    /// How long a lease lasts without its holder. etcd accepts whole seconds, at least its election timeout and a half.
    pub lease_ttl: Duration,
    /// How long one request of a watch lasts before it is replaced, so that a connection that died without a sign is
    /// noticed.
    pub watch_time: Duration,
}

impl Default for EtcdOptions {
    fn default() -> EtcdOptions {
        EtcdOptions {
            endpoints: vec!["http://127.0.0.1:2379".to_owned()],
            ca: None,
            identity: None,
            verification: TlsVerification::Full,
            login: None,
            prefix: "/sluice".to_owned(),
            timeout: CALL_TIMEOUT,
            lease_ttl: LEASE_TTL,
            watch_time: WATCH_REQUEST_TIME,
        }
    }
}

impl fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdOptions")
            .field("endpoints", &self.endpoints)
            .field("user", &self.login.as_ref().map(|(user, _)| user))
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
