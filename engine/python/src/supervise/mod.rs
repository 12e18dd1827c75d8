//! Supervises the processes of one group, on a thread of its own that lives as long as they do. `roster` decides which
//! processes exist; this carries its decisions out and reports to it what happens.

mod care;
mod child;
mod control;
mod ending;
mod inbox;
mod launch;
mod launched;
mod lines;
mod messages;
mod output;
mod preload;
mod roster;
mod script;
mod starter;
mod watch;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sluice_message::Moment;
use sluice_net::clock;
use sluice_net::sys::spawn::Ended;
use sluice_policy::Backoff;
use sluice_wire::python::Kind;
use tokio::task::LocalSet;

use crate::failure::{Death, StartFailure};
use crate::group::{Group, Order};
use crate::limits;
use crate::notice::{Fact, Level};
use crate::process::Process;
use crate::snapshot::{GroupState, ProcessState};

use child::Child;
use inbox::{Event, Inbox};
use roster::{Action, Roster, Rules};
use starter::Starter;
use watch::{Changes, Watch};

/// Supervises `group` until it was stopped and all of its processes have ended.
pub(crate) fn run(group: &Arc<Group>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => {
            let tasks = LocalSet::new();
            tasks.block_on(&runtime, Supervisor::new(group).run());
        }
        Err(error) => {
            let failure = StartFailure::at("spawn", format!("cannot start a runtime: {error}"));
            group.set_state(GroupState::Failed, Some(failure));
        }
    }
}

/// The supervisor of a group.
struct Supervisor {
    group: Arc<Group>,
    roster: Roster,
    /// The processes that have not ended, by number.
    children: BTreeMap<u64, Child>,
    inbox: Rc<Inbox>,
    /// For the processes of the current or next renewal.
    starter: Option<Rc<Starter>>,
    watch: Option<Watch>,
    watched_at: Moment,
    rss_at: Moment,
    /// The last failure to start.
    failure: Option<StartFailure>,
    was_ready: bool,
}

fn rules(group: &Group) -> Rules {
    let settings = &group.settings;
    Rules {
        workers: settings.workers,
        start_timeout: settings.start_timeout,
        drain_timeout: settings.drain_timeout,
        exit_timeout: limits::EXIT_TIMEOUT,
        hang_timeout: limits::HANG_TIMEOUT,
        failures_max: settings.failures_max.max(1),
        backoff: Backoff {
            first: limits::RESTART_DELAY,
            max: limits::RESTART_DELAY_MAX,
        },
        outage_max: limits::OUTAGE_MAX,
        stable_after: limits::STABLE_AFTER,
        draining_max: limits::DRAINING_MAX.max(settings.workers),
    }
}

impl Supervisor {
    fn new(group: &Arc<Group>) -> Supervisor {
        let settings = &group.settings;
        let folder = settings.working_dir.clone();
        let folder = folder.or_else(|| std::env::current_dir().ok());
        Supervisor {
            roster: Roster::new(rules(group), group.number),
            children: BTreeMap::new(),
            inbox: Rc::new(Inbox::new(group)),
            starter: None,
            watch: folder
                .filter(|_| settings.autoreload)
                .map(|folder| Watch::new(&folder)),
            watched_at: clock::now(),
            rss_at: clock::now(),
            failure: None,
            was_ready: false,
            group: group.clone(),
        }
    }

    async fn run(mut self) {
        self.renew(clock::now());
        loop {
            let now = clock::now();
            self.obey(now);
            self.heed_events(now);
            self.look_at_files(now);
            self.roster.expire(now);
            self.look_after(now);
            // What is done may lead to more: a process that is to drain may have nothing to finish.
            while self.act() {
                self.look_after(now);
            }
            if self.roster.is_done() && self.children.is_empty() {
                return;
            }
            let wait = self.next_look(now);
            // Whether it rang or not: everything is looked at.
            let _ = tokio::time::timeout(wait, self.group.bell.notified()).await;
        }
    }

    /// How long nothing has to be done unless the bell rings.
    fn next_look(&self, now: Moment) -> Duration {
        let mut wait = Duration::from_secs(3600);
        if let Some(deadline) = self.roster.deadline() {
            // A millisecond more, because timers are not more precise.
            wait = wait.min(deadline.since(now) + Duration::from_millis(1));
        }
        if self.watch.is_some() {
            wait = wait.min(limits::WATCH_INTERVAL);
        }
        if self.group.settings.max_rss.is_some() {
            wait = wait.min(limits::RSS_INTERVAL);
        }
        if self.group.is_watching() {
            wait = wait.min(limits::STALL_INTERVAL);
        }
        if self.children.values().any(Child::needs_care) {
            wait = wait.min(limits::CARE_INTERVAL);
        }
        wait
    }

