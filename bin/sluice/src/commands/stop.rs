//! `sluice stop`: stops a running server gracefully.

use crate::Exit;
use crate::admin_client::{Client, Place};
use crate::messages::{Failed, MessageFormat};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    place: Place,
}

impl Args {
    /// Returns once the server has accepted the request; it then drains its connections.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        Client::new(self.place.address(format)?).post("/stop", "application/json", b"", &[])?;
        Ok(Exit::Done)
    }
}
