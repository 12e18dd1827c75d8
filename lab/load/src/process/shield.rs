//! A program that becomes another one: pinned to processors, and ended by the kernel when the lab is gone. The lab has no
//! other way to do both before the server's first instruction.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::outcome::{Outcome, Refused};

/// What to become, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The lab's own process
    pub parent: u32,
    /// Processors
    pub cpus: Vec<usize>,
    /// Program and arguments
    pub command: Vec<OsString>,
}

/// The words before program and arguments.
pub fn arguments(cpus: &[usize]) -> Vec<String> {
    let mut words = vec![
        "shield".to_string(),
        format!("--parent={}", std::process::id()),
    ];
    if !cpus.is_empty() {
        let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
        words.push(format!("--cpus={}", list.join(",")));
    }
    words.push("--".into());
    words
}

/// Becomes the program; comes back only if that fails.
pub fn run(options: &Options) -> Outcome {
    let failed = |what: &str, error: std::io::Error| Refused::new(format!("{what}: {error}"));
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|errno| failed("ending with the lab", errno.into()))?;
    // A lab that was gone before that line sends no signal any more.
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if parent != Some(options.parent) {
        return Err(Refused::new("the lab has ended"));
    }
    if !options.cpus.is_empty() {
        let mut set = CpuSet::new();
        options.cpus.iter().for_each(|cpu| set.set(*cpu));
        sched_setaffinity(None, &set)
            .map_err(|errno| failed("choosing processors", errno.into()))?;
    }
    let (program, arguments) = options
        .command
        .split_first()
        .ok_or_else(|| Refused::new("no program is named"))?;
    let error = Command::new(program).args(arguments).exec();
    Err(failed(&program.to_string_lossy(), error))
}
