//! Rate limits: by a sliding window or by a token bucket. `zone` decides which events count together; the caller
//! decides what happens to events over the limit.

mod share;
mod sharing;
mod zone;

pub use share::{Ask, Decision, Grant, Mode, Sharing};
pub use zone::{Outcome, Zone};

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use sluice_message::Moment;

use crate::limits::SLICES_MAX;

/// How often something may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    events: u32,
    window: u64,
    counting: Counting,
}

/// How events are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Counting {
    /// In no window of time are there more events than allowed, wherever it begins. Events of one slice of time, in
    /// nanoseconds, are counted together; a slice of one is exact.
    Window { slice: u64 },
    /// Tokens come back evenly; up to so many can be saved for a burst.
    Bucket { burst: u32 },
}

/// A rate in parts, for a store that counts by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// So many events in any window.
    Window {
        /// The events.
        events: u32,
        /// The window.
        window: Duration,
        /// Events of one slice of this length are counted together; 1 ns counts each apart.
        slice: Duration,
    },
    /// A bucket of tokens.
    Bucket {
        /// The tokens that come back in each window.
        events: u32,
        /// The window.
        window: Duration,
        /// The tokens that can be saved.
        burst: u32,
    },
}

/// Why a [`Rate`] is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateError {
    /// No event would ever be allowed.
    NoEvents,
    /// The window has no length, or is longer than a time line of 64 bits of nanoseconds can hold twice.
    Window,
    /// A bucket without room for a token.
    NoBurst,
}

/// The events of one key that still count.
#[derive(Clone, Debug)]
pub struct Meter(State);

#[derive(Clone, Debug)]
enum State {
    /// Slices with events, the oldest first, and how many there are in all.
    Window { slices: VecDeque<Slice>, total: u32 },
    /// When the bucket is full again, in nanoseconds.
    Bucket { full_at: u64 },
}

#[derive(Clone, Copy, Debug)]
struct Slice {
    number: u64,
    events: u32,
}

/// A part of what a meter has seen, for another process on the same time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The number of the slice of a window, or when a bucket is full again in nanoseconds.
    pub at: u64,
    /// The events of the slice; 0 for a bucket.
    pub events: u32,
}

impl Rate {
    /// At most `events` in any `window`. Of more than [`SLICES_MAX`] events those that are close together are counted
    /// together and forgotten together, a four-thousandth of the window late: so what one key takes stays bounded.
    pub fn sliding(events: u32, window: Duration) -> Result<Rate, RateError> {
        let window = nanos(window)?;
        let slice = match events {
            0 => return Err(RateError::NoEvents),
            exact if exact as usize <= SLICES_MAX => 1,
            _ => (window / SLICES_MAX as u64).max(1),
        };
        Ok(Rate {
            events,
            window,
            counting: Counting::Window { slice },
        })
    }

    /// `events` in each `window` in the long run, and up to `burst` at once.
    pub fn bucket(events: u32, window: Duration, burst: u32) -> Result<Rate, RateError> {
        let window = nanos(window)?;
        match (events, burst) {
            (0, _) => Err(RateError::NoEvents),
            (_, 0) => Err(RateError::NoBurst),
            _ => Ok(Rate {
                events,
                window,
                counting: Counting::Bucket { burst },
            }),
        }
    }

    /// Events for each second: the smaller, the tighter.
    pub fn per_second(&self) -> f64 {
        f64::from(self.events) * 1e9 / self.window as f64
    }

    /// A meter that has seen no event.
    pub fn meter(&self) -> Meter {
        Meter(match self.counting {
            Counting::Window { .. } => State::Window {
                slices: VecDeque::new(),
                total: 0,
            },
            Counting::Bucket { .. } => State::Bucket { full_at: 0 },
        })
    }

    /// Counts an event if it is allowed now. Otherwise returns how long to wait until one is allowed, not counting
    /// other events.
    pub fn take(&self, meter: &mut Meter, now: Moment) -> Result<(), Duration> {
        let now = on_line(now);
        match (&mut meter.0, self.counting) {
            (State::Window { slices, total }, Counting::Window { slice }) => {
                self.slide(slices, total, slice, now)
            }
            (State::Bucket { full_at }, Counting::Bucket { burst }) => {
                self.draw(full_at, burst, now)
            }
            (State::Window { .. }, Counting::Bucket { .. })
            | (State::Bucket { .. }, Counting::Window { .. }) => {
                unreachable!("a meter is used with the rate that made it")
            }
        }
    }

