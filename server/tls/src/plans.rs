//! Determines how the certificate of each name is obtained: converts the policies of the configuration to plans of
//! `sluice-certs`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluice_certs::limits::OCSP_PAUSE;
use sluice_certs::on_demand::covers;
use sluice_certs::permission::{Folders, Permission};
use sluice_certs::renewal::seed_of;
use sluice_certs::{
    AcmeIssuer, AcmeOptions, CertsError, KeyType, LocalCaOptions, Maintainer, Plan, Rhythm,
    SourceOptions, Stapling, Storage, ZeroSslIssuer, ZeroSslOptions,
};
use sluice_model::Config;
use sluice_model::tls::{AutomationPolicy, InternalIssuer, Issuer};

use super::{acme, authorities, auto, sources, storages, zerossl};
use sluice_observe::log::Log;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;

/// How the certificates of a set of names are obtained.
#[derive(Debug)]
pub(super) struct Scheme {
    pub(super) names: Vec<String>,
    issuers: Vec<IssuerOptions>,
    key_type: KeyType,
    keeps_keys: bool,
    renewal_share: Option<f64>,
    must_staple: bool,
    /// The storage of the policy as JSON, if it has one.
    storage: Option<String>,
}

/// The storages of policies that have one of their own, by their JSON.
pub(super) type Storages = HashMap<String, Arc<Storage>>;

/// The settings of an issuer.
#[derive(Debug)]
enum IssuerOptions {
    Local(Box<LocalCaOptions>),
    Acme(Box<AcmeOptions>),
    ZeroSsl(Box<ZeroSslOptions>),
}

/// Groups names by the way their certificates are obtained. An invalid policy is refused even if no name uses it.
pub(super) fn schemes(config: &Config, names: &BTreeSet<String>) -> Result<Vec<Scheme>, Refusal> {
    check_app(config)?;
    for policy in policies(config) {
        for issuer in &policy.issuers {
            issuer_options(config, issuer)?;
        }
    }
    let mut schemes: BTreeMap<String, Scheme> = BTreeMap::new();
    for name in names {
        let scheme = scheme(config, name)?;
        let entry = schemes.entry(scheme.id()).or_insert(scheme);
        entry.names.push(name.clone());
    }
    Ok(schemes.into_values().collect())
}

/// Opens the storages of policies. No connection is made.
pub(super) fn open_storages(config: &Config, data_dir: &Path) -> Result<Storages, Refusal> {
    let mut opened = Storages::new();
    for policy in policies(config) {
        let (Some(text), Some(module)) = (storage_text(policy), &policy.storage) else {
            continue;
        };
        let module = serde_json::from_value(module.clone().into());
        let module = module
            .map_err(|error| Refusal::new(format!("`storage` of an automation policy: {error}")))?;
        // Without a folder it is the storage of the server.
        if let Some(storage) = storages::own(&module, data_dir)? {
            opened.entry(text).or_insert_with(|| Arc::new(storage));
        }
    }
    Ok(opened)
}

fn storage_text(policy: &AutomationPolicy) -> Option<String> {
    let module = policy.storage.clone()?;
    Some(serde_json::Value::from(module).to_string())
}

/// Opens the issuers of a scheme. Local CAs are in the `storage` of the server; accounts, challenges and certificates are in
/// that of the policy if it has one.
pub(super) fn plan(
    scheme: &Scheme,
    maintainer: &Arc<Maintainer>,
    (storage, storages): (&Storage, &Storages),
    log: &Log,
) -> Result<Arc<Plan>, CertsError> {
    let own = scheme.storage.as_ref().and_then(|text| storages.get(text));
    let kept = own.map_or(storage, |own| &**own);
    let mut issuers: Vec<Arc<dyn sluice_certs::Issuer>> = Vec::new();
    for options in &scheme.issuers {
        issuers.push(match options {
            IssuerOptions::Local(options) => authorities::open(maintainer, storage, options, log)?,
            IssuerOptions::Acme(options) => Arc::new(AcmeIssuer::new(
                (**options).clone(),
                kept.clone(),
                maintainer.challenges(),
            )),
            IssuerOptions::ZeroSsl(options) => Arc::new(ZeroSslIssuer::new(
                (**options).clone(),
                maintainer.challenges(),
            )),
        });
    }
    Ok(Arc::new(Plan {
        id: scheme.id(),
        issuers,
        key_type: scheme.key_type,
        keeps_keys: scheme.keeps_keys,
        renewal_share: scheme.renewal_share,
        must_staple: scheme.must_staple,
        storage: own.cloned(),
    }))
}

