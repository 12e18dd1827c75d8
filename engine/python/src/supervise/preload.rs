//! The parent of preloaded processes: it imports the application once, and forks the processes, which share its memory.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;

use sluice_net::sys::spawn::Spawned;
use sluice_wire::python::{Header, Kind};
use tokio::sync::{Notify, oneshot};
use tokio::task::spawn_local;

use super::control::{self, Control};
use super::launch::{Lanes, Launcher, Purpose};
use super::launched::Launched;
use super::messages::{Exited, Failed, Forked};
use super::output::{self, Stream};
use crate::failure::StartFailure;
use crate::group::Group;
use crate::limits::{ENDS_KEPT_MAX, OUTPUT_GRACE, STALL_INTERVAL};

/// A parent process, which lives as long as this value.
pub(super) struct Parent {
    group: Arc<Group>,
    spawned: Rc<Spawned>,
    control: Rc<Control>,
    stage: RefCell<Stage>,
    /// Notified when the stage has changed, or an end was reported.
    changed: Notify,
    /// Forks that were ordered, in order.
    ordered: RefCell<VecDeque<oneshot::Sender<Result<u32, StartFailure>>>>,
    /// How processes have ended, by PID, until somebody asks.
    ends: RefCell<VecDeque<Exited>>,
}

#[derive(Clone, Debug)]
enum Stage {
    /// It imports the application.
    Starting,
    Ready,
    /// It has ended, or will.
    Gone(StartFailure),
}

impl Parent {
    /// Starts a parent.
    ///
    /// # Errors
    ///
    /// It could not be started.
    pub fn start(launcher: &Launcher, group: &Arc<Group>) -> Result<Rc<Parent>, StartFailure> {
        let failed =
            |error: io::Error| StartFailure::at("spawn", format!("cannot start Python: {error}"));
        // It closes its lanes: only its children have any.
        let lanes = Lanes::new(group.workers).map_err(failed)?;
        let launched = launcher.launch(&group.settings, &lanes, Purpose::Parent)?;
        let parent = Rc::new(Parent {
            group: group.clone(),
            spawned: Rc::new(launched.spawned),
            control: Rc::new(Control::new(launched.control).map_err(failed)?),
            stage: RefCell::new(Stage::Starting),
            changed: Notify::new(),
            ordered: RefCell::default(),
            ends: RefCell::default(),
        });
        for (stream, end) in [
            (Stream::Output, launched.stdout),
            (Stream::Error, launched.stderr),
        ] {
            spawn_local(output::read(stream, end, group.clone(), None));
        }
        let weak = Rc::downgrade(&parent);
        let heed = move |header: &Header, payload: &[u8]| {
            if let Some(parent) = weak.upgrade() {
                parent.heed(header, payload);
            }
        };
        let reading = control::read(parent.control.clone(), group.clone(), None, heed);
        let (weak, spawned) = (Rc::downgrade(&parent), parent.spawned.clone());
        spawn_local(async move {
            reading.await;
            let _ = spawned.wait().await;
            if let Some(parent) = weak.upgrade() {
                let text = "the preloading parent process ended".to_owned();
                parent.lose(StartFailure::at("preload", text));
            }
        });
        Ok(parent)
    }

    /// Forks a process with these lanes.
    ///
    /// # Errors
    ///
    /// The application could not be imported, or the parent has ended.
    pub async fn fork(&self, lanes: Lanes) -> Result<Launched, StartFailure> {
        self.started().await?;
        let failed = |error: io::Error| {
            StartFailure::at("preload", format!("cannot fork a process: {error}"))
        };
        let (control, control_end) = UnixStream::pair().map_err(failed)?;
        let (stdout, stdout_end) = io::pipe().map_err(failed)?;
        let (stderr, stderr_end) = io::pipe().map_err(failed)?;
        let (leash, leash_end) = UnixStream::pair().map_err(failed)?;
        let small = u16::try_from(self.group.workers).unwrap_or(u16::MAX);
        let mut descriptors: Vec<OwnedFd> = lanes.theirs;
        descriptors.extend([control_end.into(), stdout_end.into(), stderr_end.into()]);
        descriptors.push(leash_end.into());
        while !self
            .control
            .send_descriptors(Kind::Fork, small, &descriptors)
        {
            tokio::time::sleep(STALL_INTERVAL).await;
            self.started().await?;
        }
        drop(descriptors);
        let (reply, replied) = oneshot::channel();
        self.ordered.borrow_mut().push_back(reply);
        let gone = || StartFailure::at("preload", "the preloading parent process ended".to_owned());
        let pid = replied.await.unwrap_or_else(|_| Err(gone()))?;
        Ok(Launched {
            spawned: Spawned::adopt(pid, leash.into()).map_err(failed)?,
            control,
            stdout: stdout.into(),
            stderr: stderr.into(),
        })
    }

