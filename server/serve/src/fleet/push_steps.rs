//! The steps of a push.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use sluice_store::{Fault, Guard, Key, Lease, Store, StoreError, Watch, Write};

use super::layout::{Canary, Layout, checked_key};
use super::proposal::{Checked, NodeVerdict, Proposal, PushError, PushOutcome, Stage, Verdict};
use super::revision::Revision;
use super::view::{Fleet, NodeState, NodeView, revision_of};
use crate::limits::{HISTORY_MAX, PUSH_LOOK, VERDICT_GRACE};

pub(super) struct Steps<'a> {
    store: &'a dyn Store,
    layout: &'a Layout,
    revision: Revision,
    proposal: &'a Proposal,
    progress: &'a mut dyn FnMut(Stage, &[NodeVerdict]),
    stage: Stage,
    /// The attempts of each process before the push: what it refused in an earlier one does not count.
    attempts: BTreeMap<String, (String, u64)>,
    rows: BTreeMap<String, NodeVerdict>,
    began: Instant,
    watch: Option<Box<dyn Watch>>,
}

/// Why a stage failed.
type Why = String;

impl<'a> Steps<'a> {
    pub fn new(
        store: &'a dyn Store,
        layout: &'a Layout,
        revision: Revision,
        proposal: &'a Proposal,
        progress: &'a mut dyn FnMut(Stage, &[NodeVerdict]),
    ) -> Steps<'a> {
        Steps {
            store,
            layout,
            revision,
            proposal,
            progress,
            stage: Stage::All,
            attempts: BTreeMap::new(),
            rows: BTreeMap::new(),
            began: Instant::now(),
            watch: None,
        }
    }

    /// The verdicts so far.
    pub fn verdicts(&self) -> Vec<NodeVerdict> {
        self.rows.values().cloned().collect()
    }

    /// Remembers what nodes have tried before.
    pub fn remember(&mut self) -> Result<(), StoreError> {
        let fleet = Fleet::read(self.store, self.layout)?;
        let reports = fleet.nodes.into_iter().filter_map(|node| node.report);
        self.attempts = reports
            .map(|report| (report.node, (report.instance, report.attempts)))
            .collect();
        Ok(())
    }

    /// Adds the text to the history, and the one in effect if somebody wrote it in another way. Returns its key.
    pub fn add_to_history(&self, checked: &Checked) -> Result<Key, StoreError> {
        let history = self.layout.history(self.store)?;
        let now = SystemTime::now();
        let key = |revision: &Revision, at| checked_key(self.layout.past(revision, at), self.store);
        if let (Some(text), Some(revision)) = (&checked.text, &checked.revision)
            && !history.iter().any(|past| past.revision == *revision)
        {
            let before = key(revision, now - Duration::from_millis(1))?;
            self.store
                .save(&[Write::Put(&before, text.as_bytes())], Guard::Always)?;
        }
        let past = key(&self.revision, now)?;
        self.store.save(
            &[Write::Put(&past, self.proposal.text.as_bytes())],
            Guard::Always,
        )?;
        Ok(past)
    }

    /// All stages.
    pub fn run(
        &mut self,
        checked: &Checked,
        lease: &Lease,
        past: &Key,
    ) -> Result<PushOutcome, PushError> {
        let fleet = &checked.fleet;
        let living: Vec<String> = fleet.living().map(|node| node.node.clone()).collect();
        if let Some(share) = self.proposal.canary {
            let all = living.len();
            let nodes = share.of(living);
            if !nodes.is_empty() && nodes.len() < all {
                let outcome = self.run_canary(checked, lease, past, nodes)?;
                if outcome != PushOutcome::Done {
                    return Ok(outcome);
                }
            }
        }
        self.run_all(checked, past)
    }

    fn run_canary(
        &mut self,
        checked: &Checked,
        lease: &Lease,
        past: &Key,
        nodes: Vec<String>,
    ) -> Result<PushOutcome, PushError> {
        let canary = Canary {
            revision: self.revision.clone(),
            text: past.to_string(),
            nodes: nodes.clone(),
        };
        let json = serde_json::to_vec(&canary).unwrap_or_default();
        self.begin(Stage::Canary);
        self.check_unchanged(checked, past)?;
        let write = [Write::Put(&self.layout.canary, &json)];
        let written = self.store.save(&write, Guard::Held(lease.fence()));
        self.unless_written(written, past)?;
        let Err(why) = self.judge(Some(&nodes)) else {
            return Ok(PushOutcome::Done);
        };
        let delete = [Write::Delete(&self.layout.canary)];
        match self.store.save(&delete, Guard::Held(lease.fence())) {
            Ok(()) => Ok(PushOutcome::RolledBack {
                stage: Stage::Canary,
                why,
                is_restored: self.await_return(checked.revision.as_ref()),
            }),
            Err(error) => Ok(PushOutcome::Stuck {
                why,
                problem: error.to_string(),
            }),
        }
    }

    fn run_all(&mut self, checked: &Checked, past: &Key) -> Result<PushOutcome, PushError> {
        self.begin(Stage::All);
        let text = Write::Put(&self.layout.text, self.proposal.text.as_bytes());
        let guard = Guard::Unchanged(&self.layout.text, checked.version.as_ref());
        let written = self
            .store
            .save(&[text, Write::Delete(&self.layout.canary)], guard);
        let written = written.or_else(|error| self.unless_done(error));
        if written.is_err() {
            // The canary must not run on what the others do not get.
            let _ = self
                .store
                .save(&[Write::Delete(&self.layout.canary)], Guard::Always);
        }
        self.unless_written(written, past)?;
        match self.judge(None) {
            Ok(()) => Ok(PushOutcome::Done),
            Err(why) => Ok(match self.roll_back(checked) {
                Ok(()) => PushOutcome::RolledBack {
                    stage: Stage::All,
                    why,
                    is_restored: self.await_return(checked.revision.as_ref()),
                },
                Err(problem) => PushOutcome::Stuck { why, problem },
            }),
        }
    }

    /// Refuses to go on if somebody else has changed the text.
    fn check_unchanged(&self, checked: &Checked, past: &Key) -> Result<(), PushError> {
        let value = self.store.load(&[&self.layout.text])?.pop().flatten();
        let version = value.as_ref().map(|value| &value.version);
        if version == checked.version.as_ref() {
            return Ok(());
        }
        self.forget(past);
        Err(PushError::Changed(value.as_ref().map(revision_of)))
    }

    /// The error of a write that decides the push.
    fn unless_written(&self, written: Result<(), StoreError>, past: &Key) -> Result<(), PushError> {
        let Err(error) = written else { return Ok(()) };
        self.forget(past);
        if error.fault != Fault::Refused {
            return Err(error.into());
        }
        let value = self.store.load(&[&self.layout.text])?.pop().flatten();
        Err(PushError::Changed(value.as_ref().map(revision_of)))
    }

    /// No error if the write was made after all, and only its response was lost.
    fn unless_done(&self, error: StoreError) -> Result<(), StoreError> {
        if error.fault == Fault::Refused {
            return Err(error);
        }
        let value = self.store.load(&[&self.layout.text])?.pop().flatten();
        match value.is_some_and(|value| revision_of(&value) == self.revision) {
            true => Ok(()),
            false => Err(error),
        }
    }

    /// Writes the text before, if ours is still in effect.
    fn roll_back(&self, checked: &Checked) -> Result<(), String> {
        let load = || Ok::<_, StoreError>(self.store.load(&[&self.layout.text])?.pop().flatten());
        let value = load().map_err(|error| error.to_string())?;
        let Some(value) = value.filter(|value| revision_of(value) == self.revision) else {
            return Err("somebody else has changed the configuration since".to_owned());
        };
        let guard = Guard::Unchanged(&self.layout.text, Some(&value.version));
        let write = match &checked.text {
            Some(text) => Write::Put(&self.layout.text, text.as_bytes()),
            None => Write::Delete(&self.layout.text),
        };
        self.store
            .save(&[write], guard)
            .map_err(|error| error.to_string())
    }

    fn begin(&mut self, stage: Stage) {
        self.stage = stage;
        self.began = Instant::now();
        self.report();
    }

    fn report(&mut self) {
        let rows = self.verdicts();
        (self.progress)(self.stage, &rows);
    }

    /// Waits for the verdicts of these nodes, or of all, and observes their error rates.
    fn judge(&mut self, chosen: Option<&[String]>) -> Result<(), Why> {
        let deadline = Instant::now() + self.proposal.timeout;
        let mut refused_at = None;
        let mut taken_at = None;
        loop {
            let before = self.verdicts();
            if let Err(error) = self.look(chosen) {
                if Instant::now() >= deadline {
                    return Err(error.to_string());
                }
                // It may come back in time.
                thread::sleep(PUSH_LOOK);
                continue;
            }
            if before != self.verdicts() {
                self.report();
            }
            let now = Instant::now();
            let is_waiting = self
                .rows
                .values()
                .any(|row| row.verdict == Verdict::Waiting);
            if let Some(why) = self.problem() {
                // The others get a moment, so that all that is wrong is shown at once.
                let since = *refused_at.get_or_insert(now);
                if !is_waiting || now >= deadline || now.duration_since(since) > VERDICT_GRACE {
                    return Err(why);
                }
            } else if is_waiting && now >= deadline {
                self.silence();
                self.report();
                return Err(self.problem().unwrap_or_default());
            } else if !is_waiting {
                let since = *taken_at.get_or_insert(now);
                // Errors need traffic, and traffic needs nodes.
                if self.rows.is_empty() || now.duration_since(since) >= self.proposal.observe {
                    return Ok(());
                }
            }
            self.pause();
        }
    }

    /// Waits for a change of a report.
    fn pause(&mut self) {
        let Some(watch) = &mut self.watch else {
            match self.store.watch(self.layout.nodes()) {
                // It does not report what was written before it: the caller has to look again.
                Ok(watch) => self.watch = Some(watch),
                Err(_) => thread::sleep(PUSH_LOOK),
            }
            return;
        };
        if watch.next(PUSH_LOOK).is_err() {
            self.watch = None;
            thread::sleep(PUSH_LOOK);
        }
    }

    /// Reads the verdicts of all nodes on the text in effect.
    pub fn look_once(&mut self) -> Result<(), StoreError> {
        self.look(None)
    }

    fn look(&mut self, chosen: Option<&[String]>) -> Result<(), StoreError> {
        let fleet = Fleet::read(self.store, self.layout)?;
        let after = self.began.elapsed().as_millis() as f64 / 1000.0;
        for node in &fleet.nodes {
            let is_chosen = chosen.is_none_or(|chosen| chosen.contains(&node.node));
            let is_known = self.rows.contains_key(&node.node);
            if !is_chosen || node.state == NodeState::Gone && !is_known {
                continue;
            }
            let (verdict, error) = self.verdict(node);
            let row = self
                .rows
                .entry(node.node.clone())
                .or_insert_with(|| NodeVerdict {
                    node: node.node.clone(),
                    verdict: Verdict::Waiting,
                    seconds: None,
                    error: None,
                });
            if row.verdict != verdict {
                row.seconds = (verdict != Verdict::Waiting).then_some(after);
                (row.verdict, row.error) = (verdict, error);
            }
        }
        // A node that stops removes its report.
        let names: Vec<&String> = fleet.nodes.iter().map(|node| &node.node).collect();
        self.rows.retain(|name, _| names.contains(&name));
        Ok(())
    }

    fn verdict(&self, node: &NodeView) -> (Verdict, Option<String>) {
        let Some(report) = node.report.as_ref().filter(|_| node.state.is_alive()) else {
            return match node.state {
                NodeState::Gone => (Verdict::Gone, None),
                NodeState::InSync
                | NodeState::Behind
                | NodeState::Refuses
                | NodeState::Starting => (Verdict::Waiting, None),
            };
        };
        if report.runs(&self.revision) {
            if report.recent.is_jump_since(&report.before) {
                let share = |share: Option<f64>| share.unwrap_or_default() * 100.0;
                let (now, was) = (report.recent.error_share(), report.before.error_share());
                let errors = report.recent.errors;
                let what = format!(
                    "{:.1}% of its requests failed ({errors} errors), {:.1}% before",
                    share(now),
                    share(was)
                );
                return (Verdict::ErrorsRose, Some(what));
            }
            return (Verdict::Took, None);
        }
        let tried = (report.instance.clone(), report.attempts);
        let is_new = self.attempts.get(&report.node) != Some(&tried);
        match &report.refused {
            Some(refused) if refused.revision == self.revision && is_new => {
                (Verdict::Refused, Some(refused.error.clone()))
            }
            Some(_) | None => (Verdict::Waiting, None),
        }
    }

    /// Nodes without a verdict have none in time.
    fn silence(&mut self) {
        let waiting = self
            .rows
            .values_mut()
            .filter(|row| row.verdict == Verdict::Waiting);
        waiting.for_each(|row| row.verdict = Verdict::Silent);
    }

    /// Why the text cannot stay.
    fn problem(&self) -> Option<Why> {
        let count = |verdict| {
            self.rows
                .values()
                .filter(|row| row.verdict == verdict)
                .count()
        };
        let reasons = [
            (Verdict::Refused, "refused it"),
            (Verdict::ErrorsRose, "had more errors with it"),
            (Verdict::Gone, "died meanwhile"),
            (Verdict::Silent, "gave no verdict in time"),
        ];
        let all = self.rows.len();
        let found = reasons.into_iter().filter_map(|(verdict, what)| {
            let count = count(verdict);
            (count > 0).then(|| format!("{count} of {all} nodes {what}"))
        });
        let found: Vec<String> = found.collect();
        (!found.is_empty()).then(|| found.join(", "))
    }

    /// Waits until all nodes run the revision before; whether they do.
    fn await_return(&mut self, previous: Option<&Revision>) -> bool {
        let deadline = Instant::now() + self.proposal.timeout;
        let rows = self.verdicts();
        (self.progress)(Stage::RollBack, &rows);
        // Without a text before they keep what they had, whatever that is.
        let Some(previous) = previous else {
            return true;
        };
        loop {
            let is_back = Fleet::read(self.store, self.layout).is_ok_and(|fleet| {
                let mut reports = fleet.living().filter_map(|node| node.report.as_ref());
                reports.all(|report| !report.runs(&self.revision) || report.runs(previous))
            });
            if is_back || Instant::now() >= deadline {
                return is_back;
            }
            self.pause();
        }
    }

    /// Removes what is no longer needed from the history; failures leave too much of it.
    pub fn tidy(&self, past: &Key, is_done: bool) {
        if !is_done {
            return self.forget(past);
        }
        let Ok(history) = self.layout.history(self.store) else {
            return;
        };
        // A text that is pushed again is there twice.
        let is_double = |key: &Key, revision: &Revision| *revision == self.revision && key != past;
        let double = history
            .iter()
            .filter(|past| is_double(&past.key, &past.revision));
        let double: Vec<&Key> = double.map(|past| &past.key).collect();
        let rest = history
            .iter()
            .map(|past| &past.key)
            .filter(|key| !double.contains(key));
        let rest: Vec<&Key> = rest.collect();
        let old = &rest[..rest.len().saturating_sub(HISTORY_MAX)];
        double.iter().chain(old).for_each(|key| self.forget(key));
    }

    fn forget(&self, past: &Key) {
        let _ = self.store.save(&[Write::Delete(past)], Guard::Always);
    }
}
