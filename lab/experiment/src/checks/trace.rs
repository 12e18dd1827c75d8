//! System calls of a server for a few requests, with `strace`. It is attached when the load is over, so that it costs the
//! figures nothing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use serde::{Deserialize, Serialize};

use crate::limits::{REST_LOOK, TRACE_LINES_MAX, TRACED_REQUESTS, TRACER_MAX};
use sluice_load::generator::Plan;
use sluice_load::generator::kind;
use sluice_load::process;
use sluice_load::sample;

/// The calls of a server, by name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Trace {
    /// Requests that were sent meanwhile.
    pub requests: usize,
    calls: Vec<String>,
}

impl Trace {
    /// How many calls have one of these names, separated by `|`.
    pub fn count(&self, names: &str) -> usize {
        let is_one = |call: &&String| names.split('|').any(|name| name == call.as_str());
        self.calls.iter().filter(is_one).count()
    }
}

/// Traces these calls of a server with these processes while it gets a few requests. The error is the reason why that is not
/// possible here.
pub fn trace(names: &[&str], plan: &Plan, roots: &[u32]) -> Result<Trace, String> {
    let strace = process::find("strace").ok_or("`strace` is not installed")?;
    let output = std::env::temp_dir().join(format!("sluice-lab-trace-{}", std::process::id()));
    let pids = sample::processes(roots);
    let mut command = Command::new(strace);
    command.args(["-f", "-s", "0", "-o"]).arg(&output);
    command.args(["-e", &format!("trace={}", names.join(","))]);
    for pid in &pids {
        command.args(["-p", &pid.to_string()]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let spawned = command.stderr(Stdio::piped()).spawn();
    let mut tracer = Tracer(spawned.map_err(|error| format!("strace: {error}"))?);
    let asked = tracer.attached(pids.len()).and_then(|()| {
        for _ in 0..TRACED_REQUESTS {
            kind::ask(plan).map_err(|fault| fault.text.to_string())?;
        }
        Ok(())
    });
    // The client has the last response before the call that sent it has returned, or a log has its line.
    let asked = asked.and_then(|()| rested(roots));
    tracer.leave();
    let text = fs::read_to_string(&output).unwrap_or_default();
    let _ = fs::remove_file(&output);
    asked?;
    Ok(Trace {
        requests: TRACED_REQUESTS,
        calls: text
            .lines()
            .take(TRACE_LINES_MAX)
            .filter_map(call)
            .collect(),
    })
}

/// Waits until every thread of these processes waits for something else than `strace`: then all calls that it made for its
/// requests have returned and are in the trace. Two looks in a row have to agree, as one thread may wake another.
fn rested(roots: &[u32]) -> Result<(), String> {
    let (end, mut looks) = (Instant::now() + TRACER_MAX, 0);
    while looks < 2 {
        let busy = sample::processes(roots)
            .into_iter()
            .find(|pid| is_busy(*pid));
        match busy {
            None => looks += 1,
            Some(pid) if Instant::now() > end => {
                return Err(format!(
                    "process {pid} still computes {TRACER_MAX:?} after its last response, so its calls are not complete"
                ));
            }
            Some(_) => {
                looks = 0;
                thread::sleep(REST_LOOK);
            }
        }
    }
    Ok(())
}

/// Whether a thread of a process runs, waits for a CPU, or is stopped by its tracer.
fn is_busy(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let mut states = threads.into_iter().flatten().flatten().filter_map(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        state(&stat)
    });
    states.any(|state| matches!(state, 'R' | 't' | 'D'))
}

/// The state of a thread in a text such as `/proc/PID/stat`: the letter behind its name, which may contain parentheses
/// (proc(5)).
fn state(stat: &str) -> Option<char> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.trim_start().chars().next()
}

/// A running `strace`.
struct Tracer(Child);

impl Tracer {
    /// Waits until it reports that it is attached to as many processes.
    fn attached(&mut self, count: usize) -> Result<(), String> {
        let stderr = self.0.stderr.take().ok_or("strace has no standard error")?;
        let (to, lines) = sync_channel(64);
        // Ends when strace does; what nobody waits for any more is dropped.
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = to.try_send(line);
            }
        });
        let (end, mut attached, mut last) = (Instant::now() + TRACER_MAX, 0, String::new());
        while attached < count {
            match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                // With many threads it says so in one line: `Process 5 attached with 3 threads`.
                Ok(line) if line.contains("attached") => attached += 1,
                Ok(line) => last = line,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(format!("strace could not attach to the server: {last}"));
                }
            }
        }
        Ok(())
    }

    /// Lets the server go, and ends.
    fn leave(&mut self) {
        if let Some(pid) = Pid::from_raw(self.0.id() as i32) {
            let _ = kill_process(pid, Signal::INT);
        }
        let end = Instant::now() + TRACER_MAX;
        while Instant::now() < end && matches!(self.0.try_wait(), Ok(None)) {
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The name of the call in a line `PID name(arguments) = result`. A call that was interrupted by one of another thread has two
/// lines, of which the second has the result.
fn call(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(' ')?;
    let rest = rest.trim_start();
    let (_, result) = rest.rsplit_once(" = ")?;
    if result.starts_with('-') || result.starts_with('?') {
        return None;
    }
    let name = match rest.strip_prefix("<... ") {
        Some(resumed) => resumed.split(' ').next()?,
        None => rest.split('(').next()?,
    };
    Some(name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_once_and_only_if_they_worked() {
        let lines = [
            "71 sendfile(3, 9, [0] => [289812], 289812) = 289812",
            "71 recvfrom(3, \"\"..., 1024, 0, NULL, NULL) = 0",
            "71 write(8, \"\"..., 8 <unfinished ...>",
            "71 <... write resumed>)              = 8",
            "71 sendfile(3, 9, [0], 5) = -1 EAGAIN (Resource temporarily unavailable)",
            "71 read(4,  <unfinished ...>",
            "71 <... read resumed> <detached ...>",
            "71 --- SIGINT {si_signo=SIGINT} ---",
            "71 epoll_wait(5, [{events=EPOLLIN}], 512, -1) = 1",
            "71 futex(0x1, FUTEX_WAIT, 0, NULL) = ? ERESTARTSYS (To be restarted)",
            "71 +++ exited with 0 +++",
        ];
        let trace = Trace {
            requests: 1,
            calls: lines.iter().filter_map(|line| call(line)).collect(),
        };
        let count = |names: &str| trace.count(names);
        assert_eq!(count("sendfile"), 1);
        assert_eq!((count("write"), count("read"), count("futex")), (1, 0, 0));
        assert_eq!(count("recvfrom|epoll_wait|nothing"), 2);
    }

    #[test]
    fn the_state_of_a_thread_stands_behind_its_name() {
        assert_eq!(state("71 (a) R (b) S 1 71 71 0"), Some('S'));
        assert_eq!(state("71 (nginx) t 1 71"), Some('t'));
        assert_eq!(state(""), None);
        // The thread that looks is running.
        assert!(is_busy(std::process::id()));
        assert!(!is_busy(u32::MAX));
    }
}
