//! Loads results from files.

use std::io::Read;
use std::path::{Path, PathBuf};

use sluice_audit::limits::REPORT_BYTES_MAX;
use sluice_load::result::{RunResult, SCHEMA};

/// The file for an argument: itself, or `result.json` in a folder.
pub fn file_of(what: &Path) -> PathBuf {
    if what.is_dir() {
        what.join("result.json")
    } else {
        what.to_path_buf()
    }
}

/// Loads a result. The error names the file.
pub fn load(what: &Path) -> Result<RunResult, String> {
    let path = file_of(what);
    let with_path = |words: String| format!("{}: {words}", path.display());
    let file = std::fs::File::open(&path).map_err(|error| with_path(error.to_string()))?;
    let mut text = String::new();
    let mut limited = file.take(REPORT_BYTES_MAX + 1);
    limited
        .read_to_string(&mut text)
        .map_err(|error| with_path(error.to_string()))?;
    if text.len() as u64 > REPORT_BYTES_MAX {
        return Err(with_path(format!(
            "larger than {} MiB",
            REPORT_BYTES_MAX >> 20
        )));
    }
    let result: RunResult = serde_json::from_str(&text)
        .map_err(|error| with_path(format!("not a result of sluice-lab: {error}")))?;
    if result.schema != SCHEMA {
        return Err(with_path(format!(
            "schema `{}`; this program reads `{SCHEMA}`",
            result.schema
        )));
    }
    Ok(result)
}
