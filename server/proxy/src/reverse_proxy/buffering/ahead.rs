//! Reads a body ahead of its receiver: pending data is buffered in memory, then in a temporary file. [`Plan`] decides
//! where; `sluice-net` accesses files.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sluice_message::Fields;
use sluice_net::spool::{SpoolFile, Written};
use sluice_net::{BodyStream, Failure, FailureKind, Side, Worker};
use sluice_policy::buffering::{Front, Next, Plan};
use sluice_policy::memory::Pressure;

use super::rules::Rules;
use super::spooled::Spooled;
use crate::limits::{BUFFER_PIECE_BYTES, BUFFER_PIECE_BYTES_MIN, BUFFER_TURN_BYTES};

/// A body that is read ahead. While its receiver keeps up, data is passed through without copying.
pub struct Ahead {
    worker: Rc<Worker>,
    rules: Arc<Rules>,
    plan: Plan,
    source: Source,
    /// The data shown to the receiver, and how much of it was consumed. The plan does not include it.
    front: Vec<u8>,
    at: usize,
    /// Pending data that precedes the file.
    memory: VecDeque<Vec<u8>>,
    /// Pending data that follows the file.
    late: VecDeque<Vec<u8>>,
    file: Option<File>,
}

/// The original body.
enum Source {
    Open(Box<dyn BodyStream>),
    /// It has ended, with these trailers.
    Ended(Option<Fields>),
    /// It failed; the failure is reported after the data before it.
    Failed(Option<Failure>),
}

struct File {
    spool: SpoolFile,
    /// The pending range of the file.
    from: u64,
    to: u64,
    writing: Writing,
}

enum Writing {
    Nothing,
    /// Data to write, waiting for room in the write queue.
    Waits(Vec<Vec<u8>>),
    UnderWay,
}

/// What a body is read for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// To have all of it.
    Whole,
    /// To be ahead of its receiver.
    Ahead,
}

/// The result of buffering a complete body.
pub(super) enum Collected {
    Whole,
    /// The rest does not fit.
    InPart,
}

impl Ahead {
    /// Reads `body` ahead within the limits of `rules`.
    pub fn new(worker: &Rc<Worker>, rules: &Arc<Rules>, body: Box<dyn BodyStream>) -> Ahead {
        Ahead {
            worker: worker.clone(),
            rules: rules.clone(),
            plan: Plan::new(rules.bounds),
            source: Source::Open(body),
            front: Vec::new(),
            at: 0,
            memory: VecDeque::new(),
            late: VecDeque::new(),
            file: None,
        }
    }

