//! Creates the upstreams of a directive: those in the configuration, from DNS, or from requests. `build` and `dynamic`
//! determine their addresses.

use std::sync::Arc;

use aws_lc_rs::hmac;
use sluice_model::proxy::{SelectionPolicy, Upstream as Config};
use sluice_net::load::Load;
use sluice_policy::PassiveHealth;
use sluice_policy::health::PassivePolicy;
use sluice_upstream::{Address, Endpoint, Protocol};

use super::active::Checks;
use super::addresses::Way;
use super::addresses::{address_of, tcp};
use super::breaking::Breaking;
use super::by_request::Endpoints;
use super::directions::Directions;
use super::group::Member;
use super::transport::Transport;
use super::upstream::Counted;
use super::upstream::{Role, Upstream};
use sluice_observe::metrics::{Health, Hub};
use sluice_pipeline::refusal::Refusal;

/// What all upstreams of a directive have in common.
pub struct Maker {
    pub(super) transport: Transport,
    pub(super) passive: PassivePolicy,
    pub(super) breaking: Option<Breaking>,
    /// The key for upstream IDs in cookies, with the `cookie` policy.
    pub(super) cookie_key: Option<hmac::Key>,
    /// The active health checks, if configured.
    pub(super) checks: Option<Arc<Checks>>,
    /// Whether requests in flight are counted.
    pub(super) counted: Counted,
    /// What operators direct for addresses.
    pub(super) directions: Arc<Directions>,
    /// Where the state of upstreams is published, except those that requests select.
    pub(super) hub: Option<Arc<Hub>>,
}

impl Maker {
    /// The active health checks.
    pub fn checks(&self) -> Option<&Arc<Checks>> {
        self.checks.as_ref()
    }

    /// Creates an upstream of the configuration.
    pub fn fixed(&self, config: &Config) -> Result<Upstream, Refusal> {
        let (address, authority, port) = address_of(&config.dial)?;
        let options = self.transport.options(port);
        if options.protocol == Protocol::Http3 && matches!(address, Address::Unix(_)) {
            let what = format!("the unix socket `{}` with `versions 3`", config.dial);
            return Err(Refusal::new(what).with_help("HTTP/3 needs UDP: give a host and a port"));
        }
        let endpoint = Endpoint::new(address, options);
        Ok(Upstream {
            configured_role: match (config.drain, config.backup) {
                (true, _) => Role::Draining,
                (false, true) => Role::Backup,
                (false, false) => Role::Usual,
            },
            configured_max: usize::try_from(config.max_requests)
                .ok()
                .filter(|max| *max > 0),
            ..self.upstream(config.dial.clone(), authority, endpoint)
        })
    }

    /// Like [`Maker::fixed`], for a member of a group.
    pub fn member(&self, config: &Config, member: Member) -> Result<Upstream, Refusal> {
        Ok(Upstream {
            load: member.load().clone(),
            checked: member.checked().clone(),
            member: Some(member),
            ..self.fixed(config)?
        })
    }

    /// Creates the upstream on `port` of `host`, a name or an IP address without brackets.
    pub fn named(&self, host: &str, port: u16, way: Way) -> Upstream {
        let (address, authority, port) = tcp(host, port);
        let options = self.transport.options_by(port, way);
        let endpoint = Endpoint::new(address, options);
        self.upstream(authority.clone(), authority, endpoint)
    }

    fn upstream(&self, address: String, authority: String, endpoint: Endpoint) -> Upstream {
        Upstream {
            cookie: self.cookie(&address),
            authority,
            switching: endpoint
                .options()
                .protocol
                .may_share()
                .then(|| Arc::new(endpoint.in_http1())),
            endpoint: Arc::new(endpoint),
            by_request: self
                .transport
                .by_request()
                .map(|settings| Box::new(Endpoints::new(settings))),
            load: Arc::new(Load::default()),
            configured_max: None,
            proxy_header: self.transport.proxy_header(),
            health: PassiveHealth::new(&self.passive),
            breaker: self.breaking.as_ref().map(Breaking::breaker),
            checked: Arc::default(),
            is_checked: self.checks.is_some(),
            counted: self.counted,
            configured_role: Role::Usual,
            directed: self.directions.of(&address),
            member: None,
            address,
        }
    }

    /// Publishes the state of `upstream` as long as it is in use.
    pub fn show(&self, upstream: &Arc<Upstream>) {
        if let Some(hub) = &self.hub {
            let health: Arc<dyn Health> = upstream.clone();
            hub.add_upstream(&upstream.address, Arc::downgrade(&health));
        }
    }

    /// The ID of the upstream in cookies, which does not reveal its address.
    fn cookie(&self, address: &str) -> Option<Box<str>> {
        let tag = hmac::sign(self.cookie_key.as_ref()?, address.as_bytes());
        let digits: String = tag
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Some(digits.into())
    }
}

/// The key for upstream IDs in the cookies of `policy`.
pub fn cookie_key(policy: Option<&SelectionPolicy>) -> Option<hmac::Key> {
    match policy {
        Some(SelectionPolicy::Cookie(config)) => {
            Some(hmac::Key::new(hmac::HMAC_SHA256, config.secret.as_bytes()))
        }
        _ => None,
    }
}
