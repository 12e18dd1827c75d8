//! `acme_server`: issues certificates to other servers.

use sluice_model::handler::{AcmePolicy, AcmeRules, AcmeServer};
use sluice_model::{Duration, Handler};

use crate::lower::Lowering;
use crate::lower::definition::Read::{Elsewhere, Flag, MoreTexts, Text, Texts, Time, With};
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
            With(|cx, line, server| {
                cx.no_block(line)?;
                for word in &line.args {
                    server.challenges.push(cx.one_of(word, &CHALLENGES)?);
                }
                Some(())
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

/// The challenges; all of them are offered where a line names none.
const CHALLENGES: [&str; 3] = ["http-01", "dns-01", "tls-alpn-01"];

/// The lifetime of certificates where the file gives none, as in Caddy.
const LIFETIME: Duration = Duration(12 * 3600 * 1_000_000_000);

/// The lifetime of a local CA's intermediate certificate where the file gives none, as in Caddy.
const INTERMEDIATE_LIFETIME: Duration = Duration(7 * 24 * 3600 * 1_000_000_000);

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
            this.shorter_than_intermediate(line, &server)?;
            // Inside blocks, Caddy does not add it to the CAs of the server.
            if !server.ca.is_empty() && this.is_site_level() {
                this.options.named_authorities.insert(server.ca.clone());
            }
            Some(Handler::AcmeServer(Box::new(server)))
        })
    }

    /// A certificate may not outlive the intermediate certificate that signs it.
    fn shorter_than_intermediate(&mut self, line: &Directive, server: &AcmeServer) -> Option<()> {
        let or = |given: Duration, usual| if given.0 == 0 { usual } else { given };
        let id = if server.ca.is_empty() {
            "local"
        } else {
            &server.ca
        };
        let authorities = &self.options.authorities;
        let authority = authorities.iter().find(|(name, _)| *name == id);
        let authority = authority.map(|(_, authority)| authority.clone());
        let authority = authority.unwrap_or_default();
        let intermediate = or(authority.intermediate_lifetime, INTERMEDIATE_LIFETIME);
        // One that is loaded has its own end.
        if authority.intermediate.is_some() || or(server.lifetime, LIFETIME).0 < intermediate.0 {
            return Some(());
        }
        let mut options = line.lines().iter();
        let option = options.rfind(|option| option.name.text == "lifetime");
        let word = option.map_or(&line.name, |option| {
            option.args.first().unwrap_or(&option.name)
        });
        let title = "certificates of `acme_server` outlive the intermediate certificate";
        let label = "not shorter than the intermediate certificate's lifetime";
        let help = format!(
            "write a shorter `lifetime` here, or a longer `intermediate_lifetime` for the CA `{id}` in `pki` \
             (7 days unless given)"
        );
        self.refuse(word.error("invalid-value", title, label).help(help))
    }

    fn acme_rules(&mut self, line: &Directive) -> Option<AcmeRules> {
        self.between(line, &line.args, 0, 0)?;
        let mut rules = AcmeRules::default();
        self.read_lines(&RULES, line.lines(), &mut rules)?;
        Some(rules)
    }
}
