//! The streams that are not requests (RFC 9114, section 6.2): the control streams of both ends, and those of QPACK, whose
//! dynamic table is not used.

use quinn_proto::{Dir, StreamId};
use sluice_wire::h3::{Code, ControlEvent, PeerEvent, PeerStreams, Settings, StreamKind};

use super::mux::{Mux, Received};

/// The streams of one connection that are not requests.
pub(super) struct Control {
    /// Those of the upstream; QUIC bounds their number.
    theirs: PeerStreams,
    /// Our control stream, once it is open.
    own: Option<StreamId>,
    /// What QUIC did not take of it yet.
    unsent: Vec<u8>,
}

impl Control {
    /// Streams of a connection on which nothing was sent.
    pub(super) fn new(mux: &Mux) -> Control {
        let settings = Settings::from(&mux.limits);
        let mut unsent: Vec<u8> = StreamKind::Control.number().into_iter().collect();
        settings.encode(&mut unsent);
        Control {
            theirs: PeerStreams::of_server(),
            own: None,
            unsent,
        }
    }

    /// Sends what is left of our control stream, as soon as the upstream allows. Returns whether QUIC took some.
    pub(super) fn flush(&mut self, mux: &Mux) -> bool {
        if self.unsent.is_empty() {
            return false;
        }
        let mut quic = mux.quic.borrow_mut();
        let id = match self.own {
            Some(id) => id,
            None => {
                let Some(id) = quic.streams().open(Dir::Uni) else {
                    return false;
                };
                self.own = Some(id);
                id
            }
        };
        let Ok(count) = quic.send_stream(id).write(&self.unsent) else {
            return false;
        };
        self.unsent.drain(..count);
        count > 0
    }

    /// The upstream has opened a stream.
    pub(super) fn accept(&mut self, id: StreamId) {
        self.theirs.accept(id.into());
    }

    /// Reads from a stream of the upstream.
    ///
    /// # Errors
    /// The connection has to be closed.
    pub(super) fn read(&mut self, mux: &Mux, id: StreamId) -> Result<(), Code> {
        while self.theirs.has(id.into()) {
            match mux.read(id) {
                Received::Nothing => break,
                Received::Data(bytes) => self.digest(mux, id, &bytes)?,
                Received::End | Received::Reset(_) => self.theirs.end(id.into())?,
            }
            mux.charge_glitches(self.theirs.take_glitches());
        }
        Ok(())
    }

    fn digest(&mut self, mux: &Mux, id: StreamId, mut input: &[u8]) -> Result<(), Code> {
        loop {
            let decoder = &mut mux.heads.borrow_mut().decoder;
            let event = self
                .theirs
                .receive(id.into(), &mut input, decoder, &mux.limits)?;
            match event {
                None => return Ok(()),
                Some(PeerEvent::Unwanted) => mux.stop(id),
                Some(PeerEvent::Control(ControlEvent::GoAway(from))) => mux.go_away(from),
                // Requests are within any limits that may be announced, and use neither table nor datagrams.
                Some(
                    PeerEvent::Entries
                    | PeerEvent::Control(ControlEvent::Settings(_) | ControlEvent::Priority { .. }),
                ) => {}
            }
        }
    }
}
