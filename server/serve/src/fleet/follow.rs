//! A node follows the source of its configuration: it reads the text when that changes, offers it to the server, and
//! reports the outcome.
//!
//! One thread does all of this; beside it, one thread per watched key waits for changes. A source that is away changes
//! nothing: the server goes on with what it has.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use sluice_observe::log::Log;
use sluice_store::{Fault, StoreError};

use super::report::{Facts, NodeReport, Ran, Refusal, seconds};
use super::reporter::Reporter;
use super::revision::Revision;
use super::seen::Seen;
use super::source::Source;
use super::standing::FollowerStanding;
use super::traffic::{Samples, Traffic};
use super::view::Fleet;
use super::wakes::{Leaving, Offered, Offering, Outcome, Reply, Wake};
use super::watcher::{self, Gate};
use crate::limits::{
    LEAVE_WAIT, REFUSED_PAUSE_MAX, REPORTED_ERROR_BYTES_MAX, RETRY_PAUSE_MAX, RETRY_PAUSE_MIN,
    WAKES_MAX,
};

/// A node of a fleet.
pub struct Node {
    /// The URL of its source, without secrets.
    pub place: String,
    /// Its name, which no other node has.
    pub name: String,
    /// The version of sluice.
    pub version: &'static str,
    /// The revision that it runs.
    pub running: Option<Revision>,
    /// The text that it has refused before it started to follow, and why.
    pub refused: Option<(Revision, String)>,
    /// Its counters.
    pub traffic: Box<dyn Fn() -> Traffic + Send>,
    /// Its certificates and locks.
    pub facts: Box<dyn Fn() -> Facts + Send>,
    /// Its log.
    pub log: Log,
}

/// Follows a source until it leaves.
#[derive(Debug)]
pub struct Follower {
    wakes: SyncSender<Wake>,
    left: Receiver<()>,
    standing: Arc<FollowerStanding>,
}

impl Follower {
    /// Starts to follow.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(source: Source, node: Node, offering: Offering) -> io::Result<Follower> {
        let (wakes, awaited) = sync_channel(WAKES_MAX);
        let (leaving, left) = sync_channel(1);
        let standing = Arc::<FollowerStanding>::default();
        let gate = Arc::<Gate>::default();
        if let Source::Store(store, layout) = &source {
            for key in [&layout.text, &layout.canary] {
                watcher::start(store.clone(), key.clone(), gate.clone(), wakes.clone())?;
            }
        }
        let mut following = Following::new(source, node, offering);
        (following.standing, following.gate) = (standing.clone(), gate);
        following.wakes = Some(wakes.clone());
        let work = move || {
            following.work(&awaited);
            let _ = leaving.send(());
        };
        thread::Builder::new().name("fleet".into()).spawn(work)?;
        Ok(Follower {
            wakes,
            left,
            standing,
        })
    }

    /// Reads the source now and tries its text again, even if it was refused or is in use.
    pub fn retry(&self) {
        // If the queue is full, it is about to be read anyway.
        let _ = self.wakes.try_send(Wake::Retry);
    }

    /// The state of the source.
    pub fn standing(&self) -> Arc<FollowerStanding> {
        self.standing.clone()
    }

    /// Ends it, and waits a moment for its last report.
    pub fn leave(&self, how: Leaving) {
        if self.wakes.try_send(Wake::Leave(how)).is_ok() {
            // A store that is away must not delay the end.
            let _ = self.left.recv_timeout(LEAVE_WAIT);
        }
    }
}

/// Why a source has no text for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Fault(Fault),
    Missing,
}

/// The thread of a follower.
struct Following {
    source: Source,
    place: String,
    log: Log,
    traffic: Box<dyn Fn() -> Traffic + Send>,
    facts: Box<dyn Fn() -> Facts + Send>,
    offering: Offering,
    standing: Arc<FollowerStanding>,
    gate: Arc<Gate>,
    wakes: Option<SyncSender<Wake>>,
    samples: Samples,
    report: NodeReport,
    reporter: Reporter,
    /// The revision that was offered last, so that it is not offered twice.
    tried: Option<Revision>,
    /// Offer the next text that is read in any case.
    is_forced: bool,
    is_offered: bool,
    trouble: Option<(Trouble, Instant)>,
    pause: Duration,
    next_look: Instant,
}

