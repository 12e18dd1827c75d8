//! `sluice status`: the status of a running server, and what `sluice top` shares with it.

pub mod screen;
pub mod text;

use std::io::Write;
use std::path::PathBuf;

use sluice_observe::status::Snapshot;

use crate::Exit;
use crate::admin_client::{Client, address};
use crate::load::{Adapter, Source};
use crate::messages::{Failed, MessageFormat};

/// Where the server is.
#[derive(clap::Args, Debug)]
pub struct Place {
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

impl Place {
    /// The address of the admin endpoint.
    pub fn address(&self, format: MessageFormat) -> Result<String, Failed> {
        let config = match &self.config {
            Some(path) => Some(
                Source::required(Some(path), self.adapter)?
                    .load(format)?
                    .config,
            ),
            None => None,
        };
        address(self.address.as_deref(), config.as_ref())
    }
}

/// Reads the status of the server behind `client`.
pub fn snapshot(client: &Client) -> Result<Snapshot, Failed> {
    let body = client.get("/status", "application/json")?;
    serde_json::from_slice(&body)
        .map_err(|error| Failed::new(format!("the status is not valid: {error}")))
}

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// Print the whole status as JSON.
    #[arg(long)]
    json: bool,
    /// Print sites and upstreams as CSV, with the column names of HAProxy.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

impl Args {
    /// Prints the status once.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let address = self.place.address(format)?;
        let client = Client::new(address.clone());
        let text = match (self.json, self.csv) {
            (true, _) => client.get("/status", "application/json")?,
            (_, true) => client.get("/status", "text/csv")?,
            (false, false) => text::page(&snapshot(&client)?, &address).into_bytes(),
        };
        // The reader of a pipe may have seen enough.
        let _ = std::io::stdout().write_all(&text);
        Ok(Exit::Done)
    }
}
