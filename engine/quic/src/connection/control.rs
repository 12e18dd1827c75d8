//! The streams that are not requests (RFC 9114, section 6.2): the control streams of both ends and those of QPACK.

use quinn_proto::{Dir, StreamId, VarInt};
use sluice_wire::h3::{
    Code, ControlEvent, FrameKind, PeerEvent, PeerStreams, Settings, StreamKind, encode_frame_head,
    encode_varint,
};

use super::mux::{Mux, Received, Slot};
use crate::limits::DECODER_UNSENT_BYTES_MAX;

/// The streams of one connection that are not requests.
pub(super) struct Control {
    /// Those of the client.
    theirs: PeerStreams,
    /// Our control stream, once it is open.
    own: Own,
    /// Our stream of decoder instructions, once there are any.
    decoder: Own,
}

/// A stream of ours, with what QUIC did not take yet.
#[derive(Default)]
struct Own {
    id: Option<StreamId>,
    unsent: Vec<u8>,
}

/// What the client says beside its requests.
pub(super) enum Said {
    /// Nothing that the connection has to heed.
    Nothing,
    /// It goes away.
    GoAway,
}

impl Default for Control {
    fn default() -> Self {
        Control {
            theirs: PeerStreams::of_client(),
            own: Own::default(),
            decoder: Own::default(),
        }
    }
}

impl Control {
    /// Opens our control stream with our settings, as soon as the client allows.
    pub(super) fn open(&mut self, mux: &Mux) {
        if self.own.id.is_none() && self.own.unsent.is_empty() {
            let settings = Settings {
                extended_connect: true,
                ..Settings::from(&mux.limits)
            };
            settings.encode(&mut self.own.unsent);
        }
        self.own.flush(mux, StreamKind::Control);
    }

    /// Announces that requests from stream `from` on are not served.
    pub(super) fn go_away(&mut self, mux: &Mux, from: u64) {
        let mut payload = Vec::new();
        encode_varint(from, &mut payload);
        let out = &mut self.own.unsent;
        encode_frame_head(FrameKind::GOAWAY, payload.len() as u64, out);
        out.extend_from_slice(&payload);
        self.own.flush(mux, StreamKind::Control);
    }

    /// Sends what is left of our streams, and the instructions of the decoder.
    pub(super) fn flush(&mut self, mux: &Mux) {
        if !self.own.unsent.is_empty() {
            self.own.flush(mux, StreamKind::Control);
        }
        let mut heads = mux.heads.borrow_mut();
        let output = heads.decoder.output();
        if !output.is_empty() {
            self.decoder.unsent.append(output);
        }
        drop(heads);
        if !self.decoder.unsent.is_empty() {
            self.decoder.flush(mux, StreamKind::Decoder);
            if self.decoder.unsent.len() > DECODER_UNSENT_BYTES_MAX {
                mux.fail(Code::EXCESSIVE_LOAD);
            }
        }
    }

    /// The client has opened a stream.
    pub(super) fn accept(&mut self, id: StreamId) {
        self.theirs.accept(id.into());
    }

    /// Reads from a stream of the client; a stream that is not known is one of a request.
    ///
    /// # Errors
    ///
    /// The connection has to be closed.
    pub(super) fn read(&mut self, mux: &Mux, id: StreamId) -> Result<Said, Code> {
        let mut said = Said::Nothing;
        let mut slot = Slot::default();
        while self.theirs.has(id.into()) {
            match mux.read(id, &mut slot) {
                Received::Nothing => break,
                Received::Data => {
                    let bytes = std::mem::take(&mut slot.rest);
                    if let Said::GoAway = self.digest(mux, id, &bytes)? {
                        said = Said::GoAway;
                    }
                }
                Received::End | Received::Reset => self.theirs.end(id.into())?,
            }
            mux.charge_glitches(self.theirs.take_glitches());
        }
        Ok(said)
    }

    fn digest(&mut self, mux: &Mux, id: StreamId, mut input: &[u8]) -> Result<Said, Code> {
        let mut said = Said::Nothing;
        loop {
            let mut heads = mux.heads.borrow_mut();
            let decoder = &mut heads.decoder;
            let event = self
                .theirs
                .receive(id.into(), &mut input, decoder, &mux.limits)?;
            match event {
                None => return Ok(said),
                Some(PeerEvent::Unwanted) => mux.stop(id, Code::STREAM_CREATION_ERROR),
                Some(PeerEvent::Entries) => {
                    while let Some(stream) = heads.decoder.ready() {
                        mux.unblock(stream);
                    }
                }
                Some(PeerEvent::Control(ControlEvent::Settings(_))) => {}
                Some(PeerEvent::Control(ControlEvent::GoAway(_))) => said = Said::GoAway,
                Some(PeerEvent::Control(ControlEvent::Priority { stream, priority })) => {
                    if let Ok(number) = VarInt::from_u64(stream)
                        && let id = StreamId::from(number)
                        && mux.find(id).is_some()
                    {
                        mux.set_priority(id, priority);
                    }
                }
            }
        }
    }
}

impl Own {
    /// Hands what is unsent to QUIC, opening the stream first if the client allows.
    fn flush(&mut self, mux: &Mux, kind: StreamKind) {
        let mut quic = mux.quic.borrow_mut();
        let id = match self.id {
            Some(id) => id,
            None => {
                let Some(id) = quic.streams().open(Dir::Uni) else {
                    return;
                };
                // Requests wait for this rather than the other way round.
                let _ = quic.send_stream(id).set_priority(i32::MAX);
                self.id = Some(id);
                self.unsent.splice(..0, kind.number());
                id
            }
        };
        let written = quic.send_stream(id).write(&self.unsent);
        drop(quic);
        if let Ok(count) = written {
            self.unsent.drain(..count);
            mux.note_news();
        }
    }
}
