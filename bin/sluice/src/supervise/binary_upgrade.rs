//! The two processes of a binary upgrade: starting the new one with the listening sockets of the old one, and what they say
//! to each other. `upgrade` decides when.
//!
//! As with nginx (<https://nginx.org/en/docs/control.html#upgrade>) the environment variable `NGINX` lists the sockets:
//! upgrades from and to nginx itself work as well. `SLUICE_UPGRADE` has the number of a channel with which the old process
//! sends what nginx does not have.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluice_admin::document;
use sluice_net::clock;
use sluice_net::handover::Channel;
use sluice_net::sys::inherited;
use sluice_net::sys::process::{monotonic_micros, start_with, take_variable};
use sluice_serve::handover::{Counted, Secrets};

use crate::load::Loaded;
use crate::messages::Failed;

/// The environment variable that lists the sockets.
const SOCKETS: &str = "NGINX";

/// The environment variable with the number of the channel.
const CHANNEL: &str = "SLUICE_UPGRADE";

/// Maximum number of inherited sockets: each is an open file, and no server listens on so many addresses.
const SOCKETS_MAX: usize = 65_536;

/// How long the new process waits for the [`Handover`], which was sent before it started.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the old process waits until the new one has added its counts. It serves meanwhile, only without them.
const TAKEN_TIMEOUT: Duration = Duration::from_secs(2);

/// The program that this process was started from.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    words: Vec<OsString>,
    folder: Option<PathBuf>,
}

/// What the new process gets beside sockets.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Handover {
    /// The configuration in effect, unless the new process finds it where the old one has.
    pub config: Option<String>,
    /// The files of that configuration, which file servers hide.
    pub files: Vec<String>,
    /// The numbers of those sockets that belong to the admin endpoint.
    pub admin: Vec<i32>,
    /// The same for its endpoint for other machines.
    pub remote: Vec<i32>,
    /// What clients resume their sessions with.
    pub secrets: Secrets,
    /// How long the time line of the old process has lasted, in nanoseconds.
    elapsed: u64,
    /// When that was, on the monotonic clock, in microseconds.
    at: u64,
}

/// What the new process says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Said {
    /// It serves.
    Ready,
    /// It does not, for this reason.
    Failed(String),
}

/// What the old process says to one that is ready: it is the server now.
#[derive(Debug, Serialize, Deserialize)]
struct Go {
    counted: Counted,
}

/// The new process, seen from the old one.
#[derive(Debug)]
pub struct Successor {
    /// The process; killing it is safe until its status was taken.
    pub child: Child,
    /// Our end of the channel.
    pub channel: Channel,
}

impl Handover {
    /// A handover at this moment.
    pub fn new(config: Option<String>, files: Vec<String>, secrets: Secrets) -> Handover {
        let elapsed = clock::now().since_start().as_nanos();
        Handover {
            config,
            files,
            admin: Vec::new(),
            remote: Vec::new(),
            secrets,
            elapsed: u64::try_from(elapsed).unwrap_or(u64::MAX),
            at: monotonic_micros(),
        }
    }
}

impl Program {
    /// The program as it was called. To be called before the process changes its directory.
    pub fn of_this_process() -> Result<Program, Failed> {
        let words: Vec<OsString> = std::env::args_os().collect();
        let called = words.first().map(PathBuf::from).unwrap_or_default();
        // Not resolving links, as a link may point to the new program by then.
        let path = match called.components().count() {
            0 | 1 => match in_path(called.as_os_str()) {
                Some(path) => Ok(path),
                None => std::env::current_exe(),
            },
            _ => std::path::absolute(called),
        };
        Ok(Program {
            path: path.map_err(Failed::new)?,
            words,
            folder: std::env::current_dir().ok(),
        })
    }