impl Scheme {
    /// An ID that is equal for equal settings, in any configuration.
    fn id(&self) -> String {
        let Scheme {
            names: _,
            issuers,
            key_type,
            keeps_keys,
            renewal_share,
            must_staple,
            storage,
        } = self;
        let settings = format!(
            "{issuers:?} {key_type:?} {keeps_keys} {renewal_share:?} {must_staple} {storage:?}"
        );
        format!("{:016x}", seed_of(&settings))
    }
}

fn scheme(config: &Config, name: &str) -> Result<Scheme, Refusal> {
    let default = AutomationPolicy::default();
    let policy = policy(config, name).unwrap_or(&default);
    let is_explicit = policy.subjects.iter().any(|subject| subject == name);
    let kind = if auto::is_local(name) && (!is_explicit || policy.issuers.is_empty()) {
        Kind::Local
    } else {
        Kind::Public
    };
    scheme_of(config, policy, kind)
}

/// The kind of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Public CAs do not issue certificates for them, and no policy sets an issuer for exactly these names.
    Local,
    Public,
}

fn scheme_of(config: &Config, policy: &AutomationPolicy, kind: Kind) -> Result<Scheme, Refusal> {
    let key_type = KeyType::parse(&policy.key_type).ok_or_else(|| {
        Refusal::new(format!("unknown type of key `{}`", policy.key_type))
            .with_help("there are ed25519, p256, p384, rsa2048 and rsa4096")
    })?;
    let internal = policy.issuers.iter().find_map(|issuer| match issuer {
        Issuer::Internal(internal) => Some(internal.clone()),
        Issuer::Acme(_) | Issuer::ZeroSsl(_) | Issuer::Other(_) => None,
    });
    let issuers = match kind {
        Kind::Local => vec![Issuer::Internal(internal.unwrap_or_default())],
        Kind::Public if policy.issuers.is_empty() => vec![Issuer::Acme(Box::default())],
        Kind::Public => policy.issuers.clone(),
    };
    let issuers = issuers
        .iter()
        .map(|issuer| issuer_options(config, issuer))
        .collect::<Result<_, _>>()?;
    Ok(Scheme {
        names: Vec::new(),
        issuers,
        key_type,
        keeps_keys: policy.reuse_private_keys,
        renewal_share: Some(policy.renewal_window_ratio).filter(|share| *share > 0.0),
        must_staple: policy.must_staple,
        storage: storage_text(policy),
    })
}

/// How often certificates and storage are checked.
pub(super) fn rhythm(config: &Config) -> Rhythm {
    let tls = config.apps.tls.as_ref();
    let automation = tls.and_then(|tls| tls.automation.as_ref());
    let usual = Rhythm::default();
    let look = automation.and_then(|automation| given(automation.renew_interval));
    let clean = automation.and_then(|automation| given(automation.storage_clean_interval));
    // Local CAs are checked together with certificates, so the shortest interval applies.
    let pki = config.apps.pki.iter();
    let authorities = pki.flat_map(|pki| pki.certificate_authorities.values());
    let of_authorities = authorities.filter_map(|one| given(one.maintenance_interval));
    let look = of_authorities.chain(look).min();
    Rhythm {
        look: look.unwrap_or(usual.look).max(LOOK_MIN),
        clean: match tls {
            Some(tls) if tls.disable_storage_clean => None,
            Some(_) | None => clean.or(usual.clean),
        },
        tries_storage: !tls.is_some_and(|tls| tls.disable_storage_check),
    }
}

/// Checking more often would not find anything new.
const LOOK_MIN: Duration = Duration::from_secs(1);

/// The OCSP stapling settings; `None` if it is disabled.
pub(super) fn stapling(config: &Config) -> Option<Stapling> {
    let tls = config.apps.tls.as_ref();
    if tls.is_some_and(|tls| tls.disable_ocsp_stapling) {
        return None;
    }
    let automation = tls.and_then(|tls| tls.automation.as_ref());
    let interval = automation.and_then(|automation| given(automation.ocsp_interval));
    let config = config.clone();
    // As in Caddy, an empty override disables the responder.
    let responder = move |name: &str, url: &str| match policy(&config, name) {
        Some(policy) if policy.disable_ocsp_stapling => None,
        Some(policy) => match policy.ocsp_overrides.get(url) {
            Some(other) => Some(other.clone()).filter(|other| !other.is_empty()),
            None => Some(url.to_owned()),
        },
        None => Some(url.to_owned()),
    };
    Some(Stapling {
        interval: interval.unwrap_or(OCSP_PAUSE).max(LOOK_MIN),
        responder: Arc::new(responder),
    })
}

