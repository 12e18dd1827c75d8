//! One process as its supervisor sees it.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use sluice_message::Moment;
use sluice_net::sys::spawn::Spawned;
use sluice_wire::python::Kind;
use tokio::task::{JoinHandle, spawn_local};

use super::control::{self, Control};
use super::ending;
use super::inbox::{Event, Inbox};
use super::launch::{Lanes, Launcher};
use super::output::{self, Stream};
use crate::failure::{Death, StartFailure};
use crate::group::Group;
use crate::limits::OUTPUT_GRACE;
use crate::process::{Greeting, Process};
use crate::snapshot::ProcessState;

/// A process.
pub(super) struct Child {
    pub process: Arc<Process>,
    /// The process itself, if it could be started.
    running: Option<Running>,
    /// Why it could not start, as it reported.
    pub failure: Option<StartFailure>,
    stage: Stage,
    /// Processes killed for want of memory before it was started.
    pub oom_kills: u64,
    /// Since when it has requests that took longer than allowed.
    pub overdue_since: Option<Moment>,
    /// Since when it has lost a lane.
    pub lost_since: Option<Moment>,
}

struct Running {
    spawned: Rc<Spawned>,
    control: Rc<Control>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Starting,
    Ready,
    /// It finishes its requests.
    Draining,
    /// It may exit.
    Dismissed,
    /// It was killed while it was starting; nobody needs it any more, or it took too long.
    KilledAtStart(Death),
    Killed,
}

impl Child {
    /// Starts a process, and the tasks that read what it writes.
    ///
    /// # Errors
    ///
    /// It could not be started.
    pub fn start(
        launcher: &Launcher,
        group: &Arc<Group>,
        process: &Arc<Process>,
        inbox: &Rc<Inbox>,
    ) -> Result<Child, StartFailure> {
        let failed =
            |error: io::Error| StartFailure::at("spawn", format!("cannot start Python: {error}"));
        let lanes = Lanes::new(group.workers).map_err(failed)?;
        let oom_kills = ending::oom_kills();
        let launched = launcher.launch(&group.settings, &lanes)?;
        process.set_pid(launched.spawned.pid());
        process.seat(0).open(lanes.ours);
        let spawned = Rc::new(launched.spawned);
        let control = Rc::new(Control::new(launched.control).map_err(failed)?);
        let clone = || (group.clone(), process.clone());
        let (g, p) = clone();
        let mut readers = vec![spawn_local(control::read(
            control.clone(),
            g,
            p,
            inbox.clone(),
        ))];
        for (stream, end) in [
            (Stream::Output, launched.stdout),
            (Stream::Error, launched.stderr),
        ] {
            let (g, p) = clone();
            readers.push(spawn_local(output::read(stream, end, g, p)));
        }
        spawn_local(wait(
            spawned.clone(),
            process.number,
            inbox.clone(),
            readers,
        ));
        Ok(Child {
            running: Some(Running { spawned, control }),
            oom_kills,
            ..Child::never_started_plain(process)
        })
    }

    /// A process that could not be started.
    pub fn never_started(process: &Arc<Process>, failure: StartFailure) -> Child {
        Child {
            failure: Some(failure),
            ..Child::never_started_plain(process)
        }
    }

    fn never_started_plain(process: &Arc<Process>) -> Child {
        Child {
            process: process.clone(),
            running: None,
            failure: None,
            stage: Stage::Starting,
            oom_kills: 0,
            overdue_since: None,
            lost_since: None,
        }
    }

    /// It is ready.
    pub fn note_ready(&mut self, group: &Group, greeting: Greeting) {
        if let Some(interface) = greeting.interface {
            group.note_interface(interface);
        }
        self.process.greet(greeting);
        if self.stage == Stage::Starting {
            self.stage = Stage::Ready;
        }
    }

    /// Whether it has ever been ready.
    pub fn is_ready(&self) -> bool {
        self.process.greeting().is_some()
    }

