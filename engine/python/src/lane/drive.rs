//! Drives one lane: a task reads for all its streams and writes their output together.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::Moment;
use sluice_net::UnixSocket;
use sluice_net::sys::rights;
use sluice_net::tasks::in_background;
use sluice_net::timer::Timer;
use sluice_wire::python::Fault;

use super::mux::Mux;
use crate::failure::Death;
use crate::limits::{DESCRIPTORS_MAX, TURNS_MAX};
use crate::notice::{Fact, Level};

/// Starts the task that drives a lane until it is closed.
pub(super) fn start(mux: &Rc<Mux>, end: OwnedFd) -> io::Result<()> {
    let socket = std::os::unix::net::UnixStream::from(end);
    let mut drive = Drive {
        timer: mux.worker.timers.timer(),
        timer_at: None,
        socket: UnixSocket::new(socket)?,
        mux: mux.clone(),
        input: Vec::new(),
        arrived: Vec::new(),
        descriptors: VecDeque::new(),
    };
    in_background(async move { poll_fn(|cx| drive.poll(cx)).await });
    Ok(())
}

/// The driver of one lane.
struct Drive {
    mux: Rc<Mux>,
    socket: UnixSocket,
    /// Received data; holds no memory while empty.
    input: Vec<u8>,
    /// Descriptors that came with it.
    arrived: Vec<OwnedFd>,
    /// Descriptors whose frames have not arrived yet.
    descriptors: VecDeque<OwnedFd>,
    /// Fires when the oldest request has taken too long.
    timer: Timer,
    timer_at: Option<Moment>,
}

impl Drive {
    /// Makes progress until nothing is left to do for now, or the lane is closed.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TURNS_MAX {
            let has_received = self.receive(cx);
            let has_sent = self.send(cx);
            if self.mux.is_over() {
                return Poll::Ready(());
            }
            if !has_received && !has_sent {
                self.mux.sleep(cx.waker());
                if self.poll_deadline(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        }
        // Yields to other tasks.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads once and sorts the frames. Returns whether there was input.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        match self.socket.poll_read_ready(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => {
                self.mux.lose_worker();
                return true;
            }
            Poll::Pending => return false,
        }
        let buffers = &self.mux.worker.buffers;
        if self.input.capacity() == 0 {
            self.input = buffers.large();
        }
        let (input, arrived) = (&mut self.input, &mut self.arrived);
        let socket = &self.socket;
        let read = socket.try_receive(|socket| rights::receive(socket, input, arrived));
        if self.arrived.is_empty() && self.input.len() < self.input.capacity() {
            // The socket is empty: saves the read that would only find that. Nothing can become ready in between, as
            // this thread looks for readiness between tasks only; the end of the stream is remembered.
            let _ = socket.try_receive(|_| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        }
        let has_received = match read {
            Ok(count) if count > 0 => {
                self.digest();
                true
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Ok(_) | Err(_) => {
                self.mux.lose_worker();
                true
            }
        };
        self.input.clear();
        self.mux
            .worker
            .buffers
            .give_back(std::mem::take(&mut self.input));
        has_received
    }

    /// Feeds the input to the codec, and what it says to the calls.
    fn digest(&mut self) {
        self.descriptors.extend(self.arrived.drain(..));
        let heard = self.hear();
        let is_flooded = self.descriptors.len() > DESCRIPTORS_MAX;
        self.mux.settle();
        if let Err(fault) = heard.and(if is_flooded { Err(Fault::File) } else { Ok(()) }) {
            let facts = [("fault", Fact::Text(fault.to_string()))];
            let (group, process) = (&self.mux.group, &self.mux.process);
            let message = "a Python worker violated the protocol; it is killed";
            group.report_of(Some(process), Level::Error, message, &facts);
            process.note_death(Death::Protocol);
            self.mux.lose_worker();
        }
    }

    fn hear(&mut self) -> Result<(), Fault> {
        let mut at = 0;
        while at < self.input.len() {
            let mut lane = self.mux.lane.borrow_mut();
            let received = lane.receive(&self.input[at..])?;
            at += received.consumed;
            if let Some(event) = received.event {
                self.mux.heed(event, &mut self.descriptors)?;
            }
        }
        Ok(())
    }

    /// Writes pending output. Returns whether the worker accepted some.
    fn send(&mut self, cx: &mut Context<'_>) -> bool {
        let mux = &self.mux;
        let had_room = mux.has_room();
        let mut sent = 0;
        {
            let mut lane = mux.lane.borrow_mut();
            let output = lane.output();
            while sent < output.len() {
                match self.socket.poll_write(cx, &[IoSlice::new(&output[sent..])]) {
                    Poll::Ready(Ok(count)) => sent += count,
                    // What was received before is still read: the lane ends with the end of its input.
                    Poll::Ready(Err(_)) => output.truncate(sent),
                    Poll::Pending => break,
                }
            }
            match sent == output.len() {
                true => output.clear(),
                false => drop(output.drain(..sent)),
            }
        }
        mux.note_written(sent);
        if !had_room && mux.has_room() {
            mux.note_room();
        }
        sent > 0
    }

    /// Ready when requests have exceeded their time; also frees the memory of a quiet lane.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.mux.deadline();
        if due.is_none() {
            self.mux.shrink();
        }
        if due != self.timer_at {
            self.timer_at = due;
            match due {
                Some(due) => {
                    let clock = &self.mux.worker.clock;
                    self.timer.set(clock, due.since(clock.coarse()));
                }
                None => self.timer.clear(),
            }
        }
        self.timer.poll_expired(cx).map(|()| {
            self.timer.clear();
            self.timer_at = None;
            self.mux.expire(self.mux.worker.clock.coarse());
        })
    }
}

impl Drop for Drive {
    /// However the task ends, calls must not wait for it any more. If this thread of sluice ends, the process goes on for
    /// the others.
    fn drop(&mut self) {
        self.mux.lose_all();
        let buffers = &self.mux.worker.buffers;
        buffers.give_back(std::mem::take(&mut self.input));
    }
}
