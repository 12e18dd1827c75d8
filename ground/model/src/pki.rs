//! The `pki` app: certificate authorities (CAs) that sluice runs itself.

use alloc::collections::BTreeMap;
use alloc::string::String;

use crate::object::{RawModule, objects};
use crate::value::Duration;

objects! {
    /// The local CAs by ID; `local` is the default.
    pub struct PkiApp {
        /// The CAs.
        pub certificate_authorities: BTreeMap<String, CertificateAuthority>,
    }

    /// One CA.
    pub struct CertificateAuthority {
        /// The name people see.
        pub name: String,
        /// The common name of the root.
        pub root_common_name: String,
        /// The common name of intermediates.
        pub intermediate_common_name: String,
        /// How long an intermediate lives.
        pub intermediate_lifetime: Duration,
        /// Whether the root is put into the trust stores of the machine.
        pub install_trust: Option<bool>,
        /// A root to use instead of a generated one.
        pub root: Option<KeyPair>,
        /// An intermediate to use instead of a generated one.
        pub intermediate: Option<KeyPair>,
        /// How often expiry is looked at.
        pub maintenance_interval: Duration,
        /// The share of the lifetime that may be left when a renewal starts.
        pub renewal_window_ratio: f64,
        /// Where keys are kept, the default storage when absent.
        pub storage: Option<RawModule>,
    }

    /// A certificate and its key.
    pub struct KeyPair {
        /// The file of the certificate.
        pub certificate: String,
        /// The file of the key.
        pub private_key: String,
        /// The format of both, `pem_file` when empty.
        pub format: String,
    }
}
