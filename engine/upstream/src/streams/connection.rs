//! A shared connection as its calls see it: a trait that the connections of both protocols implement.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluice_message::{Fields, RequestHead, ResponseHead};
use sluice_wire::h1::BodyFraming;
use sluice_wire::sections::End;

use super::gone::{Ending, Gone};
use super::membership::{Membership, Sharing};
use super::shared_pool::{Shared, Shelf};
use crate::endpoint::Endpoint;
use crate::link::Link;
use sluice_net::failure::Failure;
use sluice_net::worker::Worker;

/// The result of waiting for a response head.
pub enum Found<G> {
    /// That of an interim response.
    Interim(ResponseHead),
    /// That of the final response.
    Final(ResponseHead, BodyFraming),
    /// Nothing yet.
    Nothing,
    /// None will come.
    Gone(G),
}

/// The result of reading a response body.
pub enum Taken<G> {
    /// Content, moved to the reader's buffer.
    Content,
    /// The end, after all content was taken.
    End(Option<Fields>),
    /// Nothing yet.
    Nothing,
    /// Nothing more will come.
    Gone(G),
}

/// A shared connection as its calls see it.
pub trait Streams: Shared + Sized + 'static {
    /// A stream.
    type Id: Copy;
    /// Why such connections end.
    type Ending: Ending;

    /// What it has in common with those of the other protocol.
    fn membership(&self) -> &Membership<Self>;

    /// No call uses a stream that was reserved, which may have been the only one.
    fn note_idle(&self) {
        self.membership().rest(self);
    }

    /// Opens a stream for a request, which may end with its head; `None` if the connection accepts no more.
    fn open(&self, head: &RequestHead, framing: BodyFraming, end: End) -> Option<Self::Id>;

    /// The call is done with its stream.
    fn release(&self, id: Self::Id);

    /// Whether any part of the request was sent.
    fn was_sent(&self, id: Self::Id) -> bool;

    /// Returns a received head, read into a `spare` one where it has to be read; if there is none, the task of `cx` is woken
    /// when there is.
    fn find_head(
        &self,
        id: Self::Id,
        spare: impl FnOnce() -> ResponseHead,
        cx: &Context<'_>,
    ) -> Found<Gone<Self::Ending>>;

    /// Moves received data to `buf`, which is empty; if there is none, the task of `cx` is woken when there is.
    fn take(&self, id: Self::Id, buf: &mut Vec<u8>, cx: &Context<'_>) -> Taken<Gone<Self::Ending>>;

    /// If the response has arrived completely and has no trailers, the number of bytes not taken yet; otherwise `None`.
    fn whole(&self, id: Self::Id) -> Option<usize>;

    /// Copies the bytes counted by [`Streams::whole`] to `out`.
    fn copy_whole(&self, id: Self::Id, out: &mut Vec<u8>);

    /// The reader has consumed `count` bytes: returns window to the upstream.
    fn consumed(&self, id: Self::Id, count: usize);

    /// Ready with true when data may be sent, with false when the upstream accepts no more.
    fn poll_capacity(&self, id: Self::Id, cx: &Context<'_>) -> Poll<bool>;

    /// Sends content, as much as there is room for, and the end of the request if that is all; `None` if the upstream accepts
    /// no more.
    fn send_data(&self, id: Self::Id, data: &[u8], end: End) -> Option<usize>;

    /// Sends trailers, and the end of the request. If the stream is gone, the reader of the response notices.
    fn send_trailers(&self, id: Self::Id, fields: &Fields);
}

/// What a dialled connection turned out to be.
pub enum Dialled<C> {
    /// A connection for many calls.
    Shared(Rc<C>),
    /// A connection for one call at a time: the upstream has chosen HTTP/1.1.
    Single(Link),
}

/// How connections are established.
pub trait Dials: Streams {
    /// Establishes a connection, sends `preface` on it if there is any, and starts the negotiated protocol. A connection for
    /// all calls is added to `shelf`.
    fn dial(
        worker: &Rc<Worker>,
        endpoint: &Arc<Endpoint>,
        preface: &[u8],
        shelf: &Rc<Shelf<Self>>,
        sharing: Sharing,
    ) -> impl Future<Output = Result<Dialled<Self>, Failure>>;
}
