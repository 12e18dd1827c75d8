//! Environment files (`--envfile`): `sluice-pipeline` parses them, and `sluice-net` sets the variables, where it can check
//! that this is sound.

use std::path::Path;

use sluice_net::sys::process::set_variables;
use sluice_pipeline::env_file::parse;

use crate::messages::Failed;

/// Reads the files in order and sets their variables in this process. Later files override earlier ones.
pub fn apply(paths: &[impl AsRef<Path>]) -> Result<(), Failed> {
    for path in paths.iter().map(AsRef::as_ref) {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failed::new(format!("cannot read {}: {error}", path.display())))?;
        let variables =
            parse(&text).map_err(|error| Failed::new(format!("{}:{error}", path.display())))?;
        set_variables(&variables)
            .map_err(|error| Failed::new(format!("cannot set variables: {error}")))?;
    }
    Ok(())
}