    /// Starts the program again, or the one at `path`, with these sockets.
    pub fn start(
        &self,
        path: Option<&Path>,
        sockets: Vec<OwnedFd>,
        handover: &Handover,
    ) -> Result<Successor, String> {
        let path = path.unwrap_or(&self.path);
        let shown = path.display();
        let (first, rest) = self.words.split_first().ok_or("its path is empty")?;
        let failed = |error: std::io::Error| format!("cannot start `{shown}`: {error}");
        let (channel, other) = Channel::pair().map_err(failed)?;
        let mut command = Command::new(path);
        command
            .arg0(first)
            .args(rest)
            .stdin(Stdio::null())
            .env(SOCKETS, written(&sockets))
            .env(CHANNEL, other.as_raw_fd().to_string());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let mut files = sockets;
        files.push(other);
        let text = serde_json::to_vec(handover).map_err(|error| error.to_string())?;
        let child = start_with(command, files).map_err(failed)?;
        let successor = Successor { child, channel };
        // It may be long, and a process that does not read must not hold up this one.
        let sender = successor.channel.try_clone().map_err(failed)?;
        std::thread::Builder::new()
            .name("handover".into())
            // If it fails the new process is gone, which is noticed anyway.
            .spawn(move || _ = sender.send(&text))
            .map_err(failed)?;
        Ok(successor)
    }
}

/// The file that a bare name was looked up to in `PATH`, if it is the one that runs: that may be a link.
fn in_path(name: &OsStr) -> Option<PathBuf> {
    let running = std::fs::metadata("/proc/self/exe").ok()?;
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .filter(|file| file.is_absolute() && !name.is_empty())
        .find(|file| {
            let found = std::fs::metadata(file);
            found.is_ok_and(|file| (file.dev(), file.ino()) == (running.dev(), running.ino()))
        })
}

impl Successor {
    /// Makes the new process the server, and waits until it has what was counted. Fails if it is gone.
    pub fn go(&self, counted: Counted) -> std::io::Result<()> {
        self.send_counted(counted)?;
        // One that does not acknowledge it is the server all the same, and its end follows as an event.
        let _ = self.channel.receive(Some(TAKEN_TIMEOUT));
        Ok(())
    }

    /// Makes the new process the server, whether or not it has reported that it serves.
    pub fn send_counted(&self, counted: Counted) -> std::io::Result<()> {
        let text = serde_json::to_vec(&Go { counted }).map_err(std::io::Error::other)?;
        let done = self.channel.send(&text);
        match done {
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                let counted = Counted::default();
                let text = serde_json::to_vec(&Go { counted }).map_err(std::io::Error::other)?;
                self.channel.send(&text)
            }
            done => done,
        }
    }
}

/// `6;7;8;`
fn written(sockets: &[OwnedFd]) -> String {
    let numbers = sockets.iter().map(AsRawFd::as_raw_fd);
    numbers.map(|number| format!("{number};")).collect()
}

/// What this process has inherited from the one that it replaces.
#[derive(Debug, Default)]
pub struct Inherited {
    /// Listening sockets.
    pub sockets: Vec<OwnedFd>,
    /// Those of the admin endpoint.
    pub admin: Vec<OwnedFd>,
    /// Those of its endpoint for other machines.
    pub remote: Vec<OwnedFd>,
    /// The other process; nginx has no channel.
    pub predecessor: Option<Predecessor>,
    /// The configuration to begin with; `None` to load it as usual.
    pub config: Option<Loaded>,
    /// Whether there was such a configuration: it was loaded through the admin API.
    pub is_from_api: bool,
    /// Its secrets; `None` if there are none.
    pub secrets: Option<Secrets>,
}

/// The old process, seen from the new one.
#[derive(Debug)]
pub struct Predecessor(Channel);

/// Whether this process was started for a binary upgrade by another sluice.
pub fn is_successor() -> bool {
    std::env::var_os(CHANNEL).is_some_and(|number| !number.as_bytes().is_empty())
}

impl Inherited {
    /// What this process has inherited; `None` if it does not replace another one. To be called before threads are started.
    /// Descriptors that are not listening sockets are ignored, as in nginx.
    pub fn take() -> Result<Option<Inherited>, Failed> {
        let channel = take_variable(CHANNEL).map_err(Failed::new)?;
        let Some(text) = take_variable(SOCKETS).map_err(Failed::new)? else {
            return Ok(None);
        };
        let mut all = Inherited::default();
        let mut handover = Handover::default();
        let number = channel.and_then(|number| number.parse().ok());
        if let Some(channel) = number.and_then(|number| Channel::inherited(number).ok()) {
            handover = received(&channel)?;
            clock::continue_from(Duration::from_nanos(handover.elapsed), handover.at);
            all.predecessor = Some(Predecessor(channel));
            all.secrets = Some(handover.secrets);
        }
        if let Some(config) = handover.config {
            let (config, document) = document::read(&config).map_err(|denied| {
                Failed::new(format!(
                    "the configuration of the old process: {}",
                    denied.why
                ))
            })?;
            all.config = Some(Loaded::made(config, document, handover.files));
            all.is_from_api = true;
        }
        let words = text.split([';', ':']).filter(|word| !word.is_empty());
        let numbers = words.filter_map(|word| word.parse().ok());
        for number in numbers.take(SOCKETS_MAX) {
            let Ok(socket) = inherited::take(number) else {
                continue;
            };
            let purpose = match number {
                _ if handover.admin.contains(&number) => &mut all.admin,
                _ if handover.remote.contains(&number) => &mut all.remote,
                _ => &mut all.sockets,
            };
            purpose.push(socket);
        }
        Ok(Some(all))
    }