impl Following {
    fn new(source: Source, node: Node, offering: Offering) -> Following {
        let now = Instant::now();
        let at = seconds(SystemTime::now());
        let refused = node.refused.map(|(revision, error)| Refusal {
            revision,
            at,
            error,
        });
        let report = NodeReport {
            instance: format!("{}-{}", std::process::id(), (at * 1000.0) as u64),
            version: node.version.to_owned(),
            running: node.running.map(|revision| Ran { revision, at }),
            attempts: u64::from(refused.is_some()),
            refused,
            node: node.name,
            ..NodeReport::default()
        };
        let tried = report
            .refused
            .as_ref()
            .map(|refused| refused.revision.clone());
        Following {
            reporter: Reporter::new(&source, &report.node, node.log.clone()),
            source,
            place: node.place,
            log: node.log,
            samples: Samples::new(now, (node.traffic)()),
            traffic: node.traffic,
            facts: node.facts,
            offering,
            standing: Arc::default(),
            gate: Arc::default(),
            wakes: None,
            report,
            tried,
            is_forced: false,
            is_offered: false,
            trouble: None,
            pause: RETRY_PAUSE_MIN,
            next_look: now,
        }
    }

    fn work(&mut self, wakes: &Receiver<Wake>) {
        self.show();
        loop {
            let now = Instant::now();
            self.samples.sample(now, (self.traffic)());
            if now >= self.next_look {
                self.look();
            }
            if self
                .trouble
                .is_none_or(|(trouble, _)| trouble == Trouble::Missing)
            {
                self.send_report(Instant::now());
                self.read_fleet();
            }
            let next = self.next_look.saturating_duration_since(Instant::now());
            match wakes.recv_timeout(next.min(Duration::from_secs(1))) {
                Ok(Wake::Look) => {
                    self.gate.seen();
                    self.look();
                }
                Ok(Wake::Retry) => {
                    self.is_forced = true;
                    self.look();
                }
                Ok(Wake::Outcome(revision, outcome)) => self.conclude(revision, outcome),
                Ok(Wake::Leave(how)) => {
                    self.gate.end();
                    return self.reporter.leave(how);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Reads the whole fleet, while somebody looks at it. What was read before stays if that fails.
    fn read_fleet(&self) {
        if let Source::Store(store, layout) = &self.source
            && self.standing.begin_read(Instant::now())
            && let Ok(fleet) = Fleet::read(&**store, layout)
        {
            let at = seconds(SystemTime::now());
            self.standing.show_fleet(fleet, at);
        }
    }

    /// Reads the source.
    fn look(&mut self) {
        let began = Instant::now();
        let found = self.source.read(Some(&self.report.node));
        if found.is_ok() {
            self.report.store_seconds = Some(began.elapsed().as_micros() as f64 / 1e6);
        }
        match found {
            // A member without a quorum may have an older text than this node runs.
            Ok(Some(seen)) if seen.is_stale => {
                let what = "no quorum confirms the configuration";
                self.fail(&StoreError::new(Fault::Away, &self.place, what));
            }
            Ok(Some(seen)) => {
                self.settle();
                self.next_look = Instant::now() + seen.again;
                self.consider(seen);
            }
            Ok(None) => {
                // Somebody may have deleted it by mistake: what runs goes on.
                self.next_look = Instant::now() + crate::limits::REPORT_PERIOD;
                self.gate.open();
                let what = "the place has no configuration";
                self.suffer(Trouble::Missing, what);
            }
            Err(error) => self.fail(&error),
        }
    }

    fn consider(&mut self, seen: Seen) {
        let is_running = self.report.runs(&seen.revision);
        {
            let mut standing = self.standing.edit();
            standing.offered = Some(seen.revision.to_string());
            let since = standing.behind_since.take().or(Some(seen.modified));
            standing.behind_since = since.filter(|_| !is_running);
        }
        if self.is_offered {
            return;
        }
        let is_forced = std::mem::take(&mut self.is_forced);
        if is_running && !is_forced {
            self.tried = Some(seen.revision);
            if self.report.refused.take().is_some() {
                self.reporter.hurry();
                self.show();
            }
            return;
        }
        if self.tried.as_ref() == Some(&seen.revision) && !is_forced {
            return;
        }
        let Some(wakes) = self.wakes.clone() else {
            return;
        };
        self.tried = Some(seen.revision.clone());
        self.is_offered = true;
        self.report.attempts += 1;
        let reply = Reply::new(wakes, seen.revision.clone());
        let offered = Offered {
            text: seen.text,
            revision: seen.revision,
        };
        (self.offering)(offered, reply);
    }

    fn conclude(&mut self, revision: Revision, outcome: Outcome) {
        self.is_offered = false;
        let at = seconds(SystemTime::now());
        match outcome {
            Outcome::Applied => {
                self.samples.change(Instant::now(), (self.traffic)());
                self.report.running = Some(Ran { revision, at });
                self.report.refused = None;
                let mut standing = self.standing.edit();
                standing.applied += 1;
                standing.behind_since = None;
            }
            Outcome::Refused(mut error) => {
                error.truncate(error.floor_char_boundary(REPORTED_ERROR_BYTES_MAX));
                self.report.refused = Some(Refusal {
                    revision,
                    at,
                    error,
                });
                self.standing.edit().refused += 1;
            }
            Outcome::Deferred => {
                self.tried = None;
                self.next_look = Instant::now() + RETRY_PAUSE_MAX;
                return;
            }
        }
        self.reporter.hurry();
        self.show();
        // It may have changed meanwhile; the verdict is reported before that is read.
        self.send_report(Instant::now());
        self.look();
    }

    fn send_report(&mut self, now: Instant) {
        let is_fresh = self.samples.is_fresh(now) && self.report.attempts > 0;
        if !self.reporter.is_due(now, is_fresh) {
            return;
        }
        self.report.at = seconds(SystemTime::now());
        let facts = (self.facts)();
        (self.report.certificates, self.report.locks) = (facts.certificates, facts.locks);
        self.report.before = self.samples.before();
        self.report.recent = self.samples.recent(now, (self.traffic)());
        match self.reporter.send(&self.report, now) {
            Ok(()) => {}
            Err(error) => self.fail(&error),
        }
    }

    /// The source has responded.
    fn settle(&mut self) {
        self.gate.open();
        self.pause = RETRY_PAUSE_MIN;
        if let Some((trouble, since)) = self.trouble.take() {
            let message = match trouble {
                Trouble::Fault(_) => "the configuration source responds again",
                Trouble::Missing => "the configuration source has a configuration again",
            };
            let entry = self.log.info("config", message);
            entry
                .text("source", &self.place)
                .duration("after", since.elapsed())
                .send();
            self.reporter.hurry();
        }
        let mut standing = self.standing.edit();
        standing.is_reachable = true;
        standing.last_contact = Some(SystemTime::now());
        standing.error = None;
    }

    fn fail(&mut self, error: &StoreError) {
        self.gate.close();
        let max = match error.fault {
            Fault::Credentials | Fault::Setting => REFUSED_PAUSE_MAX,
            Fault::Away
            | Fault::ReadOnly
            | Fault::Refused
            | Fault::Held
            | Fault::Foreign
            | Fault::System
            | Fault::Limit => RETRY_PAUSE_MAX,
        };
        self.next_look = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(max);
        self.suffer(Trouble::Fault(error.fault), &error.what);
    }

    /// Logs a trouble when it begins.
    fn suffer(&mut self, trouble: Trouble, what: &str) {
        let is_known = self.trouble.is_some_and(|(known, _)| known == trouble);
        {
            let mut standing = self.standing.edit();
            standing.failures += 1;
            standing.is_reachable = trouble == Trouble::Missing;
            standing.error = Some(what.to_owned());
        }
        if is_known {
            return;
        }
        let since = self.trouble.map_or_else(Instant::now, |(_, since)| since);
        self.trouble = Some((trouble, since));
        let message = match trouble {
            Trouble::Fault(Fault::Credentials) => {
                "the configuration source refuses the credentials; the configuration stays as it is"
            }
            Trouble::Missing => {
                "the configuration source has no configuration; the one in use stays"
            }
            Trouble::Fault(Fault::Foreign | Fault::Limit) => {
                "the configuration source has something unusable; the configuration stays as it is"
            }
            Trouble::Fault(_) => {
                "the configuration source does not respond; the configuration stays as it is"
            }
        };
        let entry = match trouble {
            Trouble::Fault(Fault::Away) => self.log.warn("config", message),
            Trouble::Fault(_) | Trouble::Missing => self.log.error("config", message),
        };
        entry.text("source", &self.place).text("error", what).send();
    }

    /// Shows the state of the node.
    fn show(&self) {
        let mut standing = self.standing.edit();
        standing.place.clone_from(&self.place);
        standing.node = self.report.node.clone();
        let revision = |ran: &Ran| ran.revision.to_string();
        standing.running = self.report.running.as_ref().map(revision);
        standing.refusal = self
            .report
            .refused
            .as_ref()
            .map(|refused| refused.error.clone());
    }
}
