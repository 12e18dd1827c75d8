//! Tries the steps of a pattern and goes back where they lead nowhere, for as long as the limits allow.

use alloc::vec;
use alloc::vec::Vec;

use super::Exhausted;
use super::program::{Program, Step};
use super::tree::{ByteSet, Eagerness, Place};
use crate::limits::{PATTERN_BACKTRACKS_MAX, PATTERN_TRIES_MAX};

/// No position.
const NONE: u32 = u32::MAX;

/// Positions that need no memory of their own: groups take two, groups and repetitions a mark each.
const POSITIONS_INLINE: usize = 32;

/// How many bytes that are only passed over count as one more try.
const BYTES_PER_TRY: usize = 16;

/// What is done where a way led nowhere, the latest first.
#[derive(Clone, Copy, Debug)]
enum Backtrack {
    /// Goes on with this step at this position.
    Go { step: u32, at: u32 },
    /// A position was another one before.
    Restore { slot: u32, was: u32 },
    /// A run took all up to `high`: it may end anywhere down to `low`.
    Shrink { step: u32, low: u32, high: u32 },
    /// A run may take another byte, so many times.
    Grow { step: u32, at: u32, left: u32 },
}

/// Looks for the first match in `text` and writes where its groups are, the whole match first.
pub fn find(
    program: &Program,
    text: &[u8],
    into: Option<&mut Vec<Option<(u32, u32)>>>,
) -> Result<bool, Exhausted> {
    let count = program.groups * 2 + program.marks;
    let mut inline = [NONE; POSITIONS_INLINE];
    let mut more;
    let slots = match inline.get_mut(..count) {
        Some(slots) => slots,
        None => {
            more = vec![NONE; count];
            &mut more[..]
        }
    };
    let mut run = Run {
        program,
        text,
        slots,
        backtracks: Vec::new(),
        tries: 0,
    };
    let last = if program.is_anchored { 0 } else { text.len() };
    for start in 0..=last {
        if let Some(first) = &program.first
            && !text.get(start).is_some_and(|byte| first.has(*byte))
        {
            continue;
        }
        run.slots[0] = start as u32;
        if let Some(end) = run.go(0, start)? {
            run.slots[1] = end as u32;
            if let Some(into) = into {
                run.write(into);
            }
            return Ok(true);
        }
    }
    Ok(false)
}

struct Run<'r> {
    program: &'r Program,
    text: &'r [u8],
    /// Where groups begin and end, then the marks.
    slots: &'r mut [u32],
    backtracks: Vec<Backtrack>,
    tries: u32,
}