/// Whether certificates for `name` are obtained during handshakes.
pub(super) fn is_on_demand(config: &Config, name: &str) -> bool {
    policy(config, name).is_some_and(is_later)
}

/// The on-demand settings of the configuration.
#[derive(Debug)]
pub(super) struct OnDemandScheme {
    /// What permits names (`ask`, `permission`).
    pub(super) permission: Option<Permission>,
    /// The policies, in order of precedence.
    pub(super) rules: Vec<OnDemandPolicy>,
}

/// The on-demand settings of one policy.
#[derive(Debug)]
pub(super) struct OnDemandPolicy {
    /// The names it applies to; empty for all.
    pub(super) subjects: Vec<String>,
    /// External sources of certificates, which come first (`get_certificate`).
    pub(super) sources: Vec<SourceOptions>,
    /// How to obtain certificates for public and for local names; `None` if they are not obtained.
    pub(super) ways: Option<[Scheme; 2]>,
}

/// Whether a policy obtains certificates during handshakes. As in Caddy, names with `get_certificate` do not have a
/// certificate before.
fn is_later(policy: &AutomationPolicy) -> bool {
    policy.on_demand || !policy.get_certificate.is_empty()
}

/// The on-demand settings; `None` if they are not used.
pub(super) fn on_demand(config: &Config) -> Result<Option<OnDemandScheme>, Refusal> {
    if !policies(config).any(is_later) {
        return Ok(None);
    }
    let permission = permission(config)?;
    let mut rules = Vec::new();
    for policy in policies(config) {
        let sources = sources::options(&policy.get_certificate)?;
        let ways = match is_later(policy) {
            true => ways(config, policy, permission.is_some())?,
            false => None,
        };
        rules.push(OnDemandPolicy {
            subjects: policy.subjects.clone(),
            sources,
            ways,
        });
    }
    // A policy that lists a name takes precedence over wildcards and catch-all policies.
    rules.sort_by_key(
        |rule| match rule.subjects.iter().any(|name| name.contains('*')) {
            false if rule.subjects.is_empty() => 2,
            false => 0,
            true => 1,
        },
    );
    Ok(Some(OnDemandScheme { permission, rules }))
}

/// How a policy obtains certificates during handshakes, for public and for local names. A public CA requires a
/// permission endpoint, or names that are listed and have `get_certificate`.
fn ways(
    config: &Config,
    policy: &AutomationPolicy,
    has_permission: bool,
) -> Result<Option<[Scheme; 2]>, Refusal> {
    let public = scheme_of(config, policy, Kind::Public)?;
    let is_public = |issuer: &IssuerOptions| !matches!(issuer, IssuerOptions::Local(_));
    if !has_permission && public.issuers.iter().any(is_public) {
        if policy.get_certificate.is_empty() {
            return Err(Refusal::new(
                "certificates on demand need somebody to ask whether a name may have one",
            )
            .with_help("add the global option `on_demand_tls { ask <url> }`"));
        }
        let subjects = &policy.subjects;
        if subjects.is_empty() || subjects.iter().any(|name| name.contains('*')) {
            return Ok(None);
        }
    }
    Ok(Some([public, scheme_of(config, policy, Kind::Local)?]))
}

/// What permits names.
fn permission(config: &Config) -> Result<Option<Permission>, Refusal> {
    let automation = config.apps.tls.iter().flat_map(|tls| &tls.automation);
    let Some(settings) = automation
        .flat_map(|automation| &automation.on_demand)
        .next()
    else {
        return Ok(None);
    };
    let Some(permission) = &settings.permission else {
        return endpoint(&settings.ask);
    };
    let text = |key: &str| permission.get(key).and_then(|value| value.as_str());
    match text("module") {
        Some("http") => endpoint(text("endpoint").unwrap_or_default()),
        Some("python_dir") => {
            let root = text("root").unwrap_or_default();
            let suffix = text("domain_suffix").unwrap_or_default();
            folders(root, suffix).map(Some)
        }
        other => {
            let name = other.unwrap_or_default();
            Err(Refusal::new(format!("unknown permission module `{name}`"))
                .with_help("there are `http` and `python_dir`"))
        }
    }
}

