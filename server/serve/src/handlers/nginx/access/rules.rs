//! `allow` and `deny`: who may come in, by address. The first rule that fits decides.

use sluice_message::Remote;
use sluice_model::nginx::AccessRule;
use sluice_route::matcher::IpRanges;

use crate::build::Refusal;
use crate::context::Exchange;
use crate::values::client_ip;

/// The rules of a place.
pub struct Rules(Vec<(Ruling, From)>);

/// What rules say of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It may come in.
    Allowed,
    /// It may not.
    Denied,
    /// No rule fits.
    None,
}

enum From {
    All,
    Unix,
    Ranges(IpRanges),
}

impl Rules {
    /// Reads the rules.
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

    /// What they say of a request.
    pub fn rule(&self, x: &Exchange) -> Ruling {
        if self.0.is_empty() {
            return Ruling::None;
        }
        let ip = client_ip(x);
        let is_unix = matches!(x.conn.remote, Remote::Unix) && ip.is_none();
        let fits = |from: &From| match from {
            From::All => true,
            From::Unix => is_unix,
            From::Ranges(ranges) => ip.is_some_and(|ip| ranges.contains(ip)),
        };
        let found = self.0.iter().find(|(_, from)| fits(from));
        found.map_or(Ruling::None, |(ruling, _)| *ruling)
    }
}
