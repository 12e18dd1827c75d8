//! An HTTP/2 connection as its streams see it.

use std::rc::Rc;

use sluice_message::{Fields, Moment, Status};
use sluice_wire::h1::BodyFraming;
use sluice_wire::h2::{End, StreamId};

use super::mux::Mux;
use crate::body::FileSlice;
use crate::multiplexed::{Carrier, Gone, Moved, NotSent, Taken, WaitsFor};
use crate::retirement::InProgress;
use crate::sys::files::append_at;
use crate::worker::Worker;

impl Carrier for Mux {
    type Id = StreamId;

    fn worker(&self) -> &Rc<Worker> {
        &self.link.worker
    }

    fn requests(&self) -> &InProgress {
        &self.link.requests
    }

    fn moved(&self) -> &Moved {
        &self.moved
    }

    fn gone(&self, id: StreamId) -> Option<Gone> {
        Mux::gone(self, id)
    }

    fn has_room(&self) -> bool {
        !self.server.borrow().is_output_full()
    }

    fn capacity(&self, id: StreamId) -> usize {
        self.server.borrow_mut().capacity(id)
    }

    fn await_room(&self, id: StreamId) -> WaitsFor {
        Mux::await_room(self, id)
    }

    fn send_interim(&self, id: StreamId, status: Status, fields: &Fields) {
        let mut server = self.server.borrow_mut();
        if !server.is_output_full() {
            // If the stream is gone, the sender of the response notices.
            let _ = server.send_interim(id, status, fields);
        }
    }

    fn send_head(
        &self,
        id: StreamId,
        (status, fields): (Status, &Fields),
        framing: BodyFraming,
        end: End,
    ) -> Result<u64, Gone> {
        let date = self.link.worker.clock.date();
        let mut server = self.server.borrow_mut();
        let before = server.output().len();
        let sent = server.send_head(id, status, fields, framing, &date, end);
        let bytes = server.output().len().saturating_sub(before) as u64;
        drop(server);
        sent.map(|_| bytes).map_err(|_| self.why_gone(id))
    }

    fn send_data(&self, id: StreamId, data: &[u8], end: End) -> Result<usize, Gone> {
        let sent = self.server.borrow_mut().send_data(id, data, end);
        sent.map_err(|_| self.why_gone(id))
    }

    fn send_file(
        &self,
        id: StreamId,
        file: &FileSlice,
        offset: u64,
        count: usize,
    ) -> Result<(), NotSent> {
        let mut server = self.server.borrow_mut();
        if server.send_data_head(id, count, End::Later).is_err() {
            drop(server);
            return Err(NotSent::Gone(self.why_gone(id)));
        }
        // If the file turns out shorter, the announced frame is padded.
        append_at(&file.file, offset, count, server.output()).map_err(NotSent::File)
    }

    fn send_trailers(&self, id: StreamId, fields: &Fields) -> Result<(), Gone> {
        let sent = self.server.borrow_mut().send_trailers(id, fields);
        sent.map_err(|_| self.why_gone(id))
    }

    fn is_flushed(&self, _id: StreamId) -> bool {
        // What the codec has taken is in the output of the connection.
        true
    }

    fn take(&self, id: StreamId, buf: &mut Vec<u8>) -> Taken {
        Mux::take(self, id, buf)
    }

    fn consumed(&self, id: StreamId, count: usize) {
        Mux::consumed(self, id, count);
    }

    fn give_up(&self, id: StreamId, left: usize) {
        Mux::give_up(self, id, left);
    }

    fn bytes_read(&self, id: StreamId) -> u64 {
        Mux::bytes_read(self, id)
    }

    fn was_withheld(&self, since: Moment) -> bool {
        Mux::was_withheld(self, since)
    }
}

impl Mux {
    fn why_gone(&self, id: StreamId) -> Gone {
        Mux::gone(self, id).unwrap_or(Gone::Closed)
    }
}
