//! What is observed of a server when the load is over and it still runs: responses to other paths, system calls, socket
//! options; and how many lines its logs gained.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::socket;
use super::trace::{self, Trace};
use crate::file::CheckPart;
use sluice_load::generator::kind;
use sluice_load::generator::request::Draft;
use sluice_load::generator::{Plan, expect::Expect};

/// What was observed. Only what a check asks for is looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Observed {
    /// Lines that logs gained, by path as the experiment has it.
    pub log_lines: BTreeMap<String, u64>,
    /// Statuses of other paths, or why there is none.
    pub statuses: BTreeMap<String, Result<u16, String>>,
    /// System calls for a few requests.
    pub calls: Option<Result<Trace, String>>,
    /// Whether `TCP_NODELAY` is set on the server's side of a connection.
    pub nodelay: Option<Result<bool, String>>,
}

/// Observes a server with these processes, as far as the checks ask for it.
pub fn observe(parts: &[CheckPart], plan: &Plan, roots: &[u32]) -> Observed {
    let statuses = parts.iter().filter_map(|part| part.request.as_ref());
    let statuses = statuses.map(|request| (request.path.clone(), status(plan, &request.path)));
    let calls: Vec<&str> = parts
        .iter()
        .filter_map(|part| part.calls.as_ref())
        .flat_map(|part| part.name.split('|'))
        .collect();
    Observed {
        log_lines: BTreeMap::new(),
        statuses: statuses.collect(),
        nodelay: parts
            .iter()
            .any(|part| part.nodelay.is_some())
            .then(|| socket::nodelay(plan, roots)),
        calls: (!calls.is_empty()).then(|| trace::trace(&calls, plan, roots)),
    }
}

/// The status of another path.
fn status(plan: &Plan, path: &str) -> Result<u16, String> {
    let draft = Draft {
        path: path.to_string(),
        ..plan.requests[0].draft()
    };
    let plan = Plan {
        requests: vec![draft.prepare(&plan.target, Expect::default())?],
        ..plan.clone()
    };
    let response = kind::ask(&plan).map_err(|fault| {
        let words = fault.class.words();
        format!("{words} ({})", fault.text)
    })?;
    Ok(response.status)
}

/// Logs, each as the experiment names it and with its path, and how many bytes they had before the load.
#[derive(Debug)]
pub struct Logs(Vec<(String, PathBuf, u64)>);

impl Logs {
    /// The logs that checks ask for, before the load. `path` replaces the placeholders of a name.
    pub fn begin(
        parts: &[CheckPart],
        path: impl Fn(&str) -> Result<PathBuf, String>,
    ) -> Result<Self, String> {
        let files = parts.iter().filter_map(|part| part.log_lines.as_ref());
        let files = files.map(|part| {
            let path = path(&part.file)?;
            let bytes = fs::metadata(&path).map_or(0, |data| data.len());
            Ok((part.file.clone(), path, bytes))
        });
        Ok(Logs(files.collect::<Result<_, String>>()?))
    }

    /// The lines that they gained. Logs in the folder of the run are then removed: a fast server writes gigabytes.
    pub fn end(self, folder: &Path) -> BTreeMap<String, u64> {
        let files = self.0.into_iter();
        files
            .map(|(file, path, begin)| {
                let lines = lines_after(&path, begin).unwrap_or_default();
                if path.starts_with(folder) {
                    let _ = fs::remove_file(&path);
                }
                (file, lines)
            })
            .collect()
    }
}

/// The lines of a file after its first bytes; it may be large, so it is read in pieces.
fn lines_after(path: &Path, begin: u64) -> std::io::Result<u64> {
    let mut file = fs::File::open(path)?;
    file.seek(SeekFrom::Start(begin))?;
    let (mut buf, mut lines) = (vec![0; 64 * 1024], 0);
    loop {
        let got = file.read(&mut buf)?;
        if got == 0 {
            return Ok(lines);
        }
        lines += buf[..got].iter().filter(|byte| **byte == b'\n').count() as u64;
    }
}
