//! Server-sent events on one connection: one request, then events for as long as the server sends them. Each event ends
//! a wait, so the latency is the interval between two events; the time to the first one is recorded separately.
//!
//! The format is that of the HTML standard, section 9.2: lines, and an empty line after each event.

use std::io::IoSlice;

use super::{Desk, Done, Ending, Flight, Keep, Lost};
use crate::generator::clock::Ns;
use crate::generator::expect::field;
use crate::generator::link::Fault;
use crate::generator::request::Prepared;
use crate::generator::response::{Facts, Fed, Reader, Take};
use crate::result::FailureClass;

/// Events on one connection.
#[derive(Debug)]
pub struct Events {
    /// When the connection was opened.
    since: Ns,
    reader: Reader,
    stream: Stream,
    flight: Option<Flight>,
    /// Bytes of the request sent.
    sent: usize,
    opened: bool,
    responses: u64,
}

/// State of the stream.
#[derive(Debug, Default)]
struct Stream {
    status: u16,
    is_events: bool,
    head: Vec<u8>,
    lines: Lines,
    /// Complete events not yet recorded, with the bytes of each.
    complete: Vec<u64>,
}

/// Incremental line parser of a stream.
#[derive(Debug, Default)]
struct Lines {
    /// Length of the current line.
    length: u64,
    /// The beginning of the line, as far as it matters.
    begins: [u8; 5],
    /// The last byte was a carriage return: a line feed after it belongs to it.
    returned: bool,
    /// Whether the current event has data: without it, the standard discards the event.
    has_data: bool,
    /// Length of the current event.
    bytes: u64,
}

impl Lines {
    /// Consumes bytes; calls `event` with the size of each event they complete.
    fn take(&mut self, input: &[u8], mut event: impl FnMut(u64)) {
        for byte in input {
            let after_return = std::mem::replace(&mut self.returned, *byte == b'\r');
            if *byte == b'\n' && after_return {
                continue;
            }
            self.bytes += 1;
            if *byte != b'\n' && *byte != b'\r' {
                if let Some(place) = self.begins.get_mut(self.length as usize) {
                    *place = *byte;
                }
                self.length += 1;
                continue;
            }
            if self.length == 0 {
                if self.has_data {
                    event(self.bytes);
                }
                (self.has_data, self.bytes) = (false, 0);
                continue;
            }
            let begin = &self.begins[..(self.length as usize).min(5)];
            self.has_data |= begin == b"data:" || (begin == b"data" && self.length == 4);
            self.length = 0;
        }
    }
}

impl Take for Stream {
    fn head(&mut self, facts: &Facts, raw: &[u8]) {
        self.status = facts.status;
        let kind = field(raw, "content-type").unwrap_or_default();
        let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
        self.is_events = kind.trim_ascii().eq_ignore_ascii_case(b"text/event-stream");
        self.head = raw.to_vec();
    }

    fn body(&mut self, bytes: &[u8]) {
        let Stream {
            lines, complete, ..
        } = self;
        lines.take(bytes, |bytes| complete.push(bytes));
    }
}

impl Events {
    /// On a connection open since `since`.
    pub fn new(since: Ns) -> Self {
        Events {
            since,
            reader: Reader::default(),
            stream: Stream::default(),
            flight: None,
            sent: 0,
            opened: false,
            responses: 0,
        }
    }

    /// The response head.
    pub fn head(&self) -> &[u8] {
        &self.stream.head
    }

    /// Starts to wait for an event.
    pub fn begin(&mut self, flight: Flight) {
        self.flight = Some(flight);
    }

    /// Consumes bytes from the server.
    pub fn receive(&mut self, input: &[u8], now: Ns, desk: &mut Desk<'_>) -> Result<Keep, Fault> {
        let fed = self
            .reader
            .feed(input, false, desk.last, &mut self.stream)
            .map_err(|error| Fault {
                class: FailureClass::Malformed,
                text: error.0.to_string(),
            })?;
        if let Some(flight) = self.flight.as_mut().filter(|flight| flight.first == 0) {
            flight.first = now;
        }
        if !self.stream.head.is_empty() && !self.opened {
            self.judge(desk)?;
        }
        for bytes in std::mem::take(&mut self.stream.complete) {
            self.event(bytes, now, desk.done);
        }
        match fed {
            Fed::More => Ok(Keep::Open),
            Fed::Complete(_) => {
                let text = format!("the stream ended after {} events", self.responses);
                self.lose(
                    &Lost::new(Ending::Closed.class(self.responses), text),
                    desk.done,
                );
                Ok(Keep::Closes)
            }
        }
    }

