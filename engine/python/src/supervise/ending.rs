//! What the log says about the end of a process.

use std::os::unix::process::ExitStatusExt;

use sluice_net::sys::spawn::Ended;

use crate::failure::Death;
use crate::notice::Fact;

/// How many processes the kernel has killed for want of memory, in all control groups; 0 if that is not known.
pub(super) fn oom_kills() -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    line.and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

/// How a process has ended that sluice did not kill. `oom_kills` says whether the kernel has killed anything for want of
/// memory meanwhile.
pub(super) fn death(ended: &Ended, is_oom_likely: bool) -> Death {
    match (ended.status.signal(), ended.status.code()) {
        (Some(SIGKILL), _) if is_oom_likely => Death::OutOfMemory,
        (Some(signal), _) => Death::Signal(signal),
        (None, code) => Death::Exited(code.unwrap_or(-1)),
    }
}

const SIGKILL: i32 = 9;

/// One line about it.
pub(super) fn describe(death: Death) -> String {
    match death {
        Death::Exited(code) => format!("exited with code {code}"),
        Death::Signal(signal) => match name_of(signal) {
            Some(name) => format!("killed by {name}"),
            None => format!("killed by signal {signal}"),
        },
        Death::OutOfMemory => "killed by the kernel: out of memory".to_owned(),
        Death::RequestTimeout => "killed: a request took longer than request_timeout".to_owned(),
        Death::DrainTimeout => "killed: it did not end in time, or was not needed".to_owned(),
        Death::StartTimeout => "killed: not ready within start_timeout".to_owned(),
        Death::Protocol => "killed: it violated the protocol, or closed its lanes".to_owned(),
        Death::Unknown => "ended".to_owned(),
    }
}

fn name_of(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL (illegal instruction)",
        6 => "SIGABRT (abort)",
        7 => "SIGBUS (bus error)",
        8 => "SIGFPE (arithmetic error)",
        9 => "SIGKILL",
        11 => "SIGSEGV (segmentation fault)",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU (CPU limit)",
        25 => "SIGXFSZ (file size limit)",
        31 => "SIGSYS (bad system call)",
        _ => return None,
    })
}

/// The facts about an end.
pub(super) fn facts(death: Death, ended: Option<&Ended>) -> Vec<(&'static str, Fact)> {
    let mut facts = vec![("how", Fact::Text(describe(death)))];
    if let Some(ended) = ended {
        let cpu_ms = (ended.user_micros + ended.system_micros) / 1_000;
        facts.push(("cpu_ms", Fact::Number(cpu_ms)));
        facts.push(("rss_bytes_max", Fact::Number(ended.resident_bytes_max)));
    }
    facts
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;

    fn ended(status: i32) -> Ended {
        Ended {
            status: ExitStatus::from_raw(status),
            user_micros: 1_500,
            system_micros: 500,
            resident_bytes_max: 1024,
        }
    }

    #[test]
    fn ends_are_named() {
        for (status, oom, said) in [
            (0, false, "exited with code 0"),
            (3 << 8, false, "exited with code 3"),
            (11, false, "killed by SIGSEGV (segmentation fault)"),
            (9, false, "killed by SIGKILL"),
            (9, true, "killed by the kernel: out of memory"),
            (11, true, "killed by SIGSEGV (segmentation fault)"),
            (40, false, "killed by signal 40"),
        ] {
            assert_eq!(describe(death(&ended(status), oom)), said);
        }
        let facts = facts(Death::Exited(1), Some(&ended(256)));
        assert!(facts.contains(&("cpu_ms", Fact::Number(2))));
    }
}
