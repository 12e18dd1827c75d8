//! The streams that are not requests (RFC 9114, section 6.2): the control streams of both ends and those of QPACK.

use quinn_proto::{Connection, Dir, StreamId};
use sluice_wire::h3::qpack::Decoder;
use sluice_wire::h3::{Code, ControlEvent, Limits, PeerEvent, PeerStreams, Settings, StreamKind};

use super::{Received, receive};

/// The streams of a connection that are not requests.
#[derive(Debug)]
pub struct Control {
    /// Those of the server. QUIC bounds how many may be open.
    theirs: PeerStreams,
    /// Our control stream.
    own: Own,
    /// Our stream of decoder instructions, once there are any.
    decoder: Own,
}

/// A stream of ours, with what QUIC has not taken yet.
#[derive(Debug, Default)]
struct Own {
    id: Option<StreamId>,
    unsent: Vec<u8>,
}

/// What happened on these streams.
#[derive(Debug, Default)]
pub struct Heard {
    /// The server takes no requests from this stream on.
    pub goaway: Option<u64>,
    /// Requests whose field sections wait no longer.
    pub unblocked: Vec<StreamId>,
}

impl Default for Control {
    fn default() -> Self {
        Control {
            theirs: PeerStreams::of_server(),
            own: Own::default(),
            decoder: Own::default(),
        }
    }
}

impl Control {
    /// Announces our settings, as soon as the server allows a stream.
    pub fn open(&mut self, quic: &mut Connection, limits: &Limits) {
        let settings = Settings::from(limits);
        settings.encode(&mut self.own.unsent);
        self.own.flush(quic, StreamKind::Control);
    }

    /// Sends what is left of our streams, and the instructions of the decoder.
    pub fn flush(&mut self, quic: &mut Connection, decoder: &mut Decoder) {
        if !self.own.unsent.is_empty() {
            self.own.flush(quic, StreamKind::Control);
        }
        self.decoder.unsent.append(decoder.output());
        if !self.decoder.unsent.is_empty() {
            self.decoder.flush(quic, StreamKind::Decoder);
        }
    }

    /// The server has opened a stream.
    pub fn accept(&mut self, id: StreamId) {
        self.theirs.accept(id.into());
    }

    /// Reads a stream of the server.
    ///
    /// # Errors
    /// The connection has to be closed.
    pub fn read(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        limits: &Limits,
        decoder: &mut Decoder,
        heard: &mut Heard,
    ) -> Result<(), Code> {
        let stream = u64::from(id);
        while self.theirs.has(stream) {
            let bytes = match receive(quic, id) {
                Received::Nothing => break,
                Received::Data(bytes) => bytes,
                Received::End | Received::Reset(_) => return self.theirs.end(stream),
            };
            let mut input = &bytes[..];
            while let Some(event) = self.theirs.receive(stream, &mut input, decoder, limits)? {
                match event {
                    PeerEvent::Unwanted => {
                        let code = super::number(Code::STREAM_CREATION_ERROR);
                        let _ = quic.recv_stream(id).stop(code);
                    }
                    PeerEvent::Entries => {
                        while let Some(stream) = decoder.ready() {
                            heard.unblocked.extend(super::stream(stream));
                        }
                    }
                    PeerEvent::Control(ControlEvent::GoAway(from)) => heard.goaway = Some(from),
                    PeerEvent::Control(
                        ControlEvent::Settings(_) | ControlEvent::Priority { .. },
                    ) => {}
                }
            }
        }
        Ok(())
    }
}

impl Own {
    /// Hands what is unsent to QUIC, and opens the stream first if the server allows one.
    fn flush(&mut self, quic: &mut Connection, kind: StreamKind) {
        if self.id.is_none() {
            self.id = quic.streams().open(Dir::Uni);
            self.unsent.splice(..0, self.id.and(kind.number()));
        }
        let Some(id) = self.id else {
            return;
        };
        if let Ok(count) = quic.send_stream(id).write(&self.unsent) {
            self.unsent.drain(..count);
        }
    }
}
