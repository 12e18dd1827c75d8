//! One process as its supervisor sees it.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::rc::Rc;
use std::sync::Arc;

use sluice_message::Moment;
use sluice_net::sys::spawn::{Ended, Spawned};
use sluice_wire::python::{Header, Kind};
use tokio::task::{JoinHandle, spawn_local};

use super::control::{self, Control};
use super::ending;
use super::inbox::{Event, Inbox};
use super::launch::Lanes;
use super::launched::Launched;
use super::messages::{Failed, Ready, Stats};
use super::output::{self, Stream};
use super::preload::Parent;
use super::starter::Starter;
use crate::allowance::{Allowance, demand_of};
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
    /// How many threads may get requests.
    allowance: Allowance,
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
        starter: &Starter,
        group: &Arc<Group>,
        process: &Arc<Process>,
        inbox: &Rc<Inbox>,
    ) -> Result<Child, StartFailure> {
        let mut lanes = Lanes::new(group.workers).map_err(failed)?;
        process.seat(0).open(std::mem::take(&mut lanes.ours));
        let mut child = Child {
            oom_kills: ending::oom_kills(),
            ..Child::without_process(process)
        };
        if group.settings.preload {
            let parent = starter.parent()?;
            let (inbox, number) = (inbox.clone(), process.number);
            spawn_local(async move {
                inbox.push(
                    number,
                    match parent.fork(lanes).await {
                        Ok(launched) => Event::Forked(launched, parent),
                        Err(failure) => Event::NotForked(failure),
                    },
                );
            });
        } else {
            let launched = starter.launch(&lanes)?;
            child.run(launched, None, group, inbox)?;
        }
        Ok(child)
    }

    /// The process exists: starts the tasks that read what it writes.
    ///
    /// # Errors
    ///
    /// Its descriptors cannot be used.
    pub fn run(
        &mut self,
        launched: Launched,
        parent: Option<Rc<Parent>>,
        group: &Arc<Group>,
        inbox: &Rc<Inbox>,
    ) -> Result<(), StartFailure> {
        let process = &self.process;
        process.set_pid(launched.spawned.pid());
        let spawned = Rc::new(launched.spawned);
        let control = Rc::new(Control::new(launched.control).map_err(failed)?);
        let on_frame = {
            let (group, process, inbox) = (group.clone(), process.clone(), inbox.clone());
            move |header: &Header, payload: &[u8]| {
                heed(&group, &process, &inbox, header, payload);
            }
        };
        let about = || (group.clone(), Some(process.clone()));
        let (g, p) = about();
        let mut readers = vec![spawn_local(control::read(control.clone(), g, p, on_frame))];
        for (stream, end) in [
            (Stream::Output, launched.stdout),
            (Stream::Error, launched.stderr),
        ] {
            let (g, p) = about();
            readers.push(spawn_local(output::read(stream, end, g, p)));
        }
        let ended = ended(spawned.clone(), parent);
        spawn_local(wait(ended, process.number, inbox.clone(), readers));
        if self.is_killed() {
            spawned.kill_group();
        }
        self.running = Some(Running { spawned, control });
        Ok(())
    }

    /// Whether it was killed, even before it existed.
    fn is_killed(&self) -> bool {
        matches!(self.stage, Stage::KilledAtStart(_) | Stage::Killed)
    }

    /// A process that could not be started.
    pub fn never_started(process: &Arc<Process>, failure: StartFailure) -> Child {
        Child {
            failure: Some(failure),
            ..Child::without_process(process)
        }
    }

    /// A process that does not exist yet.
    fn without_process(process: &Arc<Process>) -> Child {
        Child {
            process: process.clone(),
            running: None,
            failure: None,
            stage: Stage::Starting,
            oom_kills: 0,
            overdue_since: None,
            allowance: Allowance::new(process.seats()),
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

    /// Requests wait for a thread: more of them get requests if that helps.
    pub fn allow_threads(&mut self, now: u64) {
        if self.allowance.is_due(now) {
            self.allowance.look(now, demand_of(self.process.pid()));
            self.process.set_allowed(self.allowance.threads());
        }
    }

    /// Whether it was killed because nobody needed it any more: its failure to start means nothing.
    pub fn is_unwanted(&self) -> bool {
        self.stage == Stage::KilledAtStart(Death::DrainTimeout)
    }

    /// Whether it has ended as it was asked to.
    pub fn is_expected(&self, death: Death) -> bool {
        match self.stage {
            // How a process ended that lost its preloading parent, nobody knows.
            Stage::Dismissed => matches!(death, Death::Exited(0) | Death::Unknown),
            Stage::KilledAtStart(_) => true,
            // It was reported when it was killed.
            Stage::Killed => true,
            Stage::Starting | Stage::Ready | Stage::Draining => false,
        }
    }

    /// Whether it has to be looked at soon.
    pub fn needs_care(&self) -> bool {
        let is_used_up = self.is_serving() && self.process.is_used_up();
        is_used_up || self.overdue_since.is_some() || self.lost_since.is_some()
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

/// What a process reports.
fn heed(group: &Group, process: &Process, inbox: &Inbox, header: &Header, payload: &[u8]) {
    match header.kind {
        Kind::Ready => {
            let ready = serde_json::from_slice::<Ready>(payload).ok();
            match ready.and_then(Ready::greeting) {
                Some(greeting) => inbox.push(process.number, Event::Ready(greeting)),
                None => {
                    let text = "READY of the worker cannot be understood".to_owned();
                    let failure = StartFailure::at("protocol", text);
                    inbox.push(process.number, Event::Failed(failure));
                }
            }
        }
        Kind::Failed => {
            if let Ok(failed) = serde_json::from_slice::<Failed>(payload) {
                inbox.push(process.number, Event::Failed(failed.into()));
            }
        }
        Kind::Stats => {
            if let Ok(stats) = serde_json::from_slice::<Stats>(payload) {
                process.set_busy(stats.busy_us);
            }
        }
        Kind::Log => control::report_log(group, Some(process), payload),
        Kind::Draining => inbox.push(process.number, Event::Leaving),
        // Only preloading parents fork, and the reader accepts nothing else.
        _ => {}
    }
}

fn failed(error: io::Error) -> StartFailure {
    StartFailure::at("spawn", format!("cannot start Python: {error}"))
}

/// Waits until a process has ended, and everything it wrote was read.
async fn wait(
    ended: impl Future<Output = Option<Ended>>,
    number: u64,
    inbox: Rc<Inbox>,
    readers: Vec<JoinHandle<()>>,
) {
    let ended = ended.await;
    for mut reader in readers {
        if tokio::time::timeout(OUTPUT_GRACE, &mut reader)
            .await
            .is_err()
        {
            reader.abort();
        }
    }
    inbox.push(number, Event::Ended(ended));
}

/// Waits until a process has ended; one that was forked by a parent is reaped by that.
async fn ended(spawned: Rc<Spawned>, parent: Option<Rc<Parent>>) -> Option<Ended> {
    let ended = spawned.wait().await.ok();
    let Some(parent) = parent else {
        return ended;
    };
    let status = parent.status_of(spawned.pid()).await?;
    Some(Ended {
        status: ExitStatus::from_raw(status),
        user_micros: 0,
        system_micros: 0,
        resident_bytes_max: 0,
    })
}
