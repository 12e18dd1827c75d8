//! `tls` and its options: issuers, client certificates, sources of CA certificates.

use std::collections::BTreeMap;

use sluice_model::RawModule;
use sluice_model::tls::{
    AcmeIssuer, CertificateFiles, CertificateSelection, Challenges, ClientAuthentication,
    ConnectionPolicy, InternalIssuer, Issuer, PortChallenge, ZeroSslIssuer,
};

use super::Lowering;
use super::matchers::inner_line;
use super::outcome::{Outcome, TlsOutcome};
use crate::tree::{Directive, Token};

const ISSUERS: [&str; 3] = ["acme", "internal", "zerossl"];
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
    pub(super) fn tls(&mut self, line: &Directive) -> Option<Vec<Outcome>> {
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
    pub(super) fn key_type(&mut self, line: &Directive) -> Option<String> {
        let word = self.single(line)?;
        if word.text.contains('{') {
            Some(word.text.clone())
        } else {
            self.one_of(word, &KEY_TYPES)
        }
    }

    fn eab(&mut self, line: &Directive) -> Option<sluice_model::tls::ExternalAccount> {
        self.no_block(line)?;
        let [id, key] = self.exact::<2>(line, &line.args)?;
        let (key_id, mac_key) = (id.text.clone(), key.text.clone());
        Some(sluice_model::tls::ExternalAccount { key_id, mac_key })
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

    /// Reads an issuer from a line that begins with its name.
    pub(super) fn issuer(&mut self, line: &Directive) -> Option<Issuer> {
        let place = std::mem::replace(&mut self.place, "issuer acme");
        let issuer = match line.name.text.as_str() {
            "acme" => self
                .acme_issuer(line)
                .map(|acme| Issuer::Acme(Box::new(acme))),
            "internal" => {
                self.place = "issuer internal";
                self.internal_issuer(line).map(Issuer::Internal)
            }
            "zerossl" => {
                self.place = "issuer zerossl";
                self.zerossl_issuer(line)
                    .map(|zerossl| Issuer::ZeroSsl(Box::new(zerossl)))
            }
            _ => self.unknown_module(&line.name, "issuer", &ISSUERS),
        };
        self.place = place;
        issuer
    }

    fn acme_issuer(&mut self, line: &Directive) -> Option<AcmeIssuer> {
        self.between(line, &line.args, 0, 1)?;
        let mut acme = AcmeIssuer::default();
        if let Some(directory) = line.args.first() {
            acme.ca.clone_from(&directory.text);
        }
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "dir" if !acme.ca.is_empty() => return this.duplicate(option),
                "dir" => acme.ca = this.single_text(option)?,
                "test_dir" => acme.test_ca = this.single_text(option)?,
                "email" => acme.email = this.single_text(option)?,
                "profile" => acme.profile = this.single_text(option)?,
                "account_key" => acme.account_key = this.single_text(option)?,
                "timeout" => acme.acme_timeout = this.single_duration(option)?,
                "lifetime" => acme.certificate_lifetime = this.single_duration(option)?,
                "eab" => acme.external_account = Some(this.eab(option)?),
                "trusted_roots" => acme.trusted_roots_pem_files = this.texts(option)?,
                "preferred_chains" => acme.preferred_chains = Some(this.preferred_chains(option)?),
                "dns"
                | "propagation_timeout"
                | "propagation_delay"
                | "dns_ttl"
                | "dns_challenge_override_domain"
                | "resolvers" => this.dns_challenge(option, &mut acme)?,
                _ => {
                    this.acme_challenge(option, acme.challenges.get_or_insert_default())?;
                }
            }
            Some(())
        })?;
        Some(acme)
    }

    fn acme_challenge(&mut self, line: &Directive, challenges: &mut Challenges) -> Option<()> {
        let http = &mut challenges.http;
        let alpn = &mut challenges.tls_alpn;
        match line.name.text.as_str() {
            "disable_http_challenge" => {
                self.flag(line)?;
                http.get_or_insert_with(PortChallenge::default).disabled = true;
            }
            "disable_tlsalpn_challenge" => {
                self.flag(line)?;
                alpn.get_or_insert_with(PortChallenge::default).disabled = true;
            }
            "alt_http_port" => {
                let word = self.single(line)?;
                http.get_or_insert_with(PortChallenge::default)
                    .alternate_port = self.port(word)?;
            }
            "alt_tlsalpn_port" => {
                let word = self.single(line)?;
                alpn.get_or_insert_with(PortChallenge::default)
                    .alternate_port = self.port(word)?;
            }
            _ => return self.unknown_option(line),
        }
        Some(())
    }

    fn internal_issuer(&mut self, line: &Directive) -> Option<InternalIssuer> {
        self.between(line, &line.args, 0, 0)?;
        let mut internal = InternalIssuer::default();
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "ca" => internal.ca = this.single_text(option)?,
                "lifetime" => internal.lifetime = this.single_duration(option)?,
                "sign_with_root" => {
                    this.flag(option)?;
                    internal.sign_with_root = true;
                }
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(internal)
    }

    fn zerossl_issuer(&mut self, line: &Directive) -> Option<ZeroSslIssuer> {
        let [key] = self.exact::<1>(line, &line.args)?;
        let mut zerossl = ZeroSslIssuer {
            api_key: key.text.clone(),
            ..ZeroSslIssuer::default()
        };
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "validity_days" => {
                    zerossl.validity_days = this.single_number(option, "a number of days")?;
                }
                "alt_http_port" => {
                    let word = this.single(option)?;
                    zerossl.alternate_http_port = this.port(word)?;
                }
                "dns" | "propagation_delay" | "propagation_timeout" | "resolvers" | "dns_ttl" => {
                    let check = zerossl.cname_validation.get_or_insert_default();
                    this.dns_check(option, check)?;
                }
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(zerossl)
    }

    fn client_auth(&mut self, line: &Directive) -> Option<ClientAuthentication> {
        self.between(line, &line.args, 0, 0)?;
        let mut auth = ClientAuthentication::default();
        let place = std::mem::replace(&mut self.place, "client_auth");
        self.each(line.lines(), |this, option| {
            this.client_auth_option(option, &mut auth)?;
            Some(())
        })?;
        self.place = place;
        Some(auth)
    }

    fn client_auth_option(
        &mut self,
        line: &Directive,
        auth: &mut ClientAuthentication,
    ) -> Option<()> {
        match line.name.text.as_str() {
            "mode" => {
                let word = self.single(line)?;
                let modes = [
                    "request",
                    "require",
                    "verify_if_given",
                    "require_and_verify",
                ];
                auth.mode = self.one_of(word, &modes)?;
            }
            "trust_pool" => {
                let Some(pool) = inner_line(line) else {
                    return self.missing(line, "a source of CA certificates");
                };
                if auth.ca.is_some() {
                    return self.duplicate(line);
                }
                auth.ca = Some(self.trust_pool(&pool)?);
            }
            "verifier" => {
                let Some(verifier) = inner_line(line) else {
                    return self.missing(line, "a verifier");
                };
                auth.verifiers.push(self.verifier(&verifier)?);
            }
            "trusted_ca_cert" => {
                let certificate = self.single_text(line)?;
                self.trust_inline(line, auth, vec![certificate])?;
                self.deprecated(line, "write `trust_pool inline { trust_der … }`");
            }
            "trusted_ca_cert_file" => {
                let certificates = self.certificates_in_file(line)?;
                self.trust_inline(line, auth, certificates)?;
                self.deprecated(line, "write `trust_pool file <pem_file>`");
            }
            "trusted_leaf_cert_file" => {
                let certificates = self.certificates_in_file(line)?;
                auth.trusted_leaf_certs.extend(certificates);
                self.deprecated(line, "write `verifier leaf file <pem_file>`");
            }
            "trusted_leaf_cert" => {
                auth.trusted_leaf_certs.push(self.single_text(line)?);
                self.deprecated(line, "write `verifier leaf …`");
            }
            _ => return self.unknown_option(line),
        }
        Some(())
    }

    /// Adds CA certificates to those given inline in the configuration.
    fn trust_inline(
        &mut self,
        line: &Directive,
        auth: &mut ClientAuthentication,
        certificates: Vec<String>,
    ) -> Option<()> {
        let pool = auth.ca.get_or_insert_with(RawModule::new);
        let provider = pool.entry("provider").or_insert_with(|| "inline".into());
        // A pool that was named is not added to: it is not known to be written out.
        if provider != "inline" {
            return self.duplicate(line);
        }
        let list = pool
            .entry("trusted_ca_certs")
            .or_insert_with(|| Vec::<String>::new().into());
        if let serde_json::Value::Array(list) = list {
            list.extend(certificates.into_iter().map(Into::into));
        }
        Some(())
    }

    /// The certificates in the file that a line names, as the text between their marks (RFC 7468).
    fn certificates_in_file(&mut self, line: &Directive) -> Option<Vec<String>> {
        let word = self.single(line)?;
        let refuse = |why: String| {
            let title = format!("`{}` gives no certificate", word.text);
            word.error("unreadable-file", title, why)
        };
        let bytes = match self.loader.read(&word.text) {
            Ok(bytes) => bytes,
            Err(error) => return self.refuse(refuse(error.to_string())),
        };
        let certificates = certificates_in(&String::from_utf8_lossy(&bytes));
        match certificates.as_slice() {
            [] => self.refuse(refuse("no whole `CERTIFICATE` stands in it".into())),
            [..] => Some(certificates),
        }
    }

    fn deprecated(&mut self, line: &Directive, help: &str) {
        let title = format!("option `{}` has a new form", line.name.text);
        let diagnostic = line.name.warning("deprecated-option", title, "old form");
        self.report.push(diagnostic.help(help));
    }

    fn verifier(&mut self, line: &Directive) -> Option<RawModule> {
        if line.name.text != "leaf" {
            return self.unknown_module(&line.name, "verifier", &["leaf"]);
        }
        let inline = inner_line(line);
        let place = std::mem::replace(&mut self.place, "verifier leaf");
        let mut loaders: Vec<serde_json::Value> = Vec::new();
        let lines = match &inline {
            Some(inline) => std::slice::from_ref(inline),
            None => line.lines(),
        };
        self.each(lines, |this, option| {
            let key = match option.name.text.as_str() {
                "file" => "files",
                "folder" => "folders",
                "pem" => "certificates",
                _ => return this.unknown_option(option),
            };
            let values = this.texts(option)?;
            loaders.push(serde_json::json!({"loader": option.name.text, key: values}));
            Some(())
        })?;
        self.place = place;
        let mut module = RawModule::new();
        module.insert("verifier".into(), "leaf".into());
        module.insert("leaf_certs_loaders".into(), loaders.into());
        Some(module)
    }
}

