//! Binary upgrade: replaces this process by a new one, or goes on if that fails.
//!
//! With nginx's signals both processes serve until the operator stops one of them. Otherwise the new process takes over as
//! soon as it says that it serves, and this one drains.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

use sluice_admin::{Denied, Endpoint, Replier, UpgradeOrder};
use sluice_message::Status;
use sluice_net::sys::identity::user;
use sluice_net::sys::process::{Signal, await_end, send};

use super::binary_upgrade::{Handover, Said, Successor};
use super::{Edits, Event, Manners, Origin, Process, Stop};
use crate::load::Source;

/// How long a new process may take until it serves, if nothing else was asked for: Python applications may take most of a
/// minute to load.
pub const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// A binary upgrade that was asked for.
#[derive(Debug, Default)]
pub struct Request {
    /// The program to start instead of the one at our path.
    binary: Option<PathBuf>,
    ready_timeout: Option<Duration>,
    grace: Option<Duration>,
    /// Waits for the outcome.
    reply: Option<Replier>,
}

/// A binary upgrade in progress.
pub struct Upgrade {
    successor: Successor,
    request: Request,
    /// What the new process has said about its failure.
    problem: Option<String>,
    /// The configuration was to be reloaded meanwhile: by the process that is the server in the end.
    is_reload_due: bool,
    /// With nginx's signals: the new process serves beside this one.
    serves: bool,
}

impl From<UpgradeOrder> for Request {
    fn from(order: UpgradeOrder) -> Request {
        Request {
            binary: order.binary,
            ready_timeout: order.ready_timeout,
            grace: order.grace_period,
            reply: Some(order.reply),
        }
    }
}

impl Request {
    fn refuse(self, why: String) {
        if let Some(reply) = self.reply {
            reply.send(Err(Denied::bad(why)));
        }
    }
}

/// Why the configuration does not change now: the change would be lost with this process.
pub(super) fn in_progress() -> Denied {
    let why = "a binary upgrade is in progress; try again when it has ended";
    Denied::new(Status::SERVICE_UNAVAILABLE, why)
}

impl Upgrade {
    fn pid(&self) -> u32 {
        self.successor.child.id()
    }
}

impl Process {
    /// Whether a new process has been started that may replace this one.
    pub(super) fn is_upgrading(&self) -> bool {
        self.upgrade.is_some() && self.manners == Manners::Caddy
    }

    /// Whether another process serves our addresses, so that this one may end without the service being stopped.
    pub(super) fn is_succeeded(&self) -> bool {
        // With nginx's signals the operator knows; the new process may be nginx itself, which does not report.
        let is_served = |upgrade: &Upgrade| upgrade.serves || self.manners == Manners::Nginx;
        self.upgrade.as_ref().is_some_and(is_served)
    }

    /// Starts the new program with our listening sockets.
    pub(super) fn start_upgrade(&mut self, request: Request) {
        if let Some(upgrade) = &self.upgrade {
            let pid = upgrade.pid();
            self.log
                .warn("", "a binary upgrade is already in progress")
                .integer("pid", pid.into())
                .send();
            request.refuse(format!(
                "a binary upgrade is already in progress (process {pid})"
            ));
            return;
        }
        match self.start_successor(&request) {
            Ok(successor) => {
                self.log
                    .info("", "start new binary process")
                    .integer("pid", successor.child.id().into())
                    .send();
                self.upgrade = Some(Upgrade {
                    successor,
                    request,
                    problem: None,
                    is_reload_due: false,
                    serves: false,
                });
            }
            Err(why) => {
                self.log
                    .error("", "binary upgrade failed; this process goes on")
                    .text("error", &why)
                    .send();
                self.put_pidfile_back();
                request.refuse(why);
            }
        }
    }