/// Permission of an endpoint; none without its URL.
fn endpoint(url: &str) -> Result<Option<Permission>, Refusal> {
    let is_url = url.starts_with("http://") || url.starts_with("https://");
    match url {
        "" => Ok(None),
        _ if is_url => Ok(Some(Permission::Endpoint(url.to_owned()))),
        _ => Err(Refusal::new(format!("`{url}` is not a valid URL"))
            .with_help("write a whole address such as `http://localhost:9123/ask`")),
    }
}

/// Permission of the folders of Python applications.
fn folders(root: &str, suffix: &str) -> Result<Permission, Refusal> {
    let help = "give it the `root` of the applications and the `domain_suffix` of their names";
    if root.is_empty() || suffix.is_empty() {
        let message = "the permission module `python_dir` needs `root` and `domain_suffix`";
        return Err(Refusal::new(message).with_help(help));
    }
    let folders = Folders::new(root, suffix).map_err(|error| {
        let message = format!("the permission module `python_dir` with `root {root}`: {error}");
        Refusal::new(message).with_help(help)
    })?;
    Ok(Permission::Folders(folders))
}

/// The first policy for a name; one that lists it takes precedence over wildcards and catch-all policies.
fn policy<'c>(config: &'c Config, name: &str) -> Option<&'c AutomationPolicy> {
    let exact =
        policies(config).find(|policy| policy.subjects.iter().any(|subject| subject == name));
    exact.or_else(|| {
        policies(config).find(|policy| {
            let covers = |subject: &String| covers(subject, name);
            policy.subjects.is_empty() || policy.subjects.iter().any(covers)
        })
    })
}

fn policies(config: &Config) -> impl Iterator<Item = &AutomationPolicy> {
    let automation = config.apps.tls.iter().flat_map(|tls| &tls.automation);
    automation.flat_map(|automation| &automation.policies)
}

/// Refuses settings of the app that are not implemented.
fn check_app(config: &Config) -> Result<(), Refusal> {
    let Some(tls) = &config.apps.tls else {
        return Ok(());
    };
    if tls.encrypted_client_hello.is_some() {
        let what = "the TLS library, rustls, cannot serve Encrypted Client Hello (`encrypted_client_hello`)";
        let help = "remove it, or let a server in front that supports it end TLS; names of hosts stay visible";
        return Err(Refusal::new(what).with_help(help));
    }
    match tls.cache.is_some() {
        true => Err(Refusal::not_yet(
            "the size of the cache of certificates",
            "remove it",
        )),
        false => Ok(()),
    }
}

fn issuer_options(config: &Config, issuer: &Issuer) -> Result<IssuerOptions, Refusal> {
    match issuer {
        Issuer::Internal(internal) => local(config, internal),
        Issuer::Acme(acme) => Ok(IssuerOptions::Acme(Box::new(acme::options(config, acme)?))),
        Issuer::ZeroSsl(own) => {
            zerossl::options(config, own).map(|options| IssuerOptions::ZeroSsl(Box::new(options)))
        }
        Issuer::Other(_) => Err(
            Refusal::new(format!("unknown issuer `{}`", issuer.module()))
                .with_help("there are `acme`, `internal` and `zerossl`"),
        ),
    }
}

fn local(config: &Config, issuer: &InternalIssuer) -> Result<IssuerOptions, Refusal> {
    authorities::options(config, issuer).map(|options| IssuerOptions::Local(Box::new(options)))
}

#[cfg(test)]
mod tests {
    use sluice_certs::acme::{LETS_ENCRYPT, LETS_ENCRYPT_STAGING};

    use super::*;

    fn options(policies: &str, name: &str) -> Result<Vec<IssuerOptions>, String> {
        let text = format!(
            r#"{{"apps":{{"http":{{"http_port":8080}},"tls":{{"automation":{{"policies":{policies}}}}}}}}}"#
        );
        let config = Config::from_json(&text).unwrap();
        let names = BTreeSet::from([name.to_owned()]);
        let mut schemes = schemes(&config, &names).map_err(|refusal| refusal.to_string())?;
        Ok(schemes.remove(0).issuers)
    }

