//! `sluice reload`: loads another configuration into a running server.

use std::path::PathBuf;

use sluice_admin::WITH_TEXTS;

use crate::Exit;
use crate::admin_client::{Client, address};
use crate::load::{Adapter, Source};
use crate::messages::{Failed, MessageFormat, print_report};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Configuration file, or `-` for stdin (default: `./Caddyfile`).
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Configuration format: caddyfile, caddy1, json or nginx (default: detected from name and content).
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        hide_possible_values = true
    )]
    adapter: Option<Adapter>,
    /// Address of the admin endpoint (default: the one in the configuration, else `localhost:2019`).
    #[arg(long)]
    address: Option<String>,
    /// Reload even if the configuration has not changed.
    #[arg(short, long)]
    force: bool,
}

impl Args {
    /// Returns once the new configuration is in effect, or was rejected and the old one remains in effect.
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
        // The configuration is the one parsed here, in this directory and environment. The texts are sent along so that
        // the server can report which of their lines handles a request.
        let (kind, body) = match &loaded.texts {
            Some(texts) => (WITH_TEXTS, texts.with(&loaded.config).to_string()),
            None => (
                "application/json",
                loaded.document.text(&loaded.config).to_string(),
            ),
        };
        Client::new(address).post("/load", kind, body.as_bytes(), force)?;
        Ok(Exit::Done)
    }
}