    fn start_successor(&mut self, request: &Request) -> Result<Successor, String> {
        if self.manners == Manners::Caddy && std::process::id() == 1 {
            return Err(
                "this process is PID 1 of its container, which ends with it: \
                        start a new container instead"
                    .to_owned(),
            );
        }
        if let Some(path) = &request.binary {
            check(path)?;
        }
        let text = |error: std::io::Error| error.to_string();
        let mut sockets = self.server.lend().map_err(text)?;
        let (config, files) = match self.is_found_again() {
            true => (None, Vec::new()),
            false => {
                let document = self.read.document.text(&self.server.config());
                (Some(document.to_string()), self.read.files.clone())
            }
        };
        let mut handover = Handover::new(config, files, self.server.secrets());
        let endpoints = [
            (&self.endpoint, &mut handover.admin),
            (&self.remote, &mut handover.remote),
        ];
        for (endpoint, numbers) in endpoints {
            if let Some(endpoint) = endpoint {
                let lent = endpoint.lend().map_err(text)?;
                *numbers = lent.iter().map(AsRawFd::as_raw_fd).collect();
                sockets.extend(lent);
            }
        }
        self.pidfile.put_aside().map_err(text)?;
        let program = &self.program;
        let successor = program.start(request.binary.as_deref(), sockets, &handover)?;
        if self.manners == Manners::Caddy {
            self.readiness.reloading();
        }
        // With nginx's signals an operator decides whether the new process takes too long.
        let timeout = match self.manners {
            Manners::Caddy => Some(request.ready_timeout.unwrap_or(READY_TIMEOUT)),
            Manners::Nginx => None,
        };
        match watch(&successor, timeout, &self.sender) {
            Ok(()) => Ok(successor),
            Err(error) => {
                let mut child = successor.child;
                let _ = child.kill();
                let _ = child.wait();
                Err(format!("cannot start a thread: {error}"))
            }
        }
    }

    /// Whether a new process finds the configuration in effect where this one has: not if it was loaded through the
    /// admin API, or from a source that can be read only once.
    fn is_found_again(&self) -> bool {
        match &self.origin {
            _ if self.read.edits != Edits::None => false,
            Origin::Source(Source::Stdin { .. }) | Origin::Saved(..) => false,
            Origin::Source(Source::File { .. } | Source::Url { .. })
            | Origin::Fleet(_)
            | Origin::CommandLine(_)
            | Origin::Nginx(_)
            | Origin::Nothing => true,
        }
    }

    /// Remembers a reload for the process that is the server in the end. Returns false if no upgrade is in progress.
    pub(super) fn postpone_reload(&mut self, trigger: &str) -> bool {
        let is_upgrading = self.is_upgrading();
        if let Some(upgrade) = self.upgrade.as_mut().filter(|_| is_upgrading) {
            upgrade.is_reload_due = true;
            self.log
                .info("config", "reload after the binary upgrade")
                .text("trigger", trigger)
                .send();
        }
        is_upgrading
    }

    /// The new process has said something. Returns the end of this one if that is the server now.
    pub(super) fn on_said(&mut self, said: Result<Said, String>) -> Option<Stop> {
        let upgrade = self.upgrade.as_mut()?;
        match said {
            Ok(Said::Ready) => return self.hand_over(),
            Ok(Said::Failed(why)) => upgrade.problem = Some(why),
            Err(why) => {
                upgrade.problem = Some(why);
                // Its end follows as an event.
                let _ = upgrade.successor.child.kill();
            }
        }
        None
    }

    fn hand_over(&mut self) -> Option<Stop> {
        let upgrade = self.upgrade.as_mut()?;
        let pid = upgrade.pid();
        if upgrade.successor.go(self.server.counted()).is_err() {
            // It has just ended, and that follows as an event.
            return None;
        }
        upgrade.serves = true;
        if self.manners == Manners::Nginx {
            return None;
        }
        self.readiness.hand_over_to(pid);
        // Before the outcome is reported: who connects then gets the new process.
        self.pass_on();
        let upgrade = self.upgrade.as_mut()?;
        if upgrade.is_reload_due {
            // If it has ended since, its end is reported to nobody: it was the server.
            let _ = send(pid, Signal::Hangup);
        }
        self.log
            .info("", "the new process serves; this one drains")
            .integer("pid", pid.into())
            .send();
        let grace = upgrade.request.grace;
        if let Some(reply) = upgrade.request.reply.take() {
            reply.send(Ok(()));
        }
        Some(Stop::Replaced(grace))
    }

    /// Stops accepting, as the new process accepts.
    pub(super) fn pass_on(&self) {
        self.server.pass_on();
        let endpoints = self.endpoint.iter().chain(&self.remote);
        endpoints.for_each(Endpoint::pass_on);
    }

