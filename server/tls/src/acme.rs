//! ACME CAs of the configuration. `plans` selects the CA for each name; `sluice-certs` implements the protocol.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use sluice_certs::acme::{
    ChainChoice, ExternalAccount, LETS_ENCRYPT, LETS_ENCRYPT_STAGING, ZEROSSL,
};
use sluice_certs::{AcmeOptions, CertificateDer};
use sluice_dns::limits::DNS_LOOK_TIMEOUT;
use sluice_dns::{DnsOptions, DnsProvider, DnsService};
use sluice_model::tls::{AcmeIssuer as AcmeModel, Challenges, DnsChallenge, PortChallenge};
use sluice_model::{Config, RawModule};
use sluice_net::tls::certificates_from_pem;

use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;

/// Converts the settings of an ACME issuer to those of `sluice-certs`.
pub(super) fn options(config: &Config, acme: &AcmeModel) -> Result<AcmeOptions, Refusal> {
    let AcmeModel {
        ca,
        test_ca,
        email,
        profile,
        account_key,
        external_account,
        acme_timeout,
        challenges,
        trusted_roots_pem_files,
        preferred_chains,
        certificate_lifetime,
        network_proxy: _,
    } = acme;
    let challenges = challenges.clone().unwrap_or_default();
    check(acme, &challenges)?;
    let http = config.apps.http.as_ref();
    let port = |challenge: &Option<PortChallenge>, of_app: u16, usual: u16| {
        let set = challenge.clone().unwrap_or_default();
        let ports = [set.alternate_port, of_app, usual];
        (!set.disabled).then(|| ports.into_iter().find(|port| *port != 0).unwrap_or(usual))
    };
    let ca = environment(ca);
    let directory = if ca.is_empty() { LETS_ENCRYPT } else { &ca };
    let test_directory = match test_ca.as_str() {
        "" if directory == LETS_ENCRYPT => LETS_ENCRYPT_STAGING,
        named => named,
    };
    check_directory(directory)?;
    let chains = preferred_chains.clone().unwrap_or_default();
    Ok(AcmeOptions {
        directory: directory.to_owned(),
        test_directory: test_directory.to_owned(),
        email: environment(email),
        account_key: environment(account_key),
        eab: external_account.as_ref().map(|account| ExternalAccount {
            key_id: environment(&account.key_id),
            mac_key: environment(&account.mac_key),
        }),
        profile: profile.clone(),
        lifetime: given(*certificate_lifetime),
        timeout: given(*acme_timeout).unwrap_or(AcmeOptions::default().timeout),
        http_port: port(&challenges.http, http.map_or(0, |http| http.http_port), 80),
        alpn_port: port(
            &challenges.tls_alpn,
            http.map_or(0, |http| http.https_port),
            443,
        ),
        dns: match &challenges.dns {
            Some(dns) => Some(dns_options(config, dns)?),
            None => None,
        },
        bind_host: challenges.bind_host.clone(),
        roots: roots(trusted_roots_pem_files)?,
        chains: ChainChoice {
            smallest: chains.smallest.unwrap_or_default(),
            root_names: chains.root_common_name,
            any_names: chains.any_common_name,
        },
    })
}

pub(super) fn dns_options(config: &Config, dns: &DnsChallenge) -> Result<DnsOptions, Refusal> {
    let tls = config.apps.tls.as_ref();
    let usual = || tls.and_then(|tls| tls.dns.as_ref());
    let Some(provider) = dns.provider.as_ref().or_else(usual) else {
        return Err(Refusal::new("the DNS challenge has no provider")
            .with_help("name one: `dns exec <command>` or `dns cloudflare <token>`"));
    };
    let provider = provider_of(provider)?;
    let resolvers = match dns.resolvers.as_slice() {
        [] => tls.map_or(&[][..], |tls| &tls.resolvers),
        own => own,
    };
    Ok(DnsOptions {
        provider,
        ttl: given(dns.ttl).unwrap_or_default(),
        delay: given(dns.propagation_delay).unwrap_or_default(),
        timeout: match dns.propagation_timeout.0 {
            ..0 => None,
            _ => Some(given(dns.propagation_timeout).unwrap_or(DNS_LOOK_TIMEOUT)),
        },
        resolvers: resolvers
            .iter()
            .map(|text| resolver(text))
            .collect::<Result<_, _>>()?,
        override_domain: dns.override_domain.clone(),
    })
}

