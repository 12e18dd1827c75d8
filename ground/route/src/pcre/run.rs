//! The backtracking matcher: executes the steps of a pattern and backtracks on failure, within the limits.

use alloc::vec;
use alloc::vec::Vec;

use super::Exhausted;
use super::memo::Memo;
use super::program::{Point, Program, Step};
use super::tree::{ByteSet, Eagerness, Place};
use crate::limits::{PATTERN_BACKTRACKS_MAX, PATTERN_TRIES_BEFORE_MEMO, PATTERN_TRIES_MAX};

/// No position.
const NONE: u32 = u32::MAX;

/// Positions that need no memory of their own: groups take two, groups and repetitions a mark each.
const POSITIONS_INLINE: usize = 32;

/// How many bytes that are only passed over count as one more try, and how many words of a memory.
const BYTES_PER_TRY: usize = 16;

/// Runs whose latest extent needs no memory of its own.
const EXTENTS_INLINE: usize = 8;

/// The most that a run can take without looking for its extent, which is cheaper then.
const SHORT_RUN: usize = 16;

/// What is done where a way led nowhere, the latest first.
#[derive(Clone, Copy, Debug)]
enum Backtrack {
    /// Goes on with this step at this position.
    Go { step: u32, at: u32 },
    /// A position was another one before.
    Restore { slot: u32, was: u32 },
    /// A run may end anywhere from `high` down to `low`.
    Shrink { step: u32, low: u32, high: u32 },
    /// A run may end anywhere from `low` up to `high`.
    Grow { step: u32, low: u32, high: u32 },
    /// Nothing from there on has matched: it is remembered.
    Failed { point: u32, at: u32 },
}

/// Bytes from the first position up to the second, which is behind them, are of a run's set, and the next one is not.
type Extent = (u32, u32);

/// No extent: no position lies in it.
const NO_EXTENT: Extent = (1, 0);

/// Looks for the first match in `text` and writes where its groups are, the whole match first.
pub fn find(
    program: &Program,
    text: &[u8],
    into: Option<&mut Vec<Option<(u32, u32)>>>,
) -> Result<bool, Exhausted> {
    find_counting(program, text, into, PATTERN_TRIES_BEFORE_MEMO, &mut 0)
}

/// The same, with a memory after so many tries; adds those that it took.
pub(super) fn find_counting(
    program: &Program,
    text: &[u8],
    into: Option<&mut Vec<Option<(u32, u32)>>>,
    memo_after: u32,
    tries: &mut u32,
) -> Result<bool, Exhausted> {
    let Some(mut last) = program.required.last_start(text) else {
        return Ok(false);
    };
    if program.is_anchored {
        last = 0;
    }
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
    let mut inline = [NO_EXTENT; EXTENTS_INLINE];
    let mut more;
    let extents = match inline.get_mut(..program.runs) {
        Some(extents) => extents,
        None => {
            more = vec![NO_EXTENT; program.runs];
            &mut more[..]
        }
    };
    let mut run = Run {
        program,
        text,
        slots,
        extents,
        backtracks: Vec::new(),
        memo: None,
        memo_after,
        inner: 0,
        tries: 0,
    };
    let found = run.first_match_up_to(last);
    *tries += run.tries;
    let found = found?;
    if found && let Some(into) = into {
        run.write(into);
    }
    Ok(found)
}

struct Run<'r> {
    program: &'r Program,
    text: &'r [u8],
    /// Where groups begin and end, then the marks.
    slots: &'r mut [u32],
    /// The latest extent of each run: those that begin within it are not looked at anew.
    extents: &'r mut [Extent],
    backtracks: Vec<Backtrack>,
    /// What was tried in vain, once a match turns out to take long.
    memo: Option<Memo>,
    /// After how many tries it does.
    memo_after: u32,
    /// In how many things that look around or give nothing back this is.
    inner: u32,
    tries: u32,
}

