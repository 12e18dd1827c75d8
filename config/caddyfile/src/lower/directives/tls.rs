//! `tls`: certificates and handshakes of a site.

use sluice_model::RawModule;
use sluice_model::http::RouteOrigin;
use sluice_model::tls::{
    AcmeIssuer, CertificateFiles, CertificateSelection, ConnectionPolicy, InternalIssuer, Issuer,
};

use crate::lower::Lowering;
use crate::lower::client_auth::CLIENT_AUTH;
use crate::lower::definition::Read::{Choices, Text, Texts, With};
use crate::lower::definition::Verdict::{Partly, Unreleased};
use crate::lower::definition::{
    Block, Definition, IdleArguments, Options, directive, option, refused,
};
use crate::lower::issuers::{ISSUER_OPTIONS, default_authorities};
use crate::lower::matchers::inner_line;
use crate::lower::outcome::{Outcome, Outcomes, TlsOutcome};
use crate::lower::tls_dns::HasAcme;
use crate::tree::{Directive, Token};

/// `tls`.
pub(super) static TLS: Definition = directive(
    "tls",
    "tls [internal|force_automate|<email>] | [<cert_file> <key_file>] [{ … }]",
    |cx, line| cx.tls(line),
)
.with(&OPTIONS);

static OPTIONS: Options<Tls> = Options::<Tls>::new(
    "tls",
    &[
        option(
            "protocols",
            "protocols <min> [<max>]",
            With(|cx, line, tls| {
                cx.no_block(line)?;
                cx.between(line, &line.args, 1, 2)?;
                tls.policy.protocol_min = cx.one_of(&line.args[0], &PROTOCOLS)?;
                if let Some(max) = line.args.get(1) {
                    tls.policy.protocol_max = cx.one_of(max, &PROTOCOLS)?;
                }
                Some(())
            }),
        ),
        option(
            "ciphers",
            "ciphers <cipher_suites...>",
            Choices(&CIPHERS, |tls| &mut tls.policy.cipher_suites),
        ),
        option(
            "curves",
            "curves <groups...>",
            Choices(&CURVES, |tls| &mut tls.policy.curves),
        ),
        option::<Tls>(
            "alpn",
            "alpn <values...>",
            Texts(|tls| &mut tls.policy.alpn),
        )
        .but(Partly("`h2` and `http/1.1`; others are not offered"))
        .idle_arguments(&IDLE_ALPN),
        option(
            "load",
            "load <paths...>",
            With(|cx, line, tls| {
                let folders = cx.texts(line)?;
                let folders = folders
                    .into_iter()
                    .zip(&line.args)
                    .map(|(folder, word)| (folder, cx.word_origin(line, word)))
                    .collect();
                tls.outcomes.push(TlsOutcome::LoadFolders(folders));
                Some(())
            }),
        ),
        option("ca", "ca <ca_dir_url>", Text(|tls| &mut tls.acme().ca)),
        option(
            "ca_root",
            "ca_root <pem_file>",
            With(|cx, line, tls| {
                let root = cx.single_text(line)?;
                tls.acme().trusted_roots_pem_files.push(root);
                Some(())
            }),
        ),
        option(
            "key_type",
            "key_type ed25519|p256|p384|rsa2048|rsa4096",
            With(|cx, line, tls| {
                let key_type = cx.key_type(line)?;
                tls.outcomes.push(TlsOutcome::KeyType(key_type));
                Some(())
            }),
        ),
        option(
            "eab",
            "eab <key_id> <mac_key>",
            With(|cx, line, tls| {
                tls.acme().external_account = Some(cx.eab(line)?);
                Some(())
            }),
        ),
        option(
            "on_demand",
            "on_demand",
            With(|cx, line, tls| {
                cx.flag(line)?;
                tls.outcomes.push(TlsOutcome::OnDemand);
                Some(())
            }),
        ),
        option(
            "reuse_private_keys",
            "reuse_private_keys",
            With(|cx, line, tls| {
                cx.flag(line)?;
                tls.outcomes.push(TlsOutcome::ReusePrivateKeys);
                Some(())
            }),
        ),
        option::<Tls>(
            "client_auth",
            "client_auth { … }",
            With(|cx, line, tls| {
                tls.policy.client_authentication = Some(cx.client_auth(line)?);
                Some(())
            }),
        )
        .holding(Block::Options(&CLIENT_AUTH)),
        option::<Tls>(
            "issuer",
            "issuer <issuer_name> [<params...>]",
            With(|cx, line, tls| {
                let Some(issuer) = inner_line(line) else {
                    return cx.missing(line, "an issuer");
                };
                tls.issuers.push(cx.issuer(&issuer)?);
                Some(())
            }),
        )
        .holding(Block::Modules(ISSUER_OPTIONS)),
        option(
            "get_certificate",
            "get_certificate <manager_name> [<params...>]",
            With(|cx, line, tls| {
                let manager = cx.certificate_manager(line)?;
                tls.outcomes.push(manager);
                Some(())
            }),
        ),
        option(
            "insecure_secrets_log",
            "insecure_secrets_log <log_file>",
            Text(|tls| &mut tls.policy.insecure_secrets_log),
        ),
        option(
            "renewal_window_ratio",
            "renewal_window_ratio <ratio>",
            With(|cx, line, tls| {
                let ratio = cx.window_ratio(line)?;
                tls.outcomes.push(TlsOutcome::RenewalWindowRatio(ratio));
                Some(())
            }),
        ),
        refused(
            "force_automate",
            "force_automate",
            Unreleased("write it on the line itself: `tls force_automate`"),
        ),
    ],
)
.more(Tls::DNS_CHALLENGE);

