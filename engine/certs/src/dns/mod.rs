//! Records in DNS by which dns-01 (RFC 8555, section 8.4) proves that a name is ours: setting them, waiting until others
//! see them, and removing them. Each way to set one has a file; orders are left to `acme`.

mod azure;
mod cloudflare;
mod exec;
#[cfg(test)]
mod fake;
mod google;
mod ovh;
mod rest;
mod rfc2136;
mod route53;
mod service;
mod simple;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluice_net::upstream::Resolver;

pub use service::Service as DnsService;

use crate::failure::CertsError;
use crate::fetch::Fetcher;
use crate::limits::DNS_LOOK_PAUSE;
use crate::subject::Subject;

/// How dns-01 is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsOptions {
    /// Who sets the records.
    pub provider: DnsProvider,
    /// How long others may remember a record.
    pub ttl: Duration,
    /// How long to wait before looking for a record.
    pub delay: Duration,
    /// How long to look for a record; `None` does not look.
    pub timeout: Option<Duration>,
    /// The DNS servers that are asked; the system's where there are none.
    pub resolvers: Vec<SocketAddr>,
    /// The name that carries the records instead; empty for none.
    pub override_domain: String,
}

/// Who sets records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsProvider {
    /// A command, called with `present` or `cleanup`, the name and the text.
    Exec(Vec<String>),
    /// A service that is known by name.
    Service(DnsService),
}

/// A record that is there until it is dropped.
pub(crate) struct DnsRecord<'a> {
    provider: &'a DnsProvider,
    fetcher: &'a Fetcher,
    name: String,
    text: String,
    /// What the provider calls it.
    handle: String,
}

impl DnsOptions {
    /// Sets the record that proves `subject` by `text`, and waits until it is seen.
    pub(crate) async fn show<'a>(
        &'a self,
        fetcher: &'a Fetcher,
        subject: &Subject,
        text: &str,
    ) -> Result<DnsRecord<'a>, CertsError> {
        let name = self.name(subject);
        let handle = self
            .provider
            .set(fetcher, &name, text, self.ttl)
            .map_err(failed)?;
        let record = DnsRecord {
            provider: &self.provider,
            fetcher,
            name,
            text: text.to_owned(),
            handle,
        };
        tokio::time::sleep(self.delay).await;
        if let Some(timeout) = self.timeout {
            self.look(&record, timeout).await?;
        }
        Ok(record)
    }

    /// Where the record of `subject` is; a wildcard's is that of the name below which it stands.
    fn name(&self, subject: &Subject) -> String {
        if !self.override_domain.is_empty() {
            return self.override_domain.clone();
        }
        let name = subject.to_string();
        let bare = name.strip_prefix("*.").unwrap_or(&name);
        format!("_acme-challenge.{bare}")
    }

    async fn look(&self, record: &DnsRecord<'_>, timeout: Duration) -> Result<(), CertsError> {
        let resolver = Resolver {
            servers: self.resolvers.clone(),
            ..Resolver::default()
        };
        let begun = Instant::now();
        loop {
            // The dot at its end keeps the system's search list away.
            let found = resolver.texts(&format!("{}.", record.name)).await;
            let is_there = |texts: Vec<Vec<u8>>| texts.iter().any(|t| *t == record.text.as_bytes());
            if found.is_ok_and(|found| is_there(found.records)) {
                return Ok(());
            }
            if begun.elapsed() >= timeout {
                return Err(failed(format!(
                    "the record `{}` is not seen after {} s",
                    record.name,
                    timeout.as_secs()
                )));
            }
            tokio::time::sleep(DNS_LOOK_PAUSE.min(timeout)).await;
        }
    }
}

impl DnsProvider {
    fn set(
        &self,
        fetcher: &Fetcher,
        name: &str,
        text: &str,
        ttl: Duration,
    ) -> Result<String, String> {
        match self {
            DnsProvider::Exec(command) => {
                exec::run(command, &["present", name, text]).map(|()| String::new())
            }
            DnsProvider::Service(service) => service.set(fetcher, name, text, ttl),
        }
    }

    fn clear(&self, fetcher: &Fetcher, name: &str, text: &str, handle: &str) -> Result<(), String> {
        match self {
            DnsProvider::Exec(command) => exec::run(command, &["cleanup", name, text]),
            DnsProvider::Service(service) => service.clear(fetcher, name, text, handle),
        }
    }
}

impl Drop for DnsRecord<'_> {
    fn drop(&mut self) {
        // A record that is left behind proves nothing to anybody any more.
        let _ = self
            .provider
            .clear(self.fetcher, &self.name, &self.text, &self.handle);
    }
}

fn failed(what: String) -> CertsError {
    CertsError::Setting { name: "dns", what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_stand_where_the_authority_looks() {
        let mut options = DnsOptions {
            provider: DnsProvider::Exec(Vec::new()),
            ttl: Duration::ZERO,
            delay: Duration::ZERO,
            timeout: None,
            resolvers: Vec::new(),
            override_domain: String::new(),
        };
        let name = |options: &DnsOptions, text: &str| options.name(&Subject::parse(text).unwrap());
        assert_eq!(name(&options, "a.test"), "_acme-challenge.a.test");
        assert_eq!(name(&options, "*.a.test"), "_acme-challenge.a.test");
        options.override_domain = "proof.test".to_owned();
        assert_eq!(name(&options, "*.a.test"), "proof.test");
    }
}