impl Run<'_> {
    /// Tries all positions up to `last`.
    fn first_match_up_to(&mut self, last: usize) -> Result<bool, Exhausted> {
        let program = self.program;
        let mut start = 0;
        while let Some(next) = program.required.next_start(self.text, start, last) {
            start = next + 1;
            if let Some(first) = &program.first
                && !self.text.get(next).is_some_and(|byte| first.has(*byte))
            {
                continue;
            }
            self.slots[0] = next as u32;
            if let Some(end) = self.go(0, next)? {
                self.slots[1] = end as u32;
                return Ok(true);
            }
        }
        Ok(false)
    }

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
            self.tries = self.tries.saturating_add(1);
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
                Step::Run { .. } => self.run(step, at)?,
                Step::Either(first, second, point) => match self.enter(*point, at)? {
                    false => None,
                    true => {
                        self.later(*second, at)?;
                        Some((*first, at))
                    }
                },
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
                Step::Again { .. } => self.again(step, at)?,
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
            let next = match went {
                Some(next) => Some(next),
                None => self.back(base)?,
            };
            match next {
                Some(next) => (step, at) = next,
                None => return Ok(None),
            }
        }
    }

    /// Comes to the end of a turn of a loop: takes another turn, or goes on behind it.
    fn again(&mut self, step: usize, at: usize) -> Result<Option<(usize, usize)>, Exhausted> {
        let program = self.program;
        let Step::Again {
            point,
            mark,
            turn,
            eager,
        } = &program.steps[step]
        else {
            return Ok(None);
        };
        if !self.enter(*point, at)? {
            return Ok(None);
        }
        let took_none = self.slots[program.groups * 2 + mark] == at as u32;
        if took_none {
            return Ok(Some((step + 1, at)));
        }
        let (first, second) = match eager {
            true => (*turn, step + 1),
            false => (step + 1, *turn),
        };
        self.later(second, at)?;
        Ok(Some((first, at)))
    }

    /// Goes through steps once. What they remembered stays, what they could try otherwise goes.
    fn inside(&mut self, step: usize, at: usize) -> Result<Option<usize>, Exhausted> {
        let base = self.backtracks.len();
        self.inner += 1;
        let end = self.go(step, at)?;
        self.inner -= 1;
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
    fn back(&mut self, base: usize) -> Result<Option<(usize, usize)>, Exhausted> {
        while self.backtracks.len() > base {
            let next = match self.backtracks.pop() {
                None => None,
                Some(Backtrack::Go { step, at }) => Some((step as usize, at as usize)),
                Some(Backtrack::Restore { slot, was }) => {
                    self.slots[slot as usize] = was;
                    None
                }
                Some(Backtrack::Shrink { step, low, high }) => {
                    self.shrink(step as usize, low as usize, high as usize)?
                }
                Some(Backtrack::Grow { step, low, high }) => {
                    self.grow(step as usize, low as usize, high as usize)?
                }
                Some(Backtrack::Failed { point, at }) => {
                    if let Some(memo) = &mut self.memo {
                        memo.add(Point(point), at as usize);
                    }
                    None
                }
            };
            if next.is_some() {
                return Ok(next);
            }
        }
        Ok(None)
    }

    /// Comes to a point: `false` if nothing matches from there on, as far as that is known. Else it is noted, or will be
    /// when it has turned out.
    ///
    /// Outside of what looks around or gives nothing back, whatever is tried later at the same point is tried because this
    /// failed. Within, it may be asked again after it has matched, as what stands behind it failed.
    fn enter(&mut self, point: Point, at: usize) -> Result<bool, Exhausted> {
        if point == Point::NONE {
            return Ok(true);
        }
        if self.memo.is_none() {
            if self.tries < self.memo_after {
                return Ok(true);
            }
            self.memo = Some(Memo::new(self.program.points, self.text.len()));
        }
        let Some(memo) = &mut self.memo else {
            return Ok(true);
        };
        if memo.has(point, at) {
            return Ok(false);
        }
        if self.inner == 0 {
            memo.add(point, at);
            return Ok(true);
        }
        self.push(Backtrack::Failed {
            point: point.0,
            at: at as u32,
        })?;
        Ok(true)
    }

    /// Takes the bytes of a run, and says where it goes on.
    fn run(&mut self, step: usize, at: usize) -> Result<Option<(usize, usize)>, Exhausted> {
        let program = self.program;
        let Step::Run {
            set,
            min,
            max,
            eagerness,
            run,
            point,
            ..
        } = &program.steps[step]
        else {
            return Ok(None);
        };
        let high = self.extent(set, *run, at, *max as usize);
        let low = at.saturating_add(*min as usize);
        if low > high {
            return Ok(None);
        }
        match eagerness {
            Eagerness::Possessive => Ok(self.enter(*point, high)?.then_some((step + 1, high))),
            Eagerness::Greedy => self.shrink(step, low, high),
            Eagerness::Lazy => self.grow(step, low, high),
        }
    }

    /// Where the bytes of a set end that stand at a position, of which a run takes so many at most.
    fn extent(&mut self, set: &ByteSet, run: usize, at: usize, max: usize) -> usize {
        let text = self.text;
        let end = |from: usize, to: usize| {
            let bytes = &text[from..to];
            let more = bytes.iter().position(|byte| !set.has(*byte));
            more.map_or(to, |more| from + more)
        };
        let most = at.saturating_add(max).min(self.text.len());
        if *set == ByteSet::ALL {
            return most;
        }
        if max <= SHORT_RUN {
            return end(at, most);
        }
        let (low, high) = self.extents[run];
        let (low, high) = (low as usize, high as usize);
        if low <= at && at <= high {
            return high.min(most);
        }
        // What is known already is not looked at again where this reaches it.
        let reaches = at < low && low <= high;
        let seen = end(at, if reaches { low } else { text.len() });
        self.pass(seen - at);
        let found = if reaches && seen == low { high } else { seen };
        self.extents[run] = (at as u32, found as u32);
        found.min(most)
    }

    /// The last position from `low` up to `high` at which a run can end, and what is left for later.
    fn shrink(
        &mut self,
        step: usize,
        low: usize,
        high: usize,
    ) -> Result<Option<(usize, usize)>, Exhausted> {
        let program = self.program;
        let Step::Run { then, point, .. } = &program.steps[step] else {
            return Ok(None);
        };
        let mut end = high;
        loop {
            if let Some(memo) = &mut self.memo {
                let open = memo.last_open(*point, low, end);
                let looked = memo.take_looked();
                self.pass(looked);
                let Some(open) = open else { return Ok(None) };
                end = open;
            }
            let Some(then) = then else { break };
            let places = &self.text[low..(end + 1).min(self.text.len())];
            let found = memchr::memrchr(*then, places).map(|place| low + place);
            let from = found.map_or(low, |found| found + 1);
            self.pass(end + 1 - from);
            // What has to follow does not follow there.
            if let Some(memo) = &mut self.memo
                && from <= end
            {
                memo.add_range(*point, from, end);
            }
            match found {
                None => return Ok(None),
                Some(found) if found == end || self.memo.is_none() => {
                    end = found;
                    break;
                }
                Some(found) => end = found,
            }
        }
        if end > low {
            self.push(Backtrack::Shrink {
                step: step as u32,
                low: low as u32,
                high: end as u32 - 1,
            })?;
        }
        Ok(self.enter(*point, end)?.then_some((step + 1, end)))
    }

    /// The first one.
    fn grow(
        &mut self,
        step: usize,
        low: usize,
        high: usize,
    ) -> Result<Option<(usize, usize)>, Exhausted> {
        let program = self.program;
        let Step::Run { then, point, .. } = &program.steps[step] else {
            return Ok(None);
        };
        let mut end = low;
        loop {
            if let Some(memo) = &mut self.memo {
                let open = memo.first_open(*point, end, high);
                let looked = memo.take_looked();
                self.pass(looked);
                let Some(open) = open else { return Ok(None) };
                end = open;
            }
            let Some(then) = then else { break };
            let places = &self.text[end..(high + 1).min(self.text.len())];
            let found = memchr::memchr(*then, places).map(|place| end + place);
            let to = found.unwrap_or(high + 1);
            self.pass(to - end);
            if let Some(memo) = &mut self.memo
                && to > end
            {
                memo.add_range(*point, end, to - 1);
            }
            match found {
                None => return Ok(None),
                Some(found) if found == end || self.memo.is_none() => {
                    end = found;
                    break;
                }
                Some(found) => end = found,
            }
        }
        if end < high {
            self.push(Backtrack::Grow {
                step: step as u32,
                low: end as u32 + 1,
                high: high as u32,
            })?;
        }
        Ok(self.enter(*point, end)?.then_some((step + 1, end)))
    }

    /// Behind the text of a group, if that stands here once more. A group that took no part stands nowhere.
    fn repeated(&mut self, group: usize, folded: bool, at: usize) -> Option<usize> {
        let (start, end) = (self.slots[group * 2], self.slots[group * 2 + 1]);
        if end == NONE {
            return None;
        }
        let wanted = self.text.get(start as usize..end as usize)?;
        let here = self.text.get(at..at + wanted.len())?;
        self.pass(wanted.len());
        let fits = match folded {
            true => here.eq_ignore_ascii_case(wanted),
            false => here == wanted,
        };
        fits.then_some(at + wanted.len())
    }

    /// Counts bytes, or words of a memory, that are only passed over.
    fn pass(&mut self, count: usize) {
        let tries = u32::try_from(count / BYTES_PER_TRY).unwrap_or(u32::MAX);
        self.tries = self.tries.saturating_add(tries);
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
