//! `nginx_access`: who may come in, by address. The first rule that fits decides.

use sluice_message::{Remote, Status};
use sluice_model::nginx::AccessRules as Config;
use sluice_route::matcher::IpRanges;

use crate::build::Refusal;
use crate::context::Exchange;
use crate::failure::Fault;
use crate::handler::{Handler, Step};
use crate::values::client_ip;

struct Access {
    rules: Vec<(Verdict, From)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allow,
    Deny,
}

enum From {
    All,
    Unix,
    Ranges(IpRanges),
}

/// Builds the handler.
pub fn build(config: &Config) -> Result<Box<dyn Handler>, Refusal> {
    let mut rules = Vec::with_capacity(config.rules.len());
    for rule in &config.rules {
        let from = match rule.from.as_str() {
            "all" => From::All,
            "unix:" => From::Unix,
            range => From::Ranges(
                IpRanges::new(&[range])
                    .map_err(|error| Refusal::new(format!("allow or deny: {error}")))?,
            ),
        };
        let verdict = match rule.allow {
            true => Verdict::Allow,
            false => Verdict::Deny,
        };
        rules.push((verdict, from));
    }
    Ok(Box::new(Access { rules }))
}

impl Handler for Access {
    fn serve(&self, x: &mut Exchange) -> Step {
        let ip = client_ip(x);
        let is_unix = matches!(x.conn.remote, Remote::Unix) && ip.is_none();
        let fits = |from: &From| match from {
            From::All => true,
            From::Unix => is_unix,
            From::Ranges(ranges) => ip.is_some_and(|ip| ranges.contains(ip)),
        };
        let found = self.rules.iter().find(|(_, from)| fits(from));
        match found {
            Some((Verdict::Deny, _)) => {
                Step::Fail(Fault::new(Status::FORBIDDEN, "access is denied by a rule"))
            }
            Some((Verdict::Allow, _)) | None => Step::Next,
        }
    }
}
