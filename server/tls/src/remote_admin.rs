//! TLS for the remote admin API (`admin.remote`): the certificate of the server (`admin.identity`), and who its clients are.

use std::sync::Arc;

use sluice_certs::{ClientJudge, TlsPolicies};
use sluice_model::tls::{AutomationPolicy, ClientAuthentication, ConnectionPolicy, TlsApp};
use sluice_model::{Admin, AdminIdentity, Config, Server};
use sluice_net::Protocols;

use super::around::Around;
use super::policies;
use crate::trust_pool::decoded;
use sluice_pipeline::refusal::Refusal;

/// Where the configuration has it.
const PLACE: &str = "admin.remote";

/// The HTTP versions of the remote admin API.
const PROTOCOLS: Protocols = Protocols {
    h1: true,
    h2: true,
    h2c: false,
    h3: false,
};

/// What the remote admin API needs of TLS.
#[derive(Clone)]
pub struct RemoteAdminTls {
    pub(super) policies: Arc<TlsPolicies>,
    /// Recognize the clients of each entry of `access_control`.
    pub judges: Vec<ClientJudge>,
}

impl RemoteAdminTls {
    /// Creates its TLS sessions.
    pub fn acceptor(&self) -> Arc<dyn sluice_net::tls::Acceptor> {
        self.policies.clone().acceptor()
    }
}

/// The identity, if remote administration needs it.
fn identity(config: &Config) -> Option<&AdminIdentity> {
    let admin = config.admin.as_ref()?;
    admin.remote.as_ref()?;
    admin.identity.as_ref()
}

/// Makes the certificate of the identity one of those that are managed; returns its names.
pub(super) fn manage<'c>(config: &'c Config, managed: &mut Config) -> &'c [String] {
    let Some(identity) = identity(config) else {
        return &[];
    };
    if !identity.issuers.is_empty() {
        let tls = managed.apps.tls.get_or_insert_with(TlsApp::default);
        let policy = AutomationPolicy {
            subjects: identity.identifiers.clone(),
            issuers: identity.issuers.clone(),
            ..AutomationPolicy::default()
        };
        let automation = tls.automation.get_or_insert_default();
        automation.policies.insert(0, policy);
    }
    &identity.identifiers
}

/// Builds the settings; `None` if the configuration does not have remote administration.
pub(super) fn build(
    admin: Option<&Admin>,
    around: &Around<'_>,
    previous: Option<&RemoteAdminTls>,
) -> Result<Option<RemoteAdminTls>, Refusal> {
    let at = |place: &str, refusal: Refusal| Refusal {
        place: place.to_owned(),
        ..refusal
    };
    let Some((admin, remote)) = admin.and_then(|admin| Some((admin, admin.remote.as_ref()?)))
    else {
        return Ok(None);
    };
    let identifiers = admin.identity.iter().flat_map(|one| &one.identifiers);
    let Some(name) = identifiers.clone().next() else {
        let refusal = Refusal::new("remote administration needs a certificate of the server");
        let help = "name the server in `admin.identity.identifiers`";
        return Err(at("admin.identity", refusal.with_help(help)));
    };
    let mut judges = Vec::new();
    for (index, access) in remote.access_control.iter().enumerate() {
        let place = format!("{PLACE}.access_control[{index}].public_keys");
        if access.public_keys.is_empty() {
            let refusal = Refusal::new("an entry without certificates lets nobody in");
            return Err(at(
                &place,
                refusal.with_help("add the Base64 of a certificate in DER"),
            ));
        }
        let keys = decoded(&access.public_keys).map_err(|refusal| at(&place, refusal))?;
        let judge = ClientJudge::new(keys);
        judges.push(judge.map_err(|why| at(&place, Refusal::new(why)))?);
    }
    if judges.is_empty() {
        let refusal = Refusal::new("remote administration without `access_control` lets nobody in");
        return Err(at(
            PLACE,
            refusal.with_help("list certificates of clients, or remove it"),
        ));
    }
    let all = remote.access_control.iter();
    let keys = all.flat_map(|access| access.public_keys.clone()).collect();
    let server = Server {
        tls_connection_policies: vec![ConnectionPolicy {
            default_sni: name.clone(),
            fallback_sni: name.clone(),
            client_authentication: Some(ClientAuthentication {
                trusted_ca_certs: keys,
                mode: "require_and_verify".to_owned(),
                ..ClientAuthentication::default()
            }),
            ..ConnectionPolicy::default()
        }],
        ..Server::default()
    };
    let previous = previous.map(|previous| &*previous.policies);
    let policies = policies::build(&server, PROTOCOLS, PLACE, around, previous)?;
    Ok(Some(RemoteAdminTls {
        policies: Arc::new(policies),
        judges,
    }))
}
