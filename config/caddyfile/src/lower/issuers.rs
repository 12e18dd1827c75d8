//! The issuers of certificates: options of `tls`, and of the global option `cert_issuer`.

use sluice_model::tls::{
    AcmeIssuer, Challenges, InternalIssuer, Issuer, PortChallenge, ZeroSslIssuer,
};

use super::Lowering;
use crate::tree::Directive;

const ISSUERS: [&str; 3] = ["acme", "internal", "zerossl"];

impl Lowering<'_> {
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

    pub(super) fn eab(&mut self, line: &Directive) -> Option<sluice_model::tls::ExternalAccount> {
        self.no_block(line)?;
        let [id, key] = self.exact::<2>(line, &line.args)?;
        let (key_id, mac_key) = (id.text.clone(), key.text.clone());
        Some(sluice_model::tls::ExternalAccount { key_id, mac_key })
    }
}

/// The directory URLs of the default CAs; empty stands for Let's Encrypt. ZeroSSL requires an email address.
pub(super) fn default_authorities(email: &str) -> impl Iterator<Item = String> {
    let zerossl = (!email.is_empty()).then(|| "https://acme.zerossl.com/v2/DV90".to_string());
    std::iter::once(String::new()).chain(zerossl)
}
