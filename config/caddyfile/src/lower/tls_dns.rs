//! The DNS challenge: who sets the records, and how they are looked for.

use sluice_model::RawModule;
use sluice_model::tls::AcmeIssuer;

use super::Lowering;
use crate::tree::{Directive, Token};

impl Lowering<'_> {
    /// Reads one line of the DNS challenge.
    pub(super) fn dns_challenge(&mut self, line: &Directive, acme: &mut AcmeIssuer) -> Option<()> {
        let dns = acme
            .challenges
            .get_or_insert_default()
            .dns
            .get_or_insert_default();
        match line.name.text.as_str() {
            // The provider of the global option is taken where none is named.
            "dns" if line.args.is_empty() && self.options.dns.is_some() => self.no_block(line)?,
            "dns" => dns.provider = Some(self.dns_provider(line)?),
            "propagation_delay" => dns.propagation_delay = self.single_duration(line)?,
            "propagation_timeout" if self.single(line)?.text == "-1" => {
                dns.propagation_timeout = sluice_model::Duration(-1);
            }
            "propagation_timeout" => dns.propagation_timeout = self.single_duration(line)?,
            "dns_ttl" => dns.ttl = self.single_duration(line)?,
            "dns_challenge_override_domain" => dns.override_domain = self.single_text(line)?,
            _ => dns.resolvers = self.texts(line)?,
        }
        Some(())
    }

    /// Reads a provider from a line whose first argument names it.
    pub(super) fn dns_provider(&mut self, line: &Directive) -> Option<RawModule> {
        let Some((name, args)) = line.args.split_first() else {
            return self.missing(line, "a DNS provider such as `exec <command>`");
        };
        let mut module = RawModule::new();
        module.insert("name".into(), name.text.as_str().into());
        match name.text.as_str() {
            "exec" => {
                self.no_block(line)?;
                if args.is_empty() {
                    return self.missing(line, "a command");
                }
                let words: Vec<String> = args.iter().map(|word| word.text.clone()).collect();
                module.insert("command".into(), words.into());
            }
            "cloudflare" => {
                let token = self.cloudflare_token(line, args)?;
                module.insert("api_token".into(), token.into());
            }
            _ => {
                let title = format!("DNS provider `{}` is not built in", name.text);
                let label = "neither `cloudflare` nor `exec`";
                return self.refuse(name.error("unsupported-option", title, label).help(
                    "set the records with a program: `exec <command>`; or leave the HTTP or \
                     TLS-ALPN challenge on",
                ));
            }
        }
        Some(module)
    }

    fn cloudflare_token(&mut self, line: &Directive, args: &[Token]) -> Option<String> {
        let mut token = match args {
            [] => String::new(),
            [token] => token.text.clone(),
            [_, extra, ..] => {
                let title = format!("unexpected argument `{}` for `cloudflare`", extra.text);
                return self.refuse(extra.error("unexpected-argument", title, "one too many"));
            }
        };
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "api_token" => token = this.single_text(option)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        if token.is_empty() {
            return self.missing(line, "a token");
        }
        Some(token)
    }
}
