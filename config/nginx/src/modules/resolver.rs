//! `resolver` and `resolver_timeout`: the DNS servers that resolve names of upstreams.

use sluice_model::Duration;
use sluice_model::proxy::{IpVersions, Resolver};

use crate::arguments::{each, has_good_port};
use crate::definition::Verdict::{self, Partly};
use crate::definition::Wrong;
use crate::lower::level::Level;
use crate::lower::values;
use crate::tree::Directive;

/// What does not hold of `resolver`.
pub const VERDICT: Verdict = Partly("all except `status_zone=`, which is only in nginx Plus");

/// Checks the arguments of `resolver`.
pub fn check(directive: &Directive) -> Option<Wrong> {
    const WANTED: &str = "addresses, those of IPv6 in brackets, then `valid=TIME`, `ipv4=on|off`, `ipv6=on|off`, one of them on; \
         only nginx Plus has `status_zone=`";
    let has = |text: &str| directive.args.iter().any(|word| word.text == text);
    if has("ipv4=off") && has("ipv6=off") {
        return Some((directive.args.len() - 1, WANTED));
    }
    each(directive, WANTED, |word| match word.split_once('=') {
        Some(("valid", length)) => values::time(length).is_some(),
        Some(("ipv4" | "ipv6", value)) => matches!(value, "on" | "off"),
        Some(_) => false,
        None => (word.starts_with('[') || word.matches(':').count() < 2) && has_good_port(word),
    })
    .or_else(|| {
        let mut words = directive.args.iter();
        (!words.any(|word| !word.text.contains('='))).then_some((0, WANTED))
    })
}

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
