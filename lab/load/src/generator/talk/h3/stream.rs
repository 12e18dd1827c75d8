//! One request on its stream: the upload, and the parts of the response.

use bytes::Bytes;
use quinn_proto::{Connection, StreamId, WriteError};
use sluice_message::ResponseHead;
use sluice_wire::h1::BodyFraming;
use sluice_wire::h3::{
    Code, Fault, Follows, FrameKind, HeadReader, HeadWriter, Limits, MessageReader, Part, Read,
    encode_frame_head,
};
use sluice_wire::sections::End;

use super::Kept;
use crate::generator::expect::Judge;
use crate::generator::request::Prepared;
use crate::generator::talk::Flight;

/// A request on its stream.
#[derive(Debug)]
pub struct Stream {
    pub flight: Flight,
    pub judge: Judge,
    reader: MessageReader,
    /// The frames before the request's body.
    head: Vec<u8>,
    /// Bytes of these and of the body that QUIC has taken; `None` when it has all.
    uploaded: Option<usize>,
    /// A field section that waits for entries of the dynamic table, and the bytes behind it.
    blocked: Option<Blocked>,
}

#[derive(Debug)]
struct Blocked {
    kind: Section,
    section: Vec<u8>,
    rest: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Head,
    Trailers,
}

/// What reads the heads of a connection.
#[derive(Debug)]
pub struct Heads<'a> {
    pub reader: &'a mut HeadReader,
    pub limits: &'a Limits,
    /// The head that was read last.
    pub head: &'a mut ResponseHead,
    /// The cookies of responses, if they are wanted.
    pub cookies: &'a mut Option<Vec<Vec<u8>>>,
    /// The response, if it is to be kept.
    pub kept: &'a mut Option<Kept>,
}

impl Stream {
    /// A request that begins, after `responses` on the same connection.
    pub fn new(
        flight: Flight,
        request: &Prepared,
        responses: u64,
        writer: &mut HeadWriter,
    ) -> Self {
        let mut judge = Judge::default();
        judge.begin(&request.expect, responses);
        let mut head = Vec::new();
        let length = request.body.len() as u64;
        match length {
            0 => writer.request(&request.head, BodyFraming::None, &mut head),
            _ => {
                writer.request(&request.head, BodyFraming::Length(length), &mut head);
                encode_frame_head(FrameKind::DATA, length, &mut head);
            }
        }
        Stream {
            flight,
            judge,
            reader: MessageReader::default(),
            head,
            uploaded: Some(0),
            blocked: None,
        }
    }

    /// Hands as much of the request to QUIC as it takes.
    pub fn upload(&mut self, quic: &mut Connection, id: StreamId, requests: &[Prepared]) {
        let body = &requests[self.flight.request].body;
        while let Some(at) = self.uploaded {
            let piece = match at.checked_sub(self.head.len()) {
                None => &self.head[at..],
                Some(at) => &body[at..],
            };
            let mut stream = quic.send_stream(id);
            if piece.is_empty() {
                let _ = stream.finish();
                self.stop_upload();
                return;
            }
            match stream.write(piece) {
                Ok(count) => self.uploaded = Some(at + count),
                Err(WriteError::Blocked) => return,
                // The server ended the stream early; its response or its reset is on the way.
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => self.stop_upload(),
            }
        }
    }

    /// Nothing more is to be sent.
    pub fn stop_upload(&mut self) {
        self.uploaded = None;
        self.head = Vec::new();
    }

    /// Whether the request was not sent in full.
    pub fn is_uploading(&self) -> bool {
        self.uploaded.is_some()
    }