    /// Whether the response is a stream of events.
    fn judge(&mut self, desk: &mut Desk<'_>) -> Result<(), Fault> {
        let wanted = desk.requests[0].expect.status;
        let status = self.stream.status;
        if status != wanted {
            let text = format!("status {status} instead of {wanted}");
            let mut lost = Lost::new(FailureClass::Status, text.clone());
            lost.status = status;
            self.lose(&lost, desk.done);
            let class = FailureClass::Status;
            return Err(Fault { class, text });
        }
        if !self.stream.is_events {
            let text = "Content-Type is not text/event-stream".to_string();
            let class = FailureClass::Field;
            return Err(Fault { class, text });
        }
        Ok(())
    }

    /// Handles an event. If several arrive at once, there is no interval between them: the first ends the wait, the
    /// others have length zero.
    fn event(&mut self, bytes: u64, now: Ns, done: &mut Vec<Done>) {
        self.responses += 1;
        if !self.opened {
            self.opened = true;
            done.push(Done::opening(self.since, now));
            if let Some(flight) = &mut self.flight {
                (flight.due, flight.sent) = (now, now);
            }
            return;
        }
        if let Some(flight) = self.flight.take() {
            done.push(flight.end(Ok(bytes)));
            return;
        }
        done.push(Done::beside(now, bytes));
    }

    /// The connection has ended.
    pub fn end(&mut self, ending: Ending, desk: &mut Desk<'_>) {
        let how = ending.words();
        let inside = self.stream.lines.bytes > 0;
        let class = match (self.stream.head.is_empty(), inside) {
            (true, _) if self.reader.progress() == crate::generator::response::Progress::Head => {
                FailureClass::HeadCut
            }
            (false, true) => FailureClass::BodyCut,
            _ => ending.class(self.responses),
        };
        let text = format!("{how} after {} events", self.responses);
        self.lose(&Lost::new(class, text), desk.done);
    }

    /// Fails the current wait.
    pub fn lose(&mut self, lost: &Lost, done: &mut Vec<Done>) {
        if let Some(flight) = self.flight.take() {
            done.push(flight.end(Err(lost.clone())));
        }
    }

    /// Waits in progress: one or none.
    pub fn in_flight(&self) -> usize {
        usize::from(self.flight.is_some())
    }

    /// Fails the wait if it began at or before `before`.
    pub fn expire(&mut self, before: Ns, done: &mut Vec<Done>) -> Keep {
        if self.flight.is_none_or(|flight| flight.sent > before) {
            return Keep::Open;
        }
        let (class, text) = match self.stream.head.is_empty() {
            true => (FailureClass::HeadTimeout, "no complete head in time"),
            false => (FailureClass::BodyTimeout, "no event in time"),
        };
        self.lose(&Lost::new(class, text), done);
        Keep::Closes
    }

    /// The current wait.
    pub fn oldest(&self) -> Option<Flight> {
        self.flight
    }

    /// The unsent part of the request.
    pub fn pieces<'a>(&self, requests: &'a [Prepared], pieces: &mut [IoSlice<'a>]) -> usize {
        let rest = &requests[0].wire[self.sent..];
        if rest.is_empty() || self.flight.is_none() && self.sent == 0 {
            return 0;
        }
        pieces[0] = IoSlice::new(rest);
        1
    }

    /// Advances the output by `bytes`.
    pub fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    /// Events received on this connection.
    pub fn responses(&self) -> u64 {
        self.responses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_parsed_in_pieces_of_any_size() {
        // A comment, an event of two lines, one without data that does not count, one without a value, all line
        // endings.
        let text = b": hello\n\ndata: a\ndata: b\n\nevent: x\nid: 7\n\nid: 8\r\ndata\r\n\r\ndata:c\r\rdatum: no\n\n";
        for step in [1, 2, 5, 100] {
            let (mut lines, mut events) = (Lines::default(), Vec::new());
            for bytes in text.chunks(step) {
                lines.take(bytes, |bytes| events.push(bytes));
            }
            assert_eq!(events, [17, 12, 8], "{step}");
            assert_eq!(lines.bytes, 0, "nothing is under way");
        }
    }
}
