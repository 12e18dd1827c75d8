//! The settings of handshakes: from the model's words to those of `sluice-certs`.

use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sluice_certs::{CertStore, ClientAuth, ClientAuthMode, Fallback, Policy, Subject, TlsPolicies};
use sluice_model::RawModule;
use sluice_model::tls::{CertificateSelection, ClientAuthentication, ConnectionPolicy};
use sluice_net::tls::certificates_from_pem;

use crate::build::Refusal;

/// Builds the policies of one server, found at `place`.
pub(super) fn build(
    configs: &[ConnectionPolicy],
    place: &str,
    store: &Arc<CertStore>,
    previous: Option<&TlsPolicies>,
) -> Result<TlsPolicies, Refusal> {
    let mut policies = Vec::with_capacity(configs.len());
    for (index, config) in configs.iter().enumerate() {
        let built = policy(config).map_err(|refusal| Refusal {
            place: format!("{place}[{index}]"),
            ..refusal
        })?;
        policies.push(built);
    }
    TlsPolicies::build(policies, store, previous).map_err(|error| Refusal {
        place: place.to_owned(),
        ..Refusal::new(error.to_string())
    })
}

fn policy(config: &ConnectionPolicy) -> Result<Policy, Refusal> {
    let on = &config.r#match;
    let later = [
        (
            on.local_ip.is_some(),
            "choosing TLS settings by local address",
        ),
        (
            on.remote_ip.is_some(),
            "choosing TLS settings by remote address",
        ),
        (
            on.sni_regexp.is_some(),
            "choosing TLS settings by a pattern",
        ),
        (
            !config.insecure_secrets_log.is_empty(),
            "`insecure_secrets_log`",
        ),
        (config.handshake_context.is_some(), "a handshake context"),
    ];
    if let Some((_, what)) = later.iter().find(|(used, _)| *used) {
        return Err(Refusal::not_yet(what, "remove it"));
    }
    if let Some(selection) = &config.certificate_selection {
        let CertificateSelection {
            serial_number,
            subject_organization,
            public_key_algorithm,
            any_tag: _,
            all_tags,
        } = selection;
        let others = !serial_number.is_empty()
            || !subject_organization.is_empty()
            || public_key_algorithm.is_some()
            || !all_tags.is_empty();
        if others {
            return Err(Refusal::not_yet(
                "choosing certificates by more than `any_tag`",
                "give each pair of files a tag",
            ));
        }
    }
    Ok(Policy {
        names: on.sni.clone(),
        fallback: Fallback {
            default_sni: subject(&config.default_sni)?,
            fallback_sni: subject(&config.fallback_sni)?,
        },
        version_min: config.protocol_min.clone(),
        version_max: config.protocol_max.clone(),
        cipher_suites: config.cipher_suites.clone(),
        curves: config.curves.clone(),
        // What is spoken here; a list that also names h2 leaves clients this one.
        alpn: vec!["http/1.1".to_owned()],
        client_auth: config
            .client_authentication
            .as_ref()
            .map(client_auth)
            .transpose()?,
        refuse: config.drop,
        any_tag: match &config.certificate_selection {
            Some(selection) => selection.any_tag.clone(),
            None => Vec::new(),
        },
    })
}

fn subject(text: &str) -> Result<Option<Subject>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    Subject::parse(text)
        .map(Some)
        .map_err(|error| Refusal::new(error.to_string()))
}

fn client_auth(config: &ClientAuthentication) -> Result<ClientAuth, Refusal> {
    let mode = match config.mode.as_str() {
        "" => None,
        name => Some(ClientAuthMode::parse(name).ok_or_else(|| {
            Refusal::new(format!("unknown mode of client authentication `{name}`"))
                .with_help("there are request, require, verify_if_given and require_and_verify")
        })?),
    };
    if !config.verifiers.is_empty() {
        return Err(Refusal::not_yet(
            "a verifier of client certificates",
            "use a trust pool",
        ));
    }
    let mut authorities = decoded(&config.trusted_ca_certs)?;
    for file in &config.trusted_ca_certs_pem_files {
        authorities.extend(from_file(file)?);
    }
    if let Some(pool) = &config.ca {
        authorities.extend(trust_pool(pool)?);
    }
    Ok(ClientAuth {
        mode,
        authorities,
        leafs: decoded(&config.trusted_leaf_certs)?,
    })
}

fn trust_pool(pool: &RawModule) -> Result<Vec<Vec<u8>>, Refusal> {
    let texts = |key: &str| -> Vec<String> {
        let list = pool.get(key).and_then(|value| value.as_array());
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        list.map(|list| list.iter().filter_map(text).collect())
            .unwrap_or_default()
    };
    match pool
        .get("provider")
        .and_then(|value| value.as_str())
        .unwrap_or_default()
    {
        "inline" => decoded(&texts("trusted_ca_certs")),
        "file" => {
            let files = texts("pem_files");
            let certs = files
                .iter()
                .map(|file| from_file(file))
                .collect::<Result<Vec<_>, _>>()?;
            Ok(certs.concat())
        }
        other => Err(Refusal::not_yet(
            &format!("trust pool `{other}`"),
            "use `trust_pool file FILE` or `trust_pool inline`",
        )),
    }
}

fn decoded(texts: &[String]) -> Result<Vec<Vec<u8>>, Refusal> {
    let decode = |text: &String| {
        BASE64
            .decode(text.trim())
            .map_err(|_| Refusal::new("a certificate is no base64 text"))
    };
    texts.iter().map(decode).collect()
}

fn from_file(file: &str) -> Result<Vec<Vec<u8>>, Refusal> {
    let refuse = |what: String| Refusal::new(format!("client authority `{file}`: {what}"));
    let text = std::fs::read(Path::new(file)).map_err(|error| refuse(error.to_string()))?;
    certificates_from_pem(&text).map_err(|error| refuse(error.to_string()))
}
