//! The live view of a load: on a terminal a few lines redrawn in place, otherwise a plain line at intervals. It is
//! written to standard error; results go to standard output, and stay above the view.

mod frame;

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use self::frame::{Facts, Phase, frame};
use sluice_experiment::progress::Progress;
use sluice_load::generator::Stage;
use sluice_load::generator::seen::Seen;
use sluice_load::result::FailureClass;
use sluice_load::sample::{Roots, Watched};

/// Redraw interval: as often as numbers can be read.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// Interval between two readings of CPU time.
const CPU_EVERY: Duration = Duration::from_secs(1);

/// Interval between two plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Period that rate and latency refer to: the last second.
const RECENT: Duration = Duration::from_secs(1);

/// Number of rates in the sparkline.
const RATES_KEPT: usize = 120;

/// Width if the terminal does not report it.
const COLUMNS: usize = 80;

/// The output mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// Redrawn in place, with or without colours.
    Terminal { colours: bool },
    /// A plain line at intervals.
    Lines,
    /// No output.
    Nothing,
}

/// The live view.
pub struct Live {
    output: Output,
    began: Instant,
    step: Option<Step>,
    /// Lines currently on the screen.
    drawn: usize,
    next: Instant,
}

/// The current step.
struct Step {
    name: String,
    began: Instant,
    /// Duration of the step.
    length: Duration,
    /// Time remaining after it.
    behind: Duration,
    window: Option<(Instant, Instant)>,
    looks: VecDeque<(Instant, u64, Seen)>,
    rates: VecDeque<f64>,
    rate_next: Instant,
    rated: u64,
    watched: Vec<(&'static str, Watched)>,
    cpu: Vec<(&'static str, f64)>,
    cpu_last: Option<(Instant, Vec<f64>)>,
}

impl Live {
    /// A view on standard error: redrawn in place if that is a terminal.
    pub fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        let word = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let dumb = word("TERM").is_none_or(|term| term == "dumb");
        let output = match terminal && !dumb {
            // https://no-color.org: any non-empty value.
            true => Output::Terminal {
                colours: word("NO_COLOR").is_none(),
            },
            false => Output::Lines,
        };
        Live::with(output)
    }

    fn with(output: Output) -> Self {
        let now = Instant::now();
        Live {
            output,
            began: now,
            step: None,
            drawn: 0,
            next: now,
        }
    }

    /// Removes the view.
    fn clear(&mut self) {
        if self.drawn > 0 {
            eprint!("\x1b[{}A\r\x1b[J", self.drawn);
            let _ = std::io::stderr().flush();
            self.drawn = 0;
        }
    }

    fn draw(&mut self, now: Instant) {
        if now < self.next {
            return;
        }
        let Some(step) = &mut self.step else { return };
        match self.output {
            Output::Nothing => {}
            Output::Lines => {
                self.next = now + LINE_INTERVAL;
                let facts = step.facts(now, self.began);
                eprintln!("{}", frame::plain(&facts));
            }
            Output::Terminal { colours } => {
                self.next = now + DRAW_EVERY;
                step.look_at_processes(now);
                let lines = frame(&step.facts(now, self.began), columns(), colours);
                let mut text = String::new();
                if self.drawn > 0 {
                    text += &format!("\x1b[{}A\r", self.drawn);
                }
                for line in &lines {
                    // Each line clears the rest of the previous one, so nothing flickers.
                    text += &format!("{line}\x1b[K\n");
                }
                text += "\x1b[J";
                let mut out = std::io::stderr().lock();
                let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
                self.drawn = lines.len();
            }
        }
    }
}

impl Progress for Live {
    fn begin(&mut self, name: &str, length: Duration, behind: Duration) {
        let now = Instant::now();
        self.step = Some(Step {
            name: name.to_string(),
            began: now,
            length,
            behind,
            window: None,
            looks: VecDeque::new(),
            rates: VecDeque::new(),
            rate_next: now,
            rated: 0,
            watched: Vec::new(),
            cpu: Vec::new(),
            cpu_last: None,
        });
        self.next = match self.output {
            Output::Lines => now + LINE_INTERVAL,
            Output::Terminal { .. } | Output::Nothing => now,
        };
        self.draw(now);
    }