    /// Whether it waits for entries of the dynamic table: nothing more is to be read until then.
    pub fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Takes bytes of the response.
    ///
    /// # Errors
    /// What they end.
    pub fn take(
        &mut self,
        id: StreamId,
        bytes: &Bytes,
        request: &Prepared,
        heads: &mut Heads<'_>,
    ) -> Result<(), Fault> {
        let mut input = &bytes[..];
        while let Some(part) = self.reader.receive(&mut input, heads.limits)? {
            let (kind, section) = match part {
                Part::Data(data) => {
                    self.judge.body(&request.expect, data);
                    if let Some(kept) = heads.kept {
                        kept.body(data);
                    }
                    continue;
                }
                // Longer than what any client takes.
                Part::HeadTooLarge => return Err(Fault::Stream(Code::EXCESSIVE_LOAD)),
                Part::Head(section) => (Section::Head, section),
                Part::Trailers(section) => (Section::Trailers, section),
            };
            let follows = match read(id, kind, section, request, &mut self.judge, heads)? {
                Read::Done(follows) => follows,
                Read::Blocked => {
                    self.blocked = Some(Blocked {
                        kind,
                        section: section.to_vec(),
                        rest: bytes.slice_ref(input),
                    });
                    return Ok(());
                }
                Read::Faulty(_) => return Err(Fault::Stream(Code::MESSAGE_ERROR)),
            };
            if let Some(follows) = follows {
                self.reader.expect(follows);
            }
        }
        Ok(())
    }

    /// Continues with what was blocked, now that the dynamic table has the entries.
    ///
    /// # Errors
    /// What the bytes end.
    pub fn unblock(
        &mut self,
        id: StreamId,
        request: &Prepared,
        heads: &mut Heads<'_>,
    ) -> Result<(), Fault> {
        let Some(Blocked {
            kind,
            section,
            rest,
        }) = self.blocked.take()
        else {
            return Ok(());
        };
        match read(id, kind, &section, request, &mut self.judge, heads)? {
            Read::Done(Some(follows)) => self.reader.expect(follows),
            Read::Done(None) => {}
            Read::Blocked => {
                self.blocked = Some(Blocked {
                    kind,
                    section,
                    rest,
                });
                return Ok(());
            }
            Read::Faulty(_) => return Err(Fault::Stream(Code::MESSAGE_ERROR)),
        }
        self.take(id, &rest, request, heads)
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// The response is not complete.
    pub fn end(&self) -> Result<(), Fault> {
        self.reader.end()
    }
}

/// Reads a field section. Returns what follows a head.
fn read(
    id: StreamId,
    kind: Section,
    section: &[u8],
    request: &Prepared,
    judge: &mut Judge,
    heads: &mut Heads<'_>,
) -> Result<Read<Option<Follows>>, Fault> {
    let undecodable = |_| Fault::Connection(Code::DECOMPRESSION_FAILED);
    let id = u64::from(id);
    if kind == Section::Trailers {
        let read = heads.reader.trailers(id, section).map_err(undecodable)?;
        return Ok(match read {
            Read::Done(_) => Read::Done(None),
            Read::Blocked => Read::Blocked,
            Read::Faulty(fault) => Read::Faulty(fault),
        });
    }
    let method = &request.head.method;
    let read = heads
        .reader
        .response(id, section, End::Later, method, heads.head);
    let framing = match read.map_err(undecodable)? {
        Read::Done(framing) => framing,
        Read::Blocked => return Ok(Read::Blocked),
        Read::Faulty(fault) => return Ok(Read::Faulty(fault)),
    };
    let head = &*heads.head;
    if head.status.is_informational() {
        return Ok(Read::Done(Some(Follows::Head)));
    }
    let has = |name: &str, value: Option<&str>| {
        let found = head.fields.find_first(name.as_bytes());
        found.is_some_and(|found| value.is_none_or(|value| found == value.as_bytes()))
    };
    judge.head(&request.expect, head.status.code(), has);
    if let Some(cookies) = heads.cookies {
        cookies.extend(head.fields.find(b"set-cookie").map(<[u8]>::to_vec));
    }
    if let Some(kept) = heads.kept {
        kept.head(head);
    }
    Ok(Read::Done(Some(match framing {
        BodyFraming::None => Follows::Length(0),
        BodyFraming::Length(length) => Follows::Length(length),
        BodyFraming::Chunked | BodyFraming::UntilClose => Follows::Content,
    })))
}
