//! The global options.

mod pki;
mod servers;

use std::collections::{BTreeMap, BTreeSet};

use sluice_model::http::Metrics;
use sluice_model::logging::Log;
use sluice_model::pki::CertificateAuthority;
use sluice_model::tls::{AcmeIssuer, ChainPreference, ExternalAccount, Issuer, OnDemand};
use sluice_model::{Admin, ConfigSettings, Duration, EventsApp, FileStorage, RawModule, Storage};

use super::Lowering;
use super::args::GLOBAL;
use super::logs::DEFAULT_LOG;
use super::matchers::inner_line;
use super::outcome::Bind;
use crate::registry;
use crate::tree::{Directive, Token};

pub(super) use servers::ServerOptions;

/// What the global options say.
#[derive(Clone, Debug, Default)]
pub(super) struct GlobalOptions {
    pub(super) http_port: Option<u16>,
    pub(super) https_port: Option<u16>,
    pub(super) grace_period: Duration,
    pub(super) shutdown_delay: Duration,
    pub(super) metrics: Option<Metrics>,
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
    /// Names whose certificates a proxy shows to its upstreams.
    pub(super) automated_client_names: Vec<String>,
    /// Certificate files that have a tag already, by the file of the certificate.
    pub(super) certificate_tags: BTreeMap<String, String>,
    pub(super) events: Option<EventsApp>,
    pub(super) filesystems: Option<RawModule>,
    /// What sets DNS records wherever no other provider is named.
    pub(super) dns: Option<RawModule>,
    /// Where `acme_dns` leaves the provider to `dns`.
    bare_acme_dns: Option<Token>,
}

