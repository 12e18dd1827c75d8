//! `allow` and `deny`: access control by address. The first matching rule decides.

use sluice_message::Remote;
use sluice_model::nginx::AccessRule;
use sluice_route::matcher::IpRanges;

use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::client_ip;

/// The rules of one location.
pub struct Rules(Vec<(Ruling, From)>);

/// The decision of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The request is allowed.
    Allowed,
    /// The request is denied.
    Denied,
    /// No rule matches.
    None,
}

enum From {
    All,
    Unix,
    Ranges(IpRanges),
}

impl Rules {
    /// Parses the rules.
    pub fn build(configs: &[AccessRule]) -> Result<Rules, Refusal> {
        let mut rules = Vec::with_capacity(configs.len());
        for rule in configs {
            let from = match rule.from.as_str() {
                "all" => From::All,
                "unix:" => From::Unix,
                range => From::Ranges(
                    IpRanges::new(&[range])
                        .map_err(|error| Refusal::new(format!("allow or deny: {error}")))?,
                ),
            };
            let ruling = match rule.allow {
                true => Ruling::Allowed,
                false => Ruling::Denied,
            };
            rules.push((ruling, from));
        }
        Ok(Rules(rules))
    }

    /// Evaluates the rules for a request.
    pub fn rule(&self, exchange: &Exchange) -> Ruling {
        if self.0.is_empty() {
            return Ruling::None;
        }
        let ip = client_ip(exchange);
        let is_unix = matches!(exchange.conn.remote, Remote::Unix) && ip.is_none();
        let fits = |from: &From| match from {
            From::All => true,
            From::Unix => is_unix,
            From::Ranges(ranges) => ip.is_some_and(|ip| ranges.contains(ip)),
        };
        let found = self.0.iter().find(|(_, from)| fits(from));
        found.map_or(Ruling::None, |(ruling, _)| *ruling)
    }
}
