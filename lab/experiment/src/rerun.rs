//! `lab rerun`: repeats the run that produced a result. The result contains its command line and the digest of its
//! experiment; the new result goes next to it, so that the two can be compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::builtin;
use crate::progress::Progress;
use sluice_load::generator::probe::sha256;
use sluice_load::outcome::{Completion, Outcome, Refused};
use sluice_load::result::RunResult;

/// Options of `lab rerun`.
#[derive(Clone, Debug)]
pub struct Options {
    /// A result.json, or the folder that has one
    pub result: PathBuf,
    /// Output folder; by default that of the old result with `-again` appended
    pub out: Option<PathBuf>,
    /// Repeats it even if the experiment file has changed
    pub force: bool,
    /// Prints the command without running it
    pub plan: bool,
}

/// Runs `lab rerun`.
pub fn rerun(options: &Options, live: &mut dyn Progress) -> Outcome {
    let path = match options.result.is_dir() {
        true => options.result.join("result.json"),
        false => options.result.clone(),
    };
    let with_path = |error: String| Refused::new(format!("{}: {error}", path.display()));
    let bytes = fs::read(&path).map_err(|error| with_path(error.to_string()))?;
    let result: RunResult =
        serde_json::from_slice(&bytes).map_err(|error| with_path(error.to_string()))?;
    let Some(experiment) = result
        .experiment
        .as_ref()
        .filter(|_| is_run(&result.command))
    else {
        return Err(with_path(
            "this result does not come from `run`, so there is no experiment to repeat".into(),
        ));
    };
    let now = builtin::read(&experiment.file).map_err(Refused::new)?;
    if sha256(now.as_bytes()) != experiment.sha256 && !options.force {
        let file = &experiment.file;
        return Err(with_path(format!(
            "`{file}` has changed since, so the new result would be a different experiment; --force repeats it anyway"
        )));
    }
    let out = options.out.clone().unwrap_or_else(|| beside(&path));
    let mut words = without_place(&result.command[1..]);
    words.extend(["--out".to_string(), out.display().to_string()]);
    live.line(&format!("+ sluice-lab {}", words.join(" ")));
    if options.plan {
        return Ok(Completion::Yes);
    }
    let own = std::env::current_exe().map_err(|error| Refused::new(error.to_string()))?;
    let status = Command::new(own).args(&words).status();
    let status = status.map_err(|error| Refused::new(error.to_string()))?;
    match status.code() {
        Some(0) => Ok(Completion::Yes),
        Some(1) => Ok(Completion::No),
        Some(130) => Ok(Completion::Interrupted),
        _ => Err(Refused::new("the run failed, see above")),
    }
}

/// Whether it is a command line of `run`.
fn is_run(command: &[String]) -> bool {
    command.get(1).is_some_and(|word| word == "run")
}

/// A folder next to the result's own.
fn beside(result: &Path) -> PathBuf {
    let folder = result
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    match folder.file_name() {
        Some(name) => folder.with_file_name(format!("{}-again", name.to_string_lossy())),
        None => folder.join("again"),
    }
}

/// The command line without its output folder and `--resume`.
fn without_place(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--out" => {
                words.next();
            }
            "--resume" => {}
            other if other.starts_with("--out=") => {}
            other => kept.push(other.to_string()),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_new_and_all_other_words_stay() {
        let words = [
            "run", "000", "--out", "a", "--quick", "--resume", "--out=b", "-c", "10",
        ];
        let words: Vec<String> = words.map(str::to_string).into();
        assert_eq!(without_place(&words), ["run", "000", "--quick", "-c", "10"]);
        let beside = |path: &str| beside(Path::new(path)).display().to_string();
        assert_eq!(
            beside("lab-results/000/result.json"),
            "lab-results/000-again"
        );
        assert_eq!(beside("result.json"), "./again");
    }
}