    /// Takes back the latest event of a meter, because it did not happen.
    fn give_back(&self, meter: &mut Meter) {
        match &mut meter.0 {
            State::Window { slices, total } => {
                if let Some(last) = slices.back_mut() {
                    *total -= 1;
                    last.events -= 1;
                    if last.events == 0 {
                        slices.pop_back();
                    }
                }
            }
            State::Bucket { full_at } => {
                let token = (self.window / u64::from(self.events)).max(1);
                *full_at = full_at.saturating_sub(token);
            }
        }
    }

    /// As [`Rate::take`], but nothing is counted. Drops what no longer counts, so that the meter is not copied.
    fn wait(&self, meter: &mut Meter, now: Moment) -> Result<(), Duration> {
        match (&mut meter.0, self.counting) {
            (State::Window { slices, total }, Counting::Window { slice }) => {
                self.room(slices, total, slice, on_line(now))
            }
            (State::Bucket { .. }, _) => self.look(meter, now),
            (State::Window { .. }, Counting::Bucket { .. }) => {
                unreachable!("a meter is used with the rate that made it")
            }
        }
    }

    /// As [`Rate::take`], but nothing is counted.
    pub fn look(&self, meter: &Meter, now: Moment) -> Result<(), Duration> {
        self.take(&mut meter.clone(), now)
    }

    /// The time from one event to the next at an even pace.
    pub fn spacing(&self) -> Duration {
        Duration::from_nanos(self.window / u64::from(self.events).max(1))
    }

    /// How many events come too early, in thousandths, if the latest comes so long before its time at an even pace.
    pub fn early_thousandths(&self, early: Duration) -> u64 {
        let thousandths = early.as_nanos() * 1000 / self.spacing().as_nanos().max(1);
        u64::try_from(thousandths).unwrap_or(u64::MAX)
    }

    /// The same, if it was refused and has to wait so long: those that may be saved came before it.
    pub fn excess_thousandths(&self, wait: Duration) -> u64 {
        let saved = match self.counting {
            Counting::Window { .. } => 0,
            Counting::Bucket { burst } => u64::from(burst.saturating_sub(1)) * 1000,
        };
        saved.saturating_add(self.early_thousandths(wait))
    }

    /// How long after now the latest event of a bucket would have come at an even pace; zero for windows.
    pub fn ahead(&self, meter: &Meter, now: Moment) -> Duration {
        match &meter.0 {
            State::Window { .. } => Duration::ZERO,
            State::Bucket { full_at } => {
                let full_in = full_at.saturating_sub(on_line(now));
                Duration::from_nanos(full_in).saturating_sub(self.spacing())
            }
        }
    }

    /// Whether `meter` is as good as a new one: nothing it saw counts any more.
    pub fn is_idle(&self, meter: &Meter, now: Moment) -> bool {
        let now = on_line(now);
        match (&meter.0, self.counting) {
            (State::Window { slices, .. }, Counting::Window { slice }) => slices
                .back()
                .is_none_or(|last| self.end_of(last.number, slice) <= now),
            (State::Bucket { full_at }, _) => *full_at <= now,
            (State::Window { .. }, Counting::Bucket { .. }) => true,
        }
    }

    /// The parts of a shared limit, see [`Sharing`].
    pub fn shape(&self) -> Shape {
        let window = Duration::from_nanos(self.window);
        match self.counting {
            Counting::Window { slice } => Shape::Window {
                events: self.events,
                window,
                slice: Duration::from_nanos(slice),
            },
            Counting::Bucket { burst } => Shape::Bucket {
                events: self.events,
                window,
                burst,
            },
        }
    }

    /// What tells this rate from others: events, window in nanoseconds, and how they are counted.
    pub fn identity(&self) -> [u64; 4] {
        let (kind, detail) = match self.counting {
            Counting::Window { slice } => (0, slice),
            Counting::Bucket { burst } => (1, u64::from(burst)),
        };
        [u64::from(self.events), self.window, kind, detail]
    }