    /// With nginx's signals an operator may end this process before it has heard that the new one serves. It no longer handles
    /// that event, and requests may keep it for long: the new process must not wait for it.
    pub(super) fn release_successor(&mut self) {
        let Some(upgrade) = self.upgrade.take().filter(|upgrade| !upgrade.serves) else {
            return;
        };
        let counted = self.server.counted();
        // In a thread, as a process that is still starting reads later. If that fails, it waits for the end of this process.
        let send = move || _ = upgrade.successor.send_counted(counted);
        let _ = thread::Builder::new().name("handover".into()).spawn(send);
    }

    /// The new process has ended before it was the server, or beside us: this process goes on.
    pub(super) fn on_successor_ended(&mut self) {
        let Some(mut upgrade) = self.upgrade.take() else {
            return;
        };
        let status = match upgrade.successor.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        self.put_pidfile_back();
        // It may have made itself the main process.
        self.readiness.ready();
        self.log
            .warn("", "the new process of the binary upgrade has exited")
            .text("error", &status)
            .texts("reason", upgrade.problem.clone())
            .send();
        let why = upgrade.problem.take();
        let why = why.unwrap_or_else(|| format!("the new process ended ({status})"));
        upgrade.request.refuse(why);
        if upgrade.is_reload_due {
            self.reload("after the binary upgrade");
        }
    }

    /// This process stops while a new one starts, which then has to end as well.
    pub(super) fn cancel_upgrade(&mut self) {
        if !self.is_upgrading() {
            return;
        }
        if let Some(mut upgrade) = self.upgrade.take() {
            let _ = upgrade.successor.child.kill();
            let _ = upgrade.successor.child.wait();
            upgrade.request.refuse("the server is stopping".to_owned());
        }
    }

    fn put_pidfile_back(&self) {
        if let Err(error) = self.pidfile.put_back() {
            self.log
                .error("", "cannot restore the PID file")
                .shown("error", error)
                .send();
        }
    }
}

/// Refuses a program that another user could have put there: who may ask for an upgrade may not run what he likes.
fn check(path: &Path) -> Result<(), String> {
    let shown = path.display();
    if !path.is_absolute() {
        return Err(format!("`{shown}` is not an absolute path"));
    }
    let found = fs::metadata(path).map_err(|error| format!("cannot start `{shown}`: {error}"))?;
    if !found.is_file() || found.mode() & 0o111 == 0 {
        return Err(format!("`{shown}` is not an executable file"));
    }
    if found.uid() != 0 && found.uid() != user() || found.mode() & 0o002 != 0 {
        return Err(format!(
            "`{shown}` is not safe to start: it must belong to root or to the user of the server, and not be writable by all"
        ));
    }
    Ok(())
}

/// Reports what the new process says, and its end.
fn watch(
    successor: &Successor,
    timeout: Option<Duration>,
    sender: &SyncSender<Event>,
) -> std::io::Result<()> {
    let channel = successor.channel.try_clone()?;
    let pid = successor.child.id();
    let sender = sender.clone();
    // If the receiver is gone, this process is exiting as well.
    let hear = move || {
        let said = match Said::hear(&channel, timeout) {
            Ok(None) => None,
            Ok(Some(said)) => Some(Ok(said)),
            Err(error) => Some(Err(match timeout {
                Some(timeout) if is_late(&error) => {
                    format!("the new process did not serve within {timeout:?}")
                }
                Some(_) | None => format!("the new process cannot be understood: {error}"),
            })),
        };
        if let Some(said) = said {
            let _ = sender.send(Event::SuccessorSaid(said));
        }
        // Afterwards, so that its reason is known.
        if await_end(pid).is_ok() {
            let _ = sender.send(Event::SuccessorEnded);
        }
    };
    let builder = thread::Builder::new().name("successor".into());
    builder.spawn(hear).map(drop)
}

fn is_late(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as E;
    matches!(error.kind(), E::WouldBlock | E::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn programs_that_others_could_have_written_are_refused() {
        let path = std::env::temp_dir().join(format!("sluice-program-{}", std::process::id()));
        fs::write(&path, "").unwrap();
        let set = |mode: u32| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        set(0o755);
        assert_eq!(check(&path), Ok(()));
        set(0o757);
        assert!(check(&path).unwrap_err().contains("not safe"));
        set(0o644);
        assert!(check(&path).unwrap_err().contains("not an executable"));
        fs::remove_file(&path).unwrap();
        assert!(check(&path).unwrap_err().contains("cannot start"));
        assert!(check(Path::new("sluice")).unwrap_err().contains("absolute"));
        assert!(check(Path::new("/")).unwrap_err().contains("executable"));
    }
}
