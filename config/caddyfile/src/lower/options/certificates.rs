//! Global options for certificates: ACME accounts, on-demand TLS, automatic HTTPS.

use sluice_model::RawModule;
use sluice_model::tls::{ExternalAccount, OnDemand};

use super::super::Lowering;
use super::super::definition::Read::{Text, With};
use super::super::definition::Verdict::Unreleased;
use super::super::definition::{Block, Options, option, refused};
use crate::tree::{Directive, Token};

pub(super) static ACME_EAB: Options<ExternalAccount> = Options::new(
    "acme_eab",
    &[
        option(
            "key_id",
            "key_id <key_id>",
            Text(|account| &mut account.key_id),
        ),
        option(
            "mac_key",
            "mac_key <mac_key>",
            Text(|account| &mut account.mac_key),
        ),
    ],
);

pub(super) static ON_DEMAND: Options<Option<RawModule>> = Options::new(
    "on_demand_tls",
    &[
        option(
            "ask",
            "ask <endpoint>",
            With(|cx, line, permission| {
                let endpoint = cx.single(line)?;
                cx.permission(line, endpoint, permission)
            }),
        ),
        option(
            "permission",
            "permission <module>",
            With(|cx, line, permission| {
                let Some(module) = line.args.first() else {
                    return cx.missing(line, "a module");
                };
                match module.text.as_str() {
                    "http" => {
                        cx.no_block(line)?;
                        let [_, endpoint] = cx.exact::<2>(line, &line.args)?;
                        cx.permission(line, endpoint, permission)
                    }
                    "python_dir" => cx.folder_permission(line, permission),
                    _ => cx.unknown_module(module, "permission module", &["http", "python_dir"]),
                }
            }),
        )
        .holding(Block::Modules(&[("python_dir", &PYTHON_DIR)])),
        refused(
            "interval",
            "interval <duration>",
            Unreleased(LIMITS_OF_ENDPOINT),
        ),
        refused("burst", "burst <n>", Unreleased(LIMITS_OF_ENDPOINT)),
    ],
);

/// The folders that permit names, as Caddy Snake's module has them.
#[derive(Default)]
pub(super) struct PythonDir {
    root: String,
    domain_suffix: String,
}

static PYTHON_DIR: Options<PythonDir> = Options::<PythonDir>::new(
    "permission python_dir",
    &[
        option("root", "root <folder>", Text(|dir| &mut dir.root)),
        option(
            "domain_suffix",
            "domain_suffix <domain>",
            Text(|dir| &mut dir.domain_suffix),
        ),
    ],
)
.own();

const LIMITS_OF_ENDPOINT: &str = "the endpoint of `ask` decides on limits; remove the line";

impl Lowering<'_> {
    /// `acme_dns [<provider>]`: without one it is that of `dns`, which may stand further below.
    pub(super) fn acme_dns(&mut self, line: &Directive) -> Option<()> {
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

    pub(super) fn auto_https(&mut self, line: &Directive) -> Option<()> {
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
        Some(())
    }

    /// Refuses a share of a lifetime that is none.
    pub(in crate::lower) fn window_ratio(&mut self, line: &Directive) -> Option<f64> {
        let word = self.single(line)?;
        let ratio: f64 = self.number(word, "a share between 0 and 1")?;
        if ratio > 0.0 && ratio < 1.0 {
            return Some(ratio);
        }
        let title = format!("invalid number `{}`", word.text);
        self.refuse(word.error("invalid-number", title, "expected a share between 0 and 1"))
    }

    pub(super) fn external_account(&mut self, line: &Directive) -> Option<ExternalAccount> {
        self.between(line, &line.args, 0, 0)?;
        let mut account = ExternalAccount::default();
        self.read_options(&ACME_EAB, line.lines(), &mut account)?;
        Some(account)
    }

    pub(super) fn on_demand(&mut self, line: &Directive) -> Option<OnDemand> {
        self.between(line, &line.args, 0, 0)?;
        let mut permission = None;
        self.read_options(&ON_DEMAND, line.lines(), &mut permission)?;
        if permission.is_none() {
            return self.missing(line, "`ask <endpoint>`");
        }
        Some(OnDemand {
            ask: String::new(),
            permission,
        })
    }

    /// The folders of Python applications decide.
    fn folder_permission(
        &mut self,
        line: &Directive,
        permission: &mut Option<RawModule>,
    ) -> Option<()> {
        if permission.is_some() {
            return self.duplicate(line);
        }
        self.between(line, &line.args, 1, 1)?;
        let mut dir = PythonDir::default();
        self.read_options(&PYTHON_DIR, line.lines(), &mut dir)?;
        if dir.root.is_empty() || dir.domain_suffix.is_empty() {
            return self.missing(line, "`root` and `domain_suffix`");
        }
        let mut module = RawModule::new();
        module.insert("module".into(), "python_dir".into());
        module.insert("root".into(), dir.root.into());
        module.insert("domain_suffix".into(), dir.domain_suffix.into());
        *permission = Some(module);
        Some(())
    }

    /// Sets the endpoint that decides whether a certificate may be obtained; there can be only one.
    fn permission(
        &mut self,
        line: &Directive,
        endpoint: &Token,
        permission: &mut Option<RawModule>,
    ) -> Option<()> {
        if permission.is_some() {
            return self.duplicate(line);
        }
        let mut module = RawModule::new();
        module.insert("endpoint".into(), endpoint.text.as_str().into());
        module.insert("module".into(), "http".into());
        *permission = Some(module);
        Some(())
    }
}