/// The application protocols that are not offered.
static IDLE_ALPN: IdleArguments = IdleArguments {
    kind: "application protocol",
    working: &["h2", "http/1.1"],
    instead: "only `h2` and `http/1.1` are offered",
};

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

impl HasAcme for Tls {
    fn acme(&mut self) -> &mut AcmeIssuer {
        self.acme.get_or_insert_default()
    }
}

impl Lowering<'_> {
    fn tls(&mut self, line: &Directive) -> Outcomes {
        let mut tls = Tls::default();
        self.between(line, &line.args, 0, 2)?;
        match line.args.as_slice() {
            [] if line.lines().is_empty() => return self.missing(line, "an argument or a block"),
            [only] => self.tls_word(only, &mut tls)?,
            [certificate, key] => self.tls_files(line, certificate, key, &mut tls),
            _ => {}
        }
        self.read_options(&OPTIONS, line.lines(), &mut tls)?;
        let own = tls.acme.is_some() || tls.internal;
        if (own && !tls.issuers.is_empty()) || (tls.acme.is_some() && tls.internal) {
            let title = "`tls` specifies its issuer in two ways";
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
            self.needs_dns_provider(line, &acme)?;
            tls.issuers.extend(self.implicit_issuers(acme));
        }
        tls.policy.origin = RouteOrigin(vec![self.word_origin(line, &line.name)]);
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
    fn tls_files(&mut self, line: &Directive, certificate: &Token, key: &Token, tls: &mut Tls) {
        let tags = &mut self.options.certificate_tags;
        let tag = match tags.get(&certificate.text) {
            Some(tag) => tag.clone(),
            None => {
                let tag = format!("cert{}", tags.len());
                tags.insert(certificate.text.clone(), tag.clone());
                let origin = [certificate, key].map(|word| self.word_origin(line, word));
                tls.outcomes.push(TlsOutcome::LoadFiles(CertificateFiles {
                    certificate: certificate.text.clone(),
                    key: key.text.clone(),
                    tags: vec![tag.clone()],
                    origin: RouteOrigin(origin.to_vec()),
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
