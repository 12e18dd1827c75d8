//! Global options for certificates: ACME accounts, on-demand TLS, automatic HTTPS.

use sluice_model::RawModule;
use sluice_model::tls::{ExternalAccount, OnDemand};

use super::super::Lowering;
use super::super::definition::Read::{Text, With};
use super::super::definition::Verdict::Unreleased;
use super::super::definition::{Options, option, refused};
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
                cx.no_block(line)?;
                let [module, endpoint] = cx.exact::<2>(line, &line.args)?;
                if module.text != "http" {
                    return cx.unknown_module(module, "permission module", &["http"]);
                }
                cx.permission(line, endpoint, permission)
            }),
        ),
        refused(
            "interval",
            "interval <duration>",
            Unreleased(LIMITS_OF_ENDPOINT),
        ),
        refused("burst", "burst <n>", Unreleased(LIMITS_OF_ENDPOINT)),
    ],
);

const LIMITS_OF_ENDPOINT: &str =
    "limits are the business of the endpoint named by `ask`; remove the line";

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