    fn directory(policies: &str, name: &str) -> String {
        match &options(policies, name).unwrap()[0] {
            IssuerOptions::Acme(acme) => acme.directory.clone(),
            IssuerOptions::Local(local) => format!("local {}", local.id),
            IssuerOptions::ZeroSsl(own) => own.api_url.clone(),
        }
    }

    #[test]
    fn the_policy_that_names_a_name_decides_then_the_kind_of_name() {
        let policies = r#"[{"issuers":[{"module":"acme","ca":"https://all.test/dir"}]},
            {"subjects":["*.wild.test"],"issuers":[{"module":"acme","ca":"https://wild.test/dir"}]},
            {"subjects":["10.0.0.1","x.local"],"issuers":[{"module":"acme","ca":"https://ip.test/dir"}]},
            {"subjects":["y.local"]}]"#;
        for (name, wanted) in [
            ("a.test", "https://all.test/dir"),
            ("localhost", "local local"),
            ("10.0.0.1", "https://ip.test/dir"),
            ("x.local", "https://ip.test/dir"),
            ("y.local", "local local"),
        ] {
            assert_eq!(directory(policies, name), wanted, "{name}");
        }
        assert_eq!(directory("[]", "a.test"), LETS_ENCRYPT);
        assert_eq!(directory("[]", "10.0.0.1"), "local local");
        let wild = r#"[{"subjects":["*.wild.test"],"issuers":[{"module":"internal","ca":"x"}]}]"#;
        assert_eq!(directory(wild, "a.wild.test"), "local x");
        assert_eq!(directory(wild, "a.b.wild.test"), LETS_ENCRYPT);
    }

    #[test]
    fn challenges_are_served_on_the_configured_ports() {
        let one = |text: &str| match options(text, "a.test").unwrap().remove(0) {
            IssuerOptions::Acme(acme) => (acme.http_port, acme.alpn_port, acme.test_directory),
            IssuerOptions::Local(_) | IssuerOptions::ZeroSsl(_) => panic!("not asked"),
        };
        let staging = LETS_ENCRYPT_STAGING.to_owned();
        assert_eq!(one("[]"), (Some(8080), Some(443), staging.clone()));
        let set = r#"[{"issuers":[{"module":"acme","challenges":{"http":{"alternate_port":81},
            "tls-alpn":{"disabled":true}}}]}]"#;
        assert_eq!(one(set), (Some(81), None, staging));
    }

    #[test]
    fn certificates_on_demand_need_somebody_to_ask() {
        let read = |ask: &str, issuer: &str| {
            let text = format!(
                r#"{{"apps":{{"tls":{{"automation":{{"on_demand":{ask},"policies":[
                {{"subjects":["a.test"]}},{{"on_demand":true,"issuers":[{{"module":"{issuer}"}}]}}]}}}}}}}}"#
            );
            let config = Config::from_json(&text).unwrap();
            assert!(is_on_demand(&config, "b.test") && !is_on_demand(&config, "a.test"));
            on_demand(&config).map(|scheme| scheme.unwrap().permission)
        };
        assert!(read("{}", "acme").is_err());
        assert_eq!(read("{}", "internal"), Ok(None));
        let url = || Ok(Some(Permission::Endpoint("http://x/ask".to_owned())));
        assert_eq!(read(r#"{"ask":"http://x/ask"}"#, "acme"), url());
        let module = r#"{"permission":{"module":"http","endpoint":"http://x/ask"}}"#;
        assert_eq!(read(module, "acme"), url());
        assert!(read(r#"{"permission":{"module":"x"}}"#, "acme").is_err());
        let folders = |root: &str| {
            let given = format!(r#""module":"python_dir","domain_suffix":"a.org","root":"{root}""#);
            read(&format!(r#"{{"permission":{{{given}}}}}"#), "acme")
        };
        assert!(matches!(folders("/"), Ok(Some(Permission::Folders(_)))));
        assert!(folders("").is_err() && folders("/no/such/folder").is_err());
        assert!(read(r#"{"ask":"x/ask"}"#, "acme").is_err());
        assert!(on_demand(&Config::default()).unwrap().is_none());
    }

    #[test]
    fn certificates_are_looked_at_as_often_as_the_configuration_says() {
        let read = |text: &str| {
            let text = format!(r#"{{"apps":{{"tls":{text}}}}}"#);
            rhythm(&Config::from_json(&text).unwrap())
        };
        assert_eq!(read("{}"), Rhythm::default());
        let set = read(r#"{"automation":{"renew_interval":"1m","storage_clean_interval":"2h"}}"#);
        assert_eq!(set.look, Duration::from_secs(60));
        assert_eq!(set.clean, Some(Duration::from_secs(7200)));
        assert_eq!(read(r#"{"disable_storage_clean":true}"#).clean, None);
        assert!(set.tries_storage);
        assert!(!read(r#"{"disable_storage_check":true}"#).tries_storage);
    }

    #[test]
    fn staples_follow_the_policies() {
        let read = |text: &str| {
            let text = format!(r#"{{"apps":{{"tls":{text}}}}}"#);
            stapling(&Config::from_json(&text).unwrap())
        };
        let ask = |how: &Stapling, name: &str| (how.responder)(name, "http://x/");
        let usual = read("{}").unwrap();
        assert_eq!(usual.interval, OCSP_PAUSE);
        assert_eq!(ask(&usual, "a.test").as_deref(), Some("http://x/"));
        assert!(read(r#"{"disable_ocsp_stapling":true}"#).is_none());
        let set = read(
            r#"{"automation":{"ocsp_interval":"5m","policies":[
            {"subjects":["off.test"],"disable_ocsp_stapling":true},
            {"subjects":["none.test"],"ocsp_overrides":{"http://x/":""}},
            {"ocsp_overrides":{"http://x/":"http://y/"}}]}}"#,
        )
        .unwrap();
        assert_eq!(set.interval, Duration::from_secs(300));
        assert_eq!(ask(&set, "off.test"), None);
        assert_eq!(ask(&set, "none.test"), None);
        assert_eq!(ask(&set, "a.test").as_deref(), Some("http://y/"));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (settings, named) in [
            (r#""module":"acme","ca":"acme.test""#, "acme.test"),
            (r#""module":"acme","challenges":{"dns":{}}"#, "provider"),
            (
                r#""module":"acme","challenges":{"dns":{"provider":{"name":"vultr"}}}"#,
                "vultr",
            ),
            (
                r#""module":"acme","challenges":{"dns":{"provider":{"name":"route53"}}}"#,
                "access_key_id",
            ),
            (
                r#""module":"acme","challenges":{"dns":{"provider":{"name":"desec","token":1}}}"#,
                "`token`",
            ),
            (
                r#""module":"acme","challenges":{"dns":{"provider":{"name":"exec"},"resolvers":["x"]}}"#,
                "`x`",
            ),
            (r#""module":"zerossl""#, "no key"),
            (r#""module":"vault""#, "vault"),
        ] {
            let refused = options(&format!("[{{\"issuers\":[{{{settings}}}]}}]"), "a.test");
            let said = refused.unwrap_err();
            assert!(said.contains(named), "{named}: {said}");
        }
        assert!(options(r#"[{"key_type":"p521"}]"#, "a.test").is_err());
    }

    #[test]
    fn a_policy_may_have_a_storage_of_its_own() {
        let config = |policies: &str| {
            let text =
                format!(r#"{{"apps":{{"tls":{{"automation":{{"policies":{policies}}}}}}}}}"#);
            Config::from_json(&text).unwrap()
        };
        let own = r#"{"module":"file_system","root":"/own"}"#;
        let policies = format!(
            r#"[{{"subjects":["a.test","b.test"],"storage":{own}}},{{"subjects":["c.test"],"storage":{own},"must_staple":true}},
                {{"subjects":["d.test"],"storage":{{"module":"file_system"}}}},{{"subjects":["e.test"]}}]"#
        );
        let config_of = config(&policies);
        let opened = open_storages(&config_of, Path::new("/data")).unwrap();
        assert_eq!(opened.len(), 1, "the same storage is opened once");
        assert_eq!(
            *opened.values().next().unwrap().as_ref(),
            Storage::new("/own")
        );
        let of = |name: &str| scheme(&config_of, name).unwrap();
        assert_eq!(of("a.test").id(), of("b.test").id());
        assert_ne!(of("a.test").id(), of("e.test").id());
        let is_own = |name: &str| {
            of(name)
                .storage
                .is_some_and(|text| opened.contains_key(&text))
        };
        assert!(is_own("a.test") && is_own("c.test") && !is_own("d.test") && !is_own("e.test"));
        let bad = config(r#"[{"storage":{"module":"consul"}}]"#);
        assert!(open_storages(&bad, Path::new("/data")).is_err());
    }
}
