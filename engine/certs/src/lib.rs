//! Certificates: read from files, made by a CA of our own, kept in storage, renewed in the background, and chosen
//! during a handshake. Moving the bytes of a handshake is left to `sluice-net`; which sites need which certificate
//! is left to `sluice-serve`. ACME will be one more [`Issuer`].

pub mod failure;
pub mod issuer;
pub mod limits;
pub mod local_ca;
pub mod maintain;
pub mod pair;
pub mod policy;
pub mod renewal;
pub mod storage;
pub mod store;
pub mod subject;
pub mod trust;

pub use failure::{CertsError, Notice};
pub use issuer::{Issued, Issuer};
pub use local_ca::{CaFiles, LocalCa, LocalCaOptions};
pub use maintain::{Job, Maintainer, Outcome};
pub use pair::Pair;
pub use policy::{ClientAuth, ClientAuthMode, Policy, PolicyError, TlsPolicies};
pub use renewal::Lifetime;
pub use storage::Storage;
pub use store::{CertStore, Fallback};
pub use subject::Subject;

#[cfg(test)]
mod tests;
