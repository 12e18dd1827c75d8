//! Scenarios in TOML: phases, variables and sessions, checked as a whole before anything is sent. All mistakes are
//! reported at once, each with its file, line and column.

mod check;
mod document;
mod form;
pub mod har;
pub mod openapi;
pub mod write;

use std::fs;
use std::path::Path;

use crate::limits::INPUT_BYTES_MAX;
use sluice_load::generator::Plan;
use sluice_load::generator::kind::Kind;
use sluice_load::generator::mix::Mix;
use sluice_load::generator::scenario::Scenario;

/// Name and version of the format.
pub const SCHEMA: &str = "sluice.scenario/1";

/// Reads the scenario in a file.
pub fn read(path: &Path) -> Result<Scenario, String> {
    let name = path.display().to_string();
    let text = read_text(path)?;
    parse(&name, &text, path.parent().unwrap_or(Path::new(".")))
}

/// Reads a file, if it is not larger than any that makes sense.
pub fn read_text(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let size = fs::metadata(path).map_err(failed)?.len();
    if size > INPUT_BYTES_MAX {
        return Err(format!(
            "{}: {size} bytes; at most {INPUT_BYTES_MAX} are read",
            path.display()
        ));
    }
    fs::read_to_string(path).map_err(failed)
}

/// Parses the text of a scenario file called `name`; body files are relative to `folder`. The error has a line for each
/// mistake.
pub fn parse(name: &str, text: &str, folder: &Path) -> Result<Scenario, String> {
    let form: form::Form = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let place = crate::position::position(name, text, at);
        format!("{place}: {}", error.message().replace('\n', "; "))
    })?;
    check::check(name, text, &form, folder)
}

/// Lets a plan load a scenario instead of its requests.
pub fn apply(plan: &mut Plan, scenario: Scenario) -> Result<(), String> {
    plan.requests = vec![scenario.probe(&plan.target)?];
    plan.mix = Mix::default();
    plan.kind = Kind::Requests;
    plan.mode = scenario.mode();
    plan.connections = scenario.clients_max();
    plan.duration = scenario.duration();
    plan.depth = 1;
    plan.requests_per_connection_max = None;
    plan.requests_max = None;
    plan.scenario = Some(scenario.into());
    Ok(())
}

#[cfg(test)]
mod tests;
