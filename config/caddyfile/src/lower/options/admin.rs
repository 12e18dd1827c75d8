//! The global option `admin`.

use sluice_model::{Admin, ConfigSettings, Dashboard, DashboardAction};

use super::super::Lowering;
use super::super::definition::Read::{Flag, Texts, With};
use super::super::definition::{Block, Options, option};
use crate::tree::Directive;

pub(super) static ADMIN: Options<Admin> = Options::new(
    "admin",
    &[
        option(
            "origins",
            "origins <origins...>",
            Texts(|admin| &mut admin.origins),
        ),
        option(
            "enforce_origin",
            "enforce_origin",
            Flag(|admin| &mut admin.enforce_origin),
        ),
        option(
            "dashboard",
            "dashboard { actions … }",
            With(|cx, line, admin: &mut Admin| cx.dashboard(line, admin)),
        )
        .own()
        .holding(Block::Options(&DASHBOARD)),
    ],
);

static DASHBOARD: Options<Dashboard> = Options::new(
    "dashboard",
    &[option(
        "actions",
        "actions [reload] [drain] [eject] [purge]",
        With(|cx, line, dashboard: &mut Dashboard| cx.dashboard_actions(line, dashboard)),
    )],
)
.own();

/// Where the control interface is when no address is given.
const DEFAULT_ADMIN: &str = "localhost:2019";

impl Lowering<'_> {
    pub(super) fn admin_option(&mut self, line: &Directive) -> Option<()> {
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
        self.read_options(&ADMIN, line.lines(), &mut admin)?;
        self.options.admin = Some(admin);
        Some(())
    }

    fn dashboard(&mut self, line: &Directive, admin: &mut Admin) -> Option<()> {
        self.between(line, &line.args, 0, 0)?;
        if line.lines().is_empty() {
            return self.missing(line, "a block with `actions`");
        }
        let mut dashboard = admin.dashboard.take().unwrap_or_default();
        self.read_options(&DASHBOARD, line.lines(), &mut dashboard)?;
        admin.dashboard = Some(dashboard);
        Some(())
    }

    /// Without names it is all of them.
    fn dashboard_actions(&mut self, line: &Directive, dashboard: &mut Dashboard) -> Option<()> {
        self.no_block(line)?;
        if line.args.is_empty() {
            dashboard.actions = DashboardAction::ALL.to_vec();
        }
        for word in &line.args {
            let name = self.one_of(word, &DashboardAction::NAMES)?;
            let action = DashboardAction::named(&name)?;
            if !dashboard.actions.contains(&action) {
                dashboard.actions.push(action);
            }
        }
        Some(())
    }

    /// The control interface of the model.
    pub(in crate::lower) fn admin(&self) -> Option<Admin> {
        let mut admin = self.options.admin.clone();
        if self.options.persist_off {
            admin.get_or_insert_default().config = Some(ConfigSettings {
                persist: Some(false),
                ..ConfigSettings::default()
            });
        }
        admin
    }
}
