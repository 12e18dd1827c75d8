//! `resolver` and `resolver_timeout`: the DNS servers that resolve names of upstreams.

use sluice_model::Duration;
use sluice_model::proxy::{IpVersions, Resolver};

use crate::definition::Verdict::{self, Partly};
use crate::lower::level::Level;
use crate::lower::values;
use crate::tree::Directive;

/// What does not hold of `resolver`.
pub const VERDICT: Verdict = Partly("all but `status_zone=`, which only nginx Plus has");

/// The DNS servers that hold in a place.
pub fn of_level(level: &Level<'_>) -> Option<Resolver> {
    of_line(level.find("resolver")?, level.time("resolver_timeout"))
}

/// The DNS servers that `resolver` names, and how they are asked.
pub fn of_line(line: &Directive, timeout: Option<Duration>) -> Option<Resolver> {
    let mut resolver = Resolver {
        heeds_lifetimes: true,
        timeout: timeout.unwrap_or(Duration::seconds(30)),
        ..Resolver::default()
    };
    let mut versions = IpVersions::default();
    for word in &line.args {
        match word.text.split_once('=') {
            None => resolver.addresses.push(word.text.clone()),
            Some(("valid", time)) => resolver.valid = values::time(time),
            Some(("ipv4", value)) => versions.ipv4 = Some(value == "on"),
            Some(("ipv6", value)) => versions.ipv6 = Some(value == "on"),
            Some(_) => {}
        }
    }
    resolver.versions = (versions != IpVersions::default()).then_some(versions);
    Some(resolver).filter(|resolver| !resolver.addresses.is_empty())
}
