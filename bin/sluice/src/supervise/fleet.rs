//! A server that is a node of a fleet: what it starts with, and how it takes a text that the fleet is to run.
//! `sluice_serve::fleet` follows the place and reports to it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use sluice_admin::write_autosaved;
use sluice_serve::fleet::{
    Copy, Facts, Follower, Leaving, Location, Node, Offered, Outcome, Reply, Revision, Seen,
    Source, Traffic,
};
use sluice_serve::limits::START_WAIT;
use sluice_serve::process::Server;
use sluice_store::StoreError;

use super::{Event, Process, Stop};
use crate::load::{Adapter, Loaded, detect, parse};
use crate::messages::{Failed, MessageFormat, write};
use crate::{folders, remote};

/// A node of a fleet.
#[derive(Debug)]
pub struct Member {
    location: Location,
    source: Source,
    adapter: Option<Adapter>,
    name: String,
    /// The local copy of the last text that took effect.
    copy: PathBuf,
    begun: Mutex<Begun>,
}

/// What a node has begun with.
#[derive(Clone, Debug, Default)]
struct Begun {
    running: Option<(Revision, String)>,
    refused: Option<(Revision, String)>,
    /// Whether it runs the local copy.
    is_copy: bool,
}

impl Member {
    /// The node called `name` of the fleet at `location`; the host name if `None`.
    pub fn new(
        location: Location,
        adapter: Option<Adapter>,
        name: Option<String>,
    ) -> Result<Member, Failed> {
        let source = Source::open(&location).map_err(Failed::new)?;
        let name = name.or_else(host_name).unwrap_or_default();
        if let Source::Store(_, layout) = &source {
            layout.node(&name).map_err(|_| {
                Failed::new(format!("`{name}` is not a name for a node"))
                    .help("name it with `--node`: up to 255 bytes without `/`")
            })?;
        }
        Ok(Member {
            copy: Copy::path(&folders::config(), &location),
            location,
            source,
            adapter,
            name,
            begun: Mutex::default(),
        })
    }

    /// Loads the text of the fleet; if that cannot be had or is not valid, the local copy.
    pub fn load(&self, format: MessageFormat) -> Result<Loaded, Failed> {
        let copy = match Copy::read(&self.copy) {
            Ok(copy) => copy,
            Err(error) => {
                let path = self.copy.display();
                write(&format!(
                    "warning: cannot read the local copy {path}: {error}\n"
                ));
                None
            }
        };
        let problem = match self.first_read(copy.is_some()) {
            // It may be older than the copy.
            Ok(Some(seen)) if seen.is_stale && copy.is_some() => Failed::new(format!(
                "no quorum of the store confirms the configuration of {}",
                self.location
            )),
            Ok(Some(seen)) => match self.parse(&seen.text, format) {
                Ok(loaded) => {
                    self.begin(|begun| begun.running = Some((seen.revision, seen.text)));
                    return Ok(loaded);
                }
                Err(failed) => {
                    let why = failed.text().to_owned();
                    self.begin(|begun| begun.refused = Some((seen.revision, why)));
                    failed
                }
            },
            Ok(None) => remote::missing(&self.location),
            Err(error) => Failed::new(error),
        };
        match copy {
            Some(copy) => self.start_from(copy, &problem, format),
            None => Err(problem),
        }
    }

    /// Goes back to the local copy after the server could not start with the text of the fleet.
    pub fn fall_back(&self, failed: &Failed, format: MessageFormat) -> Option<Loaded> {
        let copy = Copy::read(&self.copy).ok().flatten()?;
        let (revision, text) = self.begun().running.filter(|_| !self.begun().is_copy)?;
        if text == copy.text {
            return None;
        }
        let why = failed.text().to_owned();
        self.begin(|begun| begun.refused = Some((revision, why)));
        self.start_from(copy, failed, format).ok()
    }

    fn start_from(
        &self,
        copy: Copy,
        problem: &Failed,
        format: MessageFormat,
    ) -> Result<Loaded, Failed> {
        let loaded = self.parse(&copy.text, format)?;
        let path = self.copy.display();
        write(&format!(
            "{}\nwarning: starting with the last configuration that worked, {path}\n",
            problem.text()
        ));
        self.begin(|begun| {
            begun.running = Some((Revision::of(&copy.text), copy.text));
            begun.is_copy = true;
        });
        Ok(loaded)
    }

