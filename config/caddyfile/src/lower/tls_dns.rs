//! The DNS challenge: the provider that sets the records, and the propagation checks.

use sluice_model::RawModule;
use sluice_model::tls::{AcmeIssuer, DnsChallenge};

use super::Lowering;
use super::definition::Read::With;
use super::definition::{OptionDefinition, option};
use crate::tree::{Directive, Token};

/// Options among which an ACME issuer is described: those of `issuer acme`, and of `tls` itself.
pub(super) trait HasAcme: Sized + 'static {
    /// The issuer.
    fn acme(&mut self) -> &mut AcmeIssuer;

    /// The options of the DNS challenge.
    const DNS_CHALLENGE: &'static [OptionDefinition<Self>] = &[
        option(
            "dns",
            "dns exec <command...> | <service> [<token>] [{ … }]",
            With(|cx, line, this: &mut Self| cx.dns_challenge(line, this.acme())),
        ),
        option(
            "propagation_timeout",
            "propagation_timeout <duration>",
            With(|cx, line, this: &mut Self| cx.dns_challenge(line, this.acme())),
        ),
        option(
            "propagation_delay",
            "propagation_delay <duration>",
            With(|cx, line, this: &mut Self| cx.dns_challenge(line, this.acme())),
        ),
        option(
            "dns_ttl",
            "dns_ttl <duration>",
            With(|cx, line, this: &mut Self| cx.dns_challenge(line, this.acme())),
        ),
        option(
            "dns_challenge_override_domain",
            "dns_challenge_override_domain <domain>",
            With(|cx, line, this: &mut Self| cx.dns_challenge(line, this.acme())),
        ),
        option(
            "resolvers",
            "resolvers <dns_servers...>",
            With(|cx, line, this: &mut Self| cx.dns_challenge(line, this.acme())),
        ),
    ];
}

/// The options of the DNS challenge that only matter with a provider.
const DNS_SETTINGS: [&str; 5] = [
    "propagation_timeout",
    "propagation_delay",
    "dns_ttl",
    "dns_challenge_override_domain",
    "resolvers",
];

impl HasAcme for AcmeIssuer {
    fn acme(&mut self) -> &mut AcmeIssuer {
        self
    }
}

/// A DNS service: its name and its settings, those that may be left out behind a question mark. The first is what may
/// stand behind the name on its line, as in the modules of the same names for Caddy.
struct Service {
    name: &'static str,
    settings: &'static [&'static str],
}

impl Service {
    fn help(&self) -> String {
        let bare = self
            .settings
            .iter()
            .map(|setting| setting.trim_end_matches('?'));
        let names: Vec<&str> = bare.collect();
        format!("write its settings in a block: {}", names.join(", "))
    }
}