/// The certificates of PEM text, each as base64 on one line. What cannot be one is left out.
fn certificates_in(text: &str) -> Vec<String> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    let mut found = Vec::new();
    for behind in text.split(BEGIN).skip(1) {
        let Some((inside, _)) = behind.split_once(END) else {
            continue;
        };
        let joined: String = inside.split_whitespace().collect();
        if !joined.is_empty() && joined.chars().all(base64) {
            found.push(joined);
        }
    }
    found
}

/// The directory URLs of the default CAs; empty stands for Let's Encrypt. ZeroSSL requires an email address.
pub(super) fn default_authorities(email: &str) -> impl Iterator<Item = String> {
    let zerossl = (!email.is_empty()).then(|| "https://acme.zerossl.com/v2/DV90".to_string());
    std::iter::once(String::new()).chain(zerossl)
}

/// Two policies for the same names that cannot both hold.
pub(super) struct Conflict {
    /// The names; none for a policy for any name.
    pub(super) names: Vec<String>,
    /// The setting that differs.
    pub(super) setting: &'static str,
}

/// Joins handshake policies: equal ones, neighbours that differ in their names only, and those for
/// the same names.
pub(super) fn join_policies(policies: &mut Vec<ConnectionPolicy>) -> Option<Conflict> {
    let mut joined: Vec<ConnectionPolicy> = Vec::with_capacity(policies.len());
    // Where the policy for some names stands in `joined`; the last one may still gain names.
    let mut places: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    let mut conflict = None;
    for mut policy in policies.drain(..) {
        let names = policy.r#match.sni.clone();
        let same = match joined.last() {
            Some(last) if last.r#match.sni == names => Some(joined.len() - 1),
            _ => places.get(&names).copied(),
        };
        if same.is_some_and(|at| joined[at] == policy) {
            continue;
        }
        if let Some(last) = joined.last_mut() {
            let named = !last.r#match.sni.is_empty() && !names.is_empty();
            if named && same_settings(last, &mut policy) {
                for name in names {
                    if !last.r#match.sni.contains(&name) {
                        last.r#match.sni.push(name);
                    }
                }
                continue;
            }
        }
        match same {
            Some(at) => {
                if let Err(setting) = merge(&mut joined[at], policy) {
                    conflict.get_or_insert(Conflict { names, setting });
                }
            }
            None => {
                if let Some(last) = joined.last() {
                    places.insert(last.r#match.sni.clone(), joined.len() - 1);
                }
                joined.push(policy);
            }
        }
    }
    *policies = joined;
    conflict
}