    /// Reads the text. If there is a local copy, it waits a moment only.
    fn first_read(&self, has_copy: bool) -> Result<Option<Seen>, StoreError> {
        if !has_copy {
            return self.source.read(Some(&self.name));
        }
        let (sender, read) = sync_channel(1);
        let (source, name) = (self.source.clone(), self.name.clone());
        let work = move || {
            // If nobody waits any more, the follower reads it again.
            let _ = sender.send(source.read(Some(&name)));
        };
        let late = || {
            let what = format!("no response within {START_WAIT:?}");
            StoreError::new(sluice_store::Fault::Away, &self.location.to_string(), what)
        };
        thread::Builder::new()
            .name("fleet-start".into())
            .spawn(work)
            .map_err(|_| late())?;
        read.recv_timeout(START_WAIT)
            .unwrap_or_else(|_| Err(late()))
    }

    fn parse(&self, text: &str, format: MessageFormat) -> Result<Loaded, Failed> {
        let name = self.location.name();
        let adapter = self
            .adapter
            .unwrap_or_else(|| detect(Path::new(name), text));
        let mut loaded = parse(name, text, adapter, format)?;
        // Imported files are on the disk of this node; the text is not.
        loaded.files.retain(|file| file != name);
        loaded.files.insert(0, self.location.to_string());
        Ok(loaded)
    }

    /// Writes the local copy of a text that took effect.
    fn keep(&self, text: &str) -> std::io::Result<()> {
        let copy = Copy {
            source: self.location.to_string(),
            text: text.to_owned(),
        };
        write_autosaved(&self.copy, &copy.to_json())
    }

    fn begun(&self) -> Begun {
        self.begun
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn begin(&self, edit: impl FnOnce(&mut Begun)) {
        edit(&mut self.begun.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Starts to follow the place.
    fn follow(
        &self,
        server: &Server,
        log: sluice_observe::log::Log,
        sender: SyncSender<Event>,
    ) -> Result<Follower, Failed> {
        let begun = self.begun();
        let recorder = server.recorder().clone();
        let sources = recorder.clone();
        let node = Node {
            place: self.location.to_string(),
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION"),
            running: begun.running.map(|(revision, _)| revision),
            refused: begun.refused,
            traffic: Box::new(move || {
                let totals = recorder.totals();
                Traffic {
                    requests: totals.ended.iter().sum(),
                    errors: totals.ended.last().copied().unwrap_or_default(),
                }
            }),
            facts: Box::new(move || {
                let sources = sources.sources();
                Facts::of(&sources.certificates(), sources.locks())
            }),
            log,
        };
        let offering = move |offered: Offered, reply: Reply| {
            match sender.try_send(Event::Offered(Box::new(offered), reply)) {
                Ok(()) => {}
                // The event is dropped with its reply, so the text is offered again.
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        };
        let follower = Follower::start(self.source.clone(), node, Box::new(offering));
        let follower = follower.map_err(Failed::new)?;
        server
            .recorder()
            .sources()
            .set_config_source(follower.standing());
        Ok(follower)
    }
}

/// The host name.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

impl Process {
    /// Begins to follow the place of the fleet.
    pub(super) fn join_fleet(&mut self, member: &Arc<Member>) -> Result<(), Failed> {
        let begun = member.begun();
        if let Some((_, text)) = begun.running.filter(|_| !begun.is_copy) {
            self.keep_copy(member, &text);
        }
        let (log, sender) = (self.log.clone(), self.sender.clone());
        self.follower = Some(member.follow(&self.server, log, sender)?);
        Ok(())
    }

    /// Takes a text of the fleet, or refuses it.
    pub(super) fn take_offered(&mut self, offered: &Offered, reply: Reply) {
        let super::Origin::Fleet(member) = &self.origin else {
            return;
        };
        if self.is_upgrading() {
            return reply.send(Outcome::Deferred);
        }
        let member = member.clone();
        self.readiness.reloading();
        let loaded = member.parse(&offered.text, MessageFormat::Short);
        let outcome = self.replace_by(loaded, "fleet");
        reply.send(match outcome {
            Ok(()) => {
                self.keep_copy(&member, &offered.text);
                Outcome::Applied
            }
            Err(denied) => Outcome::Refused(denied.why),
        });
    }

    fn keep_copy(&self, member: &Member, text: &str) {
        if let Err(error) = member.keep(text) {
            let message = "the local copy of the configuration cannot be written";
            self.log
                .warn("config", message)
                .text("file", member.copy.to_string_lossy().as_bytes())
                .shown("error", error)
                .send();
        }
    }

    /// Leaves the fleet, before requests are drained.
    pub(super) fn leave_fleet(&self, why: &Stop) {
        let Some(follower) = &self.follower else {
            return;
        };
        follower.leave(match why {
            Stop::Replaced(_) => Leaving::Replaced,
            Stop::Signal(_) | Stop::Halt(_) | Stop::Order => Leaving::Stopped,
        });
    }
}