impl Run<'_> {
    fn write(&self, into: &mut Vec<Option<(u32, u32)>>) {
        into.clear();
        for pair in self.slots[..self.program.groups * 2].chunks_exact(2) {
            into.push((pair[1] != NONE).then_some((pair[0], pair[1])));
        }
    }

    /// Goes through the steps from `step` on up to a `Done`. Where that is reached, what can be tried otherwise is left
    /// behind; if it is not, all is as it was before.
    fn go(&mut self, mut step: usize, mut at: usize) -> Result<Option<usize>, Exhausted> {
        let base = self.backtracks.len();
        let program = self.program;
        loop {
            self.tries += 1;
            if self.tries > PATTERN_TRIES_MAX {
                return Err(Exhausted);
            }
            let went = match &program.steps[step] {
                Step::Done => return Ok(Some(at)),
                Step::Byte(byte) => {
                    let fits = self.text.get(at) == Some(byte);
                    fits.then_some((step + 1, at + 1))
                }
                Step::Set(set) => {
                    let fits = self.text.get(at).is_some_and(|byte| set.has(*byte));
                    fits.then_some((step + 1, at + 1))
                }
                Step::At(place) => holds(*place, self.text, at).then_some((step + 1, at)),
                Step::Run { .. } => self.run(step, at)?.map(|at| (step + 1, at)),
                Step::Either(first, second) => {
                    self.later(*second, at)?;
                    Some((*first, at))
                }
                Step::Jump(to) => Some((*to, at)),
                Step::Mark(mark) => {
                    self.set(program.groups * 2 + mark, at as u32)?;
                    Some((step + 1, at))
                }
                Step::Close { mark, group } => {
                    let start = self.slots[program.groups * 2 + mark];
                    self.set(group * 2, start)?;
                    self.set(group * 2 + 1, at as u32)?;
                    Some((step + 1, at))
                }
                Step::Again { mark, turn, eager } => {
                    let took_none = self.slots[program.groups * 2 + mark] == at as u32;
                    let (first, second) = match eager {
                        true => (*turn, step + 1),
                        false => (step + 1, *turn),
                    };
                    match took_none {
                        true => Some((step + 1, at)),
                        false => {
                            self.later(second, at)?;
                            Some((first, at))
                        }
                    }
                }
                Step::Atomic { next } => self.inside(step + 1, at)?.map(|at| (*next, at)),
                Step::Look { negated, next } => {
                    self.look(step + 1, at, *negated)?.then_some((*next, at))
                }
                Step::GoBack(bytes) => at.checked_sub(*bytes).map(|at| (step + 1, at)),
                Step::Back { group, folded } => {
                    self.repeated(*group, *folded, at).map(|at| (step + 1, at))
                }
                Step::Keep => {
                    self.set(0, at as u32)?;
                    Some((step + 1, at))
                }
            };
            match went.or_else(|| self.back(base)) {
                Some(next) => (step, at) = next,
                None => return Ok(None),
            }
        }
    }

    /// Goes through steps once. What they remembered stays, what they could try otherwise goes.
    fn inside(&mut self, step: usize, at: usize) -> Result<Option<usize>, Exhausted> {
        let base = self.backtracks.len();
        let end = self.go(step, at)?;
        let mut kept = base;
        for index in base..self.backtracks.len() {
            let entry = self.backtracks[index];
            if matches!(entry, Backtrack::Restore { .. }) {
                self.backtracks[kept] = entry;
                kept += 1;
            }
        }
        self.backtracks.truncate(kept);
        Ok(end)
    }

    fn look(&mut self, step: usize, at: usize, negated: bool) -> Result<bool, Exhausted> {
        let base = self.backtracks.len();
        let found = self.inside(step, at)?.is_some();
        if negated {
            while self.backtracks.len() > base {
                if let Some(Backtrack::Restore { slot, was }) = self.backtracks.pop() {
                    self.slots[slot as usize] = was;
                }
            }
        }
        Ok(found != negated)
    }

    /// Goes back to the latest place where there is another way.
    fn back(&mut self, base: usize) -> Option<(usize, usize)> {
        while self.backtracks.len() > base {
            match self.backtracks.pop()? {
                Backtrack::Go { step, at } => return Some((step as usize, at as usize)),
                Backtrack::Restore { slot, was } => self.slots[slot as usize] = was,
                Backtrack::Shrink { step, low, high } => {
                    let (low, mut high) = (low as usize, high as usize);
                    if let Step::Run {
                        then: Some(then), ..
                    } = &self.program.steps[step as usize]
                    {
                        let places = &self.text[low..(high + 1).min(self.text.len())];
                        self.tries += (places.len() / BYTES_PER_TRY) as u32;
                        match memchr::memrchr(*then, places) {
                            Some(place) => high = low + place,
                            None => continue,
                        }
                    }
                    if high > low {
                        self.backtracks.push(Backtrack::Shrink {
                            step,
                            low: low as u32,
                            high: high as u32 - 1,
                        });
                    }
                    return Some((step as usize + 1, high));
                }
                Backtrack::Grow { step, at, left } => {
                    let Step::Run { set, .. } = &self.program.steps[step as usize] else {
                        continue;
                    };
                    let fits = self
                        .text
                        .get(at as usize)
                        .is_some_and(|byte| set.has(*byte));
                    if !fits {
                        continue;
                    }
                    let at = at + 1;
                    if left > 1 {
                        let left = left - 1;
                        self.backtracks.push(Backtrack::Grow { step, at, left });
                    }
                    return Some((step as usize + 1, at as usize));
                }
            }
        }
        None
    }

    /// Takes the bytes of a run.
    fn run(&mut self, step: usize, at: usize) -> Result<Option<usize>, Exhausted> {
        let Step::Run {
            set,
            min,
            max,
            eagerness,
            ..
        } = &self.program.steps[step]
        else {
            return Ok(None);
        };
        let Some(low) = taken(set, self.text, at, *min as usize) else {
            return Ok(None);
        };
        let left = *max - *min;
        if left == 0 {
            return Ok(Some(low));
        }
        if *eagerness == Eagerness::Lazy {
            self.push(Backtrack::Grow {
                step: step as u32,
                at: low as u32,
                left,
            })?;
            return Ok(Some(low));
        }
        let rest = &self.text[low..low.saturating_add(left as usize).min(self.text.len())];
        let more = rest.iter().position(|byte| !set.has(*byte));
        let high = low + more.unwrap_or(rest.len());
        self.tries += ((high - at) / BYTES_PER_TRY) as u32;
        if high > low && *eagerness == Eagerness::Greedy {
            self.push(Backtrack::Shrink {
                step: step as u32,
                low: low as u32,
                high: high as u32 - 1,
            })?;
        }
        Ok(Some(high))
    }

    /// Behind the text of a group, if that stands here once more. A group that took no part stands nowhere.
    fn repeated(&mut self, group: usize, folded: bool, at: usize) -> Option<usize> {
        let (start, end) = (self.slots[group * 2], self.slots[group * 2 + 1]);
        if end == NONE {
            return None;
        }
        let wanted = self.text.get(start as usize..end as usize)?;
        let here = self.text.get(at..at + wanted.len())?;
        self.tries += (wanted.len() / BYTES_PER_TRY) as u32;
        let fits = match folded {
            true => here.eq_ignore_ascii_case(wanted),
            false => here == wanted,
        };
        fits.then_some(at + wanted.len())
    }

    fn set(&mut self, slot: usize, to: u32) -> Result<(), Exhausted> {
        let was = core::mem::replace(&mut self.slots[slot], to);
        let slot = slot as u32;
        self.push(Backtrack::Restore { slot, was })
    }

    fn later(&mut self, step: usize, at: usize) -> Result<(), Exhausted> {
        self.push(Backtrack::Go {
            step: step as u32,
            at: at as u32,
        })
    }

    fn push(&mut self, backtrack: Backtrack) -> Result<(), Exhausted> {
        if self.backtracks.len() >= PATTERN_BACKTRACKS_MAX {
            return Err(Exhausted);
        }
        self.backtracks.push(backtrack);
        Ok(())
    }
}

/// Behind exactly so many bytes of a set.
fn taken(set: &ByteSet, text: &[u8], at: usize, count: usize) -> Option<usize> {
    let end = at.checked_add(count)?;
    let bytes = text.get(at..end)?;
    bytes.iter().all(|byte| set.has(*byte)).then_some(end)
}

/// Whether a place is one of this kind.
fn holds(place: Place, text: &[u8], at: usize) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let edge = || {
        let before = at.checked_sub(1).is_some_and(|at| is_word(&text[at]));
        before != text.get(at).is_some_and(is_word)
    };
    match place {
        Place::Start => at == 0,
        Place::LineStart => at == 0 || at < text.len() && text[at - 1] == b'\n',
        Place::End => at == text.len(),
        Place::LastEnd => at == text.len() || text[at..] == *b"\n",
        Place::LineEnd => at == text.len() || text[at] == b'\n',
        Place::WordEdge => edge(),
        Place::NoWordEdge => !edge(),
    }
}