    /// Adds what another meter of this rate has seen on the same time line, as if both were one.
    fn merge(&self, meter: &mut Meter, marks: &[Mark], now: Moment) {
        match &mut meter.0 {
            State::Window { slices, total } => {
                let given = marks.iter().filter(|mark| mark.events > 0);
                for &Mark { at, events } in given.take(SLICES_MAX) {
                    let place = slices.partition_point(|slice| slice.number < at);
                    match slices.get_mut(place).filter(|slice| slice.number == at) {
                        Some(slice) => slice.events = slice.events.saturating_add(events),
                        None => slices.insert(place, Slice { number: at, events }),
                    }
                    *total = total.saturating_add(events);
                }
            }
            State::Bucket { full_at } => {
                let now = on_line(now);
                let missing = marks.first().map_or(0, |mark| mark.at.saturating_sub(now));
                *full_at = (*full_at).max(now).saturating_add(missing);
            }
        }
    }

    fn slide(
        &self,
        slices: &mut VecDeque<Slice>,
        total: &mut u32,
        slice: u64,
        now: u64,
    ) -> Result<(), Duration> {
        self.room(slices, total, slice, now)?;
        *total += 1;
        // Workers read the clock before they take turns here: a late one joins the latest slice.
        let number = (now / slice).max(slices.back().map_or(0, |last| last.number));
        match slices.back_mut() {
            Some(last) if last.number == number => last.events += 1,
            _ => slices.push_back(Slice { number, events: 1 }),
        }
        Ok(())
    }

    /// Drops the slices that no longer count. Returns how long to wait if the window is full.
    fn room(
        &self,
        slices: &mut VecDeque<Slice>,
        total: &mut u32,
        slice: u64,
        now: u64,
    ) -> Result<(), Duration> {
        while let Some(oldest) = slices.front()
            && self.end_of(oldest.number, slice) <= now
        {
            *total -= oldest.events;
            slices.pop_front();
        }
        if *total >= self.events {
            let ends = slices
                .front()
                .map_or(now, |oldest| self.end_of(oldest.number, slice));
            return Err(Duration::from_nanos(ends - now));
        }
        Ok(())
    }

    /// When the events of a slice stop to count.
    fn end_of(&self, number: u64, slice: u64) -> u64 {
        (number * slice)
            .saturating_add(slice - 1)
            .saturating_add(self.window)
    }

    /// The bucket as its time to be full (the generic cell rate algorithm): each token puts that off.
    fn draw(&self, full_at: &mut u64, burst: u32, now: u64) -> Result<(), Duration> {
        // In 128 bits, so that a burst of years does not wrap.
        let token = u128::from(self.window) / u128::from(self.events);
        let next = u128::from((*full_at).max(now)) + token.max(1);
        let latest = u128::from(now) + token.max(1) * u128::from(burst);
        if next > latest {
            let wait = u64::try_from(next - latest).unwrap_or(u64::MAX);
            return Err(Duration::from_nanos(wait));
        }
        *full_at = u64::try_from(next).unwrap_or(u64::MAX);
        Ok(())
    }
}

impl Meter {
    /// What it has seen.
    fn marks(&self) -> Vec<Mark> {
        match &self.0 {
            State::Window { slices, .. } => {
                let marks = slices.iter().map(|slice| Mark {
                    at: slice.number,
                    events: slice.events,
                });
                marks.collect()
            }
            State::Bucket { full_at } => vec![Mark {
                at: *full_at,
                events: 0,
            }],
        }
    }

    /// Memory it takes beside its own size.
    fn bytes(&self) -> usize {
        match &self.0 {
            State::Window { slices, .. } => slices.capacity() * size_of::<Slice>(),
            State::Bucket { .. } => 0,
        }
    }
}

fn nanos(window: Duration) -> Result<u64, RateError> {
    match u64::try_from(window.as_nanos()) {
        Ok(nanos @ 1..) if nanos <= u64::MAX / 4 => Ok(nanos),
        Ok(_) | Err(_) => Err(RateError::Window),
    }
}

fn on_line(now: Moment) -> u64 {
    u64::try_from(now.since_start().as_nanos()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests;
