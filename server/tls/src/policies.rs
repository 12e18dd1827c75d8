//! Converts TLS handshake settings from the model to those of `sluice-certs`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use sluice_certs::limits::{TICKET_KEYS, TICKET_KEYS_MAX, TICKET_ROTATION};
use sluice_certs::{
    Choice, ClientAuth, ClientAuthMode, Fallback, GivenKeys, KeyAlgorithm, Policy, Rotation,
    Selection, Storage, Subject, Tickets, TlsPolicies, When,
};
use sluice_model::tls::{
    CertificateSelection, ClientAuthentication, ConnectionPolicy, HandshakeMatch, SessionTickets,
};
use sluice_model::{Config, RawModule, Server};
use sluice_net::Protocols;

use super::around::Around;
use super::{LOGGER, Purpose, by_variable};
use crate::protocols::alpn;
use crate::storages;
use crate::trust_pool::{self, decoded, from_file};
use sluice_observe::process_values;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;

/// Builds the policies of a server, found at `place`.
pub(super) fn build(
    server: &Server,
    protocols: Protocols,
    place: &str,
    around: &Around<'_>,
    previous: Option<&TlsPolicies>,
) -> Result<TlsPolicies, Refusal> {
    let configs = &server.tls_connection_policies;
    let mut policies = Vec::with_capacity(configs.len());
    let mut named = HashMap::new();
    for (index, config) in configs.iter().enumerate() {
        let built = policy(config, protocols, around).map_err(|refusal| Refusal {
            place: format!("{place}[{index}]"),
            written: refusal.written.or(config.origin.route()),
            ..refusal
        })?;
        if let Some(found) = by_variable::build(config, server, around)? {
            named.insert(index, Arc::new(found));
        }
        policies.push(Policy {
            scope: format!("{place}[{index}] {protocols:?}"),
            early_data: server.allow_0rtt == Some(true) || config.early_data,
            tickets: tickets(config, around)?,
            ..built
        });
    }
    let built = TlsPolicies::build(policies, around.keys.store, previous);
    let built = built.map_err(|error| Refusal {
        place: place.to_owned(),
        ..Refusal::new(error.to_string())
    })?;
    Ok(built
        .with_named(named)
        .with_choice(choice(configs, around)?))
}

