//! `sluice status`: the status of a running server, and what `sluice top` shares with it.

pub mod screen;
pub mod text;

use std::io::Write;

use sluice_observe::status::Snapshot;

use crate::Exit;
use crate::admin_client::{Client, Place};
use crate::messages::{Failed, MessageFormat};

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
