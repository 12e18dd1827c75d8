//! The global options.

mod admin;
mod certificates;
mod events;
mod pki;
pub(super) mod servers;
mod storage;

use std::collections::{BTreeMap, BTreeSet};

use sluice_model::http::{MEMORY_LIMIT_MIN, Metrics};
use sluice_model::logging::Log;
use sluice_model::pki::CertificateAuthority;
use sluice_model::response_cache::ResponseCache;
use sluice_model::tls::{AcmeIssuer, Issuer, OnDemand};
use sluice_model::{Admin, Duration, EventsApp, RawModule, Storage};

use super::Lowering;
use super::args::GLOBAL;
use super::definition::Read::{Flag, With};
use super::definition::Verdict::{Always, Plugin, Unsupported};
use super::definition::{Block, NO_OPTIONS, OptionTable, Options, option, refused};
use super::directives::{self, bind::OPTIONS as BIND_OPTIONS, cache::OPTIONS as CACHE_OPTIONS};
use super::issuers::{ISSUER_OPTIONS, PREFERRED_CHAINS};
use super::logs::{DEFAULT_LOG, LOG, LogLines};
use super::matchers::inner_line;
use super::outcome::Bind;
use crate::registry::plugins::plugin_word;
use crate::tree::{Directive, Token};

use admin::ADMIN;
use certificates::{ACME_EAB, ON_DEMAND};
use events::EVENTS;
use pki::PKI;
use servers::SERVERS;

pub(super) use servers::ServerOptions;

/// What the global options say.
#[derive(Clone, Debug, Default)]
pub(super) struct GlobalOptions {
    pub(super) http_port: Option<u16>,
    pub(super) https_port: Option<u16>,
    pub(super) grace_period: Duration,
    pub(super) shutdown_delay: Duration,
    pub(super) metrics: Option<Metrics>,
    pub(super) memory_limit: u64,
    pub(super) debug: bool,
    pub(super) default_bind: Vec<Bind>,
    pub(super) storage: Option<Storage>,
    pub(super) storage_clean_interval: Duration,
    pub(super) storage_clean_off: bool,
    pub(super) storage_check_off: bool,
    pub(super) admin: Option<Admin>,
    pub(super) persist_off: bool,
    pub(super) logs: Vec<(String, Log)>,
    pub(super) auto_https: Vec<String>,
    pub(super) default_sni: String,
    pub(super) fallback_sni: String,
    pub(super) local_certs: bool,
    pub(super) skip_install_trust: bool,
    /// What every ACME issuer gets where it has nothing of its own.
    pub(super) acme: AcmeIssuer,
    pub(super) on_demand: Option<OnDemand>,
    pub(super) key_type: String,
    pub(super) issuers: Vec<Issuer>,
    pub(super) renew_interval: Duration,
    pub(super) ocsp_interval: Duration,
    pub(super) ocsp_stapling_off: bool,
    pub(super) renewal_window_ratio: Option<f64>,
    pub(super) resolvers: Vec<String>,
    pub(super) servers: Vec<ServerOptions>,
    pub(super) authorities: BTreeMap<String, CertificateAuthority>,
    /// CAs that directives use without defining them.
    pub(super) named_authorities: BTreeSet<String>,
    /// Names to obtain certificates for without a site.
    pub(super) automated_names: Vec<String>,
    /// Names whose certificates a proxy shows to its upstreams.
    pub(super) automated_client_names: Vec<String>,
    /// Certificate files that have a tag already, by the file of the certificate.
    pub(super) certificate_tags: BTreeMap<String, String>,
    pub(super) events: Option<EventsApp>,
    pub(super) filesystems: Option<RawModule>,
    pub(super) cache: Option<ResponseCache>,
    /// What sets DNS records wherever no other provider is named.
    pub(super) dns: Option<RawModule>,
    /// Where `acme_dns` leaves the provider to `dns`.
    bare_acme_dns: Option<Token>,
}

