//! `tls`: certificates and handshakes of a site.

use sluice_model::RawModule;
use sluice_model::tls::{
    AcmeIssuer, CertificateFiles, CertificateSelection, ConnectionPolicy, InternalIssuer, Issuer,
};

use super::Outcomes;
use crate::lower::Lowering;
use crate::lower::issuers::default_authorities;
use crate::lower::matchers::inner_line;
use crate::lower::outcome::{Outcome, TlsOutcome};
use crate::tree::{Directive, Token};

const KEY_TYPES: [&str; 5] = ["ed25519", "p256", "p384", "rsa2048", "rsa4096"];

const PROTOCOLS: [&str; 2] = ["tls1.2", "tls1.3"];

const CURVES: [&str; 5] = [
    "x25519mlkem768",
    "x25519",
    "secp256r1",
    "secp384r1",
    "secp521r1",
];

const CIPHERS: [&str; 19] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
];

/// What the lines of one `tls` directive add up to.
#[derive(Default)]
struct Tls {
    policy: ConnectionPolicy,
    /// An ACME issuer that options describe piece by piece.
    acme: Option<AcmeIssuer>,
    internal: bool,
    issuers: Vec<Issuer>,
    outcomes: Vec<TlsOutcome>,
}

impl Lowering<'_> {
    pub(super) fn tls(&mut self, line: &Directive) -> Outcomes {
        let mut tls = Tls::default();
        self.between(line, &line.args, 0, 2)?;
        match line.args.as_slice() {
            [] if line.lines().is_empty() => return self.missing(line, "an argument or a block"),
            [only] => self.tls_word(only, &mut tls)?,
            [certificate, key] => self.tls_files(certificate, key, &mut tls),
            _ => {}
        }
        self.each(line.lines(), |this, option| {
            this.tls_option(option, &mut tls)?;
            Some(())
        })?;
        let own = tls.acme.is_some() || tls.internal;
        if (own && !tls.issuers.is_empty()) || (tls.acme.is_some() && tls.internal) {
            let title = "`tls` names its issuer in two ways";
            let diagnostic = line
                .name
                .error("conflicting-issuers", title, "more than one issuer");
            return self.refuse(
                diagnostic.help("put all settings of an issuer into the block of one `issuer`"),
            );
        }
        if tls.internal {
            tls.issuers
                .push(Issuer::Internal(InternalIssuer::default()));
        }
        if let Some(acme) = tls.acme {
            tls.issuers.extend(self.implicit_issuers(acme));
        }
        let mut outcomes = tls.outcomes;
        outcomes.extend(tls.issuers.into_iter().map(TlsOutcome::Issuer));
        outcomes.push(TlsOutcome::Policy(Box::new(tls.policy)));
        Some(outcomes.into_iter().map(Outcome::Tls).collect())
    }

    /// The issuers for an ACME account whose settings are given one by one: the CA it names, else the global issuers,
    /// else the default ones.
    fn implicit_issuers(&self, acme: AcmeIssuer) -> Vec<Issuer> {
        if !acme.ca.is_empty() {
            return vec![Issuer::Acme(Box::new(acme))];
        }
        let global = self
            .options
            .issuers
            .iter()
            .filter_map(|issuer| match issuer {
                Issuer::Acme(global) => Some(global.ca.clone()),
                Issuer::Internal(_) | Issuer::ZeroSsl(_) | Issuer::Other(_) => None,
            });
        let mut authorities: Vec<String> = global.collect();
        if authorities.is_empty() {
            authorities.extend(default_authorities(&acme.email));
        }
        let with = |ca| Issuer::Acme(Box::new(AcmeIssuer { ca, ..acme.clone() }));
        authorities.into_iter().map(with).collect()
    }

    fn tls_word(&mut self, word: &Token, tls: &mut Tls) -> Option<()> {
        match word.text.as_str() {
            "internal" => tls.internal = true,
            "force_automate" => tls.outcomes.push(TlsOutcome::ForceAutomate),
            email if email.contains('@') => {
                tls.acme.get_or_insert_default().email = email.to_string();
            }
            _ => {
                let title = format!("invalid value `{}`", word.text);
                let label = "neither an email address nor a known word";
                return self
                    .refuse(word.error("invalid-value", title, label).help(
                        "write `internal`, `force_automate`, an email address, or two files",
                    ));
            }
        }
        Some(())
    }

    /// A tag ties the policy to this very certificate where others fit as well.
    fn tls_files(&mut self, certificate: &Token, key: &Token, tls: &mut Tls) {
        let tags = &mut self.options.certificate_tags;
        let tag = match tags.get(&certificate.text) {
            Some(tag) => tag.clone(),
            None => {
                let tag = format!("cert{}", tags.len());
                tags.insert(certificate.text.clone(), tag.clone());
                tls.outcomes.push(TlsOutcome::LoadFiles(CertificateFiles {
                    certificate: certificate.text.clone(),
                    key: key.text.clone(),
                    tags: vec![tag.clone()],
                    ..CertificateFiles::default()
                }));
                tag
            }
        };
        tls.policy.certificate_selection = Some(CertificateSelection {
            any_tag: vec![tag],
            ..CertificateSelection::default()
        });
    }

    fn tls_option(&mut self, line: &Directive, tls: &mut Tls) -> Option<()> {
        match line.name.text.as_str() {
            "protocols" => {
                self.no_block(line)?;
                self.between(line, &line.args, 1, 2)?;
                tls.policy.protocol_min = self.one_of(&line.args[0], &PROTOCOLS)?;
                if let Some(max) = line.args.get(1) {
                    tls.policy.protocol_max = self.one_of(max, &PROTOCOLS)?;
                }
            }
            "ciphers" => tls.policy.cipher_suites.extend(self.words(line, &CIPHERS)?),
            "curves" => tls.policy.curves.extend(self.words(line, &CURVES)?),
            "alpn" => tls.policy.alpn = self.texts(line)?,
            "load" => tls
                .outcomes
                .push(TlsOutcome::LoadFolders(self.texts(line)?)),
            "ca" => tls.acme.get_or_insert_default().ca = self.single_text(line)?,
            "ca_root" => {
                let root = self.single_text(line)?;
                tls.acme
                    .get_or_insert_default()
                    .trusted_roots_pem_files
                    .push(root);
            }
            "eab" => {
                let account = self.eab(line)?;
                tls.acme.get_or_insert_default().external_account = Some(account);
            }
            "dns"
            | "propagation_timeout"
            | "propagation_delay"
            | "dns_ttl"
            | "dns_challenge_override_domain"
            | "resolvers" => self.dns_challenge(line, tls.acme.get_or_insert_default())?,
            "key_type" => tls.outcomes.push(TlsOutcome::KeyType(self.key_type(line)?)),
            "on_demand" => {
                self.flag(line)?;
                tls.outcomes.push(TlsOutcome::OnDemand);
            }
            "reuse_private_keys" => {
                self.flag(line)?;
                tls.outcomes.push(TlsOutcome::ReusePrivateKeys);
            }
            "renewal_window_ratio" => {
                let ratio = self.window_ratio(line)?;
                tls.outcomes.push(TlsOutcome::RenewalWindowRatio(ratio));
            }
            "client_auth" => {
                tls.policy.client_authentication = Some(self.client_auth(line)?);
            }
            "issuer" => {
                let Some(issuer) = inner_line(line) else {
                    return self.missing(line, "an issuer");
                };
                tls.issuers.push(self.issuer(&issuer)?);
            }
            "get_certificate" => tls.outcomes.push(self.certificate_manager(line)?),
            "insecure_secrets_log" => tls.policy.insecure_secrets_log = self.single_text(line)?,
            _ => return self.unknown_option(line),
        }
        Some(())
    }

    fn words(&mut self, line: &Directive, accepted: &[&str]) -> Option<Vec<String>> {
        self.texts(line)?;
        line.args
            .iter()
            .map(|word| self.one_of(word, accepted))
            .collect()
    }

    /// The type of new keys, as the one word of a line.
    pub(in crate::lower) fn key_type(&mut self, line: &Directive) -> Option<String> {
        let word = self.single(line)?;
        if word.text.contains('{') {
            Some(word.text.clone())
        } else {
            self.one_of(word, &KEY_TYPES)
        }
    }

    fn certificate_manager(&mut self, line: &Directive) -> Option<TlsOutcome> {
        let Some((name, args)) = line.args.split_first() else {
            return self.missing(line, "a source such as `http <url>`");
        };
        self.no_block(line)?;
        let mut module = RawModule::new();
        module.insert("via".into(), name.text.as_str().into());
        match name.text.as_str() {
            "http" => {
                let [url] = self.exact::<1>(line, args)?;
                module.insert("url".into(), url.text.as_str().into());
            }
            "tailscale" => {
                self.exact::<0>(line, args)?;
            }
            _ => return self.unknown_module(name, "certificate source", &["http", "tailscale"]),
        }
        Some(TlsOutcome::Manager(module))
    }
}
