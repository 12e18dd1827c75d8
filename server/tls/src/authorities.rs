//! Local CAs of the configuration. `sluice-certs` implements them; `plans` selects the CA for each name.

use std::sync::Arc;
use std::time::SystemTime;

use sluice_certs::{CaFiles, CertsError, Issuer, LocalCa, LocalCaOptions, Maintainer, Storage};
use sluice_model::Config;
use sluice_model::pki::{CertificateAuthority, KeyPair};
use sluice_model::tls::InternalIssuer;

use super::{Https, LOGGER, storages};
use sluice_observe::log::Log;
use sluice_pipeline::keys::Authorities;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;

/// The settings of the CA that an `internal` issuer refers to.
pub(super) fn options(config: &Config, issuer: &InternalIssuer) -> Result<LocalCaOptions, Refusal> {
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
    let Some(module) = &config.storage else {
        return Ok(());
    };
    let module = serde_json::to_value(module).and_then(serde_json::from_value);
    let module = module.map_err(|error| Refusal::new(format!("`storage` of a CA: {error}")))?;
    options.storage = storages::own(&module, &storages::user_folder())?;
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

/// Opens a CA and registers it for renewal. Logs the creation of a root certificate, which clients have to be
/// configured to trust.
pub(super) fn open(
    maintainer: &Arc<Maintainer>,
    storage: &Storage,
    options: &LocalCaOptions,
    log: &Log,
) -> Result<Arc<LocalCa>, CertsError> {
    let ca = LocalCa::open(storage.clone(), options.clone(), SystemTime::now())?;
    if let Some(made) = ca.root_made() {
        log.warn(
            LOGGER,
            "new root certificate; `sluice trust` makes this machine trust it",
        )
        .shown("what", made)
        .send();
    }
    let ca = Arc::new(ca);
    let issuer: Arc<dyn Issuer> = ca.clone();
    maintainer.add_issuer(&issuer);
    Ok(ca)
}

/// The local CAs, for handlers of a configuration that is being built.
pub struct LocalAuthorities<'a> {
    https: &'a Https,
    config: &'a Config,
}

impl<'a> LocalAuthorities<'a> {
    /// The local CAs of `config`.
    pub fn new(https: &'a Https, config: &'a Config) -> LocalAuthorities<'a> {
        LocalAuthorities { https, config }
    }
}

impl Authorities for LocalAuthorities<'_> {
    fn local_ca(&self, id: &str) -> Result<(Arc<LocalCa>, Storage), Refusal> {
        let Https {
            storage,
            maintainer,
            log,
            ..
        } = self.https;
        let issuer = InternalIssuer {
            ca: id.to_owned(),
            ..InternalIssuer::default()
        };
        let ca = open(maintainer, storage, &options(self.config, &issuer)?, log)
            .map_err(|error| super::authority_fails(&error))?;
        Ok((ca, storage.clone()))
    }
}

/// Shows the certificates of local CAs, on any thread.
#[derive(Clone)]
pub struct AuthorityView {
    storage: Storage,
    config: Arc<Config>,
}

/// The names and certificates of a local CA.
#[derive(Clone, Debug)]
pub struct AuthorityCertificates {
    /// Its ID.
    pub id: String,
    /// The name people see.
    pub name: String,
    /// The common name of the root.
    pub root_common_name: String,
    /// The common name of the intermediate; empty if the root signs.
    pub intermediate_common_name: String,
    /// The root as PEM.
    pub root: String,
    /// The intermediate as PEM; empty if the root signs.
    pub intermediate: String,
}

impl AuthorityView {
    /// The local CAs of `config`, which runs.
    pub fn new(https: &Https, config: Arc<Config>) -> AuthorityView {
        AuthorityView {
            storage: https.storage.clone(),
            config,
        }
    }

    /// A CA that the configuration has, or the one named `local`, which is created if nothing needed it yet; `None` for
    /// other IDs.
    ///
    /// # Errors
    ///
    /// Its settings or files are unusable.
    pub fn find(&self, id: &str) -> Result<Option<AuthorityCertificates>, String> {
        let pki = self.config.apps.pki.as_ref();
        let is_configured = pki.is_some_and(|pki| pki.certificate_authorities.contains_key(id));
        if id != LocalCaOptions::default().id && !is_configured {
            return Ok(None);
        }
        let issuer = InternalIssuer {
            ca: id.to_owned(),
            ..InternalIssuer::default()
        };
        let options = options(&self.config, &issuer).map_err(|refusal| refusal.to_string())?;
        let ca = LocalCa::open(self.storage.clone(), options, SystemTime::now())
            .map_err(|error| error.to_string())?;
        Ok(Some(AuthorityCertificates {
            id: id.to_owned(),
            name: ca.name().to_owned(),
            root_common_name: ca.root_common_name(),
            intermediate_common_name: ca.intermediate_common_name(),
            root: ca.root_pem().to_owned(),
            intermediate: ca.intermediate_pem().unwrap_or_default(),
        }))
    }
}
