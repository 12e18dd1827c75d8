//! The global option `admin`.

use sluice_model::{Admin, ConfigSettings};

use super::super::Lowering;
use super::super::definition::Read::{Flag, Texts};
use super::super::definition::{Options, option};
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
    ],
);

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
