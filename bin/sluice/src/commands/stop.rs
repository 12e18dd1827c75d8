//! `sluice stop`: asks a running server to end.

use std::path::PathBuf;

use crate::Exit;
use crate::admin_client::{Client, address};
use crate::load::{Adapter, Source};
use crate::messages::{Failed, MessageFormat};

/// The flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The address of the admin interface, if it is not the usual one.
    #[arg(long)]
    address: Option<String>,
    /// The configuration to read the admin address from.
    #[arg(short, long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Its language; by default told from its name and text.
    #[arg(short, long, value_enum)]
    adapter: Option<Adapter>,
}

impl Args {
    /// Returns when the server has taken the order; it then lets requests end.
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