    /// Reads up to the end, or until the buffers are full.
    pub(super) fn poll_collect(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Collected, Failure>> {
        self.poll_fill(cx, Fill::Whole);
        let is_writing = self.is_writing();
        match &mut self.source {
            Source::Failed(failure) => {
                let failure = failure.take();
                Poll::Ready(Err(failure.unwrap_or_else(cut_off)))
            }
            Source::Ended(_) if !is_writing => Poll::Ready(Ok(Collected::Whole)),
            Source::Open(_) if self.plan.is_refused() && self.plan.next() == Next::Wait => {
                Poll::Ready(Ok(Collected::InPart))
            }
            Source::Open(_) | Source::Ended(_) => Poll::Pending,
        }
    }

    /// Converts a completely buffered body to one that can be sent repeatedly.
    pub(super) fn into_spooled(mut self) -> Spooled {
        let mut pieces: Vec<Vec<u8>> = std::mem::take(&mut self.memory).into();
        pieces.extend(std::mem::take(&mut self.late));
        let file = self.file.take().map(|file| (file.spool, file.to));
        Spooled::new(&self.worker, file, pieces)
    }

    fn is_writing(&self) -> bool {
        let writing = self.file.as_ref().map(|file| &file.writing);
        matches!(writing, Some(Writing::Waits(_) | Writing::UnderWay))
    }

    /// Whether memory is too scarce to buffer more of what the receiver has not asked for yet.
    fn is_memory_scarce(&self) -> bool {
        self.worker.memory.level() >= Pressure::HoldBodies
    }

    /// Reads while data is available and there is room for it, and writes pending data to the file.
    fn poll_fill(&mut self, cx: &mut Context<'_>, how: Fill) {
        let mut budget = BUFFER_TURN_BYTES;
        loop {
            self.poll_writing(cx);
            let next = match self.source {
                Source::Open(_) => self.plan.next(),
                Source::Ended(_) | Source::Failed(_) => self.plan.next_at_end(),
            };
            match next {
                Next::Read(_) if budget == 0 => {
                    // Yield to other tasks of this worker.
                    cx.waker().wake_by_ref();
                    return;
                }
                // The receiver reads from the source once it has taken what waits.
                Next::Read(_) if how == Fill::Ahead && self.is_memory_scarce() => return,
                Next::Read(room) => match self.poll_read(cx, room) {
                    Poll::Ready(count) => budget = budget.saturating_sub(count),
                    Poll::Pending => return,
                },
                Next::Write => self.begin_write(),
                Next::Wait => return,
            }
        }
    }

    /// Reads up to `room` bytes and returns their number; 0 at the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, room: u64) -> Poll<usize> {
        let Source::Open(body) = &mut self.source else {
            return Poll::Ready(0);
        };
        let data = match ready!(body.poll_data(cx)) {
            Ok(data) => data,
            Err(failure) => {
                self.source = Source::Failed(Some(failure));
                return Poll::Ready(0);
            }
        };
        let count = usize::try_from(room).map_or(data.len(), |room| room.min(data.len()));
        if count == 0 {
            // From here on others may use its connection, and its slot at the upstream.
            self.source = Source::Ended(body.trailers());
            return Poll::Ready(0);
        }
        let to = match self.plan.reads_behind() {
            true => &mut self.late,
            false => &mut self.memory,
        };
        append(&self.worker, to, &data[..count]);
        body.consume(count);
        self.plan.read(count as u64);
        Poll::Ready(count)
    }

