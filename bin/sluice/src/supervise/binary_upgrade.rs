//! Binary upgrade: another program inherits the listening sockets, so that no connection is lost. As with nginx
//! (<https://nginx.org/en/docs/control.html#upgrade>), both processes serve until one of them is stopped, and the
//! environment variable `NGINX` lists the descriptors: upgrades from and to nginx itself work as well.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;

use sluice_net::sys::inherited;
use sluice_net::sys::process::{start_with, take_variable};

use crate::messages::Failed;

/// The environment variable that lists the sockets.
const VARIABLE: &str = "NGINX";

/// Maximum number of inherited sockets: each is an open file, and no server listens on so many addresses.
const SOCKETS_MAX: usize = 65_536;

/// The program that this process was started from.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    words: Vec<OsString>,
}

impl Program {
    /// The program as it was called. To be called before the process changes its directory.
    pub fn of_this_process() -> Result<Program, Failed> {
        let words: Vec<OsString> = std::env::args_os().collect();
        let called = words.first().map(PathBuf::from).unwrap_or_default();
        // Not resolving links, as a link may point to the new program by then. A bare name was looked up in `PATH` by
        // our parent.
        let path = match called.components().count() {
            0 | 1 => std::env::current_exe(),
            _ => std::path::absolute(called),
        };
        Ok(Program {
            path: path.map_err(Failed::new)?,
            words,
        })
    }

    /// Starts the program again, with these sockets, and calls `ended` with its exit status.
    pub fn start(
        &self,
        sockets: Vec<OwnedFd>,
        ended: impl FnOnce(String) + Send + 'static,
    ) -> Result<u32, String> {
        let (first, rest) = self.words.split_first().ok_or("its path is empty")?;
        let mut command = Command::new(&self.path);
        command
            .arg0(first)
            .args(rest)
            .env(VARIABLE, written(&sockets));
        let shown = self.path.display();
        let child = start_with(command, sockets)
            .map_err(|error| format!("cannot start `{shown}`: {error}"))?;
        let number = child.id();
        thread::Builder::new()
            .name("successor".into())
            .spawn(move || ended(wait(child)))
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(number)
    }
}

fn wait(mut child: Child) -> String {
    match child.wait() {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}

/// `6;7;8;`
fn written(sockets: &[OwnedFd]) -> String {
    let numbers = sockets.iter().map(AsRawFd::as_raw_fd);
    numbers.map(|number| format!("{number};")).collect()
}

/// The sockets inherited from a process that performs a binary upgrade; `None` if there is none. To be called before
/// threads are started. Descriptors that are not listening sockets are ignored, as in nginx.
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