/// The global options.
pub(super) static GLOBAL_OPTIONS: Options<()> = Options::new(
    GLOBAL,
    &[
        option(
            "acme_ca",
            "acme_ca <directory_url>",
            With(|cx, line, ()| {
                cx.options.acme.ca = cx.single_text(line)?;
                Some(())
            }),
        ),
        option(
            "acme_ca_root",
            "acme_ca_root <pem_file>",
            With(|cx, line, ()| {
                let root = cx.single_text(line)?;
                cx.options.acme.trusted_roots_pem_files = vec![root];
                Some(())
            }),
        ),
        option(
            "acme_dns",
            "acme_dns exec <command...> | <service> [<token>] [{ … }]",
            With(|cx, line, ()| cx.acme_dns(line)),
        ),
        option::<()>(
            "acme_eab",
            "acme_eab { … }",
            With(|cx, line, ()| {
                cx.options.acme.external_account = Some(cx.external_account(line)?);
                Some(())
            }),
        )
        .holding(Block::Options(&ACME_EAB)),
        option::<()>(
            "admin",
            "admin off|<addr> [{ … }]",
            With(|cx, line, ()| cx.admin_option(line)),
        )
        .holding(Block::Options(&ADMIN)),
        option(
            "auto_https",
            "auto_https off|disable_redirects|ignore_loaded_certs|disable_certs",
            With(|cx, line, ()| cx.auto_https(line)),
        ),
        option::<()>(
            "cache",
            "cache [{ … }]",
            With(|cx, line, ()| {
                cx.exact::<0>(line, &line.args)?;
                cx.options.cache = Some(cx.cache_block(line)?);
                Some(())
            }),
        )
        .own()
        .holding(Block::Options(&CACHE_OPTIONS)),
        option::<()>(
            "cert_issuer",
            "cert_issuer <name> …",
            With(|cx, line, ()| {
                let Some(issuer) = inner_line(line) else {
                    return cx.missing(line, "an issuer");
                };
                let issuer = cx.issuer(&issuer)?;
                cx.options.issuers.push(issuer);
                Some(())
            }),
        )
        .holding(Block::Modules(ISSUER_OPTIONS)),
        option(
            "cert_lifetime",
            "cert_lifetime <duration>",
            With(|cx, line, ()| {
                cx.options.acme.certificate_lifetime = cx.single_duration(line)?;
                Some(())
            }),
        ),
        option(
            "debug",
            "debug",
            With(|cx, line, ()| {
                cx.flag(line)?;
                cx.options.debug = true;
                Some(())
            }),
        ),
        option::<()>(
            "default_bind",
            "default_bind <hosts...> [{ … }]",
            With(|cx, line, ()| {
                let bind = cx.read_bind(line)?;
                cx.options.default_bind.push(bind);
                Some(())
            }),
        )
        .holding(Block::Options(&BIND_OPTIONS)),
        option(
            "default_sni",
            "default_sni <name>",
            With(|cx, line, ()| {
                cx.options.default_sni = cx.single_text(line)?;
                Some(())
            }),
        ),
        option(
            "dns",
            "dns exec <command...> | cloudflare <token>",
            With(|cx, line, ()| {
                cx.options.dns = Some(cx.dns_provider(line)?);
                Some(())
            }),
        ),
        refused(
            "ech",
            "ech <public_names...> [{ … }]",
            Unsupported(
                "the TLS library, rustls, cannot serve Encrypted Client Hello, so names of hosts stay visible; remove \
                 the line, or let a server in front that supports it end TLS",
            ),
        ),
        option(
            "email",
            "email <yours>",
            With(|cx, line, ()| {
                cx.options.acme.email = cx.single_text(line)?;
                Some(())
            }),
        ),
        option::<()>(
            "events",
            "events { … }",
            With(|cx, line, ()| {
                cx.between(line, &line.args, 0, 0)?;
                let mut events = cx.options.events.take().unwrap_or_default();
                cx.read_options(&EVENTS, line.lines(), &mut events)?;
                cx.options.events = Some(events);
                Some(())
            }),
        )
        .holding(Block::Options(&EVENTS)),
        option(
            "fallback_sni",
            "fallback_sni <name>",
            With(|cx, line, ()| {
                cx.options.fallback_sni = cx.single_text(line)?;
                Some(())
            }),
        ),
        refused(
            "filesystem",
            "filesystem <name> <module> [{ … }]",
            Plugin("file systems are plugins, which sluice does not have; remove the line"),
        ),
        option(
            "grace_period",
            "grace_period <duration>",
            With(|cx, line, ()| {
                cx.options.grace_period = cx.single_duration(line)?;
                Some(())
            }),
        ),
        option(
            "http_port",
            "http_port <port>",
            With(|cx, line, ()| {
                let word = cx.single(line)?;
                cx.options.http_port = Some(cx.port(word)?);
                Some(())
            }),
        ),
        option(
            "https_port",
            "https_port <port>",
            With(|cx, line, ()| {
                let word = cx.single(line)?;
                cx.options.https_port = Some(cx.port(word)?);
                Some(())
            }),
        ),
        option(
            "key_type",
            "key_type ed25519|p256|p384|rsa2048|rsa4096",
            With(|cx, line, ()| {
                cx.options.key_type = cx.key_type(line)?;
                Some(())
            }),
        ),
        option(
            "local_certs",
            "local_certs",
            With(|cx, line, ()| {
                cx.flag(line)?;
                cx.options.local_certs = true;
                Some(())
            }),
        ),
        option::<()>(
            "log",
            "log [<name>] [{ … }]",
            With(|cx, line, ()| cx.global_log(line)),
        )
        .holding(Block::Options(&LOG)),
        option(
            "memory_limit",
            "memory_limit <size>",
            With(|cx, line, ()| {
                cx.options.memory_limit = cx.memory_limit(line)?;
                Some(())
            }),
        )
        .own(),
        option::<()>(
            "metrics",
            "metrics [{ … }]",
            With(|cx, line, ()| {
                cx.options.metrics = Some(cx.metrics_option(line)?);
                Some(())
            }),
        )
        .holding(Block::Options(&METRICS)),
        option(
            "ocsp_interval",
            "ocsp_interval <duration>",
            With(|cx, line, ()| {
                cx.options.ocsp_interval = cx.single_duration(line)?;
                Some(())
            }),
        ),
        option(
            "ocsp_stapling",
            "ocsp_stapling off",
            With(|cx, line, ()| {
                let word = cx.single(line)?;
                cx.one_of(word, &["off"])?;
                cx.options.ocsp_stapling_off = true;
                Some(())
            }),
        ),
        option::<()>(
            "on_demand_tls",
            "on_demand_tls { … }",
            With(|cx, line, ()| {
                cx.options.on_demand = Some(cx.on_demand(line)?);
                Some(())
            }),
        )
        .holding(Block::Options(&ON_DEMAND)),
        option(
            "order",
            "order <dir1> first|last|[before|after <dir2>]",
            With(|cx, line, ()| cx.order_option(line)),
        ),
        option(
            "persist_config",
            "persist_config off",
            With(|cx, line, ()| {
                let word = cx.single(line)?;
                cx.one_of(word, &["off"])?;
                cx.options.persist_off = true;
                Some(())
            }),
        ),
        option::<()>("pki", "pki { … }", With(|cx, line, ()| cx.pki_option(line)))
            .holding(Block::Options(&PKI)),
        option::<()>(
            "preferred_chains",
            "preferred_chains [smallest] [{ … }]",
            With(|cx, line, ()| {
                cx.options.acme.preferred_chains = Some(cx.preferred_chains(line)?);
                Some(())
            }),
        )
        .holding(Block::Options(&PREFERRED_CHAINS)),
        option(
            "renew_interval",
            "renew_interval <duration>",
            With(|cx, line, ()| {
                cx.options.renew_interval = cx.single_duration(line)?;
                Some(())
            }),
        ),
        option(
            "renewal_window_ratio",
            "renewal_window_ratio <ratio>",
            With(|cx, line, ()| {
                cx.options.renewal_window_ratio = Some(cx.window_ratio(line)?);
                Some(())
            }),
        ),
        option::<()>(
            "servers",
            "servers [<listener_address>] { … }",
            With(|cx, line, ()| cx.servers_option(line)),
        )
        .holding(Block::Options(&SERVERS)),
        option(
            "shutdown_delay",
            "shutdown_delay <duration>",
            With(|cx, line, ()| {
                cx.options.shutdown_delay = cx.single_duration(line)?;
                Some(())
            }),
        ),
        option::<()>(
            "skip_install_trust",
            "skip_install_trust",
            With(|cx, line, ()| {
                cx.flag(line)?;
                cx.options.skip_install_trust = true;
                Some(())
            }),
        )
        .but(Always("only `sluice trust` changes the trust store")),
        option::<()>(
            "storage",
            "storage <module_name> [{ … }]",
            With(|cx, line, ()| {
                cx.options.storage = Some(cx.storage(line)?);
                Some(())
            }),
        )
        .holding(storage::MODULES),
        option(
            "storage_check",
            "storage_check off",
            With(|cx, line, ()| {
                let word = cx.single(line)?;
                cx.one_of(word, &["off"])?;
                cx.options.storage_check_off = true;
                Some(())
            }),
        ),
        option(
            "storage_clean_interval",
            "storage_clean_interval <duration>|off",
            With(|cx, line, ()| {
                let word = cx.single(line)?;
                match word.text.as_str() {
                    "off" => cx.options.storage_clean_off = true,
                    _ => cx.options.storage_clean_interval = cx.duration(word)?,
                }
                Some(())
            }),
        ),
        option(
            "tls_automate_names",
            "tls_automate_names <names...>",
            With(|cx, line, ()| {
                let names = cx.texts(line)?;
                cx.options.automated_names.extend(names);
                Some(())
            }),
        ),
        option(
            "tls_resolvers",
            "tls_resolvers <addresses...>",
            With(|cx, line, ()| {
                cx.options.resolvers = cx.texts(line)?;
                Some(())
            }),
        ),
    ],
);

