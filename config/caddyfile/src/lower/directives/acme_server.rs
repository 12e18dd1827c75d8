//! `acme_server`: issues certificates to other servers.

use sluice_model::Handler;
use sluice_model::handler::{AcmePolicy, AcmeRules, AcmeServer};

use super::Outcomes;
use crate::lower::Lowering;
use crate::tree::Directive;

impl Lowering<'_> {
    pub(super) fn acme_server(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut server = AcmeServer::default();
            this.each(line.lines(), |this, option| {
                this.acme_server_option(option, &mut server)?;
                Some(())
            })?;
            // Inside blocks, Caddy does not add it to the CAs of the server.
            if !server.ca.is_empty() && this.is_site_level() {
                this.options.named_authorities.insert(server.ca.clone());
            }
            Some(Handler::AcmeServer(Box::new(server)))
        })
    }

    fn acme_server_option(&mut self, line: &Directive, server: &mut AcmeServer) -> Option<()> {
        match line.name.text.as_str() {
            "ca" => server.ca = self.single_text(line)?,
            "lifetime" => server.lifetime = self.single_duration(line)?,
            "resolvers" => server.resolvers = self.texts(line)?,
            "challenges" => {
                self.texts(line)?;
                for word in &line.args {
                    let kinds = ["http-01", "dns-01", "tls-alpn-01"];
                    server.challenges.push(self.one_of(word, &kinds)?);
                }
            }
            "sign_with_root" => {
                self.flag(line)?;
                server.sign_with_root = true;
            }
            "allow_wildcard_names" => {
                self.flag(line)?;
                server
                    .policy
                    .get_or_insert_with(AcmePolicy::default)
                    .allow_wildcard_names = true;
            }
            "allow" => {
                let rules = self.acme_rules(line)?;
                server.policy.get_or_insert_with(AcmePolicy::default).allow = Some(rules);
            }
            "deny" => {
                let rules = self.acme_rules(line)?;
                server.policy.get_or_insert_with(AcmePolicy::default).deny = Some(rules);
            }
            _ => return self.unknown_option(line),
        }
        Some(())
    }

    fn acme_rules(&mut self, line: &Directive) -> Option<AcmeRules> {
        self.between(line, &line.args, 0, 0)?;
        let mut rules = AcmeRules::default();
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "domains" => rules.domains.extend(this.texts(option)?),
                "ip_ranges" => rules.ip_ranges.extend(this.texts(option)?),
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(rules)
    }
}
