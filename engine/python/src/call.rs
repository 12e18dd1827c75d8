//! A request in progress: sends its body and receives the response, each at its own pace.

use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::{Fields, Method, ResponseHead, Status};
use sluice_net::body::{Body, FileSlice, RequestBody};
use sluice_net::failure::{Failure, FailureKind, Side};
use sluice_net::limits::COPY_BYTES_MAX;
use sluice_net::worker::Worker;
use sluice_wire::h1::{BodyFraming, KeepAlive, ResponseFraming, ResponseKind};
use sluice_wire::python::{BlockFault, HopByHop, StreamId, decode_block};

use crate::failure::{CallFailure, Stage, Why};
use crate::lane::{Found, Gone, Mux, ResponseBody, Upload, Whole};
use crate::notice::{Fact, Level};
use crate::settings::Interface;

/// A request in progress. Dropping it before its end cancels the request: the application learns that the client is
/// gone.
pub struct Call {
    mux: Rc<Mux>,
    id: StreamId,
    upload: Upload,
    hints: Hints,
    content: Content,
    /// The target, for log entries.
    target: Box<[u8]>,
}

/// What to do with early hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hints {
    /// Drop them.
    Drop,
    /// Forward them to the client.
    Pass,
}

/// Whether the response can have a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// It may.
    Possible,
    /// The request is a HEAD.
    Head,
}

/// The head of a response.
pub struct Response {
    /// Status and headers, `Content-Length` included; hop-by-hop headers were removed or refused.
    pub head: ResponseHead,
    /// The framing of the body, for [`Call::into_body`].
    pub framing: ResponseFraming,
}

impl Call {
    /// A call on the stream `id`, which was opened.
    pub(crate) fn new(
        mux: Rc<Mux>,
        id: StreamId,
        body: RequestBody,
        method: &Method,
        target: &[u8],
    ) -> Call {
        Call {
            mux,
            id,
            upload: Upload::new(body),
            hints: Hints::Drop,
            content: match method {
                Method::Head => Content::Head,
                _ => Content::Possible,
            },
            target: target.into(),
        }
    }

    /// Forwards early hints (103) to the client, by [`Worker::interims`].
    pub fn pass_interims(&mut self) {
        self.hints = Hints::Pass;
    }

    /// The index of the worker process in its group, and its PID: for the access log.
    pub fn process(&self) -> (usize, u32) {
        (self.mux.process.index, self.mux.process.pid())
    }

    /// Takes the request body out, if all of it can still be sent.
    pub fn take_body(&mut self) -> Option<RequestBody> {
        self.upload.take_body()
    }

    pub(crate) fn worker(&self) -> &Rc<Worker> {
        &self.mux.worker
    }

    pub(crate) fn mux(&self) -> &Mux {
        &self.mux
    }

    pub(crate) fn id(&self) -> StreamId {
        self.id
    }

    pub(crate) fn poll_upload(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.upload.poll(&self.mux, self.id, cx)
    }

