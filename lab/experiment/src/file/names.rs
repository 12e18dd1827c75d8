//! Whether the parts of an experiment file fit together: every name that is used is defined, and every claim and condition
//! can be read.

use super::{Claim, File, Matrix, NATIVE, Rate, Test};
use crate::adapter::Tool;
use crate::cell_filter::Only;
use crate::limits::LINES_MAX;
use sluice_audit::claim::Statement;

/// Checks clients and load generators.
fn check_matrix(name: &str, matrix: &Matrix) -> Result<(), String> {
    if matrix.clients.is_empty() || matrix.clients.contains(&0) {
        return Err(format!(
            "{name}: [matrix] `clients` must be numbers above 0"
        ));
    }
    if matrix.workers.contains(&0) {
        return Err(format!(
            "{name}: [matrix] `workers` must be numbers above 0"
        ));
    }
    for condition in &matrix.cells {
        Only::parse(condition).map_err(|error| format!("{name}: [matrix] cells: {error}"))?;
    }
    for engine in matrix.engine.iter().filter(|name| *name != NATIVE) {
        Tool::of_name(engine).map_err(|error| format!("{name}: [matrix] engine: {error}"))?;
    }
    Ok(())
}

/// Checks that what is written stays in the folder of the run, and is described in one way.
fn check_written(name: &str, file: &File) -> Result<(), String> {
    for made in &file.file {
        if !made.is_clear() {
            return Err(format!(
                "{name}: [[file]] `{}` needs `bytes`, `from`, or `line` with a `count` of at most {LINES_MAX}",
                made.path
            ));
        }
        if !made.is_inside() {
            return Err(format!(
                "{name}: [[file]] `{}` must be a path in the folder of the run",
                made.path
            ));
        }
    }
    let plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    for backend in &file.backend {
        if !backend.name.chars().all(plain) {
            return Err(format!(
                "{name}: invalid name `{}` of a [[backend]]: use letters, digits, `-`, `_` and `.`",
                backend.name
            ));
        }
    }
    Ok(())
}

/// Checks that all names used are defined.
pub(super) fn check(name: &str, file: &File) -> Result<(), String> {
    let backend = |wanted: &String| file.backend.iter().any(|backend| &backend.name == wanted);
    for test in &file.matrix.test {
        if !file.test.contains_key(test) {
            return Err(format!(
                "{name}: [matrix] uses test `{test}`, but there is no [test.{test}]"
            ));
        }
    }
    for (test, part) in &file.test {
        check_rate(file, part).map_err(|error| format!("{name}: [test.{test}] {error}"))?;
        part.check_version(file.load.idle + file.load.slow_readers)
            .map_err(|error| format!("{name}: [test.{test}] {error}"))?;
        let fixed = |wanted: &&String| !wanted.contains('{');
        for wanted in part.needs.iter().filter(fixed).chain(&part.expect.body_of) {
            if !backend(wanted) {
                return Err(format!(
                    "{name}: [test.{test}] uses `{wanted}`, but there is no [[backend]] of this name"
                ));
            }
        }
        let made = |wanted: &String| file.file.iter().any(|one| &one.path == wanted);
        if let Some(wanted) = part.expect.file.as_ref().filter(|wanted| !made(wanted)) {
            return Err(format!(
                "{name}: [test.{test}] expects `{wanted}`, but no [[file]] creates it"
            ));
        }
    }
    check_matrix(name, &file.matrix)?;
    check_written(name, file)?;
    for (subject, part) in &file.subject {
        let strange = part
            .tests
            .iter()
            .find(|test| !file.test.contains_key(*test));
        if let Some(test) = strange {
            return Err(format!(
                "{name}: [subject.{subject}] uses test `{test}`, but there is no [test.{test}]"
            ));
        }
        let strange = part
            .configs
            .iter()
            .find(|config| !file.matrix.config.contains(config));
        if let Some(config) = strange {
            return Err(format!(
                "{name}: [subject.{subject}] uses configuration `{config}`, which is not in [matrix]"
            ));
        }
    }
    if let Some((test, _)) = file.test.iter().find(|(_, test)| test.corpus)
        && file.corpus.is_none()
    {
        return Err(format!(
            "{name}: [test.{test}] uses a corpus, but there is no [corpus]"
        ));
    }
    for condition in &file.quick.cells {
        Only::parse(condition).map_err(|error| format!("{name}: [quick] cells: {error}"))?;
    }
    if let Some(overload) = &file.overload {
        let checked = overload.check();
        checked.map_err(|error| format!("{name}: [overload] {error}"))?;
    }
    check_claims(name, file)
}

/// Checks that the rate of a test, if it is a share of a limit, has one.
fn check_rate(file: &File, test: &Test) -> Result<(), String> {
    let Some(Rate::OfLimit { subject, .. }) = test.rate(&file.load) else {
        return Ok(());
    };
    if let Some(reason) = test.has_no_rate() {
        return Err(format!(
            "cannot have a rate as a share of the limit: {reason}"
        ));
    }
    match subject
        .as_ref()
        .filter(|name| !file.subject.contains_key(*name))
    {
        Some(name) => Err(format!(
            "has a rate in shares of the limit of `{name}`, but there is no [subject.{name}]"
        )),
        None => Ok(()),
    }
}

/// Checks that claims are valid before anything is measured.
fn check_claims(name: &str, file: &File) -> Result<(), String> {
    for (claim, part) in &file.claims {
        let formula = match part {
            Claim::Formula(formula) => Some(formula),
            Claim::Worded(worded) => worded.means.as_ref(),
        };
        let read = formula.map(|formula| Statement::parse(formula));
        if let Some(Err(error)) = read {
            return Err(format!("{name}: claim `{claim}`: {error}"));
        }
    }
    for check in &file.check {
        check
            .parse(file)
            .map_err(|error| format!("{name}: [[check]] {error}"))?;
    }
    Ok(())
}
