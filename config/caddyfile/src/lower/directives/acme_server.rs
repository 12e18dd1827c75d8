//! `acme_server`: issues certificates to other servers.

use sluice_model::Handler;
use sluice_model::handler::{AcmePolicy, AcmeRules, AcmeServer};

use crate::lower::Lowering;
use crate::lower::definition::Read::{
    Choices, Elsewhere, Flag, MoreTexts, Text, Texts, Time, With,
};
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `acme_server`.
pub(super) static ACME_SERVER: Definition = directive(
    "acme_server",
    "acme_server [<matcher>] { … }",
    |cx, line| cx.acme_server(line),
)
.with(&OPTIONS);

static OPTIONS: Options<AcmeServer> = Options::new(
    "acme_server",
    &[
        option("ca", "ca <id>", Text(|server| &mut server.ca)),
        option(
            "lifetime",
            "lifetime <duration>",
            Time(|server| &mut server.lifetime),
        ),
        option(
            "resolvers",
            "resolvers <resolvers...>",
            Texts(|server| &mut server.resolvers),
        ),
        option(
            "challenges",
            "challenges <challenges...>",
            Choices(&["http-01", "dns-01", "tls-alpn-01"], |server| {
                &mut server.challenges
            }),
        ),
        option(
            "sign_with_root",
            "sign_with_root",
            Flag(|server| &mut server.sign_with_root),
        ),
        option(
            "allow_wildcard_names",
            "allow_wildcard_names",
            Flag(|server| &mut policy(server).allow_wildcard_names),
        ),
        option(
            "allow",
            "allow { … }",
            With(|cx, line, server| {
                policy(server).allow = Some(cx.acme_rules(line)?);
                Some(())
            }),
        ),
        option(
            "deny",
            "deny { … }",
            With(|cx, line, server| {
                policy(server).deny = Some(cx.acme_rules(line)?);
                Some(())
            }),
        ),
        option("domains", "domains <domains...>", Elsewhere),
        option("ip_ranges", "ip_ranges <addresses...>", Elsewhere),
    ],
);

static RULES: Options<AcmeRules> = Options::new(
    "acme_server",
    &[
        option(
            "domains",
            "domains <domains...>",
            MoreTexts(|rules| &mut rules.domains),
        ),
        option(
            "ip_ranges",
            "ip_ranges <addresses...>",
            MoreTexts(|rules| &mut rules.ip_ranges),
        ),
    ],
);

fn policy(server: &mut AcmeServer) -> &mut AcmePolicy {
    server.policy.get_or_insert_default()
}

impl Lowering<'_> {
    fn acme_server(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut server = AcmeServer::default();
            this.read_options(&OPTIONS, line.lines(), &mut server)?;
            // Inside blocks, Caddy does not add it to the CAs of the server.
            if !server.ca.is_empty() && this.is_site_level() {
                this.options.named_authorities.insert(server.ca.clone());
            }
            Some(Handler::AcmeServer(Box::new(server)))
        })
    }

    fn acme_rules(&mut self, line: &Directive) -> Option<AcmeRules> {
        self.between(line, &line.args, 0, 0)?;
        let mut rules = AcmeRules::default();
        self.read_lines(&RULES, line.lines(), &mut rules)?;
        Some(rules)
    }
}