    /// A handle for reporting a failure to the old process, if there is one.
    pub fn reporter(&self) -> Option<Reporter> {
        let Predecessor(channel) = self.predecessor.as_ref()?;
        channel.try_clone().ok().map(Reporter)
    }

    /// Reports a failure to the old process, and returns it.
    pub fn reported<T>(&self, outcome: Result<T, Failed>) -> Result<T, Failed> {
        if let (Err(failed), Some(reporter)) = (&outcome, self.reporter()) {
            reporter.report(failed);
        }
        outcome
    }
}

fn received(channel: &Channel) -> Result<Handover, Failed> {
    let wrong =
        |what: String| Failed::new(format!("cannot take over from the old process: {what}"));
    let message = channel.receive(Some(HANDOVER_TIMEOUT));
    let message = message.map_err(|error| wrong(error.to_string()))?;
    let message = message.ok_or_else(|| wrong("it is gone".to_owned()))?;
    serde_json::from_slice(&message).map_err(|error| wrong(error.to_string()))
}

impl Predecessor {
    /// Reports that this process serves, and waits until the old one has made it the server. Returns what that has counted;
    /// `None` if it has ended without a word: then this process is the server in any case.
    pub fn report_ready(self) -> Option<(Counted, Taken)> {
        let text = serde_json::to_vec(&Said::Ready).ok()?;
        self.0.send(&text).ok()?;
        let message = self.0.receive(None).ok()??;
        let go: Go = serde_json::from_slice(&message).ok()?;
        Some((go.counted, Taken(self.0)))
    }
}

/// The old process waits to learn that what it has counted is counted on here.
#[derive(Debug)]
pub struct Taken(Channel);

impl Taken {
    /// Reports it. If the old process is gone, nobody has to know.
    pub fn report(self) {
        let _ = self.0.send(b"taken");
    }
}

/// Reports to the old process why this one does not serve.
#[derive(Debug)]
pub struct Reporter(Channel);

impl Reporter {
    /// Reports it. If the old process is gone, nobody has to know.
    pub fn report(&self, failed: &Failed) {
        let said = Said::Failed(failed.text().trim_end().to_owned());
        if let Ok(text) = serde_json::to_vec(&said) {
            let _ = self.0.send(&text);
        }
    }
}

impl Said {
    /// Waits until the process at the other end says something; `None` if it ends without.
    ///
    /// # Errors
    /// It says nothing for `timeout`, or nothing that can be read.
    pub fn hear(channel: &Channel, timeout: Option<Duration>) -> std::io::Result<Option<Said>> {
        let Some(message) = channel.receive(timeout)? else {
            return Ok(None);
        };
        serde_json::from_slice(&message)
            .map(Some)
            .map_err(std::io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_arrives() {
        let mut handover = Handover::new(
            Some("{}".to_owned()),
            vec!["/etc/Caddyfile".to_owned()],
            Secrets::random().unwrap(),
        );
        handover.admin = vec![7];
        let text = serde_json::to_vec(&handover).unwrap();
        let read: Handover = serde_json::from_slice(&text).unwrap();
        assert_eq!(serde_json::to_vec(&read).unwrap(), text);
        assert_eq!(format!("{:?}", read.secrets), "Secrets", "not in a log");
    }

    #[test]
    fn the_program_of_a_bare_name_is_found_where_it_runs() {
        assert_eq!(in_path(OsStr::new("no-such-program-of-sluice")), None);
        assert_eq!(in_path(OsStr::new("")), None);
        // Another program of the same name is not the one that runs.
        assert_eq!(in_path(OsStr::new("sh")), None);
    }
}
