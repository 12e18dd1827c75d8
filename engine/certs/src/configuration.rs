//! From the typed configuration to what this package is built from. What is not supported is refused by name, never
//! ignored. Which listener gets which policies, and which names need a certificate, is left to `sluice-serve`.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine;
use sluice_model::pki::CertificateAuthority;
use sluice_model::tls::{Certificates, ClientAuthentication, ConnectionPolicy, InternalIssuer};
use sluice_model::{Duration, RawModule};

use crate::failure::{CertsError, Notice};
use crate::local_ca::{CaFiles, LocalCaOptions};
use crate::pair::{Origin, Pair, chain_from_pem};
use crate::policy::{ClientAuth, ClientAuthMode, Policy};
use crate::storage::{StoredPair, read_file};
use crate::store::Fallback;
use crate::subject::Subject;

/// Why a part of a configuration cannot be used.
#[derive(Debug)]
pub enum ConfigurationError {
    /// The setting is known but not supported yet.
    Unsupported {
        /// Its name.
        setting: String,
    },
    /// The value is not one of those that there are.
    Value {
        /// The setting.
        setting: &'static str,
        /// What was found.
        found: String,
        /// What there is.
        accepted: &'static str,
    },
    /// A file or name in it cannot be used.
    Certs(CertsError),
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigurationError::Unsupported { setting } => {
                write!(f, "`{setting}` is not supported yet")
            }
            ConfigurationError::Value {
                setting,
                found,
                accepted,
            } => {
                write!(
                    f,
                    "unknown value `{found}` of `{setting}`; accepted: {accepted}"
                )
            }
            ConfigurationError::Certs(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for ConfigurationError {}

impl From<CertsError> for ConfigurationError {
    fn from(error: CertsError) -> Self {
        ConfigurationError::Certs(error)
    }
}

/// The certificates that a configuration loads, with what is odd about them. All mistakes are found in one go.
pub fn load_certificates(
    config: &Certificates,
    now: SystemTime,
) -> Result<(Vec<Arc<Pair>>, Vec<Notice>), Vec<ConfigurationError>> {
    let mut loaded: Vec<Result<Pair, ConfigurationError>> = Vec::new();
    for files in &config.load_files {
        loaded.push(pem_only("load_files.format", &files.format).and_then(|()| {
            let pair = Pair::from_files(Path::new(&files.certificate), Path::new(&files.key))?;
            Ok(Pair {
                tags: files.tags.clone(),
                ..pair
            })
        }));
    }
    for (index, texts) in config.load_pem.iter().enumerate() {
        let name = format!("load_pem {index}");
        let origin = Origin {
            certificate: Path::new(&name),
            key: Path::new(&name),
        };
        let stored = StoredPair {
            certificate: texts.certificate.clone().into_bytes(),
            key: texts.key.clone().into_bytes(),
        };
        let pair = Pair::from_pem(&stored, origin).map_err(Into::into);
        loaded.push(pair.map(|pair| Pair {
            tags: texts.tags.clone(),
            ..pair
        }));
    }
    for folder in &config.load_folders {
        load_folder(Path::new(folder), &mut loaded);
    }
    if config.load_storage.is_some() {
        loaded.push(Err(unsupported("load_storage")));
    }
    let (mut pairs, mut notices, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for pair in loaded {
        match pair {
            Ok(pair) => {
                notices.extend(pair.notices(now));
                pairs.push(Arc::new(pair));
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        Ok((pairs, notices))
    } else {
        Err(errors)
    }
}

/// Every file in `folder` that ends in `.pem` holds a certificate and its key.
fn load_folder(folder: &Path, loaded: &mut Vec<Result<Pair, ConfigurationError>>) {
    let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut paths = match entries {
        Ok(entries) => entries
            .into_iter()
            .map(|entry| entry.path())
            .collect::<Vec<_>>(),
        Err(source) => {
            return loaded.push(Err(CertsError::io("read", folder, source).into()));
        }
    };
    // The order decides which certificate is the first.
    paths.sort();
    for path in paths
        .iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "pem"))
    {
        loaded.push(Pair::from_files(path, path).map_err(Into::into));
    }
}

/// How handshakes are answered.
pub fn policy(config: &ConnectionPolicy) -> Result<Policy, ConfigurationError> {
    let wanted = &config.r#match;
    let unknown = [
        ("match.local_ip", wanted.local_ip.is_some()),
        ("match.remote_ip", wanted.remote_ip.is_some()),
        ("match.sni_regexp", wanted.sni_regexp.is_some()),
        (
            "insecure_secrets_log",
            !config.insecure_secrets_log.is_empty(),
        ),
        ("handshake_context", config.handshake_context.is_some()),
    ];
    refuse(&unknown)?;
    let mut any_tag = Vec::new();
    if let Some(selection) = &config.certificate_selection {
        refuse(&[
            (
                "certificate_selection.serial_number",
                !selection.serial_number.is_empty(),
            ),
            (
                "certificate_selection.subject_organization",
                !selection.subject_organization.is_empty(),
            ),
            (
                "certificate_selection.public_key_algorithm",
                selection.public_key_algorithm.is_some(),
            ),
            (
                "certificate_selection.all_tags",
                !selection.all_tags.is_empty(),
            ),
        ])?;
        any_tag = selection.any_tag.clone();
    }
    let subject = |name: &str| match name {
        "" => Ok(None),
        name => Subject::parse(name).map(Some),
    };
    Ok(Policy {
        names: wanted.sni.clone(),
        fallback: Fallback {
            default_sni: subject(&config.default_sni)?,
            fallback_sni: subject(&config.fallback_sni)?,
        },
        any_tag,
        version_min: config.protocol_min.clone(),
        version_max: config.protocol_max.clone(),
        cipher_suites: config.cipher_suites.clone(),
        curves: config.curves.clone(),
        alpn: config.alpn.clone(),
        client_auth: config
            .client_authentication
            .as_ref()
            .map(client_auth)
            .transpose()?,
        refuse: config.drop,
    })
}

fn client_auth(config: &ClientAuthentication) -> Result<ClientAuth, ConfigurationError> {
    refuse(&[(
        "client_authentication.verifiers",
        !config.verifiers.is_empty(),
    )])?;
    let mode = match config.mode.as_str() {
        "" => None,
        name => Some(
            ClientAuthMode::parse(name).ok_or_else(|| ConfigurationError::Value {
                setting: "client_authentication.mode",
                found: name.to_owned(),
                accepted: "request, require, verify_if_given, require_and_verify",
            })?,
        ),
    };
    let mut authorities = Vec::new();
    if let Some(pool) = &config.ca {
        authorities = trust_pool(pool)?;
    }
    for text in &config.trusted_ca_certs {
        authorities.push(der("trusted_ca_certs", text)?);
    }
    for path in &config.trusted_ca_certs_pem_files {
        authorities.extend(pem_file(path)?);
    }
    let leafs = config
        .trusted_leaf_certs
        .iter()
        .map(|text| der("trusted_leaf_certs", text));
    Ok(ClientAuth {
        mode,
        authorities,
        leafs: leafs.collect::<Result<_, _>>()?,
    })
}

/// The certificates (DER) of a pool that vouches for others: for clients, or for upstreams.
pub fn trust_pool(pool: &RawModule) -> Result<Vec<Vec<u8>>, ConfigurationError> {
    let text = |key: &str| {
        pool.get(key)
            .and_then(|value| value.as_str())
            .unwrap_or_default()
    };
    let list = |key: &str| {
        let values = pool
            .get(key)
            .and_then(|value| value.as_array())
            .into_iter()
            .flatten();
        values.filter_map(|value| value.as_str())
    };
    match text("provider") {
        "file" => {
            let pools = list("pem_files")
                .map(pem_file)
                .collect::<Result<Vec<_>, _>>()?;
            Ok(pools.concat())
        }
        "inline" => list("trusted_ca_certs")
            .map(|text| der("trusted_ca_certs", text))
            .collect(),
        other => Err(unsupported(&format!("trust_pool {other}"))),
    }
}

/// What the authority `id` is made of. Settings of the issuer are those of the first policy that names it.
pub fn local_ca(
    id: &str,
    config: Option<&CertificateAuthority>,
    issuer: Option<&InternalIssuer>,
) -> Result<LocalCaOptions, ConfigurationError> {
    let mut options = LocalCaOptions {
        id: id.to_owned(),
        ..LocalCaOptions::default()
    };
    if let Some(issuer) = issuer {
        set_span(&mut options.leaf_lifetime, issuer.lifetime);
        options.sign_with_root = issuer.sign_with_root;
    }
    let Some(config) = config else {
        return Ok(options);
    };
    refuse(&[("pki storage", config.storage.is_some())])?;
    set_text(&mut options.name, &config.name);
    set_text(&mut options.root_common_name, &config.root_common_name);
    set_text(
        &mut options.intermediate_common_name,
        &config.intermediate_common_name,
    );
    set_span(
        &mut options.intermediate_lifetime,
        config.intermediate_lifetime,
    );
    if config.renewal_window_ratio > 0.0 {
        options.renewal_share = config.renewal_window_ratio;
    }
    let files = |pair: &Option<sluice_model::pki::KeyPair>| match pair {
        None => Ok(None),
        Some(pair) if pair.format.is_empty() || pair.format == "pem_file" => Ok(Some(CaFiles {
            certificate: (&pair.certificate).into(),
            key: (&pair.private_key).into(),
        })),
        Some(pair) => Err(unsupported(&format!("format {}", pair.format))),
    };
    options.root = files(&config.root)?;
    options.intermediate = files(&config.intermediate)?;
    Ok(options)
}

fn set_text(place: &mut String, text: &str) {
    if !text.is_empty() {
        text.clone_into(place);
    }
}

/// Zero and negative spans mean the default.
fn set_span(place: &mut std::time::Duration, span: Duration) {
    if let Some(span) = span.to_std().filter(|span| !span.is_zero()) {
        *place = span;
    }
}

fn pem_only(setting: &'static str, format: &str) -> Result<(), ConfigurationError> {
    match format {
        "" | "pem" => Ok(()),
        other => Err(ConfigurationError::Value {
            setting,
            found: other.to_owned(),
            accepted: "pem",
        }),
    }
}

fn pem_file(path: impl AsRef<Path>) -> Result<Vec<Vec<u8>>, ConfigurationError> {
    let path = path.as_ref();
    let text = read_file(path)?
        .ok_or_else(|| CertsError::io("read", path, std::io::ErrorKind::NotFound.into()))?;
    let chain = chain_from_pem(&text, path)?;
    Ok(chain.into_iter().map(|cert| cert.to_vec()).collect())
}

fn der(setting: &'static str, text: &str) -> Result<Vec<u8>, ConfigurationError> {
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .map_err(|_| ConfigurationError::Value {
            setting,
            found: text.to_owned(),
            accepted: "a certificate (DER) in base64",
        })
}

fn refuse(settings: &[(&str, bool)]) -> Result<(), ConfigurationError> {
    match settings.iter().find(|(_, is_set)| *is_set) {
        Some((setting, _)) => Err(unsupported(setting)),
        None => Ok(()),
    }
}

fn unsupported(setting: &str) -> ConfigurationError {
    ConfigurationError::Unsupported {
        setting: setting.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{TempFolder, TestCa};

    fn read<T: serde::de::DeserializeOwned>(json: &str) -> T {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_policy_says_what_its_json_says() {
        let folder = TempFolder::new();
        let test = TestCa::new();
        let pem = folder.path().join("ca.pem");
        fs::write(&pem, test.ca.root_pem()).unwrap();
        let json = r#"{"match":{"sni":["a.test"]},"certificate_selection":{"any_tag":["cert0"]},
            "curves":["x25519"],"alpn":["http/1.1"],"protocol_min":"tls1.2","fallback_sni":"b.test",
            "client_authentication":{"ca":{"pem_files":["PEM"],"provider":"file"},"mode":"verify_if_given"}}"#;
        let config: ConnectionPolicy = read(&json.replace("PEM", pem.to_str().unwrap()));
        let built = policy(&config).unwrap();
        assert_eq!(built.names, ["a.test"]);
        assert_eq!(built.any_tag, ["cert0"]);
        assert_eq!((built.curves.len(), built.alpn.len()), (1, 1));
        assert_eq!(built.version_min, "tls1.2");
        assert_eq!(
            built.fallback.fallback_sni,
            Some(Subject::parse("b.test").unwrap())
        );
        let auth = built.client_auth.unwrap();
        assert_eq!(auth.mode, Some(ClientAuthMode::VerifyIfGiven));
        assert_eq!(auth.authorities, [test.ca.root_der()]);
        assert_eq!(
            policy(&ConnectionPolicy::default()).unwrap(),
            Policy::default()
        );
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        for (json, wanted) in [
            (
                r#"{"match":{"sni_regexp":{"pattern":"x"}}}"#,
                "match.sni_regexp",
            ),
            (r#"{"insecure_secrets_log":"/x"}"#, "insecure_secrets_log"),
            (
                r#"{"certificate_selection":{"all_tags":["x"]}}"#,
                "certificate_selection.all_tags",
            ),
            (r#"{"client_authentication":{"mode":"often"}}"#, "`often`"),
            (
                r#"{"client_authentication":{"ca":{"provider":"http"}}}"#,
                "trust_pool http",
            ),
            (
                r#"{"client_authentication":{"ca":{"provider":"inline","trusted_ca_certs":["?"]}}}"#,
                "base64",
            ),
            (
                r#"{"client_authentication":{"ca":{"provider":"file","pem_files":["/nonexistent"]}}}"#,
                "/nonexistent",
            ),
            (
                r#"{"client_authentication":{"verifiers":[{"verifier":"leaf"}]}}"#,
                "verifiers",
            ),
            (r#"{"default_sni":"a b"}"#, "`a b`"),
        ] {
            let error = policy(&read(json)).expect_err(json).to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn all_certificates_are_tried_before_any_mistake_is_told() {
        let (folder, test) = (TempFolder::new(), TestCa::new());
        let pair = test.issue("a.test");
        let both = [pair.certificate.as_slice(), &pair.key].concat();
        fs::write(folder.path().join("b.pem"), &both).unwrap();
        fs::write(folder.path().join("ignored.txt"), "x").unwrap();
        let at = folder.path().to_str().unwrap();
        let text = serde_json::to_string(&String::from_utf8(both).unwrap()).unwrap();
        let good = format!(
            r#"{{"load_folders":["{at}"],"load_files":[{{"certificate":"{at}/b.pem","key":"{at}/b.pem","tags":["t"]}}],
            "load_pem":[{{"certificate":{text},"key":{text}}}]}}"#
        );
        let (pairs, notices) = load_certificates(&read(&good), SystemTime::now()).unwrap();
        assert_eq!((pairs.len(), notices.len()), (3, 0));
        assert_eq!(pairs[0].tags, ["t"]);
        fs::write(folder.path().join("c.pem"), "x").unwrap();
        let bad = good.replace("/b.pem\",\"key", "/gone.pem\",\"key");
        let errors = load_certificates(&read(&bad), SystemTime::now()).unwrap_err();
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(
            errors[0].contains("gone.pem") && errors[1].contains("c.pem"),
            "{errors:?}"
        );
    }

    #[test]
    fn an_authority_takes_its_settings() {
        let config = r#"{"name":"Ours","intermediate_lifetime":"3d","renewal_window_ratio":0.5,
            "root":{"certificate":"/r.crt","private_key":"/r.key"}}"#;
        let issuer = r#"{"lifetime":3600000000000,"sign_with_root":true}"#;
        let options = local_ca("x", Some(&read(config)), Some(&read(issuer))).unwrap();
        assert_eq!((options.id.as_str(), options.name.as_str()), ("x", "Ours"));
        assert_eq!(options.leaf_lifetime.as_secs(), 3600);
        assert_eq!(options.intermediate_lifetime.as_secs(), 3 * 86_400);
        assert!(options.sign_with_root && options.renewal_share == 0.5);
        assert_eq!(options.root.unwrap().key, Path::new("/r.key"));
        let refused = r#"{"root":{"certificate":"/r.crt","private_key":"x","format":"pkcs11"}}"#;
        assert!(local_ca("x", Some(&read(refused)), None).is_err());
    }
}