/// The global options, for the registry.
pub(crate) static TABLE: &dyn OptionTable = &GLOBAL_OPTIONS;

/// The options of `metrics`, the global option.
static METRICS: Options<Metrics> = Options::new(
    "metrics option",
    &[
        option(
            "per_host",
            "per_host",
            Flag(|metrics| &mut metrics.per_host),
        ),
        option(
            "observe_catchall_hosts",
            "observe_catchall_hosts",
            Flag(|metrics| &mut metrics.observe_catchall_hosts),
        ),
        option("otlp", "otlp", Flag(|metrics| &mut metrics.otlp)),
    ],
);

impl Lowering<'_> {
    /// Reads the global options block.
    pub(super) fn global_options(&mut self, lines: &[Directive]) {
        for line in lines {
            let name = &line.name.text;
            self.place = &GLOBAL_OPTIONS;
            self.subject.clone_from(name);
            if !GLOBAL_OPTIONS.has(name) && directives::find(name).is_some() {
                self.misplaced_directive(line);
            } else {
                self.read_option(&GLOBAL_OPTIONS, line, &mut ());
            }
        }
        self.place = &NO_OPTIONS;
        if let (Some(word), None) = (&self.options.bare_acme_dns, &self.options.dns) {
            let title = "`acme_dns` has no DNS provider";
            let diagnostic = word.error("missing-argument", title, "nothing follows");
            let help = "name one here, or set one for all with the global option `dns`";
            self.report.push(diagnostic.help(help));
        }
        if self.options.local_certs && !self.options.issuers.is_empty() {
            let both = lines.iter().find(|line| line.name.text == "local_certs");
            if let Some(line) = both {
                let title = "`local_certs` and `cert_issuer` exclude each other";
                let diagnostic =
                    line.name
                        .error("duplicate-option", title, "also selects an issuer");
                self.report.push(diagnostic.help("keep one of the two"));
            }
        }
    }

    fn misplaced_directive(&mut self, line: &Directive) {
        let name = &line.name.text;
        let title = format!("directive `{name}` is not allowed in the global options");
        let diagnostic = line
            .name
            .error("misplaced-directive", title, "belongs to a site");
        let help = "put a site address before this block: `:80 { … }`";
        self.report.push(diagnostic.help(help));
    }

    fn memory_limit(&mut self, line: &Directive) -> Option<u64> {
        let word = self.single(line)?;
        let bytes = u64::try_from(self.size(word)?).unwrap_or_default();
        if bytes < MEMORY_LIMIT_MIN {
            let title = format!("memory limit `{}` is too low", word.text);
            let diagnostic = word.error("invalid-size", title, "below what an idle server uses");
            return self.refuse(diagnostic.help("write `16MiB` or more"));
        }
        Some(bytes)
    }

    pub(super) fn metrics_option(&mut self, line: &Directive) -> Option<Metrics> {
        self.between(line, &line.args, 0, 0)?;
        let mut metrics = Metrics::default();
        self.read_options(&METRICS, line.lines(), &mut metrics)?;
        Some(metrics)
    }

    /// `order <directive> first|last|before <other>|after <other>`.
    fn order_option(&mut self, line: &Directive) -> Option<()> {
        self.no_block(line)?;
        self.between(line, &line.args, 2, 3)?;
        let (name, position) = (&line.args[0], &line.args[1]);
        if directives::find(&name.text).is_none() {
            if let Some(word) = plugin_word(&name.text) {
                let title = format!("directive `{}` is not built in", name.text);
                return self.refuse_plugin_word(name, "unsupported-directive", title, word);
            }
            let known = directives::by_name().map(|known| known.entry.name);
            let guess = sluice_diag::closest(&name.text, known);
            let title = format!("unknown directive `{}`", name.text);
            let diagnostic = name.error("unknown-directive", title, "not a directive");
            return self.refuse(diagnostic.did_you_mean(guess));
        }
        // The directive leaves its place first: it cannot be put beside itself.
        let mut order = self.order.0.clone();
        order.retain(|other| *other != name.text);
        let to = match position.text.as_str() {
            "first" | "last" => {
                if let Some(surplus) = line.args.get(2) {
                    return self.surplus(line, surplus);
                }
                if position.text == "first" {
                    0
                } else {
                    order.len()
                }
            }
            "before" | "after" => {
                let Some(other) = line.args.get(2) else {
                    return self.missing(line, "another directive");
                };
                let Some(at) = order.iter().position(|name| *name == other.text) else {
                    let title = format!("directive `{}` has no place in the order", other.text);
                    return self.refuse(other.error("invalid-value", title, "not ordered"));
                };
                at + usize::from(position.text == "after")
            }
            _ => return self.invalid_value(position, &["first", "last", "before", "after"]),
        };
        order.insert(to, name.text.clone());
        self.order.0 = order;
        Some(())
    }

    fn global_log(&mut self, line: &Directive) -> Option<()> {
        self.between(line, &line.args, 0, 1)?;
        let name = line
            .args
            .first()
            .map_or(DEFAULT_LOG, |word| word.text.as_str())
            .to_string();
        if self.options.logs.iter().any(|(other, _)| *other == name) {
            return self.duplicate(line);
        }
        let mut lines = LogLines {
            log: Log::default(),
            access: None,
        };
        self.log_lines(line, &mut lines)?;
        self.options.logs.push((name, lines.log));
        Some(())
    }
}
