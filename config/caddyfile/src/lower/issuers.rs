//! The issuers of certificates: options of `tls`, and of the global option `cert_issuer`.

use sluice_model::tls::{
    AcmeIssuer, ChainPreference, ExternalAccount, InternalIssuer, Issuer, PortChallenge,
    ZeroSslIssuer,
};

use super::Lowering;
use super::definition::Read::{Flag, Text, Texts, Time, With};
use super::definition::Verdict::Partly;
use super::definition::{Block, OptionTable, Options, option};
use super::tls_dns::HasAcme;
use crate::tree::Directive;

/// `issuer acme`.
static ACME: Options<AcmeIssuer> = Options::<AcmeIssuer>::new(
    "issuer acme",
    &[
        option(
            "dir",
            "dir <directory_url>",
            With(|cx, line, acme| {
                if !acme.ca.is_empty() {
                    return cx.duplicate(line);
                }
                acme.ca = cx.single_text(line)?;
                Some(())
            }),
        ),
        option(
            "test_dir",
            "test_dir <test_directory_url>",
            Text(|acme| &mut acme.test_ca),
        ),
        option("email", "email <email>", Text(|acme| &mut acme.email)),
        option(
            "timeout",
            "timeout <duration>",
            Time(|acme| &mut acme.acme_timeout),
        ),
        option(
            "disable_http_challenge",
            "disable_http_challenge",
            Flag(|acme| &mut http_challenge(acme).disabled),
        ),
        option(
            "disable_tlsalpn_challenge",
            "disable_tlsalpn_challenge",
            Flag(|acme| &mut alpn_challenge(acme).disabled),
        ),
        option(
            "alt_http_port",
            "alt_http_port <port>",
            With(|cx, line, acme| {
                let word = cx.single(line)?;
                http_challenge(acme).alternate_port = cx.port(word)?;
                Some(())
            }),
        ),
        option(
            "alt_tlsalpn_port",
            "alt_tlsalpn_port <port>",
            With(|cx, line, acme| {
                let word = cx.single(line)?;
                alpn_challenge(acme).alternate_port = cx.port(word)?;
                Some(())
            }),
        ),
        option(
            "eab",
            "eab <key_id> <mac_key>",
            With(|cx, line, acme| {
                acme.external_account = Some(cx.eab(line)?);
                Some(())
            }),
        ),
        option(
            "trusted_roots",
            "trusted_roots <pem_files...>",
            Texts(|acme| &mut acme.trusted_roots_pem_files),
        ),
        option::<AcmeIssuer>(
            "preferred_chains",
            "preferred_chains [smallest] [{ … }]",
            With(|cx, line, acme| {
                acme.preferred_chains = Some(cx.preferred_chains(line)?);
                Some(())
            }),
        )
        .holding(Block::Options(&PREFERRED_CHAINS)),
        option("profile", "profile <name>", Text(|acme| &mut acme.profile)),
        option(
            "account_key",
            "account_key <pem>",
            Text(|acme| &mut acme.account_key),
        ),
        option(
            "lifetime",
            "lifetime <duration>",
            Time(|acme| &mut acme.certificate_lifetime),
        ),
    ],
)
.more(AcmeIssuer::DNS_CHALLENGE);

/// `preferred_chains`.
pub(super) static PREFERRED_CHAINS: Options<ChainPreference> = Options::new(
    "preferred_chains",
    &[
        option(
            "root_common_name",
            "root_common_name <common_names...>",
            Texts(|chains| &mut chains.root_common_name),
        ),
        option(
            "any_common_name",
            "any_common_name <common_names...>",
            Texts(|chains| &mut chains.any_common_name),
        ),
    ],
);

/// `issuer zerossl`.
static ZEROSSL: Options<ZeroSslIssuer> = Options::new(
    "issuer zerossl",
    &[
        option(
            "validity_days",
            "validity_days <days>",
            With(|cx, line, zerossl| {
                zerossl.validity_days = cx.single_number(line, "a number of days")?;
                Some(())
            }),
        ),
        option(
            "alt_http_port",
            "alt_http_port <port>",
            With(|cx, line, zerossl| {
                let word = cx.single(line)?;
                zerossl.alternate_http_port = cx.port(word)?;
                Some(())
            }),
        ),
        option::<ZeroSslIssuer>(
            "dns",
            "dns exec <command...> | <service> [<token>] [{ … }]",
            With(|cx, line, zerossl| {
                cx.dns_check(line, zerossl.cname_validation.get_or_insert_default())
            }),
        )
        .but(Partly(ALIASES)),
        option(
            "propagation_delay",
            "propagation_delay <duration>",
            With(|cx, line, zerossl| {
                cx.dns_check(line, zerossl.cname_validation.get_or_insert_default())
            }),
        ),
        option(
            "propagation_timeout",
            "propagation_timeout <duration>",
            With(|cx, line, zerossl| {
                cx.dns_check(line, zerossl.cname_validation.get_or_insert_default())
            }),
        ),
        option(
            "resolvers",
            "resolvers <list...>",
            With(|cx, line, zerossl| {
                cx.dns_check(line, zerossl.cname_validation.get_or_insert_default())
            }),
        ),
        option(
            "dns_ttl",
            "dns_ttl <duration>",
            With(|cx, line, zerossl| {
                cx.dns_check(line, zerossl.cname_validation.get_or_insert_default())
            }),
        ),
    ],
);

