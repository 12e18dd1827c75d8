//! Another program in our place: it gets the listening sockets, so that nobody who connects meanwhile is lost. As with nginx
//! (<https://nginx.org/en/docs/control.html#upgrade>) both serve until one of them is told to end, and the numbers of the
//! sockets are in the variable `NGINX`: nginx itself can be our successor, and we its.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::mpsc::SyncSender;
use std::thread;

use sluice_net::sys::inherited;
use sluice_net::sys::process::{start_with, take_variable};

use super::Event;
use crate::messages::Failed;

/// The variable that names the sockets.
const VARIABLE: &str = "NGINX";

/// Sockets that are taken over at most: each is an open file, and nobody listens on so many addresses.
const SOCKETS_MAX: usize = 65_536;

/// The program that this process was started from.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    words: Vec<OsString>,
}

impl Program {
    /// As it was called. To be asked for before the process goes to another folder.
    pub fn of_this_process() -> Result<Program, Failed> {
        let words: Vec<OsString> = std::env::args_os().collect();
        let called = words.first().map(PathBuf::from).unwrap_or_default();
        // A link may lead to another file by then; a bare name was looked up by whoever started us.
        let path = match called.components().count() {
            0 | 1 => std::env::current_exe(),
            _ => std::path::absolute(called),
        };
        Ok(Program {
            path: path.map_err(Failed::new)?,
            words,
        })
    }

    /// Starts it once more, with these sockets. Its end becomes an event.
    pub fn start(&self, sockets: Vec<OwnedFd>, sender: SyncSender<Event>) -> Result<u32, String> {
        let (first, rest) = self.words.split_first().ok_or("it has no name")?;
        let mut command = Command::new(&self.path);
        command
            .arg0(first)
            .args(rest)
            .env(VARIABLE, written(&sockets));
        let shown = self.path.display();
        let child = start_with(command, sockets)
            .map_err(|error| format!("`{shown}` cannot be started: {error}"))?;
        let number = child.id();
        thread::Builder::new()
            .name("successor".into())
            .spawn(move || wait(child, &sender))
            .map_err(|error| format!("a thread cannot be started: {error}"))?;
        Ok(number)
    }
}

fn wait(mut child: Child, sender: &SyncSender<Event>) {
    let status = match child.wait() {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    // If nobody listens any more we have ended as well.
    let _ = sender.send(Event::SuccessorEnded(status));
}

/// `6;7;8;`
fn written(sockets: &[OwnedFd]) -> String {
    let numbers = sockets.iter().map(AsRawFd::as_raw_fd);
    numbers.map(|number| format!("{number};")).collect()
}

/// Sockets from the process that started this one as its successor; `None` if none did. To be called before there are
/// threads. What is no socket that listens is left out, as nginx leaves it out.
pub fn taken_over() -> Result<Option<Vec<OwnedFd>>, Failed> {
    let Some(text) = take_variable(VARIABLE).map_err(Failed::new)? else {
        return Ok(None);
    };
    let words = text.split([';', ':']).filter(|word| !word.is_empty());
    let numbers = words.filter_map(|word| word.parse().ok());
    let sockets = numbers
        .take(SOCKETS_MAX)
        .filter_map(|number| inherited::take(number).ok());
    Ok(Some(sockets.collect()))
}