/// How to select among policies by server name as nginx does.
fn choice(
    configs: &[ConnectionPolicy],
    around: &Around<'_>,
) -> Result<Option<Arc<Choice>>, Refusal> {
    let names: Vec<&[String]> = configs
        .iter()
        .map(|config| &*config.r#match.server_names)
        .collect();
    if names.iter().all(|names| names.is_empty()) {
        return Ok(None);
    }
    Ok(Some(around.rules.choice(&names)?.into()))
}

/// The session resumption settings of a policy.
fn tickets(config: &ConnectionPolicy, around: &Around<'_>) -> Result<Tickets, Refusal> {
    let Some(sessions) = &config.sessions else {
        return Ok(around.tickets.clone());
    };
    match sessions.kept.as_str() {
        "memory" => return Ok(Tickets::Kept),
        "off" => return Ok(Tickets::Off),
        "" => {}
        other => {
            let problem = format!("unknown place for sessions `{other}`");
            return Err(Refusal::new(problem).with_help("there are `memory` and `off`"));
        }
    }
    let rotation = match given(sessions.lifetime) {
        Some(lifetime) => Rotation::lasting(lifetime),
        None => Rotation::default(),
    };
    if sessions.key_files.is_empty() {
        return Ok(match (&around.tickets, given(sessions.lifetime)) {
            (Tickets::Own(_, book), Some(_)) => Tickets::Own(rotation, book.clone()),
            _ => around.tickets.clone(),
        });
    }
    let read = |file: &String| {
        let bytes = std::fs::read(file);
        bytes.map_err(|error| Refusal::new(format!("keys of session tickets in `{file}`: {error}")))
    };
    let files = sessions.key_files.iter().map(read);
    let files: Vec<Vec<u8>> = files.collect::<Result<_, _>>()?;
    let keys = GivenKeys::new(&files);
    let keys = keys.map_err(|at| {
        let problem = format!("`{}` is not a session ticket key", sessions.key_files[at]);
        Refusal::new(problem).with_help("it has 48 or 80 random bytes: `openssl rand 80 > file`")
    })?;
    Ok(Tickets::Given(keys))
}

fn policy(
    config: &ConnectionPolicy,
    protocols: Protocols,
    around: &Around<'_>,
) -> Result<Policy, Refusal> {
    let on = &config.r#match;
    if config.handshake_context.is_some() {
        return Err(Refusal::not_yet("a handshake context", "remove it"));
    }
    Ok(Policy {
        names: on.sni.clone(),
        is_chosen: !on.server_names.is_empty(),
        when: when(on),
        fallback: Fallback {
            default_sni: subject(&config.default_sni)?,
            fallback_sni: subject(&config.fallback_sni)?,
        },
        version_min: config.protocol_min.clone(),
        version_max: config.protocol_max.clone(),
        cipher_suites: config.cipher_suites.clone(),
        modern_suites: config.modern_suites.clone(),
        curves: config.curves.clone(),
        alpn: alpn(&config.alpn, protocols),
        client_auth: config
            .client_authentication
            .as_ref()
            .map(|config| client_auth(config, around))
            .transpose()?,
        secrets_log: secrets_log(&config.insecure_secrets_log, around)?,
        refuse: config.drop,
        selection: config
            .certificate_selection
            .as_ref()
            .map(selection)
            .transpose()?
            .unwrap_or_default(),
        // Set by the caller, which knows the position of the policy.
        tickets: Tickets::default(),
        scope: String::new(),
        early_data: false,
        keeps_offers: config.keep_offers,
    })
}

/// Which connections a policy applies to.
fn when(on: &HandshakeMatch) -> When {
    let remote = on.remote_ip.as_ref();
    When {
        local: match &on.local_ip {
            Some(local) => local.ranges.clone(),
            None => Vec::new(),
        },
        remote: remote
            .map(|remote| remote.ranges.clone())
            .unwrap_or_default(),
        not_remote: remote
            .map(|remote| remote.not_ranges.clone())
            .unwrap_or_default(),
        name_pattern: on.sni_regexp.as_ref().map(|regexp| regexp.pattern.clone()),
    }
}

/// Which certificates a policy may present.
fn selection(config: &CertificateSelection) -> Result<Selection, Refusal> {
    let CertificateSelection {
        serial_number,
        subject_organization,
        public_key_algorithm,
        any_tag,
        all_tags,
        by_client,
    } = config;
    let serial = |number: &Value| {
        let digits = number.as_str().unwrap_or_default();
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        let digits = match digits.trim_start_matches('0') {
            "" => "0",
            digits => digits,
        };
        is_number.then(|| digits.to_owned()).ok_or_else(|| {
            Refusal::new(format!("`{number}` is not a certificate serial number"))
                .with_help("write its decimal digits as a string: `\"1234\"`")
        })
    };
    let algorithm = |name: &Value| {
        let known = name.as_str().and_then(KeyAlgorithm::parse);
        known.ok_or_else(|| {
            Refusal::new(format!("unknown algorithm of public keys `{name}`"))
                .with_help("there are rsa, ecdsa and dsa")
        })
    };
    Ok(Selection {
        any_tag: any_tag.clone(),
        all_tags: all_tags.clone(),
        serial_numbers: serial_number.iter().map(serial).collect::<Result<_, _>>()?,
        organizations: subject_organization.clone(),
        by_client: *by_client,
        key_algorithm: public_key_algorithm.as_ref().map(algorithm).transpose()?,
    })
}

/// The session ticket settings of all servers, before anything is opened.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TicketScheme {
    Off,
    /// With our own keys.
    Own(Rotation),
    /// With keys in a storage: in this one, or in that of the certificates.
    Shared(Option<Storage>, Rotation),
}

pub(super) fn ticket_scheme(config: &Config, data_dir: &Path) -> Result<TicketScheme, Refusal> {
    let tls = config.apps.tls.as_ref();
    let Some(settings) = tls.and_then(|tls| tls.session_tickets.as_ref()) else {
        return Ok(TicketScheme::Own(Rotation::default()));
    };
    let SessionTickets {
        key_source,
        rotation_interval,
        max_keys,
        disable_rotation,
        disabled,
    } = settings;
    let keys_max = match usize::try_from(*max_keys) {
        // As in Caddy, these select the default.
        Err(_) | Ok(0) => TICKET_KEYS,
        Ok(count) if count <= TICKET_KEYS_MAX => count,
        Ok(_) => {
            let problem = format!("`max_keys` of session tickets is above {TICKET_KEYS_MAX}");
            return Err(Refusal::new(problem));
        }
    };
    let interval = given(*rotation_interval).unwrap_or(TICKET_ROTATION);
    let rotation = if *disable_rotation {
        Rotation::never()
    } else {
        Rotation::new(interval, keys_max)
    };
    let provider = |source: &RawModule| {
        let name = source.get("provider").and_then(|name| name.as_str());
        name.unwrap_or_default().to_owned()
    };
    let source = key_source.as_ref().map(provider);
    match (source.as_deref(), key_source) {
        _ if *disabled => Ok(TicketScheme::Off),
        (Some("distributed"), Some(source)) => Ok(TicketScheme::Shared(
            ticket_storage(source, data_dir)?,
            rotation,
        )),
        (None | Some("standard"), _) => Ok(TicketScheme::Own(rotation)),
        (Some(name), _) => Err(Refusal::new(format!(
            "unknown source of session ticket keys `{name}`"
        ))
        .with_help("there are `standard` and `distributed`")),
    }
}