const ALIASES: &str =
    "`exec` and `cloudflare`; the other services cannot set CNAME records and are refused";

/// `issuer internal`.
static INTERNAL: Options<InternalIssuer> = Options::new(
    "issuer internal",
    &[
        option("ca", "ca <name>", Text(|internal| &mut internal.ca)),
        option(
            "lifetime",
            "lifetime <duration>",
            Time(|internal| &mut internal.lifetime),
        ),
        option(
            "sign_with_root",
            "sign_with_root",
            Flag(|internal| &mut internal.sign_with_root),
        ),
    ],
);

/// The options of each issuer.
pub(super) const ISSUER_OPTIONS: &[(&str, &dyn OptionTable)] = &[
    ("acme", &ACME),
    ("zerossl", &ZEROSSL),
    ("internal", &INTERNAL),
];

fn http_challenge(acme: &mut AcmeIssuer) -> &mut PortChallenge {
    let challenges = acme.challenges.get_or_insert_default();
    challenges.http.get_or_insert_default()
}

fn alpn_challenge(acme: &mut AcmeIssuer) -> &mut PortChallenge {
    let challenges = acme.challenges.get_or_insert_default();
    challenges.tls_alpn.get_or_insert_default()
}

const ISSUERS: [&str; 3] = ["acme", "internal", "zerossl"];

impl Lowering<'_> {
    /// Reads an issuer from a line that begins with its name.
    pub(super) fn issuer(&mut self, line: &Directive) -> Option<Issuer> {
        Some(match line.name.text.as_str() {
            "acme" => Issuer::Acme(Box::new(self.acme_issuer(line)?)),
            "internal" => Issuer::Internal(self.internal_issuer(line)?),
            "zerossl" => Issuer::ZeroSsl(Box::new(self.zerossl_issuer(line)?)),
            _ => return self.unknown_module(&line.name, "issuer", &ISSUERS),
        })
    }

    fn acme_issuer(&mut self, line: &Directive) -> Option<AcmeIssuer> {
        self.between(line, &line.args, 0, 1)?;
        let mut acme = AcmeIssuer::default();
        if let Some(directory) = line.args.first() {
            acme.ca.clone_from(&directory.text);
        }
        self.read_options(&ACME, line.lines(), &mut acme)?;
        Some(acme)
    }

    fn internal_issuer(&mut self, line: &Directive) -> Option<InternalIssuer> {
        self.between(line, &line.args, 0, 0)?;
        let mut internal = InternalIssuer::default();
        self.read_options(&INTERNAL, line.lines(), &mut internal)?;
        Some(internal)
    }

    fn zerossl_issuer(&mut self, line: &Directive) -> Option<ZeroSslIssuer> {
        let [key] = self.exact::<1>(line, &line.args)?;
        let mut zerossl = ZeroSslIssuer {
            api_key: key.text.clone(),
            ..ZeroSslIssuer::default()
        };
        self.read_options(&ZEROSSL, line.lines(), &mut zerossl)?;
        Some(zerossl)
    }

    /// `preferred_chains [smallest] [{ … }]`.
    pub(super) fn preferred_chains(&mut self, line: &Directive) -> Option<ChainPreference> {
        self.between(line, &line.args, 0, 1)?;
        let mut chains = ChainPreference::default();
        if let Some(word) = line.args.first() {
            self.one_of(word, &["smallest"])?;
            self.no_block(line)?;
            chains.smallest = Some(true);
        }
        self.read_options(&PREFERRED_CHAINS, line.lines(), &mut chains)?;
        if !chains.root_common_name.is_empty() && !chains.any_common_name.is_empty() {
            return self.duplicate(line);
        }
        if chains == ChainPreference::default() {
            return self.missing(line, "`smallest` or names");
        }
        Some(chains)
    }

    /// `eab <key_id> <mac_key>`.
    pub(super) fn eab(&mut self, line: &Directive) -> Option<ExternalAccount> {
        self.no_block(line)?;
        let [id, key] = self.exact::<2>(line, &line.args)?;
        let (key_id, mac_key) = (id.text.clone(), key.text.clone());
        Some(ExternalAccount { key_id, mac_key })
    }
}

/// The directory URLs of the default CAs; empty stands for Let's Encrypt. ZeroSSL requires an email address.
pub(super) fn default_authorities(email: &str) -> impl Iterator<Item = String> {
    let zerossl = (!email.is_empty()).then(|| "https://acme.zerossl.com/v2/DV90".to_string());
    std::iter::once(String::new()).chain(zerossl)
}
