//! The settings of handshakes: from the model's words to those of `sluice-certs`.

use std::path::PathBuf;

use sluice_certs::{ClientAuth, ClientAuthMode, Fallback, Policy, Subject, Tickets, TlsPolicies};
use sluice_model::Config;
use sluice_model::tls::{
    CertificateSelection, ClientAuthentication, ConnectionPolicy, SessionTickets,
};
use sluice_net::Protocols;

use super::{Keys, LOGGER, Purpose};
use crate::build::Refusal;
use crate::log::Log;
use crate::process_values;
use crate::protocols::alpn;
use crate::settings::given;
use crate::trust_pool::{self, decoded, from_file};

/// What policies are built with.
pub(super) struct Around<'a> {
    pub(super) keys: &'a Keys<'a>,
    pub(super) purpose: Purpose,
    pub(super) log: &'a Log,
    pub(super) tickets: Tickets,
}

/// Builds the policies of one server, found at `place`.
pub(super) fn build(
    configs: &[ConnectionPolicy],
    protocols: Protocols,
    place: &str,
    around: &Around<'_>,
    previous: Option<&TlsPolicies>,
) -> Result<TlsPolicies, Refusal> {
    let mut policies = Vec::with_capacity(configs.len());
    for (index, config) in configs.iter().enumerate() {
        let built = policy(config, protocols, around).map_err(|refusal| Refusal {
            place: format!("{place}[{index}]"),
            ..refusal
        })?;
        policies.push(Policy {
            tickets: around.tickets,
            ..built
        });
    }
    TlsPolicies::build(policies, around.keys.store, previous).map_err(|error| Refusal {
        place: place.to_owned(),
        ..Refusal::new(error.to_string())
    })
}

fn policy(
    config: &ConnectionPolicy,
    protocols: Protocols,
    around: &Around<'_>,
) -> Result<Policy, Refusal> {
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
        alpn: alpn(&config.alpn, protocols),
        client_auth: config
            .client_authentication
            .as_ref()
            .map(|config| client_auth(config, around))
            .transpose()?,
        secrets_log: secrets_log(&config.insecure_secrets_log, around)?,
        refuse: config.drop,
        any_tag: match &config.certificate_selection {
            Some(selection) => selection.any_tag.clone(),
            None => Vec::new(),
        },
        tickets: Tickets::default(),
    })
}

/// How sessions are resumed, for all servers.
pub(super) fn tickets(config: &Config) -> Result<Tickets, Refusal> {
    let tls = config.apps.tls.as_ref();
    let Some(settings) = tls.and_then(|tls| tls.session_tickets.as_ref()) else {
        return Ok(Tickets::Usual);
    };
    let SessionTickets {
        key_source,
        rotation_interval,
        max_keys,
        disable_rotation,
        disabled,
    } = settings;
    let source = key_source
        .as_ref()
        .and_then(|source| source.get("provider"));
    let source = source.map_or("standard", |name| name.as_str().unwrap_or_default());
    let later = [
        (
            source != "standard",
            "ticket keys from elsewhere (`key_source`)",
        ),
        (*max_keys != 0, "`max_keys` of session tickets"),
        (
            *disable_rotation,
            "keeping the keys of session tickets for ever",
        ),
    ];
    if let Some((_, what)) = later.iter().find(|(used, _)| *used) {
        return Err(Refusal::not_yet(what, "remove it"));
    }
    Ok(match given(*rotation_interval) {
        _ if *disabled => Tickets::Off,
        Some(pause) => Tickets::Every(pause),
        None => Tickets::Usual,
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

/// The file for the secrets of sessions. Nobody shall have forgotten that it is written.
fn secrets_log(text: &str, around: &Around<'_>) -> Result<Option<PathBuf>, Refusal> {
    if text.is_empty() || around.purpose == Purpose::Check {
        return Ok(None);
    }
    let refuse = |problem| Refusal::new(format!("`insecure_secrets_log`: {problem}"));
    let path = PathBuf::from(process_values::expand(text).map_err(refuse)?);
    around
        .log
        .warn(
            LOGGER,
            "the secrets of TLS sessions are written to a file: who reads it can read all traffic",
        )
        .text("file", path.to_string_lossy().as_bytes())
        .send();
    Ok(Some(path))
}

fn client_auth(config: &ClientAuthentication, around: &Around<'_>) -> Result<ClientAuth, Refusal> {
    let mode = match config.mode.as_str() {
        "" => None,
        name => Some(ClientAuthMode::parse(name).ok_or_else(|| {
            Refusal::new(format!("unknown mode of client authentication `{name}`"))
                .with_help("there are request, require, verify_if_given and require_and_verify")
        })?),
    };
    let mut leafs = decoded(&config.trusted_leaf_certs)?;
    for verifier in &config.verifiers {
        leafs.extend(trust_pool::leafs(verifier)?);
    }
    let mut authorities = decoded(&config.trusted_ca_certs)?;
    for file in &config.trusted_ca_certs_pem_files {
        authorities.extend(from_file(file)?);
    }
    if let Some(pool) = &config.ca {
        match trust_pool::certificates(pool, Some(around.keys))? {
            Some(found) => authorities.extend(found),
            // Looked at before the first run: the authority is not made yet, and nobody is let in by it.
            None => {
                return Ok(ClientAuth {
                    mode: Some(ClientAuthMode::Request),
                    ..ClientAuth::default()
                });
            }
        }
    }
    Ok(ClientAuth {
        mode,
        authorities,
        leafs,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn tickets_are_as_the_configuration_says_or_refused_by_name() {
        let read = |text: &str| {
            let text = format!(r#"{{"apps":{{"tls":{{"session_tickets":{text}}}}}}}"#);
            let config = Config::from_json(&text).expect("a model");
            tickets(&config).map_err(|refusal| refusal.to_string())
        };
        assert_eq!(read("{}"), Ok(Tickets::Usual));
        assert_eq!(
            read(r#"{"key_source":{"provider":"standard"}}"#),
            Ok(Tickets::Usual)
        );
        assert_eq!(read(r#"{"disabled":true}"#), Ok(Tickets::Off));
        let hour = Duration::from_secs(3600);
        assert_eq!(
            read(r#"{"rotation_interval":"1h"}"#),
            Ok(Tickets::Every(hour))
        );
        for (bad, named) in [
            (r#"{"key_source":{"provider":"distributed"}}"#, "key_source"),
            (r#"{"max_keys":9}"#, "max_keys"),
            (r#"{"disable_rotation":true}"#, "for ever"),
        ] {
            let said = read(bad).expect_err(bad);
            assert!(said.contains(named), "{said}");
        }
    }
}
