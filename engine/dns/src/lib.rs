//! DNS records that prove control of a name: setting them at a provider, waiting until they are visible, and removing
//! them. `fetch` is the HTTP client for requests of our own. Orders are in `sluice-certs`; the resolver is part of
//! `sluice-upstream`, because upstreams are dialled by name.

mod azure;
mod cloudflare;
mod exec;
#[cfg(test)]
mod fake;
pub mod fetch;
mod fetch_tls;
mod google;
pub mod limits;
mod ovh;
mod providers;
mod record;
mod rest;
mod rfc2136;
mod route53;
mod service;
mod simple;

pub use record::{DnsError, DnsOptions, DnsProvider, DnsRecord};
pub use service::Service as DnsService;