/// The storage of the keys, if it is not that of the certificates.
fn ticket_storage(source: &RawModule, data_dir: &Path) -> Result<Option<Storage>, Refusal> {
    let Some(module) = source.get("storage").filter(|module| !module.is_null()) else {
        return Ok(None);
    };
    let module = serde_json::from_value(module.clone())
        .map_err(|error| Refusal::new(format!("storage of session ticket keys: {error}")))?;
    storages::own(&module, data_dir)
}

fn subject(text: &str) -> Result<Option<Subject>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    Subject::parse(text)
        .map(Some)
        .map_err(|error| Refusal::new(error.to_string()))
}

/// The file for TLS session secrets. Logs a warning, so that it is not left enabled by accident.
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
            // Validation before the first run: the CA does not exist yet, and the configuration does not serve clients.
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
    fn certificates_are_chosen_by_what_is_written_or_it_is_refused_by_name() {
        let read = |text: &str| {
            let config: CertificateSelection = serde_json::from_str(text).expect("a model");
            selection(&config).map_err(|refusal| refusal.to_string())
        };
        let all = read(
            r#"{"serial_number":["007","0"],"subject_organization":["Ours"],
            "public_key_algorithm":"ECDSA","any_tag":["a"],"all_tags":["b"]}"#,
        );
        let expected = Selection {
            any_tag: vec!["a".to_owned()],
            all_tags: vec!["b".to_owned()],
            serial_numbers: vec!["7".to_owned(), "0".to_owned()],
            organizations: vec!["Ours".to_owned()],
            key_algorithm: Some(KeyAlgorithm::Ecdsa),
            by_client: false,
        };
        assert_eq!(all, Ok(expected));
        for (bad, named) in [
            (r#"{"serial_number":[7]}"#, "`7`"),
            (r#"{"serial_number":["0x7"]}"#, "0x7"),
            (r#"{"public_key_algorithm":"ed448"}"#, "ed448"),
        ] {
            let said = read(bad).expect_err(bad);
            assert!(said.contains(named), "{said}");
        }
    }

    #[test]
    fn tickets_are_as_the_configuration_says_or_refused_by_name() {
        let read = |text: &str| {
            let text = format!(r#"{{"apps":{{"tls":{{"session_tickets":{text}}}}}}}"#);
            let config = Config::from_json(&text).expect("a model");
            ticket_scheme(&config, Path::new("")).map_err(|refusal| refusal.to_string())
        };
        let own = |rotation| Ok(TicketScheme::Own(rotation));
        let usual = Rotation::default();
        assert_eq!(read("{}"), own(usual));
        assert_eq!(
            read(r#"{"key_source":{"provider":"standard"}}"#),
            own(usual)
        );
        assert_eq!(read(r#"{"max_keys":-1}"#), own(usual));
        assert_eq!(read(r#"{"disabled":true}"#), Ok(TicketScheme::Off));
        let hourly = Rotation::new(Duration::from_secs(3600), 9);
        let set = r#"{"rotation_interval":"1h","max_keys":9}"#;
        assert_eq!(read(set), own(hourly));
        assert_eq!(read(r#"{"disable_rotation":true}"#), own(Rotation::never()));
        let shared =
            |folder: Option<&str>| Ok(TicketScheme::Shared(folder.map(Storage::new), usual));
        assert_eq!(
            read(r#"{"key_source":{"provider":"distributed"}}"#),
            shared(None)
        );
        let elsewhere = r#"{"key_source":{"provider":"distributed",
            "storage":{"module":"file_system","root":"/shared"}}}"#;
        assert_eq!(read(elsewhere), shared(Some("/shared")));
        for (bad, named) in [
            (r#"{"key_source":{"provider":"vault"}}"#, "vault"),
            (r#"{"max_keys":65}"#, "max_keys"),
            (
                r#"{"key_source":{"provider":"distributed","storage":{"module":"consul"}}}"#,
                "consul",
            ),
        ] {
            let said = read(bad).expect_err(bad);
            assert!(said.contains(named), "{said}");
        }
    }
}