    /// Whether it takes requests.
    pub fn is_serving(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Whether it finishes its requests.
    pub fn is_draining(&self) -> bool {
        self.stage == Stage::Draining
    }

    /// Whether it was killed because nobody needed it any more: its failure to start means nothing.
    pub fn is_unwanted(&self) -> bool {
        self.stage == Stage::KilledAtStart(Death::DrainTimeout)
    }

    /// Whether it has ended as it was asked to.
    pub fn is_expected(&self, death: Death) -> bool {
        match self.stage {
            Stage::Dismissed => death == Death::Exited(0),
            Stage::KilledAtStart(_) => true,
            // It was reported when it was killed.
            Stage::Killed => true,
            Stage::Starting | Stage::Ready | Stage::Draining => false,
        }
    }

    /// Whether it has to be looked at soon.
    pub fn needs_care(&self) -> bool {
        self.overdue_since.is_some() || self.lost_since.is_some()
    }

    /// Why it could not start.
    pub fn start_failure(&self, death: Death) -> StartFailure {
        if let Some(failure) = &self.failure {
            return failure.clone();
        }
        let (stage, message) = match death {
            Death::StartTimeout => (
                "timeout",
                "the application was not ready within start_timeout".to_owned(),
            ),
            death => {
                let how = ending::describe(death);
                (
                    "exit",
                    format!("the Python worker ended while it was starting: {how}"),
                )
            }
        };
        StartFailure::at(stage, message)
    }

    /// It takes no more requests.
    pub fn drain(&mut self) {
        self.process.set_state(ProcessState::Draining);
        if matches!(self.stage, Stage::Starting | Stage::Ready) {
            self.stage = Stage::Draining;
        }
    }

    /// It has no requests any more, and may exit.
    pub fn dismiss(&mut self) {
        if self.stage == Stage::Draining {
            self.stage = Stage::Dismissed;
        }
        self.send(Kind::Drain);
    }

    /// Kills it and its descendants.
    pub fn kill(&mut self, death: Death) {
        self.process.note_death(death);
        self.process.set_state(ProcessState::Dead);
        self.stage = match self.stage {
            Stage::Starting => Stage::KilledAtStart(death),
            Stage::Ready | Stage::Draining | Stage::Dismissed | Stage::Killed => Stage::Killed,
            Stage::KilledAtStart(first) => Stage::KilledAtStart(first),
        };
        if let Some(running) = &self.running {
            running.spawned.kill_group();
        }
    }

    /// Sends a control frame without a payload.
    pub fn send(&self, kind: Kind) {
        if let Some(running) = &self.running {
            running.control.send(kind);
        }
    }

    /// Sends a control frame with descriptors; returns whether the process took it.
    pub fn send_descriptors(&self, kind: Kind, small: u16, descriptors: &[OwnedFd]) -> bool {
        let control = self.running.as_ref().map(|running| &running.control);
        control.is_some_and(|control| control.send_descriptors(kind, small, descriptors))
    }

    /// Lets the process write the stacks of its threads, even if it does not read its control channel.
    pub fn dump(&self) {
        if let Some(running) = &self.running {
            running.control.send(Kind::Dump);
        }
    }

    /// Writes the stacks where the interpreter does not get to run.
    pub fn dump_by_signal(&self) {
        if let Some(running) = &self.running {
            let signal = sluice_net::sys::process::Signal::User1;
            running.spawned.signal(signal);
        }
    }
}

/// Waits until a process has ended, and everything it wrote was read.
async fn wait(spawned: Rc<Spawned>, number: u64, inbox: Rc<Inbox>, readers: Vec<JoinHandle<()>>) {
    let ended = spawned.wait().await.ok();
    for reader in readers {
        let mut reader = reader;
        if tokio::time::timeout(OUTPUT_GRACE, &mut reader)
            .await
            .is_err()
        {
            reader.abort();
        }
    }
    inbox.push(number, Event::Ended(ended));
}
