//! What is known of the servers of an experiment before any load, on the machine where they run: programs, versions and
//! configurations, and what is missing.

use std::collections::BTreeMap;
use std::fs;

use crate::file::{self, File};
use crate::plan::CellPlan;
use crate::setup;
use crate::stage::Stage;
use sluice_load::generator::probe::sha256;
use sluice_load::process;
use sluice_load::result::SubjectFacts;

/// What is known of the servers before any load.
pub(crate) fn facts(file: &File, cells: &[CellPlan], stage: &Stage) -> Vec<SubjectFacts> {
    let subjects = file.subject.iter();
    let wanted = subjects.filter(|(name, _)| cells.iter().any(|cell| &cell.subject == *name));
    let facts = wanted.map(|(name, subject)| {
        let command = subject.run.any().to_string();
        let program = file::program(&command);
        let version = subject.version.as_deref().filter(|_| program.is_some());
        let version = version.filter(|command| stage.allows(command).is_ok());
        SubjectFacts {
            name: name.clone(),
            missing: program.is_none().then(|| absent(&command)),
            command,
            version: version.and_then(detect_version),
            sha256: program
                .as_ref()
                .and_then(|path| fs::read(path).ok())
                .map(|b| sha256(&b)),
            program: program.map(|path| path.display().to_string()),
            configs: stage.configs(file, cells, name),
        }
    });
    facts.collect()
}

/// The cells that lack a program, by ID, with the reason.
pub(crate) fn missing(
    file: &File,
    cells: &[CellPlan],
    stage: &Stage,
    facts: &[SubjectFacts],
) -> BTreeMap<String, String> {
    let missing = cells.iter().filter_map(|cell| {
        let subject = facts.iter().find(|facts| facts.name == cell.subject);
        let subject = subject.and_then(|facts| facts.missing.clone());
        let reason = subject.or_else(|| missing_backend(file, stage, cell))?;
        Some((cell.id.clone(), reason))
    });
    missing.collect()
}

/// The message that a command's program is missing, and how to install it.
fn absent(command: &str) -> String {
    let first = command.split_whitespace().next().unwrap_or_default();
    let first = first.trim_start_matches("{setup}/");
    let brings = setup::PROGRAMS
        .iter()
        .any(|program| first.ends_with(program));
    let help = if brings {
        "; `sluice-lab setup` installs it"
    } else {
        ""
    };
    format!("`{first}` is not installed{help}")
}

/// Why an upstream of a cell is not available here. One of another machine need not be.
fn missing_backend(file: &File, stage: &Stage, cell: &CellPlan) -> Option<String> {
    if !stage.has_upstreams_beside() {
        return None;
    }
    let needs = stage.needs(file, cell).ok()?;
    let mut needed = file.backend.iter().filter(|one| needs.contains(&one.name));
    let missing = needed.find(|backend| file::program(backend.command()).is_none())?;
    Some(format!("behind it, {}", absent(&missing.run)))
}

/// The note that other upstreams replace those of the study, on their machine.
pub(crate) fn stand_ins(file: &File, stage: &Stage) -> Vec<String> {
    let here = stage.has_upstreams_beside();
    let strange = |backend: &&file::Backend| here && backend.command() != backend.run;
    let note = |backend: &file::Backend| {
        format!(
            "Upstream `{}`: {}; the lab's own server replaces it.",
            backend.name,
            absent(&backend.run)
        )
    };
    file.backend.iter().filter(strange).map(note).collect()
}

/// The version output of a program, from either stream.
fn detect_version(command: &str) -> Option<String> {
    let words = process::words(command).ok()?;
    let program = process::find(words.first()?)?;
    let output = std::process::Command::new(program)
        .args(&words[1..])
        .output()
        .ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).trim().to_string();
    (!text.is_empty()).then_some(text)
}