    /// Continues the current write.
    fn poll_writing(&mut self, cx: &mut Context<'_>) {
        let Some(file) = &mut self.file else { return };
        if let Writing::Waits(pieces) = &mut file.writing {
            match file.spool.poll_write(cx, pieces, file.to) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => file.writing = Writing::UnderWay,
                Poll::Ready(Err(error)) => {
                    let pieces = std::mem::take(pieces);
                    let outcome = Err(error);
                    return self.note_written(Written { pieces, outcome });
                }
            }
        }
        if let Writing::UnderWay = file.writing
            && let Poll::Ready(written) = file.spool.poll_written(cx)
        {
            self.note_written(written);
        }
    }

    fn begin_write(&mut self) {
        let file = match &mut self.file {
            Some(file) => file,
            none => match SpoolFile::begin(&self.worker, &self.rules.folder) {
                Some(spool) => none.insert(File {
                    spool,
                    from: 0,
                    to: 0,
                    writing: Writing::Nothing,
                }),
                None => {
                    self.plan.refuse();
                    return self.rules.log_limit(&self.worker);
                }
            },
        };
        let spills = self.plan.to_spill() > 0;
        let pieces = match spills {
            true => &mut self.memory,
            false => &mut self.late,
        };
        file.writing = Writing::Waits(std::mem::take(pieces).into());
        self.plan.begin_write();
    }

    fn note_written(&mut self, written: Written) {
        let Some(file) = &mut self.file else { return };
        file.writing = Writing::Nothing;
        match written.outcome {
            Ok(()) => {
                let buffers = &self.worker.buffers;
                file.to += written
                    .pieces
                    .iter()
                    .map(|one| one.len() as u64)
                    .sum::<u64>();
                written
                    .pieces
                    .into_iter()
                    .for_each(|one| buffers.give_back(one));
                self.plan.wrote();
            }
            Err(error) => {
                self.rules.log_failure(&self.worker, &error);
                let pieces = written.pieces.into_iter().rev();
                pieces.for_each(|piece| self.late.push_front(piece));
                self.plan.refuse();
            }
        }
        self.settle();
    }

    /// Once the file is empty, the data that follows it takes its place.
    fn settle(&mut self) {
        if self.plan.behind() == 0 && !self.is_writing() {
            self.memory.append(&mut self.late);
        }
        if let Some(file) = &mut self.file
            && file.from == file.to
            && file.to > 0
            && matches!(file.writing, Writing::Nothing)
        {
            (file.from, file.to) = (0, 0);
            file.spool.note_drained();
        }
    }

    /// Refills the front from pending data. Ready with an empty front if nothing is pending.
    fn poll_front(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        while self.at == self.front.len() {
            if self.front.capacity() > 0 {
                let front = std::mem::take(&mut self.front);
                self.worker.buffers.give_back(front);
                self.at = 0;
            }
            match self.plan.front() {
                Front::Nothing => break,
                Front::Memory | Front::Late => {
                    let next = self.memory.pop_front().or_else(|| self.late.pop_front());
                    self.front = next.unwrap_or_default();
                    self.plan.taken(self.front.len() as u64);
                    self.settle();
                }
                Front::File(there) => {
                    if let Err(error) = self.read_file(there) {
                        let failure = Failure::from_io(Side::Internal, error);
                        return Poll::Ready(Err(failure));
                    }
                }
                Front::Writing => {
                    self.poll_writing(cx);
                    if self.plan.front() == Front::Writing {
                        return Poll::Pending;
                    }
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Fills the front from the file, which has `there` pending bytes.
    fn read_file(&mut self, there: u64) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let count = there.min(BUFFER_PIECE_BYTES as u64);
        self.front = self.worker.buffers.large();
        file.spool.read(
            &mut self.front,
            file.from,
            usize::try_from(count).unwrap_or(0),
        )?;
        file.from += count;
        self.plan.taken(count);
        self.settle();
        Ok(())
    }

    /// Moves data that the source shows, but the receiver has not consumed, to the front.
    fn hold_shown(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        if self.at < self.front.len() || self.plan.front() != Front::Nothing {
            return Ok(());
        }
        let Source::Open(body) = &mut self.source else {
            return Ok(());
        };
        match body.poll_data(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(Err(failure)) if failure.side == Side::Client => Err(failure),
            Poll::Ready(Err(failure)) => {
                self.source = Source::Failed(Some(failure));
                Ok(())
            }
            Poll::Ready(Ok([])) => {
                self.source = Source::Ended(body.trailers());
                Ok(())
            }
            Poll::Ready(Ok(data)) => {
                self.at = 0;
                self.front = piece_for(&self.worker, data.len());
                self.front.extend_from_slice(data);
                let count = data.len();
                body.consume(count);
                Ok(())
            }
        }
    }
}

/// Puts `data` behind what waits. The first piece grows with its content: most bodies that wait are short or have only
/// begun, and a buffer of the worker is as large as a whole piece. Further pieces are such buffers.
fn append(worker: &Worker, to: &mut VecDeque<Vec<u8>>, mut data: &[u8]) {
    while !data.is_empty() {
        let is_first = to.len() <= 1;
        let room = match to.back_mut() {
            Some(last) if is_first && last.capacity() - last.len() < data.len() => {
                grow(last, data.len());
                last.capacity() - last.len()
            }
            Some(last) => last.capacity() - last.len(),
            None => 0,
        };
        if room == 0 {
            to.push_back(match to.is_empty() {
                true => piece_for(worker, data.len()),
                false => worker.buffers.large(),
            });
            continue;
        }
        let (now, rest) = data.split_at(room.min(data.len()));
        if let Some(last) = to.back_mut() {
            last.extend_from_slice(now);
        }
        data = rest;
    }
}

/// An empty buffer for so many bytes and a few more.
fn piece_for(worker: &Worker, count: usize) -> Vec<u8> {
    match count > BUFFER_PIECE_BYTES / 2 {
        true => worker.buffers.large(),
        false => Vec::with_capacity(count.next_power_of_two().max(BUFFER_PIECE_BYTES_MIN)),
    }
}

/// Gives `piece` room for so many bytes more, at least twice what it has, and at most that of a whole piece.
fn grow(piece: &mut Vec<u8>, count: usize) {
    let wanted = (piece.len() + count).max(2 * piece.capacity());
    let capacity = wanted.min(BUFFER_PIECE_BYTES);
    if capacity > piece.capacity() {
        piece.reserve_exact(capacity - piece.len());
    }
}

fn cut_off() -> Failure {
    Failure::new(Side::Upstream, FailureKind::Closed)
}

impl BodyStream for Ahead {
    fn len(&self) -> Option<u64> {
        let here = (self.front.len() - self.at) as u64 + self.plan.held();
        match &self.source {
            Source::Open(body) => body.len().map(|rest| rest + here),
            // With a known length there would be no place for trailers.
            Source::Ended(Some(_)) | Source::Failed(_) => None,
            Source::Ended(None) => Some(here),
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        ready!(self.poll_front(cx))?;
        if self.at < self.front.len() {
            return Poll::Ready(Ok(&self.front[self.at..]));
        }
        match &mut self.source {
            Source::Open(body) => body.poll_data(cx),
            Source::Ended(_) => Poll::Ready(Ok(&[])),
            Source::Failed(failure) => Poll::Ready(Err(failure.take().unwrap_or_else(cut_off))),
        }
    }

    fn consume(&mut self, count: usize) {
        if self.at < self.front.len() {
            self.at += count;
        } else if let Source::Open(body) = &mut self.source {
            body.consume(count);
        }
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if let Err(failure) = self.hold_shown(cx) {
            return Poll::Ready(Err(failure));
        }
        self.poll_fill(cx, Fill::Ahead);
        match &mut self.source {
            // The receiver need not wait in order to learn that the client aborted its own request.
            Source::Failed(failure)
                if failure.as_ref().is_some_and(|one| one.side == Side::Client) =>
            {
                Poll::Ready(Err(failure.take().unwrap_or_else(cut_off)))
            }
            Source::Open(_) | Source::Ended(_) | Source::Failed(_) => Poll::Pending,
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        match &mut self.source {
            Source::Open(body) => body.trailers(),
            Source::Ended(trailers) => trailers.take(),
            Source::Failed(_) => None,
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let buffers = &self.worker.buffers;
        buffers.give_back(std::mem::take(&mut self.front));
        self.memory.drain(..).for_each(|one| buffers.give_back(one));
        self.late.drain(..).for_each(|one| buffers.give_back(one));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_bodies_take_short_buffers_and_long_ones_whole_pieces() {
        let worker = Worker::new(0, 1);
        let mut pieces = VecDeque::new();
        append(&worker, &mut pieces, &[b'x'; 1000]);
        assert_eq!(pieces[0].capacity(), BUFFER_PIECE_BYTES_MIN);
        append(&worker, &mut pieces, &[b'x'; 4000]);
        assert_eq!((pieces.len(), pieces[0].capacity()), (1, 8 * 1024));
        append(&worker, &mut pieces, &[b'x'; 200_000]);
        let all_but_last = pieces.len() - 1;
        for piece in pieces.iter().take(all_but_last) {
            assert_eq!(piece.len(), BUFFER_PIECE_BYTES);
        }
        let len: usize = pieces.iter().map(Vec::len).sum();
        assert_eq!(len, 205_000);
        // A body that comes in large reads gets whole buffers at once, without a copy to a larger one.
        let mut pieces = VecDeque::new();
        append(&worker, &mut pieces, &[b'x'; 60_000]);
        assert_eq!(pieces[0].capacity(), BUFFER_PIECE_BYTES);
    }
}
