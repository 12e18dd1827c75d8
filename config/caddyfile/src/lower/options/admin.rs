//! The global options `admin` and `storage`.

use sluice_model::{Admin, ConfigSettings, FileStorage, Storage};

use super::super::Lowering;
use super::super::definition::Read::{Flag, Texts, With};
use super::super::definition::{Options, option};
use crate::tree::Directive;

pub(super) static STORAGE: Options<FileStorage> = Options::new(
    "storage",
    &[option(
        "root",
        "root <path>",
        With(|cx, line, storage| {
            if !storage.root.is_empty() {
                return cx.duplicate(line);
            }
            storage.root = cx.single_text(line)?;
            Some(())
        }),
    )],
);

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
        self.read_options(&STORAGE, line.lines(), &mut storage)?;
        Some(Storage::FileSystem(storage))
    }

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
