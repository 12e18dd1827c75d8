//! Processes arriving frames (RFC 9113, sections 5 and 6). `server` and `client` process header blocks.

use super::closed::Past;
use super::conn::{Conn, Ending, GOODBYE, Step};
use super::error::{ErrorCode, Reason};
use super::frame::{FrameHead, FrameKind, encode_ping, flags};
use super::limits::PRIORITIES_AHEAD_MAX;
use super::reader::{Chunk, Frame, Whole};
use super::settings::Role;
use super::stream::{Inbound, Outbound, Phase, Side, Stream, StreamId};
use crate::glitch::cost;
use crate::sections::{End, Priority, TrailerReader};

impl Conn {
    /// Does what a frame asks for; gives what the owner has to know.
    pub fn take<'a>(&mut self, frame: Frame<'a>) -> Result<Option<Step<'a>>, Reason> {
        match frame {
            Frame::Data {
                stream,
                whole,
                data,
                end,
            } => {
                if let Some(whole) = whole {
                    self.receive_window
                        .take(whole.counted)
                        .map_err(|_| Reason::WindowExceeded)?;
                    self.give_back(whole.overhead);
                    self.charge_data(whole)?;
                }
                self.take_data(stream, whole, data, end)
            }
            Frame::Block { stream, end, block } => Ok(Some(Step::Block { stream, end, block })),
            Frame::Reset { stream, code } => self.take_reset(stream, code),
            Frame::Settings(payload) => self.take_settings(payload),
            Frame::SettingsAck => self.take_settings_ack().map(|()| None),
            Frame::Ping(opaque) => {
                encode_ping(flags::ACK, opaque, &mut self.out);
                if !self.budget.take_update() {
                    self.glitch(cost::PING)?;
                }
                Ok(None)
            }
            Frame::Pong(opaque) => self.take_pong(opaque).map(|()| None),
            Frame::GoAway { last, code } => {
                self.peer_leaves = true;
                self.glitch(cost::IGNORED)?;
                Ok(Some(Step::GoAway { last, code }))
            }
            Frame::WindowUpdate { stream, increment } => {
                if !self.budget.take_update() {
                    self.glitch(cost::WINDOW_UPDATE)?;
                }
                match stream {
                    0 => self.widen(increment),
                    _ => self.widen_stream(stream, increment),
                }
            }
            Frame::PriorityUpdate { stream, value } => {
                self.take_priority(stream, Priority::parse(value.bytes()));
                self.reader.give_back(value);
                self.glitch(cost::IGNORED).map(|()| None)
            }
            Frame::Ignored => self.glitch(cost::IGNORED).map(|()| None),
            Frame::PriorityLength { stream } => match self.streams.find(stream) {
                Some(id) => self.break_off(id, ErrorCode::FRAME_SIZE_ERROR),
                None => Err(Reason::FrameLength),
            },
        }
    }

    /// Resets a stream because of what the peer sent on it.
    pub fn break_off<'a>(
        &mut self,
        id: StreamId,
        code: ErrorCode,
    ) -> Result<Option<Step<'a>>, Reason> {
        let live = self.streams.look(id).is_some_and(|stream| stream.is_live());
        self.glitch(if live { cost::RESET_FORCED } else { cost::LATE })?;
        if !live {
            return Ok(None);
        }
        self.reset(id, code);
        let by = Side::Us;
        Ok(Some(Step::Reset { id, code, by }))
    }

    /// A header block where only trailers can be (section 8.1).
    pub fn take_trailers<'a>(
        &mut self,
        id: StreamId,
        end: End,
        block: Chunk<'_>,
    ) -> Result<Option<Step<'a>>, Reason> {
        let limits = self.limits.heads();
        let mut reader = TrailerReader::new(&limits);
        self.decode(block, |field| reader.take(field))?;
        self.check_reset(id)?;
        let Some(stream) = self.streams.at(id) else {
            return Ok(None);
        };
        if stream.phase == Phase::Tail {
            self.end_tail(id);
            return Ok(None);
        }
        let code = match (stream.inbound(), reader.finish()) {
            (None | Some(Inbound::Ended), _) => ErrorCode::STREAM_CLOSED,
            // They end the stream, and after as much content as was declared.
            (_, Ok(fields)) if end.is_here() && stream.receive_left.may_end() => {
                stream.set_inbound(Inbound::Ended);
                return Ok(Some(Step::Trailers { id, fields }));
            }
            (_, Ok(_) | Err(_)) => ErrorCode::PROTOCOL_ERROR,
        };
        self.break_off(id, code)
    }

    /// A frame for a stream that is not open any more; an error if it never was, or if the peer knows that it is
    /// over.
    pub fn late(&mut self, number: u32, points: u32) -> Result<(), Reason> {
        if self.is_idle(number) {
            return Err(Reason::StreamIdle);
        }
        if self.is_after_goodbye(number) {
            return self.glitch(points);
        }
        match self.closed.look(number) {
            Past::Reset => self.glitch(points),
            Past::Ended | Past::Unknown => Err(Reason::StreamClosed),
        }
    }

    /// Section 5.1, closed: a client that has reset a stream knows that nothing may follow, also while the owner has
    /// not let go of it. Servers are not held to that, since what they mix up would cost all other requests.
    fn check_reset(&self, id: StreamId) -> Result<(), Reason> {
        let phase = self.streams.look(id).map(|stream| stream.phase);
        if self.us == Role::Server && phase == Some(Phase::Gone(Side::Peer)) {
            return Err(Reason::StreamClosed);
        }
        Ok(())
    }

    /// Whether the peer opened a stream after our goodbye: it is not looked at, however many of them there are
    /// (section 6.8).
    pub fn is_after_goodbye(&self, number: u32) -> bool {
        matches!(self.ending, Ending::Final { last } if self.us == Role::Server && number > last)
    }

    /// Whether nobody opened a stream with this number yet.
    pub fn is_idle(&self, number: u32) -> bool {
        number.is_multiple_of(2) || number > self.highest
    }

    /// DATA frames that are mostly frame.
    fn charge_data(&mut self, whole: Whole) -> Result<(), Reason> {
        let content = whole.counted - whole.overhead;
        if whole.end.is_here() {
            Ok(())
        } else if content == 0 {
            self.glitch(cost::DATA_EMPTY)
        } else if content < whole.overhead + super::FRAME_HEAD_LEN as u32 {
            self.glitch(cost::DATA_TINY)
        } else {
            Ok(())
        }
    }

    /// A piece of content, for whose whole frame the connection's window was taken (section 6.1).
    fn take_data<'a>(
        &mut self,
        number: u32,
        whole: Option<Whole>,
        data: &'a [u8],
        end: End,
    ) -> Result<Option<Step<'a>>, Reason> {
        let len = data.len() as u32;
        let points = whole.map_or(0, |_| cost::DATA_TINY);
        let Some(id) = self.streams.find(number) else {
            self.give_back(len);
            return self.late(number, points).map(|()| None);
        };
        if self.streams.look(id).map(|stream| stream.phase) == Some(Phase::Tail) {
            self.give_back(len);
            return self.take_tail(id, whole, end).map(|()| None);
        }
        let Some(stream) = self.streams.at(id).filter(|stream| stream.is_live()) else {
            self.give_back(len);
            self.check_reset(id)?;
            return self.glitch(points).map(|()| None);
        };
        if let Some(whole) = whole
            && let Err(code) = check_data(stream, whole)
        {
            self.give_back(len);
            return self.break_off(id, code);
        }
        stream.unread += len;
        if end.is_here() {
            stream.set_inbound(Inbound::Ended);
        } else if let Some(whole) = whole {
            self.give_back_padding(id, whole.overhead);
        }
        let has_event = !data.is_empty() || end.is_here();
        Ok(has_event.then_some(Step::Data { id, data, end }))
    }

    /// Content of a request whose response was complete before the request was. Resetting its stream would be allowed
    /// (section 8.1), but clients that are about to send the rest treat that as a failure: Python's `h2` does.
    fn take_tail(&mut self, id: StreamId, whole: Option<Whole>, end: End) -> Result<(), Reason> {
        if let Some(whole) = whole
            && let Some(stream) = self.streams.at(id)
            && let Err(code) = count_data(stream, whole)
        {
            self.end_tail(id);
            self.refuse(id.number(), code);
            return self.glitch(cost::RESET_FORCED);
        }
        if end.is_here() {
            self.end_tail(id);
        }
        Ok(())
    }

    /// Padding is consumed by nobody.
    fn give_back_padding(&mut self, id: StreamId, bytes: u32) {
        if bytes > 0
            && let Some(stream) = self.streams.at(id)
            && let Some(increment) = stream.receive_window.consume(bytes)
        {
            let (kind, number) = (FrameKind::WINDOW_UPDATE, id.number());
            super::frame::encode_word(kind, number, increment, &mut self.out);
        }
    }

    /// RST_STREAM (section 6.4).
    fn take_reset<'a>(&mut self, number: u32, code: ErrorCode) -> Result<Option<Step<'a>>, Reason> {
        if self.is_idle(number) {
            return Err(Reason::StreamIdle);
        }
        let id = self.streams.find(number);
        if let Some(id) = id
            && self.streams.look(id).map(|stream| stream.phase) == Some(Phase::Tail)
        {
            self.end_tail(id);
            return Ok(None);
        }
        let Some(id) = id.filter(|id| self.streams.look(*id).is_some_and(|s| s.is_live())) else {
            return self.glitch(cost::LATE).map(|()| None);
        };
        let responded = match self.streams.at(id) {
            Some(stream) => {
                let responded = match self.us {
                    Role::Server => stream.outbound() == Some(Outbound::Ended),
                    Role::Client => stream.inbound() == Some(Inbound::Ended),
                };
                stream.phase = Phase::Gone(Side::Peer);
                responded
            }
            None => true,
        };
        self.closed.add_ended(number);
        if !responded {
            self.glitch(cost::RESET)?;
        }
        let by = Side::Peer;
        Ok(Some(Step::Reset { id, code, by }))
    }

    /// SETTINGS (section 6.5).
    fn take_settings<'a>(&mut self, payload: Chunk<'_>) -> Result<Option<Step<'a>>, Reason> {
        let before = self.peer;
        let role = match self.us {
            Role::Server => Role::Client,
            Role::Client => Role::Server,
        };
        let applied = self.peer.apply(payload.bytes(), role);
        self.reader.give_back(payload);
        applied?;
        let by = i64::from(self.peer.stream_window) - i64::from(before.stream_window);
        let mut waits = false;
        if by != 0 {
            for (_, stream) in self.streams.iter_mut() {
                waits |= by > 0 && stream.waits;
                stream
                    .send_window
                    .shift(by)
                    .map_err(|_| Reason::SettingWindow)?;
            }
        }
        if self.peer.table_bytes_max != before.table_bytes_max || !self.settled {
            self.encoder.limit_table(self.peer.table_bytes_max);
        }
        let ack = FrameHead {
            len: 0,
            kind: FrameKind::SETTINGS,
            flags: flags::ACK,
            stream: 0,
        };
        ack.encode(&mut self.out);
        if self.settled {
            self.glitch(cost::SETTINGS)?;
        }
        self.settled = true;
        Ok(match self.us {
            Role::Client => Some(Step::Settings),
            Role::Server => waits.then_some(Step::Window { id: None }),
        })
    }

    fn take_settings_ack(&mut self) -> Result<(), Reason> {
        if self.settings_open == 0 {
            return self.glitch(cost::IGNORED);
        }
        self.settings_open -= 1;
        self.decoder.limit_table(self.limits.table_bytes_max);
        Ok(())
    }

    fn take_pong(&mut self, opaque: [u8; 8]) -> Result<(), Reason> {
        if opaque == GOODBYE && self.ending == Ending::Announced {
            self.go_away(ErrorCode::NO_ERROR);
        } else if opaque != GOODBYE && self.pings_open > 0 {
            self.pings_open -= 1;
        } else {
            // Nobody asked.
            self.glitch(cost::IGNORED)?;
        }
        Ok(())
    }

    /// WINDOW_UPDATE for the connection (section 6.9).
    fn widen<'a>(&mut self, increment: u32) -> Result<Option<Step<'a>>, Reason> {
        if increment == 0 {
            return Err(Reason::WindowIncrement);
        }
        self.send_window
            .shift(i64::from(increment))
            .map_err(|_| Reason::WindowOverflow)?;
        let has_event = core::mem::take(&mut self.waits);
        Ok(has_event.then_some(Step::Window { id: None }))
    }

    /// WINDOW_UPDATE for a stream (section 6.9).
    fn widen_stream<'a>(
        &mut self,
        number: u32,
        increment: u32,
    ) -> Result<Option<Step<'a>>, Reason> {
        let Some(id) = self.streams.find(number) else {
            if self.is_idle(number) {
                return Err(Reason::StreamIdle);
            }
            // It may have crossed our last frame, and does no harm.
            return self.glitch(cost::LATE).map(|()| None);
        };
        let open = self.send_window.available() > 0;
        let Some(stream) = self.streams.at(id).filter(|stream| stream.is_live()) else {
            return self.glitch(cost::LATE).map(|()| None);
        };
        if increment == 0 {
            return self.break_off(id, ErrorCode::PROTOCOL_ERROR);
        }
        if stream.send_window.shift(i64::from(increment)).is_err() {
            return self.break_off(id, ErrorCode::FLOW_CONTROL_ERROR);
        }
        let has_event = stream.waits && stream.send_window.available() > 0;
        if has_event {
            stream.waits = false;
            // With the connection's window closed as well, the stream waits for that now.
            self.waits |= !open;
        }
        Ok((has_event && open).then_some(Step::Window { id: Some(id) }))
    }

    /// PRIORITY_UPDATE (RFC 9218, section 7.1).
    fn take_priority(&mut self, number: u32, priority: Priority) {
        self.has_priorities = true;
        if let Some(id) = self.streams.find(number) {
            if let Some(stream) = self.streams.at(id) {
                stream.priority = priority;
            }
        } else if self.is_idle(number) {
            self.ahead.retain(|(ahead, _)| *ahead != number);
            if self.ahead.len() < PRIORITIES_AHEAD_MAX {
                self.ahead.push((number, priority));
            }
        }
    }
}

/// Whether a frame of content may come on its stream; if so it is counted.
fn check_data(stream: &mut Stream, whole: Whole) -> Result<(), ErrorCode> {
    match stream.inbound() {
        // Section 8.1: content comes after the head.
        Some(Inbound::AwaitHead) => return Err(ErrorCode::PROTOCOL_ERROR),
        None | Some(Inbound::Ended) => return Err(ErrorCode::STREAM_CLOSED),
        Some(Inbound::AwaitBody) => {}
    }
    count_data(stream, whole)
}

/// Counts a frame of content; an error if it is more than the window, or not what was declared.
fn count_data(stream: &mut Stream, whole: Whole) -> Result<(), ErrorCode> {
    stream
        .receive_window
        .take(whole.counted)
        .map_err(|_| ErrorCode::FLOW_CONTROL_ERROR)?;
    // Section 8.1.1: as much as was declared, no less and no more.
    let content = (whole.counted - whole.overhead) as usize;
    let fits = stream.receive_left.take(content);
    if !fits || whole.end.is_here() && !stream.receive_left.may_end() {
        return Err(ErrorCode::PROTOCOL_ERROR);
    }
    Ok(())
}