/// The provider of the DNS challenge: a command, or a service known by name.
fn provider_of(model: &RawModule) -> Result<DnsProvider, Refusal> {
    let name = model.get("name").and_then(|name| name.as_str());
    let name = name.unwrap_or_default();
    if name == "exec" {
        let words = model.get("command").and_then(|value| value.as_array());
        let words = words.into_iter().flatten().filter_map(|word| word.as_str());
        return Ok(DnsProvider::Exec(words.map(environment).collect()));
    }
    if !DnsService::names().any(|known| known == name) {
        return Err(Refusal::not_yet(
            &format!("DNS provider `{name}`"),
            "use `dns exec <command>` with a program that sets the record",
        ));
    }
    let mut values = BTreeMap::new();
    for (key, value) in model.iter().filter(|(key, _)| key.as_str() != "name") {
        let Some(text) = value.as_str() else {
            return Err(Refusal::new(format!(
                "`{key}` of DNS provider `{name}` is not text"
            )));
        };
        values.insert(key.clone(), environment(text));
    }
    DnsService::parse(name, values)
        .map(DnsProvider::Service)
        .map_err(Refusal::new)
}

/// The address of a DNS server. Like Caddy, this accepts a network: `udp/9.9.9.9:53`.
pub fn resolver(text: &str) -> Result<SocketAddr, Refusal> {
    let bare = text.strip_prefix("udp/").unwrap_or(text);
    let with_port = || bare.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53));
    bare.parse().or_else(|_| with_port()).map_err(|_| {
        Refusal::new(format!("`{text}` is not a DNS server address"))
            .with_help("write an address such as `9.9.9.9` or `127.0.0.1:5353`")
    })
}

/// Replaces `{env.NAME}` in `text`, so that secrets need not be in the configuration.
pub fn environment(text: &str) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{env.") {
        let Some((name, end)) = after.split_once('}') else {
            break;
        };
        filled.push_str(before);
        filled.push_str(&std::env::var(name).unwrap_or_default());
        rest = end;
    }
    filled + rest
}

/// Refuses an invalid directory URL now, so that orders do not fail later.
pub(super) fn check_directory(directory: &str) -> Result<(), Refusal> {
    let rest = directory
        .strip_prefix("https://")
        .or_else(|| directory.strip_prefix("http://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') => Ok(()),
        Some(_) | None => Err(
            Refusal::new(format!("`{directory}` is not an ACME directory URL"))
                .with_help(format!("write a whole address such as `{ZEROSSL}`")),
        ),
    }
}

fn roots(files: &[String]) -> Result<Option<Vec<CertificateDer<'static>>>, Refusal> {
    if files.is_empty() {
        return Ok(None);
    }
    let mut roots = Vec::new();
    for file in files {
        let refuse = |what: String| Refusal::new(format!("CA root `{file}`: {what}"));
        let text = std::fs::read(Path::new(file)).map_err(|error| refuse(error.to_string()))?;
        let found = certificates_from_pem(&text).map_err(|error| refuse(error.to_string()))?;
        roots.extend(found.into_iter().map(CertificateDer::from));
    }
    Ok(Some(roots))
}

/// Refuses settings of an issuer that are not implemented.
fn check(acme: &AcmeModel, challenges: &Challenges) -> Result<(), Refusal> {
    let later = [
        (acme.network_proxy.is_some(), "a proxy to a CA"),
        (
            challenges.distributed == Some(false),
            "`distributed` for challenges",
        ),
    ];
    match later.iter().find(|(used, _)| *used) {
        Some((_, what)) => Err(Refusal::not_yet(what, "remove it")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_come_from_the_environment() {
        assert_eq!(
            environment("a{env.SLUICE_NOT_SET}b{env.HOME"),
            "ab{env.HOME"
        );
        let home = std::env::var("HOME").unwrap_or_default();
        assert_eq!(environment("x{env.HOME}"), format!("x{home}"));
    }
}