/// Whether two policies say the same but for when they apply.
fn same_settings(a: &mut ConnectionPolicy, b: &mut ConnectionPolicy) -> bool {
    // The lists of names may be long, so they are set aside rather than copied.
    let matches = (
        std::mem::take(&mut a.r#match),
        std::mem::take(&mut b.r#match),
    );
    let same = a == b;
    (a.r#match, b.r#match) = matches;
    same
}

/// Fills in what the first of two policies for the same names leaves open. An error names the
/// setting in which they differ.
fn merge(into: &mut ConnectionPolicy, from: ConnectionPolicy) -> Result<(), &'static str> {
    fn fill<T: Default + PartialEq>(
        into: &mut T,
        from: T,
        setting: &'static str,
    ) -> Result<(), &'static str> {
        if *into == T::default() {
            *into = from;
        } else if from != T::default() && *into != from {
            return Err(setting);
        }
        Ok(())
    }
    fill(&mut into.alpn, from.alpn, "alpn")?;
    fill(&mut into.cipher_suites, from.cipher_suites, "ciphers")?;
    fill(&mut into.curves, from.curves, "curves")?;
    fill(&mut into.protocol_min, from.protocol_min, "protocols")?;
    fill(&mut into.protocol_max, from.protocol_max, "protocols")?;
    fill(&mut into.default_sni, from.default_sni, "default_sni")?;
    fill(&mut into.fallback_sni, from.fallback_sni, "fallback_sni")?;
    fill(
        &mut into.insecure_secrets_log,
        from.insecure_secrets_log,
        "insecure_secrets_log",
    )?;
    // Of two checks of client certificates none may be lost.
    match (&into.client_authentication, from.client_authentication) {
        (None, from) => into.client_authentication = from,
        (Some(into), Some(from)) if *into != from => return Err("client_auth"),
        (Some(_), _) => {}
    }
    match (&mut into.certificate_selection, from.certificate_selection) {
        (Some(into), Some(from)) => into.any_tag.extend(from.any_tag),
        (empty @ None, from) => *empty = from,
        (Some(_), None) => {}
    }
    Ok(())
}
