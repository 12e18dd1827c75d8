//! Certificates: loaded from files, issued by the local CA or ACME CAs, stored, renewed in the background, and selected
//! during a handshake. `sluice-net` performs the handshakes; `sluice-serve` decides which sites need which certificate.

pub mod acme;
pub mod challenges;
mod clean;
pub mod client_auth;
pub mod encrypted_keys;
pub mod failure;
#[cfg(test)]
#[path = "../../dns/src/fake.rs"]
#[expect(
    dead_code,
    reason = "headers of requests matter to the tests of DNS providers"
)]
mod fake;
pub mod files;
mod gate;
pub mod issuer;
pub mod keys;
pub mod limits;
pub mod local_ca;
pub mod maintain;
pub mod named;
pub mod ocsp;
pub mod on_demand;
pub mod pair;
mod pem_file;
pub mod permission;
pub mod policy;
mod policy_conditions;
pub mod published_cas;
pub mod renewal;
mod secrets_log;
pub mod selection;
pub mod sources;
pub mod storage;
pub mod store;
pub mod subject;
mod tickets;
pub mod trust;
pub mod zerossl;

pub use pki_types::{CertificateDer, PrivateKeyDer};

pub use acme::{AcmeIssuer, AcmeOptions};
pub use challenges::{Challenges, is_passing};
pub use client_auth::{ClientAuth, ClientAuthMode, ClientJudge};
pub use encrypted_keys::Passwords;
pub use failure::{CertsError, Fault, Notice};
pub use files::{PairFile, WatchedFiles};
pub use issuer::{Issued, Issuer, Request};
pub use keys::KeyType;
pub use local_ca::{CaFiles, Leaf, LocalCa, LocalCaOptions};
pub use maintain::{
    Bell, Following, Job, Maintainer, Observer, Outcome, Plan, Provision, Rhythm, Standing,
};
pub use named::{Keep, NamedPairs, NamesPairs, PairName, Unusable};
pub use ocsp::Stapling;
pub use on_demand::{OnDemand, OnDemandPlans, OnDemandRule};
pub use pair::Pair;
pub use policy::{Choice, Policy, PolicyError, TlsPolicies};
pub use policy_conditions::When;
pub use published_cas::Publisher;
pub use renewal::Lifetime;
pub use selection::{KeyAlgorithm, Selection};
pub use sources::{Source, SourceOptions};
pub use storage::Storage;
pub use store::{CertStore, Fallback};
pub use subject::{Subject, SubjectError};
pub use tickets::{GivenKeys, Rotation, SharedKeys, TicketBook, TicketSecret, Tickets};
pub use zerossl::{ZeroSslIssuer, ZeroSslOptions};

#[cfg(test)]
mod tests;
