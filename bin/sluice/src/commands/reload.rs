//! `sluice reload`: gives a running server another configuration.

use std::path::PathBuf;

use sluice_admin::WITH_TEXTS;

use crate::Exit;
use crate::admin_client::{Client, address};
use crate::load::{Adapter, Source};
use crate::messages::{Failed, MessageFormat, print_report};

/// The flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The configuration; `-` for standard input. By default the Caddyfile of this folder.
    #[arg(short, long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Its language; by default told from its name and text.
    #[arg(short, long, value_enum)]
    adapter: Option<Adapter>,
    /// The address of the admin interface, if it differs from the configuration's.
    #[arg(long)]
    address: Option<String>,
    /// Reloads even if nothing has changed.
    #[arg(short, long)]
    force: bool,
}

impl Args {
    /// Returns when the new configuration is served, or was refused and the old one still is.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let source = Source::required(self.config.as_deref(), self.adapter)?;
        let loaded = source.load(format)?;
        print_report(&loaded.report, format);
        let address = address(self.address.as_deref(), Some(&loaded.config))?;
        let force: &[(&str, &str)] = if self.force {
            &[("Cache-Control", "must-revalidate")]
        } else {
            &[]
        };
        // The configuration is what was read here, in this folder and environment. The texts go along so that the
        // server can tell which of their lines handles a request.
        let (kind, body) = match &loaded.texts {
            Some(texts) => (WITH_TEXTS, texts.with(&loaded.config).to_string()),
            None => ("application/json", loaded.config.to_json()),
        };
        Client::new(address).post("/load", kind, body.as_bytes(), force)?;
        Ok(Exit::Done)
    }
}
