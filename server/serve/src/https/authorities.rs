//! Authorities of our own: which one signs for which name. How they work is left to `sluice-certs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use sluice_certs::{CaFiles, CertsError, LocalCa, LocalCaOptions, Maintainer, Storage};
use sluice_model::Config;
use sluice_model::pki::{CertificateAuthority, KeyPair};
use sluice_model::tls::{InternalIssuer, Issuer};

use super::LOGGER;
use crate::build::Refusal;
use crate::log::Log;
use crate::settings::given;

/// The authority of each name: that of the first policy that covers it, else `local`.
pub(super) fn assign(
    config: &Config,
    names: &BTreeSet<String>,
) -> Result<Vec<(LocalCaOptions, Vec<String>)>, Refusal> {
    let mut by_authority: BTreeMap<String, (LocalCaOptions, Vec<String>)> = BTreeMap::new();
    for name in names {
        let issuer = internal_issuer(config, name);
        let options = options(config, &issuer)?;
        let entry = by_authority
            .entry(options.id.clone())
            .or_insert((options, Vec::new()));
        entry.1.push(name.clone());
    }
    Ok(by_authority.into_values().collect())
}

fn internal_issuer(config: &Config, name: &str) -> InternalIssuer {
    let automation = config
        .apps
        .tls
        .as_ref()
        .and_then(|tls| tls.automation.as_ref());
    let policies = automation
        .iter()
        .flat_map(|automation| &automation.policies);
    let mut covering = policies
        .filter(|policy| policy.subjects.is_empty() || policy.subjects.iter().any(|s| s == name));
    match covering.next().and_then(|policy| policy.issuers.first()) {
        Some(Issuer::Internal(internal)) => internal.clone(),
        Some(_) | None => InternalIssuer::default(),
    }
}

fn options(config: &Config, issuer: &InternalIssuer) -> Result<LocalCaOptions, Refusal> {
    let mut options = LocalCaOptions {
        sign_with_root: issuer.sign_with_root,
        ..Default::default()
    };
    if !issuer.ca.is_empty() {
        options.id.clone_from(&issuer.ca);
    }
    if let Some(lifetime) = given(issuer.lifetime) {
        options.leaf_lifetime = lifetime;
    }
    let pki = config.apps.pki.as_ref();
    if let Some(authority) = pki.and_then(|pki| pki.certificate_authorities.get(&options.id)) {
        apply(authority, &mut options)?;
    }
    Ok(options)
}

fn apply(config: &CertificateAuthority, options: &mut LocalCaOptions) -> Result<(), Refusal> {
    let set = |to: &mut String, from: &String| {
        if !from.is_empty() {
            to.clone_from(from);
        }
    };
    set(&mut options.name, &config.name);
    set(&mut options.root_common_name, &config.root_common_name);
    set(
        &mut options.intermediate_common_name,
        &config.intermediate_common_name,
    );
    if let Some(lifetime) = given(config.intermediate_lifetime) {
        options.intermediate_lifetime = lifetime;
    }
    if config.renewal_window_ratio > 0.0 {
        options.renewal_share = config.renewal_window_ratio;
    }
    options.root = config.root.as_ref().map(files).transpose()?;
    options.intermediate = config.intermediate.as_ref().map(files).transpose()?;
    if config.storage.is_some() {
        return Err(Refusal::not_yet("`storage` of an authority", "remove it"));
    }
    Ok(())
}

fn files(pair: &KeyPair) -> Result<CaFiles, Refusal> {
    if !matches!(pair.format.as_str(), "" | "pem_file") {
        return Err(
            Refusal::new(format!("unknown key format `{}`", pair.format))
                .with_help("there is `pem_file`"),
        );
    }
    Ok(CaFiles {
        certificate: (&pair.certificate).into(),
        key: (&pair.private_key).into(),
    })
}

/// Opens an authority and lets the maintainer ask it, in place of what was open before. Tells of a new root:
/// clients have to be told to trust it.
pub(super) fn open(
    maintainer: &Arc<Maintainer>,
    storage: &Storage,
    options: &LocalCaOptions,
    log: &Log,
) -> Result<(), CertsError> {
    let ca = LocalCa::open(storage.clone(), options.clone(), SystemTime::now())?;
    if let Some(made) = ca.root_made() {
        log.warn(
            LOGGER,
            "new root certificate; `sluice trust` makes this machine trust it",
        )
        .shown("what", made)
        .send();
    }
    maintainer.add_issuer(Arc::new(ca));
    Ok(())
}