impl Lowering<'_> {
    /// Reads the global options block.
    pub(super) fn global_options(&mut self, lines: &[Directive]) {
        for line in lines {
            self.place = GLOBAL;
            self.subject.clone_from(&line.name.text);
            self.global_option(line);
        }
        self.place = "";
        if let (Some(word), None) = (&self.options.bare_acme_dns, &self.options.dns) {
            let title = "`acme_dns` names no DNS provider";
            let diagnostic = word.error("missing-argument", title, "nothing follows");
            let help = "name one here, or for everything with the global option `dns`";
            self.report.push(diagnostic.help(help));
        }
        if self.options.local_certs && !self.options.issuers.is_empty() {
            let both = lines.iter().find(|line| line.name.text == "local_certs");
            if let Some(line) = both {
                let title = "`local_certs` and `cert_issuer` exclude each other";
                let diagnostic = line
                    .name
                    .error("duplicate-option", title, "is an issuer as well");
                self.report.push(diagnostic.help("keep one of the two"));
            }
        }
    }

    fn global_option(&mut self, line: &Directive) -> Option<()> {
        match line.name.text.as_str() {
            "debug" => {
                self.flag(line)?;
                self.options.debug = true;
            }
            "http_port" => {
                let word = self.single(line)?;
                self.options.http_port = Some(self.port(word)?);
            }
            "https_port" => {
                let word = self.single(line)?;
                self.options.https_port = Some(self.port(word)?);
            }
            "default_bind" => {
                let bind = self.read_bind(line)?;
                self.options.default_bind.push(bind);
            }
            "grace_period" => self.options.grace_period = self.single_duration(line)?,
            "shutdown_delay" => self.options.shutdown_delay = self.single_duration(line)?,
            "metrics" => self.options.metrics = Some(self.metrics_option(line)?),
            "order" => self.order_option(line)?,
            "storage" => self.options.storage = Some(self.storage(line)?),
            "storage_check" => {
                let word = self.single(line)?;
                self.one_of(word, &["off"])?;
                self.options.storage_check_off = true;
            }
            "storage_clean_interval" => {
                let word = self.single(line)?;
                if word.text == "off" {
                    self.options.storage_clean_off = true;
                } else {
                    self.options.storage_clean_interval = self.duration(word)?;
                }
            }
            "admin" => self.admin_option(line)?,
            "persist_config" => {
                let word = self.single(line)?;
                self.one_of(word, &["off"])?;
                self.options.persist_off = true;
            }
            "log" => self.global_log(line)?,
            "pki" => self.pki_option(line)?,
            "servers" => self.servers_option(line)?,
            // As in Caddy, a block that names no handler is an app that does nothing.
            "events" if line.args.is_empty() && line.lines().is_empty() => {
                self.options.events = Some(EventsApp::default());
            }
            _ => self.certificate_option(line)?,
        }
        Some(())
    }

    fn certificate_option(&mut self, line: &Directive) -> Option<()> {
        match line.name.text.as_str() {
            "auto_https" => {
                self.texts(line)?;
                self.options.auto_https.clear();
                let words = [
                    "off",
                    "disable_redirects",
                    "disable_certs",
                    "ignore_loaded_certs",
                ];
                for word in &line.args {
                    let word = self.one_of(word, &words)?;
                    self.options.auto_https.push(word);
                }
            }
            "email" => self.options.acme.email = self.single_text(line)?,
            "default_sni" => self.options.default_sni = self.single_text(line)?,
            "fallback_sni" => self.options.fallback_sni = self.single_text(line)?,
            "local_certs" => {
                self.flag(line)?;
                self.options.local_certs = true;
            }
            "skip_install_trust" => {
                self.flag(line)?;
                self.options.skip_install_trust = true;
            }
            "acme_ca" => self.options.acme.ca = self.single_text(line)?,
            "acme_ca_root" => {
                let root = self.single_text(line)?;
                self.options.acme.trusted_roots_pem_files = vec![root];
            }
            "acme_dns" => self.acme_dns(line)?,
            "dns" => self.options.dns = Some(self.dns_provider(line)?),
            "acme_eab" => self.options.acme.external_account = Some(self.external_account(line)?),
            "preferred_chains" => {
                self.options.acme.preferred_chains = Some(self.preferred_chains(line)?);
            }
            "cert_lifetime" => {
                self.options.acme.certificate_lifetime = self.single_duration(line)?
            }
            "on_demand_tls" => self.options.on_demand = Some(self.on_demand(line)?),
            "key_type" => self.options.key_type = self.key_type(line)?,
            "cert_issuer" => {
                let Some(issuer) = inner_line(line) else {
                    return self.missing(line, "an issuer");
                };
                let issuer = self.issuer(&issuer)?;
                self.options.issuers.push(issuer);
            }
            "renew_interval" => self.options.renew_interval = self.single_duration(line)?,
            "ocsp_interval" => self.options.ocsp_interval = self.single_duration(line)?,
            "ocsp_stapling" => {
                let word = self.single(line)?;
                self.one_of(word, &["off"])?;
                self.options.ocsp_stapling_off = true;
            }
            "renewal_window_ratio" => {
                self.options.renewal_window_ratio = Some(self.window_ratio(line)?);
            }
            "tls_resolvers" => self.options.resolvers = self.texts(line)?,
            _ => return self.unknown_global(line),
        }
        Some(())
    }

    /// `acme_dns [<provider>]`: without one it is that of `dns`, which may stand further below.
    fn acme_dns(&mut self, line: &Directive) -> Option<()> {
        let provider = if line.args.is_empty() && line.lines().is_empty() {
            self.options.bare_acme_dns = Some(line.name.clone());
            None
        } else {
            Some(self.dns_provider(line)?)
        };
        let challenges = self.options.acme.challenges.get_or_insert_default();
        challenges.dns.get_or_insert_default().provider = provider;
        Some(())
    }

    fn unknown_global<T>(&mut self, line: &Directive) -> Option<T> {
        let name = line.name.text.as_str();
        if registry::option(GLOBAL, name).is_none() && registry::directive(name).is_some() {
            let title = format!("directive `{name}` stands in the global options");
            let diagnostic = line
                .name
                .error("misplaced-directive", title, "belongs to a site");
            return self
                .refuse(diagnostic.help("put a site address in front of this block: `:80 { … }`"));
        }
        self.unknown_option(line)
    }

    /// Refuses a share of a lifetime that is none.
    pub(super) fn window_ratio(&mut self, line: &Directive) -> Option<f64> {
        let word = self.single(line)?;
        let ratio: f64 = self.number(word, "a share between 0 and 1")?;
        if ratio > 0.0 && ratio < 1.0 {
            return Some(ratio);
        }
        let title = format!("invalid number `{}`", word.text);
        self.refuse(word.error("invalid-number", title, "expected a share between 0 and 1"))
    }

    pub(super) fn metrics_option(&mut self, line: &Directive) -> Option<Metrics> {
        self.between(line, &line.args, 0, 0)?;
        let mut metrics = Metrics::default();
        self.place = "metrics option";
        self.each(line.lines(), |this, option| {
            this.flag(option)?;
            match option.name.text.as_str() {
                "per_host" => metrics.per_host = true,
                "observe_catchall_hosts" => metrics.observe_catchall_hosts = true,
                "otlp" => metrics.otlp = true,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(metrics)
    }

    /// `order <directive> first|last|before <other>|after <other>`.
    fn order_option(&mut self, line: &Directive) -> Option<()> {
        self.no_block(line)?;
        self.between(line, &line.args, 2, 3)?;
        let (name, position) = (&line.args[0], &line.args[1]);
        if registry::directive(&name.text).is_none() {
            let guess =
                sluice_diag::closest(&name.text, registry::DIRECTIVES.iter().map(|d| d.name));
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

    /// A storage, from a line whose first argument names its module.
    pub(in crate::lower) fn storage(&mut self, line: &Directive) -> Option<Storage> {
        let Some((module, args)) = line.args.split_first() else {
            return self.missing(line, "a storage module");
        };
        if module.text != "file_system" {
            return self.unknown_module(module, "storage module", &["file_system"]);
        }
        self.between(line, args, 0, 1)?;
        let mut storage = FileStorage::default();
        if let Some(root) = args.first() {
            storage.root.clone_from(&root.text);
        }
        self.place = "storage";
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "root" if !storage.root.is_empty() => return this.duplicate(option),
                "root" => storage.root = this.single_text(option)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(Storage::FileSystem(storage))
    }

    fn admin_option(&mut self, line: &Directive) -> Option<()> {
        self.between(line, &line.args, 0, 1)?;
        let mut admin = Admin::default();
        match line.args.first().map(|word| word.text.as_str()) {
            Some("off") => {
                self.no_block(line)?;
                admin.disabled = true;
            }
            Some(address) => admin.listen = address.to_string(),
            None => admin.listen = DEFAULT_ADMIN.to_string(),
        }
        self.place = "admin";
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "enforce_origin" => {
                    this.flag(option)?;
                    admin.enforce_origin = true;
                }
                "origins" => admin.origins = this.texts(option)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        self.options.admin = Some(admin);
        Some(())
    }

    /// The control interface of the model.
    pub(super) fn admin(&self) -> Option<Admin> {
        let mut admin = self.options.admin.clone();
        if self.options.persist_off {
            admin.get_or_insert_default().config = Some(ConfigSettings {
                persist: Some(false),
                ..ConfigSettings::default()
            });
        }
        admin
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
        let mut log = Log::default();
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "include" => log.include.extend(this.texts(option)?),
                "exclude" => log.exclude.extend(this.texts(option)?),
                // Says nothing of a log that no site has, and Caddy takes it.
                "no_hostname" => this.flag(option)?,
                "hostnames" => {
                    let title = format!("a global log has no `{}`", option.name.text);
                    let diagnostic =
                        option
                            .name
                            .error("unknown-option", title, "not an option here");
                    return this.refuse(diagnostic.help("it belongs to the directive `log`"));
                }
                _ => this.log_option(option, &mut log)?,
            }
            Some(())
        })?;
        self.options.logs.push((name, log));
        Some(())
    }

    fn external_account(&mut self, line: &Directive) -> Option<ExternalAccount> {
        self.between(line, &line.args, 0, 0)?;
        let mut account = ExternalAccount::default();
        self.place = "acme_eab";
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "key_id" => account.key_id = this.single_text(option)?,
                "mac_key" => account.mac_key = this.single_text(option)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(account)
    }

    pub(super) fn preferred_chains(&mut self, line: &Directive) -> Option<ChainPreference> {
        self.between(line, &line.args, 0, 1)?;
        let mut chains = ChainPreference::default();
        if let Some(word) = line.args.first() {
            self.one_of(word, &["smallest"])?;
            self.no_block(line)?;
            chains.smallest = Some(true);
        }
        let place = std::mem::replace(&mut self.place, "preferred_chains");
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "root_common_name" => chains.root_common_name = this.texts(option)?,
                "any_common_name" => chains.any_common_name = this.texts(option)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        self.place = place;
        if !chains.root_common_name.is_empty() && !chains.any_common_name.is_empty() {
            return self.duplicate(line);
        }
        if chains == ChainPreference::default() {
            return self.missing(line, "`smallest` or names");
        }
        Some(chains)
    }

    fn on_demand(&mut self, line: &Directive) -> Option<OnDemand> {
        self.between(line, &line.args, 0, 0)?;
        let mut permission = None;
        self.place = "on_demand_tls";
        self.each(line.lines(), |this, option| {
            let endpoint: Token = match option.name.text.as_str() {
                "ask" => this.single(option)?.clone(),
                "permission" => {
                    this.no_block(option)?;
                    let [module, endpoint] = this.exact::<2>(option, &option.args)?;
                    if module.text != "http" {
                        return this.unknown_module(module, "permission module", &["http"]);
                    }
                    endpoint.clone()
                }
                _ => return this.unknown_option(option),
            };
            if permission.is_some() {
                return this.duplicate(option);
            }
            let mut module = RawModule::new();
            module.insert("endpoint".into(), endpoint.text.as_str().into());
            module.insert("module".into(), "http".into());
            permission = Some(module);
            Some(())
        })?;
        if permission.is_none() {
            return self.missing(line, "`ask <endpoint>`");
        }
        Some(OnDemand {
            ask: String::new(),
            permission,
        })
    }
}

/// Where the control interface is when no address is given.
const DEFAULT_ADMIN: &str = "localhost:2019";
