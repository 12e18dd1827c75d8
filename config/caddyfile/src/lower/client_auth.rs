//! `client_auth` of `tls`: client certificates.

use sluice_model::RawModule;
use sluice_model::tls::ClientAuthentication;

use super::Lowering;
use super::matchers::inner_line;
use crate::tree::Directive;

impl Lowering<'_> {
    pub(super) fn client_auth(&mut self, line: &Directive) -> Option<ClientAuthentication> {
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