    /// How a process has ended that was forked here: its status as waitpid(2) gives it. `None` if the parent does not
    /// report it in time, or not any more.
    pub async fn status_of(&self, pid: u32) -> Option<i32> {
        let reported = async {
            loop {
                let changed = self.changed.notified();
                let found = {
                    let mut ends = self.ends.borrow_mut();
                    let at = ends.iter().position(|exited| exited.pid == pid);
                    at.and_then(|at| ends.remove(at))
                };
                match found {
                    Some(exited) => return Some(exited.status),
                    None if self.is_gone() => return None,
                    None => changed.await,
                }
            }
        };
        let in_time = tokio::time::timeout(OUTPUT_GRACE, reported).await;
        in_time.ok().flatten()
    }

    /// Waits until the application was imported.
    async fn started(&self) -> Result<(), StartFailure> {
        loop {
            let changed = self.changed.notified();
            let stage = self.stage.borrow().clone();
            match stage {
                Stage::Ready => return Ok(()),
                Stage::Gone(failure) => return Err(failure),
                Stage::Starting => changed.await,
            }
        }
    }

    fn heed(&self, header: &Header, payload: &[u8]) {
        match header.kind {
            Kind::Ready => {
                *self.stage.borrow_mut() = Stage::Ready;
                self.changed.notify_waiters();
            }
            Kind::Failed => {
                if let Ok(failed) = serde_json::from_slice::<Failed>(payload) {
                    self.lose(failed.into());
                }
            }
            Kind::Forked => {
                let forked = serde_json::from_slice::<Forked>(payload);
                let outcome = match forked {
                    Ok(Forked { pid, error: None }) => Ok(pid),
                    Ok(Forked {
                        error: Some(error), ..
                    }) => Err(StartFailure::at("preload", error)),
                    Err(error) => Err(StartFailure::at("preload", error.to_string())),
                };
                if let Some(reply) = self.ordered.borrow_mut().pop_front() {
                    // Nobody waits for it any more: the process is not adopted, and ends with its control channel.
                    let _ = reply.send(outcome);
                }
            }
            Kind::Log => control::report_log(&self.group, None, payload),
            Kind::Exited => {
                if let Ok(exited) = serde_json::from_slice::<Exited>(payload) {
                    let mut ends = self.ends.borrow_mut();
                    ends.push_back(exited);
                    if ends.len() > ENDS_KEPT_MAX {
                        ends.pop_front();
                    }
                }
                self.changed.notify_waiters();
            }
            _ => {}
        }
    }

    /// It forks no more; the first reason stays.
    fn lose(&self, failure: StartFailure) {
        {
            let mut stage = self.stage.borrow_mut();
            if !matches!(*stage, Stage::Gone(_)) {
                *stage = Stage::Gone(failure.clone());
            }
        }
        for reply in self.ordered.borrow_mut().drain(..) {
            let _ = reply.send(Err(failure.clone()));
        }
        self.changed.notify_waiters();
    }

    /// Whether it can still fork.
    pub fn is_gone(&self) -> bool {
        matches!(*self.stage.borrow(), Stage::Gone(_))
    }
}

impl Drop for Parent {
    /// It has no requests, and no state that would have to be saved.
    fn drop(&mut self) {
        self.spawned.kill_group();
    }
}
