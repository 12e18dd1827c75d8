//! `sluice version`.

use crate::Exit;
use crate::messages::Failed;

/// The version as all commands print it.
pub const TEXT: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// Prints the version.
pub fn run() -> Result<Exit, Failed> {
    say!("{TEXT}");
    Ok(Exit::Done)
}
