//! `sluice stop`: stops a running server gracefully.

use std::path::PathBuf;

use crate::Exit;
use crate::admin_client::{Client, address};
use crate::load::{Adapter, Source};
use crate::messages::{Failed, MessageFormat};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Address of the admin endpoint (default: the one in the configuration, else `localhost:2019`).
    #[arg(long)]
    address: Option<String>,
    /// Configuration file to read the admin address from.
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
}

impl Args {
    /// Returns once the server has accepted the request; it then drains its connections.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let config = match &self.config {
            Some(path) => Some(
                Source::required(Some(path), self.adapter)?
                    .load(format)?
                    .config,
            ),
            None => None,
        };
        let address = address(self.address.as_deref(), config.as_ref())?;
        Client::new(address).post("/stop", "application/json", b"", &[])?;
        Ok(Exit::Done)
    }
}
