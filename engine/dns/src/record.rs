//! DNS records for dns-01 challenges (RFC 8555, section 8.4) and ZeroSSL's CNAME validation: setting them, waiting
//! until they are visible, and removing them. `providers` has the supported services.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluice_upstream::Resolver;

use crate::exec;
use crate::fetch::Fetcher;
use crate::limits::DNS_LOOK_PAUSE;
use crate::service::Service;

/// Why a record cannot be set, or is not visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsError(pub String);

impl fmt::Display for DnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DnsError {}

/// Options for dns-01 challenges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsOptions {
    /// The provider that sets the records.
    pub provider: DnsProvider,
    /// The TTL of the records.
    pub ttl: Duration,
    /// How long to wait before checking whether a record is visible.
    pub delay: Duration,
    /// How long to check for a record; `None` disables the check.
    pub timeout: Option<Duration>,
    /// The DNS servers for the check; the system's if empty.
    pub resolvers: Vec<SocketAddr>,
    /// The name to set the records at instead; empty for none.
    pub override_domain: String,
}

/// A provider that sets DNS records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsProvider {
    /// A command, called with `present` or `cleanup`, the name and the value; with a fourth argument `CNAME` if the
    /// record is an alias.
    Exec(Vec<String>),
    /// A supported DNS service.
    Service(Service),
}

/// The record type that proves control of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordKind {
    /// TXT, for dns-01.
    Text,
    /// CNAME, for ZeroSSL.
    Alias,
}

/// A record that exists until this is dropped.
pub struct DnsRecord<'a> {
    provider: &'a DnsProvider,
    fetcher: &'a Fetcher,
    kind: RecordKind,
    name: String,
    /// The TXT value, or the target of the alias.
    text: String,
    /// The provider's identifier of the record.
    handle: String,
}

impl DnsOptions {
    /// Sets the TXT record that validates `subject`, a host name or wildcard, and waits until it is visible.
    ///
    /// # Errors
    /// The provider refuses the record, or it is not visible in time.
    pub async fn show<'a>(
        &'a self,
        fetcher: &'a Fetcher,
        subject: &str,
        text: &str,
    ) -> Result<DnsRecord<'a>, DnsError> {
        self.show_record(fetcher, RecordKind::Text, self.name(subject), text)
            .await
    }

    /// Makes `name` an alias of `target`, both without a trailing dot, and waits until the record is visible.
    ///
    /// # Errors
    /// Like [`DnsOptions::show`].
    pub async fn show_alias<'a>(
        &'a self,
        fetcher: &'a Fetcher,
        name: &str,
        target: &str,
    ) -> Result<DnsRecord<'a>, DnsError> {
        self.show_record(fetcher, RecordKind::Alias, name.to_owned(), target)
            .await
    }

    async fn show_record<'a>(
        &'a self,
        fetcher: &'a Fetcher,
        kind: RecordKind,
        name: String,
        text: &str,
    ) -> Result<DnsRecord<'a>, DnsError> {
        let handle = self
            .provider
            .set(fetcher, kind, &name, text, self.ttl)
            .map_err(DnsError)?;
        let record = DnsRecord {
            provider: &self.provider,
            fetcher,
            kind,
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

    /// The name of the record for `subject`; for a wildcard, that of its parent domain.
    fn name(&self, subject: &str) -> String {
        if !self.override_domain.is_empty() {
            return self.override_domain.clone();
        }
        let bare = subject.strip_prefix("*.").unwrap_or(subject);
        format!("_acme-challenge.{bare}")
    }

    async fn look(&self, record: &DnsRecord<'_>, timeout: Duration) -> Result<(), DnsError> {
        let resolver = Resolver {
            servers: self.resolvers.clone(),
            ..Resolver::default()
        };
        let begun = Instant::now();
        loop {
            if record.is_seen(&resolver).await {
                return Ok(());
            }
            if begun.elapsed() >= timeout {
                return Err(DnsError(format!(
                    "the record `{}` is not visible after {} s",
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
        kind: RecordKind,
        name: &str,
        text: &str,
        ttl: Duration,
    ) -> Result<String, String> {
        match (self, kind) {
            (DnsProvider::Exec(command), _) => {
                exec::run(command, &words("present", kind, name, text)).map(|()| String::new())
            }
            (DnsProvider::Service(service), RecordKind::Text) => {
                service.set(fetcher, name, text, ttl)
            }
            (DnsProvider::Service(service), RecordKind::Alias) => {
                service.set_alias(fetcher, name, text, ttl)
            }
        }
    }

    /// Whether it supports aliases.
    pub fn sets_aliases(&self) -> bool {
        match self {
            DnsProvider::Exec(_) => true,
            DnsProvider::Service(service) => service.sets_aliases(),
        }
    }

    fn clear(&self, record: &DnsRecord<'_>) -> Result<(), String> {
        let (name, text) = (record.name.as_str(), record.text.as_str());
        match self {
            DnsProvider::Exec(command) => {
                exec::run(command, &words("cleanup", record.kind, name, text))
            }
            // Services that support aliases identify them by their handle.
            DnsProvider::Service(service) => {
                service.clear(record.fetcher, name, text, &record.handle)
            }
        }
    }
}

/// The arguments of a command.
fn words<'a>(verb: &'a str, kind: RecordKind, name: &'a str, text: &'a str) -> Vec<&'a str> {
    let mut words = vec![verb, name, text];
    if kind == RecordKind::Alias {
        words.push("CNAME");
    }
    words
}

impl DnsRecord<'_> {
    async fn is_seen(&self, resolver: &Resolver) -> bool {
        // The trailing dot disables the system's search list.
        let name = format!("{}.", self.name);
        match self.kind {
            RecordKind::Text => {
                let found = resolver.texts(&name).await;
                let is_ours = |text: &Vec<u8>| *text == self.text.as_bytes();
                found.is_ok_and(|found| found.records.iter().any(is_ours))
            }
            RecordKind::Alias => {
                let found = resolver.aliases(&name).await;
                let is_ours = |target: &String| target.eq_ignore_ascii_case(&self.text);
                found.is_ok_and(|found| found.records.iter().any(is_ours))
            }
        }
    }
}

impl Drop for DnsRecord<'_> {
    fn drop(&mut self) {
        // A record that is left behind is harmless.
        let _ = self.provider.clear(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dns_command_receives_the_alias_name() {
        let script =
            "[ \"$*\" = 'present p.test t.test CNAME' ] || [ \"$*\" = 'present p.test text' ]";
        let command = ["/bin/sh", "-c", script, "x"].map(str::to_owned).to_vec();
        let provider = DnsProvider::Exec(command);
        let fetcher = Fetcher::new(&crate::fetch::FetchOptions::default());
        let set = |kind, text| provider.set(&fetcher, kind, "p.test", text, Duration::ZERO);
        assert!(set(RecordKind::Alias, "t.test").is_ok());
        assert!(set(RecordKind::Text, "text").is_ok());
        assert!(set(RecordKind::Text, "t.test").is_err());
    }

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
        let name = |options: &DnsOptions, text: &str| options.name(text);
        assert_eq!(name(&options, "a.test"), "_acme-challenge.a.test");
        assert_eq!(name(&options, "*.a.test"), "_acme-challenge.a.test");
        options.override_domain = "proof.test".to_owned();
        assert_eq!(name(&options, "*.a.test"), "proof.test");
    }
}
