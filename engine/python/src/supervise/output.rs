//! Reads what a process writes to standard output or error, into the log.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use sluice_net::clock;
use tokio::net::unix::pipe::Receiver;

use super::lines::{Entry, Lines};
use crate::group::Group;
use crate::limits::{ENTRY_DELAY, OUTPUT_READ_BYTES};
use crate::notice::{Fact, Level};
use crate::process::Process;

/// A standard stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Output,
    Error,
}

impl Stream {
    /// The level of lines that name none.
    fn level(self) -> Level {
        match self {
            Stream::Output => Level::Info,
            Stream::Error => Level::Warn,
        }
    }

    fn message(self) -> &'static str {
        match self {
            Stream::Output => "standard output of the application",
            Stream::Error => "standard error of the application",
        }
    }
}

/// Reads a stream until its end.
pub(super) async fn read(
    stream: Stream,
    end: OwnedFd,
    group: Arc<Group>,
    process: Option<Arc<Process>>,
) {
    let Ok(pipe) = nonblocking(end) else {
        return;
    };
    let mut lines = Lines::new(stream.level());
    let mut buf = vec![0; OUTPUT_READ_BYTES];
    let mut emit = |entry: Entry| {
        let facts = [("text", Fact::Text(entry.text))];
        group.report_of(process.as_deref(), entry.level, stream.message(), &facts);
    };
    loop {
        let delay = match lines.is_waiting() {
            true => ENTRY_DELAY,
            false => Duration::MAX,
        };
        match tokio::time::timeout(delay, pipe.readable()).await {
            Err(_) => lines.flush(clock::now(), &mut emit),
            Ok(Err(_)) => break,
            Ok(Ok(())) => match pipe.try_read(&mut buf) {
                Ok(0) => break,
                Ok(count) => lines.receive(&buf[..count], clock::now(), &mut emit),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            },
        }
    }
    lines.flush(clock::now(), &mut emit);
}

fn nonblocking(end: OwnedFd) -> io::Result<Receiver> {
    Receiver::from_owned_fd(end)
}
