//! The lanes of one thread of sluice to one group.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use sluice_net::worker::Worker;

use super::drive;
use super::mux::Mux;
use crate::group::{Group, choose};
use crate::process::{Counted, Process, nanos};
use crate::queue::Grant;
use crate::snapshot::ProcessState;

/// All groups as one thread of sluice knows them.
#[derive(Default)]
struct Locals(RefCell<HashMap<u64, Rc<Local>>>);

/// A group as one thread of sluice knows it.
pub(crate) struct Local {
    worker: Rc<Worker>,
    group: Arc<Group>,
    /// The version of the group's members that `members` has.
    version: Cell<u64>,
    members: RefCell<Vec<Member>>,
}

/// A process, with the lanes that were needed so far.
struct Member {
    process: Arc<Process>,
    lanes: Vec<Option<Rc<Mux>>>,
}

impl AsRef<Process> for Member {
    fn as_ref(&self) -> &Process {
        &self.process
    }
}

impl Local {
    /// What the thread of `worker` knows of a group.
    pub fn of(worker: &Rc<Worker>, group: &Arc<Group>) -> Rc<Local> {
        let locals = worker.local::<Locals>();
        let mut all = locals.0.borrow_mut();
        if let Some(known) = all.get(&group.number) {
            return known.clone();
        }
        // Groups that nobody uses any more are forgotten when a new one is met.
        all.retain(|_, local| !local.group.is_over());
        let local = Rc::new(Local {
            worker: worker.clone(),
            group: group.clone(),
            version: Cell::new(0),
            members: RefCell::default(),
        });
        all.insert(group.number, local.clone());
        local
    }

    /// Takes a place for a request, if one is free and nobody waits for it: the lane that it goes to.
    pub fn place(&self) -> Option<Placed> {
        if self.group.queue.len() > 0 {
            return None;
        }
        self.refresh();
        let (process, seat) = {
            let members = self.members.borrow();
            let (member, seat) = choose(members.iter(), nanos())?;
            (member.process.clone(), seat)
        };
        if process.seat(seat).in_flight() > 1 && process.may_have_threads() {
            self.group.watch_stalls();
        }
        self.placed(Grant { process, seat })
    }

    /// The lane for a place that was granted. `None` if the process is gone; the place is given back then.
    pub fn placed(&self, grant: Grant) -> Option<Placed> {
        let place = Placed {
            local_group: self.group.clone(),
            mux: self.lane(&grant),
            grant: Some(grant),
        };
        place.mux.is_some().then_some(place)
    }

    fn lane(&self, grant: &Grant) -> Option<Rc<Mux>> {
        let mut members = self.members.borrow_mut();
        let number = grant.process.number;
        let found = members.iter().position(|m| m.process.number == number);
        let at = found.unwrap_or_else(|| {
            members.push(Member {
                process: grant.process.clone(),
                lanes: Vec::new(),
            });
            members.len() - 1
        });
        let lanes = &mut members[at].lanes;
        if lanes.len() <= grant.seat {
            lanes.resize(grant.seat + 1, None);
        }
        if let Some(mux) = &lanes[grant.seat] {
            return Some(mux.clone()).filter(|mux| !mux.is_over());
        }
        let end = grant.process.seat(grant.seat).take_end(self.worker.index)?;
        let mux = Mux::new(&self.worker, &self.group, &grant.process, grant.seat);
        let mux = Rc::new(mux);
        drive::start(&mux, end).ok()?;
        lanes[grant.seat] = Some(mux.clone());
        Some(mux)
    }

    /// Takes over the current members of the group; those that drain stay until they are gone.
    fn refresh(&self) {
        let version = self.group.version();
        if self.version.replace(version) == version {
            return;
        }
        let mut members = self.members.borrow_mut();
        members.retain(|member| member.process.state() != ProcessState::Dead);
        for process in self.group.members().iter() {
            if !members.iter().any(|m| m.process.number == process.number) {
                members.push(Member {
                    process: process.clone(),
                    lanes: Vec::new(),
                });
            }
        }
    }
}

/// A place for a request, with its lane. Dropping it gives the place back.
pub(crate) struct Placed {
    local_group: Arc<Group>,
    mux: Option<Rc<Mux>>,
    grant: Option<Grant>,
}

impl Placed {
    /// The lane.
    pub fn mux(&self) -> Option<&Rc<Mux>> {
        self.mux.as_ref()
    }

    /// A request was opened: the lane gives the place back when it has ended.
    pub fn keep(mut self) -> Option<Rc<Mux>> {
        self.grant = None;
        self.mux.take()
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        if let Some(grant) = &self.grant {
            self.local_group
                .release(&grant.process, grant.seat, 1, Counted::No);
        }
    }
}
