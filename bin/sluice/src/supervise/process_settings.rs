//! Process settings of a configuration: user, CPUs, priority and resource limits. `sluice-net` makes the system calls.

use std::io;

use sluice_model::ProcessApp;
use sluice_net::sys::identity::{Identity, is_root};
use sluice_net::sys::limits::{limit_core_file, limit_open_files};
use sluice_net::sys::placement::Processors;
use sluice_net::sys::process::set_variables;
use sluice_net::{Conditions, Scheduling};

use crate::messages::Failed;

/// The maximum number of workers: more threads than CPUs only cost memory.
const WORKERS_MAX: usize = 1024;

/// Prepares the process, which must have a single thread. Returns what the system has denied; as in nginx the server
/// runs on without it.
pub fn prepare(asked: &ProcessApp) -> Result<Vec<String>, Failed> {
    let mut denied = Vec::new();
    let mut note = |what: String, outcome: io::Result<()>| {
        if let Err(error) = outcome {
            denied.push(format!("{what}: {error}"));
        }
    };
    if !asked.variables.is_empty() {
        let variables: Vec<(String, String)> = asked.variables.clone().into_iter().collect();
        set_variables(&variables).map_err(|error| Failed::new(format!("`env`: {error}")))?;
    }
    if asked.open_files_max > 0 {
        let what = format!("setrlimit(RLIMIT_NOFILE, {})", asked.open_files_max);
        note(what, limit_open_files(asked.open_files_max));
    }
    if let Some(bytes) = asked.core_bytes_max {
        note(
            format!("setrlimit(RLIMIT_CORE, {bytes})"),
            limit_core_file(bytes),
        );
    }
    if !asked.folder.is_empty() {
        std::env::set_current_dir(&asked.folder)
            .map_err(|error| Failed::new(format!("chdir(\"{}\") failed: {error}", asked.folder)))?;
    }
    if !asked.user.is_empty() && !is_root() {
        denied.push(format!(
            "`user {}` has no effect: sluice was not started as root",
            asked.user
        ));
    }
    Ok(denied)
}

/// The conditions under which workers run.
pub fn conditions(asked: &ProcessApp) -> Result<Conditions, Failed> {
    let identity = match asked.user.as_str() {
        "" => None,
        user => {
            let group = match asked.group.as_str() {
                "" => user,
                group => group,
            };
            let identity = Identity::of(user, group).map_err(|error| {
                Failed::new(error)
                    .help("name a user and a group that exist on this machine, or remove `user`")
            })?;
            // Only root can change the user; as in nginx the setting is ignored otherwise.
            is_root().then_some(identity)
        }
    };
    let priority = asked.worker_priority.map(i32::try_from);
    Ok(Conditions {
        identity,
        processors: processors(&asked.worker_processors).map_err(Failed::new)?,
        priority: priority.transpose().map_err(Failed::new)?,
        scheduling: scheduling()?,
        slots: None,
        before_wait: Some(sluice_observe::log::write_pending),
    })
}

/// The scheduling class of workers: `$SLUICE_SCHEDULING`.
fn scheduling() -> Result<Scheduling, Failed> {
    match std::env::var("SLUICE_SCHEDULING").as_deref() {
        Err(_) | Ok("" | "normal") => Ok(Scheduling::Inherited),
        Ok("batch") => Ok(Scheduling::Batch),
        Ok(other) => Err(Failed::new(format!("invalid SLUICE_SCHEDULING `{other}`"))
            .help("set it to `normal` or `batch`")),
    }
}

/// The CPUs of each worker.
fn processors(masks: &[String]) -> io::Result<Vec<Processors>> {
    let set = |mask: &String| {
        let bits = mask.bytes().rev().enumerate();
        Processors::new(
            bits.filter(|(_, bit)| *bit == b'1')
                .map(|(number, _)| number),
        )
    };
    match masks.split_first() {
        None => Ok(Vec::new()),
        Some((first, rest)) if first == "auto" => {
            let allowed = Processors::allowed()?;
            let some = rest.first().map(|mask| set(mask).within(&allowed));
            let each = some.unwrap_or(allowed).each();
            // Assigned round-robin.
            Ok(each.into_iter().cycle().take(WORKERS_MAX).collect())
        }
        Some(_) => Ok(masks.iter().map(set).collect()),
    }
}

/// Number of worker threads: `$SLUICE_WORKERS`, else one for each CPU that this process may use, considering affinity
/// and the quota of its control group.
pub fn worker_count(configured: usize) -> Result<usize, Failed> {
    match std::env::var("SLUICE_WORKERS") {
        Ok(text) if !text.is_empty() => {
            let count = text
                .parse()
                .ok()
                .filter(|count| (1..=WORKERS_MAX).contains(count));
            count.ok_or_else(|| {
                Failed::new(format!("invalid SLUICE_WORKERS `{text}`"))
                    .help(format!("set it to a number from 1 to {WORKERS_MAX}"))
            })
        }
        Ok(_) | Err(_) if configured > 0 => Ok(configured.min(WORKERS_MAX)),
        Ok(_) | Err(_) => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_processor_0_at_their_end() {
        let masks = ["0001".to_owned(), "1010".to_owned()];
        let expected = vec![Processors::new([0]), Processors::new([1, 3])];
        assert_eq!(processors(&masks).unwrap(), expected);
        let allowed = Processors::allowed().unwrap().each();
        let auto = processors(&["auto".to_owned()]).unwrap();
        assert_eq!(auto[..allowed.len()], allowed);
        assert_eq!(auto[allowed.len()], allowed[0]);
        assert!(processors(&[]).unwrap().is_empty());
    }
}
