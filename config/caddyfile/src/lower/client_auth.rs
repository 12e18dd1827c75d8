//! `client_auth` of `tls`: client certificates.

use sluice_model::RawModule;
use sluice_model::tls::ClientAuthentication;

use super::Lowering;
use super::definition::Read::{Choice, With};
use super::definition::{Block, Options, option};
use super::matchers::inner_line;
use super::trust_pool::TRUST_POOL;
use crate::tree::Directive;

/// `client_auth`.
pub(super) static CLIENT_AUTH: Options<ClientAuthentication> = Options::new(
    "client_auth",
    &[
        option(
            "mode",
            "mode [request|require|verify_if_given|require_and_verify]",
            Choice(
                &[
                    "request",
                    "require",
                    "verify_if_given",
                    "require_and_verify",
                ],
                |auth| &mut auth.mode,
            ),
        ),
        option::<ClientAuthentication>(
            "trust_pool",
            "trust_pool <module>",
            With(|cx, line, auth| {
                let Some(pool) = inner_line(line) else {
                    return cx.missing(line, "a source of CA certificates");
                };
                if auth.ca.is_some() {
                    return cx.duplicate(line);
                }
                auth.ca = Some(cx.trust_pool(&pool)?);
                Some(())
            }),
        )
        .holding(Block::Options(&TRUST_POOL)),
        option::<ClientAuthentication>(
            "verifier",
            "verifier <module>",
            With(|cx, line, auth| {
                let Some(verifier) = inner_line(line) else {
                    return cx.missing(line, "a verifier");
                };
                auth.verifiers.push(cx.verifier(&verifier)?);
                Some(())
            }),
        )
        .holding(Block::Modules(&[("leaf", &LEAF)])),
        option(
            "trusted_ca_cert",
            "trusted_ca_cert <base64_der>",
            With(|cx, line, auth| {
                let certificate = cx.single_text(line)?;
                cx.trust_inline(line, auth, vec![certificate])?;
                cx.deprecated(line, "write `trust_pool inline { trust_der … }`");
                Some(())
            }),
        ),
        option(
            "trusted_leaf_cert",
            "trusted_leaf_cert <base64_der>",
            With(|cx, line, auth| {
                auth.trusted_leaf_certs.push(cx.single_text(line)?);
                cx.deprecated(line, "write `verifier leaf …`");
                Some(())
            }),
        ),
        option(
            "trusted_ca_cert_file",
            "trusted_ca_cert_file <pem_file>",
            With(|cx, line, auth| {
                let certificates = cx.certificates_in_file(line)?;
                cx.trust_inline(line, auth, certificates)?;
                cx.deprecated(line, "write `trust_pool file <pem_file>`");
                Some(())
            }),
        ),
        option(
            "trusted_leaf_cert_file",
            "trusted_leaf_cert_file <pem_file>",
            With(|cx, line, auth| {
                let certificates = cx.certificates_in_file(line)?;
                auth.trusted_leaf_certs.extend(certificates);
                cx.deprecated(line, "write `verifier leaf file <pem_file>`");
                Some(())
            }),
        ),
    ],
);

/// `verifier leaf`.
static LEAF: Options<Vec<serde_json::Value>> = Options::new(
    "verifier leaf",
    &[
        option(
            "file",
            "file <pem_files...>",
            With(|cx, line, loaders| cx.leaf_loader(line, loaders, "files")),
        ),
        option(
            "folder",
            "folder <folders...>",
            With(|cx, line, loaders| cx.leaf_loader(line, loaders, "folders")),
        ),
        option(
            "pem",
            "pem <pem_strings...>",
            With(|cx, line, loaders| cx.leaf_loader(line, loaders, "certificates")),
        ),
    ],
);

impl Lowering<'_> {
    /// The block of `client_auth`.
    pub(super) fn client_auth(&mut self, line: &Directive) -> Option<ClientAuthentication> {
        self.between(line, &line.args, 0, 0)?;
        let mut auth = ClientAuthentication::default();
        self.read_options(&CLIENT_AUTH, line.lines(), &mut auth)?;
        Some(auth)
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
            let title = format!("cannot read certificates from `{}`", word.text);
            word.error("unreadable-file", title, why)
        };
        let bytes = match self.loader.read(&word.text) {
            Ok(bytes) => bytes,
            Err(error) => return self.refuse(refuse(error.to_string())),
        };
        let certificates = certificates_in(&String::from_utf8_lossy(&bytes));
        match certificates.as_slice() {
            [] => self.refuse(refuse(
                "the file has no complete `CERTIFICATE` block".into(),
            )),
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
        let mut loaders: Vec<serde_json::Value> = Vec::new();
        let lines = match &inline {
            Some(inline) => std::slice::from_ref(inline),
            None => line.lines(),
        };
        self.read_options(&LEAF, lines, &mut loaders)?;
        let mut module = RawModule::new();
        module.insert("verifier".into(), "leaf".into());
        module.insert("leaf_certs_loaders".into(), loaders.into());
        Some(module)
    }

    /// A source of leaf certificates; `key` is what its values are called in the model.
    fn leaf_loader(
        &mut self,
        line: &Directive,
        loaders: &mut Vec<serde_json::Value>,
        key: &str,
    ) -> Option<()> {
        let values = self.texts(line)?;
        loaders.push(serde_json::json!({"loader": line.name.text, key: values}));
        Some(())
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