    fn watch(&mut self, roots: &Roots) {
        let Some(step) = self
            .step
            .as_mut()
            .filter(|_| self.output != Output::Nothing)
        else {
            return;
        };
        let groups = [("subject", &roots.subject), ("backend", &roots.backend)];
        let some = groups.into_iter().filter(|(_, pids)| !pids.is_empty());
        step.watched = some
            .map(|(name, pids)| (name, Watched::new(pids)))
            .collect();
        let own = Watched::alone(std::process::id());
        step.watched.push(("generator", own));
    }

    fn look(&mut self, stage: &Stage) {
        if self.output == Output::Nothing {
            return;
        }
        let now = Instant::now();
        let Some(step) = &mut self.step else { return };
        match stage {
            Stage::Window(begin, end) => step.window = Some((*begin, *end)),
            Stage::Running(ok, seen) => step.take(now, *ok, seen),
            Stage::Alone | Stage::Held => {}
        }
        self.draw(now);
    }

    fn line(&mut self, text: &str) {
        self.clear();
        println!("{text}");
    }
}

impl Default for Live {
    fn default() -> Self {
        Live::new()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Step {
    fn take(&mut self, now: Instant, ok: u64, seen: &Seen) {
        self.looks.push_back((now, ok, *seen));
        while self
            .looks
            .get(1)
            .is_some_and(|(at, ..)| now.duration_since(*at) >= RECENT)
        {
            self.looks.pop_front();
        }
        if now >= self.rate_next {
            let passed = (now - self.rate_next + DRAW_EVERY).as_secs_f64();
            if self.rated > 0 {
                self.rates
                    .push_back(ok.saturating_sub(self.rated) as f64 / passed);
            }
            if self.rates.len() > RATES_KEPT {
                self.rates.pop_front();
            }
            (self.rated, self.rate_next) = (ok, now + DRAW_EVERY);
        }
    }

    /// Updates the CPUs in use since the last reading, a second ago.
    fn look_at_processes(&mut self, now: Instant) {
        let due = |(at, _): &(Instant, Vec<f64>)| now.duration_since(*at) >= CPU_EVERY;
        if self.watched.is_empty() || !self.cpu_last.as_ref().is_none_or(due) {
            return;
        }
        let used = self.watched.iter_mut().map(|(_, tree)| {
            let ticks = tree.sample(false).ticks;
            ticks.user_s() + ticks.system_s()
        });
        let used: Vec<f64> = used.collect();
        if let Some((at, before)) = &self.cpu_last {
            let passed = now.duration_since(*at).as_secs_f64().max(1e-9);
            let names = self.watched.iter().map(|(name, _)| *name);
            let shares = used.iter().zip(before).map(|(now, before)| {
                // An exited process takes its CPU time with it.
                ((now - before) / passed).max(0.0)
            });
            self.cpu = names.zip(shares).collect();
        }
        self.cpu_last = Some((now, used));
    }

    fn facts(&self, now: Instant, began: Instant) -> Facts {
        let phase = match self.window {
            None => Phase::Opening,
            Some((begin, _)) if now < begin => Phase::WarmUp(begin - now),
            // A load limited by its number of requests does not have a planned end.
            Some((begin, end)) if end - begin > self.length * 2 => Phase::Endless(now - begin),
            Some((begin, end)) if now < end => Phase::Window(now - begin, end - begin),
            Some(_) => Phase::Draining,
        };
        let own = self.length.saturating_sub(now.duration_since(self.began));
        let left = own + self.behind;
        let passed = now.duration_since(began);
        let recent = self.looks.front().zip(self.looks.back());
        let new = recent.map(|((_, _, then), (_, _, now))| now.since(then));
        let rate = recent.and_then(|((from, before, _), (to, now, _))| {
            let passed = to.duration_since(*from).as_secs_f64();
            (passed > 0.0).then(|| (now - before) as f64 / passed)
        });
        let failed = self.looks.back().map(|(_, _, seen)| seen.failed);
        let failures = FailureClass::ALL
            .into_iter()
            .zip(failed.into_iter().flatten());
        Facts {
            name: self.name.clone(),
            share: passed.as_secs_f64() / (passed + left).as_secs_f64().max(1e-9),
            left,
            phase,
            rate,
            rates: self.rates.iter().copied().collect(),
            median_ns: new.and_then(|new| new.about_ns(0.5)),
            p99_ns: new.and_then(|new| new.about_ns(0.99)),
            ok: self.looks.back().map_or(0, |(_, _, seen)| seen.ok()),
            failures: failures.filter(|(_, count)| *count > 0).collect(),
            cpu: self.cpu.clone(),
        }
    }
}

/// Current width of the terminal on standard error.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { COLUMNS } else { columns }
}
