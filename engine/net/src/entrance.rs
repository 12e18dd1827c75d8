//! What stands between accepting a connection and speaking TLS or HTTP on it: the header of a proxy in front. Reading
//! one is left to `sluice-wire`, whom to believe to whoever configures the listener.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluice_message::{Remote, Told};
use sluice_wire::proxy_protocol::{Beginning, Ends, HEADER_BYTES_MAX, decode};
use tokio::io::{AsyncReadExt, Interest};

use crate::listener::canonical;
use crate::stream::Stream;
use crate::upstream::within;
use crate::worker::Worker;

/// What connections of a listener begin with.
#[derive(Clone, Default)]
pub struct Entrance {
    /// The headers of proxies in front; `None` where nobody is asked for one.
    pub proxies: Option<Arc<Proxies>>,
    /// What a client that speaks plain HTTP to a TLS listener is told.
    pub plain_http: PlainHttp,
}

/// What a client that speaks plain HTTP to a TLS listener is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// That it is wrong here.
    #[default]
    Refuse,
    /// To come again with HTTPS.
    Redirect,
    /// What the service says to a request that came without TLS.
    Serve,
}

/// Whose headers count.
pub struct Proxies {
    /// How long a header may take to arrive; `None` is for ever.
    pub timeout: Option<Duration>,
    /// What to do with that of a peer.
    pub judge: Box<dyn Fn(Remote) -> Belief + Send + Sync>,
}

/// What is done with the header of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belief {
    /// It is believed; there need not be one.
    Use,
    /// It is believed; there has to be one.
    Require,
    /// It has to be there and is noted; the ends stay those of the socket.
    Note,
    /// It is read and thrown away.
    Ignore,
    /// There must not be one.
    Reject,
    /// Nobody looks for one.
    Skip,
}

/// What a header tells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    /// The ends of the connection, where it is believed.
    pub(crate) ends: Option<(Remote, SocketAddr)>,
    /// What is only noted.
    pub(crate) told: Option<Told>,
}

/// Reads the header, if there is to be one, and gives what it tells; an error ends the connection.
pub(crate) async fn enter(
    worker: &Worker,
    stream: &mut Stream,
    remote: Remote,
    proxies: &Proxies,
) -> io::Result<Heard> {
    let belief = (proxies.judge)(remote);
    if belief == Belief::Skip {
        return Ok(Heard::default());
    }
    let reading = read(stream, belief);
    let ends = match proxies.timeout {
        None => reading.await?,
        Some(limit) => within(worker, limit, reading)
            .await
            .ok_or(io::ErrorKind::TimedOut)??,
    };
    let Some(ends) = ends else {
        return Ok(Heard::default());
    };
    let (source, destination) = (canonical(ends.source), canonical(ends.destination));
    Ok(match belief {
        Belief::Use | Belief::Require => Heard {
            ends: Some((Remote::Ip(source), destination)),
            told: None,
        },
        Belief::Note => Heard {
            ends: None,
            told: Some(Told {
                source,
                destination,
            }),
        },
        Belief::Ignore | Belief::Reject | Belief::Skip => Heard::default(),
    })
}

async fn read(stream: &mut Stream, belief: Belief) -> io::Result<Option<Ends>> {
    let mut seen = 0;
    let mut bytes = [0; HEADER_BYTES_MAX];
    loop {
        seen = look_for_more(stream, &mut bytes, seen).await?;
        let beginning = decode(&bytes[..seen]).map_err(io::Error::other)?;
        return match (beginning, belief) {
            (Beginning::Incomplete, _) => continue,
            (Beginning::Absent, Belief::Require | Belief::Note) => Err(missing()),
            (Beginning::Absent, _) => Ok(None),
            (Beginning::Header { .. }, Belief::Reject) => {
                Err(io::Error::other("a header of a proxy that is not welcome"))
            }
            (Beginning::Header { length, ends }, _) => {
                take(stream, length).await?;
                Ok(ends)
            }
        };
    }
}

fn missing() -> io::Error {
    io::Error::other("no header of the proxy in front")
}

/// Looks until more than `seen` bytes are there, and tells how many.
pub(crate) async fn look_for_more(
    stream: &Stream,
    bytes: &mut [u8],
    seen: usize,
) -> io::Result<usize> {
    poll_fn(|cx| poll_more(stream, cx, bytes, seen)).await
}

/// As [`look_for_more`]. They are left in the socket: whatever comes behind the header belongs
/// to TLS or HTTP.
fn poll_more(
    stream: &Stream,
    cx: &mut Context<'_>,
    bytes: &mut [u8],
    seen: usize,
) -> Poll<io::Result<usize>> {
    loop {
        let looked = match stream {
            Stream::Tcp(socket) => {
                ready!(socket.poll_read_ready(cx))?;
                socket.try_io(Interest::READABLE, || look(socket.as_fd(), bytes, seen))
            }
            Stream::Unix(socket) => {
                ready!(socket.poll_read_ready(cx))?;
                socket.try_io(Interest::READABLE, || look(socket.as_fd(), bytes, seen))
            }
            Stream::Tls(_) => return Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        };
        match looked {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            looked => return Poll::Ready(looked),
        }
    }
}

/// As many bytes as before are no news: the runtime is told to wait for the next ones.
fn look(socket: std::os::fd::BorrowedFd<'_>, bytes: &mut [u8], seen: usize) -> io::Result<usize> {
    match crate::sys::peek::peek(socket, bytes)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count if count == seen => Err(io::ErrorKind::WouldBlock.into()),
        count => Ok(count),
    }
}

/// Takes `length` bytes that are known to be there, and no more.
async fn take(stream: &mut Stream, length: usize) -> io::Result<()> {
    let mut rest = [0; HEADER_BYTES_MAX];
    let mut rest = &mut rest[..length];
    while !rest.is_empty() {
        let count = match stream {
            Stream::Tcp(socket) => socket.read(rest).await?,
            Stream::Unix(socket) => socket.read(rest).await?,
            Stream::Tls(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        rest = &mut rest[count..];
    }
    Ok(())
}