    /// Sends the request body as far as possible; ready with the head of the response.
    ///
    /// # Errors
    ///
    /// See [`Why`]. The request is cancelled when the call is dropped.
    pub fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response, CallFailure>> {
        match self.poll_head(cx) {
            Poll::Ready(Ok(Decision::Response(response))) => Poll::Ready(Ok(response)),
            Poll::Ready(Ok(Decision::Accepted(_) | Decision::Refused)) => {
                // The codec accepts these frames for WebSockets only.
                Poll::Ready(Err(
                    self.fail(Why::Response("not an HTTP response".to_owned()))
                ))
            }
            Poll::Ready(Err(why)) => Poll::Ready(Err(self.fail(why))),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Ready with the application's decision.
    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Decision, Why>> {
        loop {
            if let Poll::Ready(Err(failure)) = self.poll_upload(cx) {
                return Poll::Ready(Err(Why::Body(failure)));
            }
            let mut head = ResponseHead::default();
            let hop_by_hop = self.hop_by_hop();
            let found = self
                .mux
                .find_head(self.id, hop_by_hop, &mut head.fields, cx);
            match found {
                Found::Hints(block) => self.note_hints(&block),
                Found::Head(status, length) => {
                    head.status = status;
                    return Poll::Ready(self.response(head, length).map(Decision::Response));
                }
                Found::Accepted(decoded) => {
                    head.status = Status::SWITCHING_PROTOCOLS;
                    let accepted = self.checked(decoded).map(|_| Decision::Accepted(head));
                    return Poll::Ready(accepted);
                }
                Found::Refused => return Poll::Ready(Ok(Decision::Refused)),
                Found::Gone(gone) => return Poll::Ready(Err(self.why(gone))),
                Found::Nothing => return Poll::Pending,
            }
        }
    }

    fn response(
        &self,
        head: ResponseHead,
        length: Result<Option<u64>, BlockFault>,
    ) -> Result<Response, Why> {
        let length = self.checked(length)?;
        let is_bodiless = self.content == Content::Head || head.status.is_bodiless();
        let body = match (is_bodiless, length) {
            (true, _) => BodyFraming::None,
            (false, Some(length)) => BodyFraming::Length(length),
            (false, None) => match self.mux.whole(self.id) {
                Some(Whole::Bytes(count)) => BodyFraming::Length(count as u64),
                Some(Whole::File(file)) => BodyFraming::Length(file.length),
                None => BodyFraming::Chunked,
            },
        };
        let framing = ResponseFraming {
            body,
            keep_alive: KeepAlive::Reuse,
            kind: ResponseKind::Final,
        };
        Ok(Response { head, framing })
    }

    /// Reports a header block that was refused.
    fn checked(&self, decoded: Result<Option<u64>, BlockFault>) -> Result<Option<u64>, Why> {
        decoded.map_err(|fault| {
            let text = fault.to_string();
            self.report_head(&text);
            Why::Response(text)
        })
    }

    /// PEP 3333 forbids applications to set hop-by-hop headers; ASGI has servers ignore them.
    fn hop_by_hop(&self) -> HopByHop {
        match self.mux.group.interface() {
            Interface::Wsgi => HopByHop::Refuse,
            Interface::Asgi | Interface::Esgi | Interface::Rsgi | Interface::Auto => HopByHop::Drop,
        }
    }

    fn note_hints(&self, block: &[u8]) {
        if self.hints == Hints::Drop {
            return;
        }
        let mut fields = Fields::new();
        match decode_block(block, HopByHop::Drop, &mut fields) {
            Ok(_) => self.worker().interims.leave(&ResponseHead {
                status: Status::EARLY_HINTS,
                fields,
                ..ResponseHead::default()
            }),
            Err(fault) => self.report_head(&fault.to_string()),
        }
    }

    /// Reports malformed headers of the application.
    pub(crate) fn report_head(&self, fault: &str) {
        self.report("the application sent malformed headers", "fault", fault);
    }

    fn report(&self, message: &'static str, name: &'static str, text: &str) {
        let target = String::from_utf8_lossy(&self.target).into_owned();
        let facts = [
            (name, Fact::Text(text.to_owned())),
            ("target", Fact::Text(target)),
        ];
        let (group, process) = (&self.mux.group, &self.mux.process);
        group.report_of(Some(process), Level::Error, message, &facts);
    }

    /// Why nothing more comes; failures of the application are reported.
    pub(crate) fn why(&self, gone: Gone) -> Why {
        match gone {
            Gone::Died { started } => Why::Died {
                started,
                how: self.mux.process.death(),
            },
            Gone::TimedOut => Why::TimedOut,
            Gone::Failed(stage, text) => {
                let message = match stage {
                    Stage::BeforeResponse | Stage::AfterHead => {
                        "the application raised an exception"
                    }
                    Stage::Rules => "the application broke a rule of its interface",
                };
                self.report(message, "text", &text);
                Why::Application { stage, text }
            }
        }
    }

    /// The failure of a body whose stream is gone.
    pub(crate) fn failure(&self, gone: Gone) -> Failure {
        let failure = |kind| Failure::new(Side::Upstream, kind);
        match self.why(gone) {
            Why::TimedOut => failure(FailureKind::Timeout).because("request_timeout"),
            Why::Application { .. } => failure(FailureKind::Closed)
                .because("the application failed after its response head"),
            Why::Died { .. } | Why::Refused(_) | Why::Response(_) | Why::Body(_) => {
                failure(FailureKind::Closed).because("the Python worker is gone")
            }
        }
    }

    /// The failure of a body that is longer or shorter than declared; it is reported.
    pub(crate) fn length_fault(&self, how: &'static str) -> Failure {
        self.report(
            "the response body does not have the length that its Content-Length declares",
            "body",
            how,
        );
        Failure::new(Side::Upstream, FailureKind::Protocol)
            .because("the body does not have the declared length")
    }

    pub(crate) fn fail(&mut self, why: Why) -> CallFailure {
        CallFailure {
            why,
            body: self.upload.take_body(),
        }
    }

    /// The response body: nothing, bytes in `inline`, a file, or a stream with trailers. A body that is longer or shorter
    /// than its `Content-Length` fails.
    ///
    /// # Errors
    ///
    /// The body has arrived and does not have the declared length.
    pub fn into_body(
        self: Box<Self>,
        framing: ResponseFraming,
        inline: &mut Vec<u8>,
    ) -> Result<Body, Failure> {
        let declared = match framing.body {
            BodyFraming::None => return Ok(Body::Empty),
            BodyFraming::Length(length) => Some(length),
            BodyFraming::Chunked | BodyFraming::UntilClose => None,
        };
        let whole = self.mux.whole(self.id);
        let length = whole.as_ref().map(|whole| match whole {
            Whole::Bytes(count) => *count as u64,
            Whole::File(file) => file.length,
        });
        match (length, declared) {
            (Some(length), Some(declared)) if length > declared => {
                return Err(self.length_fault("longer"));
            }
            (Some(length), Some(declared)) if length < declared => {
                return Err(self.length_fault("shorter"));
            }
            _ => {}
        }
        match whole {
            Some(Whole::Bytes(0)) => Ok(Body::Empty),
            Some(Whole::Bytes(..=COPY_BYTES_MAX)) => {
                self.mux.copy_whole(self.id, inline);
                Ok(Body::Inline)
            }
            Some(Whole::File(file)) => Ok(Body::File(FileSlice {
                file: file.file,
                start: file.offset,
                len: file.length,
            })),
            Some(Whole::Bytes(_)) | None => {
                let length = declared.or(length);
                Ok(Body::Stream(Box::new(ResponseBody::new(self, length))))
            }
        }
    }
}

/// The application's decision about a request.
pub(crate) enum Decision {
    /// A response.
    Response(Response),
    /// It accepts a WebSocket.
    Accepted(ResponseHead),
    /// It refuses a WebSocket without a response.
    Refused,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.mux.release(self.id);
    }
}
