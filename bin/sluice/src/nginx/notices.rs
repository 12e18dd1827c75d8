//! Life cycle messages of nginx's master process in its error log, at `notice` level and in its wording. Scripts that
//! wait for a container look for `start worker process`, and administrators look for the effect of a signal. Workers
//! are threads here, so there are no messages with their PIDs.

use sluice_net::sys::process::Signal;
use sluice_nginx::registry::variables::NGINX_VERSION;
use sluice_observe::log::{Log, TimeFormat, Zone};

/// Logs the start of the process.
pub fn begun(log: &Log) {
    let version = env!("CARGO_PKG_VERSION");
    notice(log, &format!("nginx/{NGINX_VERSION} (sluice {version})"));
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
    if let (Ok(system), Ok(release)) = (read("ostype"), read("osrelease")) {
        notice(log, &format!("OS: {} {}", system.trim(), release.trim()));
    }
}

/// Logs that a configuration is in effect.
pub fn serving(log: &Log) {
    notice(log, "using the \"epoll\" event method");
    notice(log, "start worker processes");
}

/// Logs a received signal and its effect.
pub fn received(log: &Log, signal: Signal) {
    notice(log, &of(signal));
    match signal {
        Signal::Hangup => notice(log, "reconfiguring"),
        Signal::Quit => notice(log, "gracefully shutting down"),
        _ => {}
    }
}

/// Logs the end of the process.
pub fn ended(log: &Log) {
    notice(log, "exit");
}

fn notice(log: &Log, message: &str) {
    log.info("", message).send();
}

fn of(signal: Signal) -> String {
    let done = match signal {
        Signal::Hangup => "reconfiguring",
        Signal::Interrupt | Signal::Terminate => "exiting",
        Signal::Quit => "shutting down",
        Signal::User1 => "reopening logs",
        Signal::User2 => "changing binary",
        Signal::Window => "stop accepting connections",
    };
    let (number, name) = (signal.number(), signal.as_str());
    format!("signal {number} ({name}) received, {done}")
}

/// The message of a process that sends a signal (`-s`), with its line end.
pub fn of_sender() -> Vec<u8> {
    let mut line = Vec::new();
    TimeFormat::from_name("wall").push(&mut line, std::time::SystemTime::now(), Zone::Local);
    let process = std::process::id();
    let entry = format!(" [notice] {process}#{process}: signal process started\n");
    line.extend_from_slice(entry.as_bytes());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_logged_in_nginxs_wording() {
        for (signal, line) in [
            (Signal::Hangup, "signal 1 (SIGHUP) received, reconfiguring"),
            (Signal::Quit, "signal 3 (SIGQUIT) received, shutting down"),
            (
                Signal::User1,
                "signal 10 (SIGUSR1) received, reopening logs",
            ),
            (
                Signal::User2,
                "signal 12 (SIGUSR2) received, changing binary",
            ),
            (Signal::Terminate, "signal 15 (SIGTERM) received, exiting"),
        ] {
            assert_eq!(of(signal), line);
        }
        let line = String::from_utf8(of_sender()).unwrap();
        let process = std::process::id();
        let end = format!(" [notice] {process}#{process}: signal process started\n");
        assert!(
            line.ends_with(&end) && line.len() == 19 + end.len(),
            "{line}"
        );
    }
}
