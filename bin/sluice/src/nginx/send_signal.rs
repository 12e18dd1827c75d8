//! `-s`: sends a signal to the running server.

use std::path::Path;

use sluice_net::sys::process::{self, Signal};

use super::Invocation;
use super::lines::call;
use crate::Exit;
use crate::messages::{Failed, MessageFormat, write};
use crate::supervise::pidfile;

/// Sends `signal` to the process named by the PID file of the configuration.
pub fn send(invocation: &Invocation, signal: Signal) -> Result<Exit, Failed> {
    let loaded = invocation.load(MessageFormat::Human)?;
    invocation.log_sender();
    let path = loaded
        .config
        .apps
        .process
        .map(|process| process.pid_file)
        .unwrap_or_default();
    let refused = |level: &str, what: String| {
        write(&format!("nginx: [{level}] {what}\n"));
        Ok(Exit::Refused)
    };
    let pid = match pidfile::read(Path::new(&path)) {
        Ok(Some(pid)) => pid,
        Ok(None) => {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let text = text.trim_end();
            return refused(
                "error",
                format!("invalid PID number \"{text}\" in \"{path}\""),
            );
        }
        Err(error) => return refused("error", call(&format!("open() \"{path}\""), &error)),
    };
    match process::send(pid, signal) {
        Ok(()) => Ok(Exit::Done),
        Err(error) => {
            let what = format!("kill({pid}, {})", signal.number());
            refused("alert", call(&what, &error))
        }
    }
}