const fn service(name: &'static str, settings: &'static [&'static str]) -> Service {
    Service { name, settings }
}

/// The services that are built in; `sluice-dns` knows how each is spoken to.
const SERVICES: &[Service] = &[
    service("cloudflare", &["api_token"]),
    service("digitalocean", &["auth_token"]),
    service("hetzner", &["api_token"]),
    service("desec", &["token"]),
    service("gandi", &["bearer_token"]),
    service("porkbun", &["api_key", "api_secret_key"]),
    service(
        "route53",
        &[
            "access_key_id",
            "secret_access_key",
            "session_token?",
            "hosted_zone_id?",
            "region?",
        ],
    ),
    service(
        "ovh",
        &[
            "application_key",
            "application_secret",
            "consumer_key",
            "endpoint?",
        ],
    ),
    service(
        "googleclouddns",
        &["gcp_project", "gcp_application_default"],
    ),
    service(
        "azure",
        &[
            "tenant_id",
            "client_id",
            "client_secret",
            "subscription_id",
            "resource_group_name",
        ],
    ),
    service("rfc2136", &["server", "key_name", "key", "key_alg?"]),
];

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
            "dns_challenge_override_domain" => dns.override_domain = self.single_text(line)?,
            _ => self.dns_check(line, dns)?,
        }
        Some(())
    }

    /// Refuses settings of the DNS challenge in a `tls` block without a provider: the challenge would not be used.
    pub(super) fn needs_dns_provider(&mut self, line: &Directive, acme: &AcmeIssuer) -> Option<()> {
        let challenges = acme.challenges.as_ref();
        let dns = challenges.and_then(|challenges| challenges.dns.as_ref());
        let is_given = |dns: &DnsChallenge| dns.provider.is_some();
        let has_provider = dns.is_none_or(is_given)
            || self.options.dns.is_some()
            || self.options.acme.challenges.is_some();
        let is_setting = |line: &&Directive| DNS_SETTINGS.contains(&line.name.text.as_str());
        match line.lines().iter().find(is_setting) {
            Some(setting) if !has_provider => {
                let name = &setting.name;
                let title = format!("`{}` has no effect without a DNS provider", name.text);
                let diagnostic = name.error("missing-argument", title, "no `dns` line");
                self.refuse(
                    diagnostic.help("add `dns <provider>`, or the global option `acme_dns`"),
                )
            }
            _ => Some(()),
        }
    }

    /// Reads one line of what the DNS challenge and the DNS check of ZeroSSL have in common.
    pub(super) fn dns_check(&mut self, line: &Directive, dns: &mut DnsChallenge) -> Option<()> {
        match line.name.text.as_str() {
            "dns" => dns.provider = Some(self.dns_provider(line)?),
            "propagation_delay" => dns.propagation_delay = self.single_duration(line)?,
            "propagation_timeout" if self.single(line)?.text == "-1" => {
                dns.propagation_timeout = sluice_model::Duration(-1);
            }
            "propagation_timeout" => dns.propagation_timeout = self.single_duration(line)?,
            "dns_ttl" => dns.ttl = self.single_duration(line)?,
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
            other => {
                let Some(known) = SERVICES.iter().find(|known| known.name == other) else {
                    return self.unknown_service(name);
                };
                self.service_settings(line, known, args, &mut module)?;
            }
        }
        Some(module)
    }

    fn unknown_service<T>(&mut self, name: &Token) -> Option<T> {
        let names: Vec<&str> = SERVICES.iter().map(|known| known.name).collect();
        let title = format!("DNS provider `{}` is not built in", name.text);
        let label = "neither `exec` nor a built-in service";
        let help = format!(
            "run a program: `exec <command>`, or use one of {}",
            names.join(", ")
        );
        self.refuse(name.error("unsupported-option", title, label).help(help))
    }

    /// Reads the settings of a service: one behind its name where it needs no more, all others in a block.
    fn service_settings(
        &mut self,
        line: &Directive,
        known: &Service,
        args: &[Token],
        module: &mut RawModule,
    ) -> Option<()> {
        let bare = |setting: &'static str| setting.trim_end_matches('?');
        match args {
            [] => {}
            [only] if known.settings.len() == 1 => {
                module.insert(bare(known.settings[0]).into(), only.text.as_str().into());
            }
            [extra, ..] => {
                let title = format!("unexpected argument `{}` for `{}`", extra.text, known.name);
                let diagnostic = extra.error("unexpected-argument", title, "one argument too many");
                return self.refuse(diagnostic.help(known.help()));
            }
        }
        self.each(line.lines(), |this, option| {
            let name = option.name.text.as_str();
            if !known.settings.iter().any(|setting| bare(setting) == name) {
                let title = format!("unknown setting `{name}` of `{}`", known.name);
                let diagnostic = option
                    .name
                    .error("unknown-option", title, "not a setting here");
                return this.refuse(diagnostic.help(known.help()));
            }
            let value = this.single_text(option)?;
            module.insert(name.into(), value.into());
            Some(())
        })?;
        let is_missing =
            |setting: &&&str| !setting.ends_with('?') && !module.contains_key(**setting);
        if let Some(missing) = known.settings.iter().find(is_missing) {
            return self.missing(line, &format!("`{missing}`"));
        }
        Some(())
    }
}
