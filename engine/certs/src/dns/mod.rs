//! Records in DNS by which dns-01 (RFC 8555, section 8.4) or ZeroSSL's CNAME check proves that a name is ours: setting them,
//! waiting until others see them, and removing them. Each way to set one has a file; orders are left to `acme`, `zerossl`.

mod azure;
mod cloudflare;
mod exec;
#[cfg(test)]
pub(crate) mod fake;
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
    /// A command, called with `present` or `cleanup`, the name and the text; with a fourth word `CNAME` where the record is
    /// an alias instead of a text.
    Exec(Vec<String>),
    /// A service that is known by name.
    Service(DnsService),
}

/// What kind of record proves that a name is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// A text (TXT), for dns-01.
    Text,
    /// An alias (CNAME), for ZeroSSL.
    Alias,
}

/// A record that is there until it is dropped.
pub(crate) struct DnsRecord<'a> {
    provider: &'a DnsProvider,
    fetcher: &'a Fetcher,
    kind: RecordKind,
    name: String,
    /// The text, or the name that an alias stands for.
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
        self.show_record(fetcher, RecordKind::Text, self.name(subject), text)
            .await
    }

    /// Makes `name` an alias of `target`, both without a dot at the end, and waits until it is seen.
    pub(crate) async fn show_alias<'a>(
        &'a self,
        fetcher: &'a Fetcher,
        name: &str,
        target: &str,
    ) -> Result<DnsRecord<'a>, CertsError> {
        self.show_record(fetcher, RecordKind::Alias, name.to_owned(), target)
            .await
    }

    async fn show_record<'a>(
        &'a self,
        fetcher: &'a Fetcher,
        kind: RecordKind,
        name: String,
        text: &str,
    ) -> Result<DnsRecord<'a>, CertsError> {
        let handle = self
            .provider
            .set(fetcher, kind, &name, text, self.ttl)
            .map_err(failed)?;
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
            if record.is_seen(&resolver).await {
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

    /// Whether it can set aliases.
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
            // Services that set aliases know them by their handle.
            DnsProvider::Service(service) => {
                service.clear(record.fetcher, name, text, &record.handle)
            }
        }
    }
}

/// What a command is told.
fn words<'a>(verb: &'a str, kind: RecordKind, name: &'a str, text: &'a str) -> Vec<&'a str> {
    let mut words = vec![verb, name, text];
    if kind == RecordKind::Alias {
        words.push("CNAME");
    }
    words
}

impl DnsRecord<'_> {
    async fn is_seen(&self, resolver: &Resolver) -> bool {
        // The dot at its end keeps the system's search list away.
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
        // A record that is left behind proves nothing to anybody any more.
        let _ = self.provider.clear(self);
    }
}

fn failed(what: String) -> CertsError {
    CertsError::Setting { name: "dns", what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_of_aliases() {
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
        let name = |options: &DnsOptions, text: &str| options.name(&Subject::parse(text).unwrap());
        assert_eq!(name(&options, "a.test"), "_acme-challenge.a.test");
        assert_eq!(name(&options, "*.a.test"), "_acme-challenge.a.test");
        options.override_domain = "proof.test".to_owned();
        assert_eq!(name(&options, "*.a.test"), "proof.test");
    }
}