    fn obey(&mut self, now: Moment) {
        while let Some(order) = self.group.take_order() {
            match order {
                Order::Reload => self.renew(now),
                Order::Stop(grace) => {
                    self.group.set_state(GroupState::Draining, None);
                    self.watch = None;
                    self.roster.stop(now, grace);
                }
            }
        }
    }

    /// Starts all processes anew, with what the interpreter is now.
    fn renew(&mut self, now: Moment) {
        self.starter = None;
        self.failure = None;
        if self.group.state() == GroupState::Failed {
            self.group.set_state(GroupState::Starting, None);
        }
        self.roster.renew(now);
    }

    fn look_at_files(&mut self, now: Moment) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        if now.since(self.watched_at) < limits::WATCH_INTERVAL {
            return;
        }
        self.watched_at = now;
        match watch.look() {
            Changes::None => {}
            Changes::Going(path) => {
                let facts = [("file", Fact::Text(path.display().to_string()))];
                let message = "a Python file has changed";
                self.group.report(Level::Info, message, &facts);
            }
            Changes::Settled => self.renew(now),
        }
    }

    fn heed_events(&mut self, now: Moment) {
        while let Some((number, event)) = self.inbox.pop() {
            match event {
                Event::Forked(launched, parent) => {
                    if let Some(child) = self.children.get_mut(&number)
                        && let Err(failure) =
                            child.run(launched, Some(parent), &self.group, &self.inbox)
                    {
                        child.failure = Some(failure);
                        self.inbox.push(number, Event::Ended(None));
                    }
                }
                Event::NotForked(failure) => {
                    if let Some(child) = self.children.get_mut(&number) {
                        child.failure = Some(failure);
                    }
                    self.inbox.push(number, Event::Ended(None));
                }
                Event::Ready(greeting) => {
                    if let Some(child) = self.children.get_mut(&number) {
                        child.note_ready(&self.group, greeting);
                        self.roster.ready(number, now);
                    }
                }
                Event::Failed(failure) => {
                    if let Some(child) = self.children.get_mut(&number) {
                        child.failure = Some(failure);
                    }
                }
                Event::Leaving => self.roster.leaving(number, now),
                Event::Ended(ended) => {
                    if let Some(child) = self.children.remove(&number) {
                        self.note_ended(child, ended);
                    }
                    self.roster.exited(number, now);
                }
            }
        }
    }

    /// A process has ended: reports that, and remembers why it could not start.
    fn note_ended(&mut self, child: Child, ended: Option<Ended>) {
        let process = &child.process;
        process.close_ends();
        if let Some(ended) = &ended {
            process.note_death(ending::death(ended, ending::oom_kills() > child.oom_kills));
        }
        process.set_state(ProcessState::Dead);
        let death = process.death();
        let counters = &self.group.counters;
        let requests = process.requests();
        counters
            .past_requests
            .fetch_add(requests, Ordering::Relaxed);
        let facts = ending::facts(death, ended.as_ref());
        if !child.is_ready() && !child.is_unwanted() {
            let failure = child.start_failure(death);
            self.report_failure(process, &failure);
            self.failure = Some(failure);
        } else if child.is_expected(death) {
            self.group
                .report_of(Some(process), Level::Info, "Python worker ended", &facts);
        } else {
            self.group.note_restart(process);
            let message = "Python worker ended unexpectedly";
            self.group
                .report_of(Some(process), Level::Error, message, &facts);
        }
        self.note_known();
    }

    fn report_failure(&self, process: &Process, failure: &StartFailure) {
        let mut facts = vec![
            ("stage", Fact::Text(failure.stage.clone())),
            ("error", Fact::Text(failure.message.clone())),
        ];
        let traceback = failure.traceback.clone();
        facts.extend(traceback.map(|text| ("traceback", Fact::Text(text))));
        let message = "Python worker could not start";
        self.group
            .report_of(Some(process), Level::Error, message, &facts);
    }

    /// Does what the roster has decided; returns whether there was anything.
    fn act(&mut self) -> bool {
        let mut has_acted = false;
        while let Some(action) = self.roster.next_action() {
            has_acted = true;
            match action {
                Action::Spawn { number, index } => self.spawn(number, index),
                Action::Publish(numbers) => self.publish(&numbers),
                Action::Drain(number) => {
                    if let Some(child) = self.children.get_mut(&number) {
                        child.drain();
                    }
                }
                Action::Dismiss(number) => {
                    if let Some(child) = self.children.get_mut(&number) {
                        child.dismiss();
                    }
                }
                Action::Kill(number, death) => {
                    if let Some(child) = self.children.get_mut(&number) {
                        child.kill(death);
                    }
                }
                Action::Renewed => self.note_renewed(),
                Action::NotRenewed => {
                    let message = "the new Python workers could not start; the old ones stay";
                    self.group.report(Level::Error, message, &[]);
                    if let Some(failure) = self.failure.take() {
                        self.group.note_failure(failure);
                    }
                }
                Action::GivenUp { index } => {
                    let facts = [("worker", Fact::Number(index as u64))];
                    let message = "a Python worker is given up: it could not start too often";
                    self.group.report(Level::Error, message, &facts);
                }
                Action::Failed => {
                    let failure = self.failure.clone();
                    let message = "the Python application has failed";
                    self.group.report(Level::Error, message, &[]);
                    self.group.set_state(GroupState::Failed, failure);
                }
            }
        }
        has_acted
    }

    fn note_renewed(&mut self) {
        let facts = [("workers", Fact::Number(self.group.settings.workers as u64))];
        let message = match self.was_ready {
            false => "Python application ready",
            true => "Python application reloaded",
        };
        if self.was_ready {
            let reloads = &self.group.counters.reloads;
            reloads.fetch_add(1, Ordering::Relaxed);
        }
        self.was_ready = true;
        self.group.report(Level::Info, message, &facts);
        self.group.set_state(GroupState::Ready, None);
        self.group.serve_queue();
    }

    fn publish(&mut self, numbers: &[u64]) {
        let serving = numbers
            .iter()
            .filter_map(|number| self.children.get(number));
        let serving: Vec<Arc<Process>> = serving.map(|child| child.process.clone()).collect();
        for process in &serving {
            if process.state() == ProcessState::Starting {
                process.set_state(ProcessState::Ready);
            }
        }
        self.group.publish(serving);
    }

    fn spawn(&mut self, number: u64, index: usize) {
        let settings = &self.group.settings;
        let quota = match settings.max_requests {
            None => u64::MAX,
            Some(least) => {
                let jitter = settings.max_requests_jitter.saturating_add(1);
                let mut random =
                    sluice_policy::random::Random::new(self.group.number << 32 | number);
                least.max(1).saturating_add(random.below(jitter))
            }
        };
        let process = Arc::new(Process::new(number, index, quota, settings));
        let started = self
            .starter()
            .and_then(|starter| Child::start(&starter, &self.group, &process, &self.inbox));
        let child = started.unwrap_or_else(|failure| {
            self.inbox.push(number, Event::Ended(None));
            Child::never_started(&process, failure)
        });
        self.children.insert(number, child);
        self.note_known();
    }

    fn starter(&mut self) -> Result<Rc<Starter>, StartFailure> {
        if let Some(starter) = &self.starter {
            return Ok(starter.clone());
        }
        let starter = Rc::new(Starter::new(&self.group)?);
        self.starter = Some(starter.clone());
        Ok(starter)
    }

    fn note_known(&self) {
        let all = self.children.values().map(|child| child.process.clone());
        self.group.note_known(all.collect());
    }

    /// Asks the roster to kill a process.
    fn kill(&mut self, number: u64, death: Death) {
        self.roster.kill(number, death);
    }

    /// Opens a further seat of a process; returns whether that succeeded.
    fn open_seat(&self, child: &Child, seat: usize) -> bool {
        let Ok(lanes) = launch::Lanes::new(self.group.workers) else {
            return false;
        };
        let Ok(number) = u16::try_from(seat) else {
            return false;
        };
        child.process.seat(seat).open(lanes.ours);
        let is_sent = child.send_descriptors(Kind::Seat, number, &lanes.theirs);
        if is_sent {
            child.process.note_opened();
        } else {
            child.process.seat(seat).close();
        }
        is_sent
    }
}
