//! Wrapper that turns into the server process: it pins itself to CPUs, has the kernel send it SIGTERM when the lab
//! dies, and then calls `exec`. Both must happen before the server's first instruction, and the lab has no other way to
//! do that.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::outcome::{Outcome, Refused};

/// What to execute, and on which CPUs.
#[derive(Clone, Debug)]
pub struct Options {
    /// PID of the lab.
    pub parent: u32,
    /// CPUs to pin to; empty for none.
    pub cpus: Vec<usize>,
    /// Program and arguments.
    pub command: Vec<OsString>,
}

/// The arguments before program and its arguments.
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

/// Replaces this process with the program; returns only if that fails.
pub fn run(options: &Options) -> Outcome {
    let failed = |what: &str, error: std::io::Error| Refused::new(format!("{what}: {error}"));
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|errno| failed("ending with the lab", errno.into()))?;
    // If the lab was gone before that line, it no longer sends a signal.
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
        .ok_or_else(|| Refused::new("no program given"))?;
    let error = Command::new(program).args(arguments).exec();
    Err(failed(&program.to_string_lossy(), error))
}
