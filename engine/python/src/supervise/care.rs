//! What a supervisor looks after while processes run: those that have finished draining, that hang, that have served
//! long enough, or whose threads hold others up.

use sluice_message::Moment;

use super::Supervisor;
use super::child::Child;
use crate::failure::Death;
use crate::limits;
use crate::notice::{Fact, Level};
use crate::process::{Greeting, nanos};
use crate::seat::Seat;
use crate::snapshot::ProcessState;

/// What to do with a process that has requests which took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hanging {
    /// Nothing yet.
    Watch,
    /// It has just begun.
    Dump,
    /// It does not react.
    Replace,
    /// Only hanging requests are left.
    Kill,
}

impl Supervisor {
    pub(super) fn look_after(&mut self, now: Moment) {
        let numbers: Vec<u64> = self.children.keys().copied().collect();
        for number in numbers {
            self.look_at_drain(number, now);
            self.look_at_lanes(number, now);
            self.look_at_hang(number, now);
            self.look_at_age(number, now);
        }
        self.look_at_memory(now);
        self.look_at_stalls();
    }

    /// A draining process without requests may exit.
    fn look_at_drain(&mut self, number: u64, now: Moment) {
        let Some(child) = self.children.get(&number) else {
            return;
        };
        if child.is_draining() && child.process.in_flight() == 0 {
            self.roster.drained(number, now);
        }
    }

    /// A process that has lost a lane ends; one that does not has closed it, and cannot be used any more.
    fn look_at_lanes(&mut self, number: u64, now: Moment) {
        let Some(child) = self.children.get_mut(&number) else {
            return;
        };
        let is_lost = child.process.state() == ProcessState::Dead;
        if !is_lost || !(child.is_serving() || child.is_draining()) {
            return;
        }
        let since = *child.lost_since.get_or_insert(now);
        if now.since(since) >= limits::LOST_TIMEOUT || child.process.death() == Death::Protocol {
            let message =
                "a Python worker has closed a lane, or violated the protocol: it is killed";
            self.group
                .report_of(Some(&child.process), Level::Error, message, &[]);
            self.group.note_restart(&child.process);
            self.kill(number, Death::Protocol);
        }
    }

    fn look_at_hang(&mut self, number: u64, now: Moment) {
        let Some(child) = self.children.get_mut(&number) else {
            return;
        };
        match hanging(child, now) {
            Hanging::Watch => {}
            Hanging::Dump => {
                let facts = [("requests", Fact::Number(child.process.overdue() as u64))];
                let message = "a request has taken longer than request_timeout: the stacks of the worker follow";
                self.group
                    .report_of(Some(&child.process), Level::Error, message, &facts);
                child.dump();
            }
            Hanging::Replace => {
                child.dump_by_signal();
                let message = "the worker hangs and is replaced";
                self.group
                    .report_of(Some(&child.process), Level::Error, message, &[]);
                self.group.note_restart(&child.process);
                self.roster.hung(number, now);
            }
            Hanging::Kill => {
                let message = "the hanging worker is killed";
                self.group
                    .report_of(Some(&child.process), Level::Error, message, &[]);
                self.kill(number, Death::RequestTimeout);
            }
        }
    }

    /// A process that has handled as many requests as it may is replaced.
    fn look_at_age(&mut self, number: u64, now: Moment) {
        let is_used_up = |child: &Child| child.is_serving() && child.process.is_used_up();
        if self.children.get(&number).is_some_and(is_used_up) {
            self.recycle(number, now, "max_requests");
        }
    }

    fn recycle(&mut self, number: u64, now: Moment, why: &str) {
        if self.roster.recycle(number, now)
            && let Some(child) = self.children.get(&number)
        {
            let recycled = &self.group.counters.recycled;
            recycled.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let facts = [("limit", Fact::Text(why.to_owned()))];
            let message = "a Python worker has reached its limit and is replaced";
            self.group
                .report_of(Some(&child.process), Level::Info, message, &facts);
        }
    }

    /// A process that has grown too large is replaced.
    fn look_at_memory(&mut self, now: Moment) {
        let Some(max) = self.group.settings.max_rss else {
            return;
        };
        if now.since(self.rss_at) < limits::RSS_INTERVAL {
            return;
        }
        self.rss_at = now;
        let is_large = |child: &Child| child.is_serving() && child.process.rss() > max;
        let large = self.children.iter().filter(|(_, child)| is_large(child));
        let numbers: Vec<u64> = large.map(|(number, _)| *number).collect();
        for number in numbers {
            self.recycle(number, now, "max_rss");
        }
    }

    /// Gives a process whose requests wait as many threads as help it.
    fn look_at_stalls(&mut self) {
        if !self.group.is_watching() {
            return;
        }
        let now = nanos();
        let mut is_needed = false;
        let mut lacking = Vec::new();
        for (number, child) in &mut self.children {
            let process = child.process.clone();
            let waits = |seat: &Seat| seat.in_flight() > 1;
            let do_wait = self.group.queue.len() > 0 || process.open_seats().iter().any(waits);
            if !do_wait || !child.is_serving() || !process.may_have_threads() {
                continue;
            }
            is_needed = true;
            child.allow_threads(now);
            if process.lacks_seat(now) {
                lacking.extend(process.next_seat().map(|seat| (*number, seat)));
            }
        }
        for (number, seat) in lacking {
            if let Some(child) = self.children.get(&number) {
                self.open_seat(child, seat);
            }
        }
        // Threads may have become available by their number, or because others are stalled.
        self.group.serve_queue();
        if !is_needed {
            self.group.stop_watching();
            // One that came in between has seen the flag set.
            if self.group.queue.len() > 0 {
                self.group.watch_stalls();
            }
        }
    }
}

fn hanging(child: &mut Child, now: Moment) -> Hanging {
    let process = &child.process;
    let overdue = process.overdue();
    if overdue == 0 || !(child.is_serving() || child.is_draining()) {
        child.overdue_since = None;
        return Hanging::Watch;
    }
    let Some(since) = child.overdue_since else {
        child.overdue_since = Some(now);
        return Hanging::Dump;
    };
    let has_threads = process.greeting().is_some_and(Greeting::has_threads);
    // The event loop may still cancel the request; a thread cannot be stopped.
    let limit = match has_threads {
        true => limits::DUMP_TIMEOUT,
        false => limits::CANCEL_TIMEOUT,
    };
    match (child.is_serving(), now.since(since) >= limit) {
        (_, false) => Hanging::Watch,
        (true, true) => Hanging::Replace,
        (false, true) if process.in_flight() <= overdue => Hanging::Kill,
        (false, true) => Hanging::Watch,
    }
}
