//! Listener wrappers: what happens between accepting a connection and TLS or HTTP, such as reading a PROXY protocol
//! header. `sluice-wire` parses the header; the configuration of the listener decides which peers are trusted.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluice_message::{ProxiedAddresses, Remote};
use sluice_wire::proxy_protocol::{Beginning, Ends, HEADER_BYTES_MAX, decode};

use crate::stream::{Stream, canonical};
use crate::timeout::within;
use crate::worker::Worker;

/// The listener wrappers of a listener.
#[derive(Clone, Default)]
pub struct ListenerWrapper {
    /// The PROXY protocol settings; `None` if it is disabled.
    pub proxies: Option<Arc<Proxies>>,
    /// What to do with plain HTTP on a TLS listener.
    pub plain_http: PlainHttp,
}

/// What to do with plain HTTP on a TLS listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// Send an error.
    #[default]
    Refuse,
    /// Redirect to HTTPS.
    Redirect,
    /// Let the service respond, without TLS.
    Serve,
}

/// PROXY protocol settings.
pub struct Proxies {
    /// How long a header may take to arrive; `None` means no limit.
    pub timeout: Option<Duration>,
    /// Decides what to do with the header of a peer.
    pub judge: Box<dyn Fn(Remote) -> Belief + Send + Sync>,
}

/// What to do with the PROXY protocol header of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belief {
    /// Use the header if there is one.
    Use,
    /// Require the header and use it.
    Require,
    /// Require the header and record it; the connection's own addresses stay in effect.
    Note,
    /// Read and discard the header.
    Ignore,
    /// Reject the connection if there is a header.
    Reject,
    /// Do not look for a header.
    Skip,
}

/// Data from a PROXY protocol header.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    /// The addresses of client and server, if the header is used.
    pub(crate) ends: Option<(Remote, SocketAddr)>,
    /// Data that is only recorded.
    pub(crate) addresses: Option<ProxiedAddresses>,
}

/// Reads the header if one is expected, and returns its data; an error ends the connection.
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
    let Some((ends, extensions)) = ends else {
        return Ok(Heard::default());
    };
    let (source, destination) = (canonical(ends.source), canonical(ends.destination));
    Ok(match belief {
        Belief::Use | Belief::Require => Heard {
            ends: Some((Remote::Ip(source), destination)),
            addresses: None,
        },
        Belief::Note => Heard {
            ends: None,
            addresses: Some(ProxiedAddresses {
                source,
                destination,
                extensions,
            }),
        },
        Belief::Ignore | Belief::Reject | Belief::Skip => Heard::default(),
    })
}

/// The addresses, and the extensions of the header.
type Received = (Ends, Box<[u8]>);

async fn read(stream: &mut Stream, belief: Belief) -> io::Result<Option<Received>> {
    let mut seen = 0;
    let mut bytes = [0; HEADER_BYTES_MAX];
    loop {
        seen = look_for_more(stream, &mut bytes, seen).await?;
        let beginning = decode(&bytes[..seen]).map_err(io::Error::other)?;
        return match (beginning, belief) {
            (Beginning::Incomplete, _) => continue,
            (Beginning::Absent, Belief::Require | Belief::Note) => Err(missing()),
            (Beginning::Absent, _) => Ok(None),
            (Beginning::Header { .. }, Belief::Reject) => Err(io::Error::other(
                "a PROXY header from an address that is not allowed",
            )),
            (
                Beginning::Header {
                    length,
                    ends,
                    extensions,
                },
                _,
            ) => {
                let extensions = bytes[extensions..length].into();
                take(stream, length).await?;
                Ok(ends.map(|ends| (ends, extensions)))
            }
        };
    }
}

fn missing() -> io::Error {
    io::Error::other("the PROXY header is missing")
}

/// Peeks until more than `seen` bytes are available; returns how many are.
pub(crate) async fn look_for_more(
    stream: &mut Stream,
    bytes: &mut [u8],
    seen: usize,
) -> io::Result<usize> {
    poll_fn(|cx| poll_more(stream, cx, bytes, seen)).await
}

/// Like [`look_for_more`]. The bytes stay in the socket: what follows the header belongs to TLS or HTTP.
fn poll_more(
    stream: &mut Stream,
    cx: &mut Context<'_>,
    bytes: &mut [u8],
    seen: usize,
) -> Poll<io::Result<usize>> {
    loop {
        let looked = match stream {
            Stream::Tcp(socket) => {
                return socket.poll_receive(cx, |socket| look(socket, bytes, seen));
            }
            Stream::Unix(socket) => {
                ready!(socket.poll_read_ready(cx))?;
                socket.try_receive(|socket| look(socket, bytes, seen))
            }
            Stream::Tls(_) => return Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        };
        match looked {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            looked => return Poll::Ready(looked),
        }
    }
}

/// An unchanged number of bytes is reported as `WouldBlock`, so that the runtime waits for more.
fn look(socket: std::os::fd::BorrowedFd<'_>, bytes: &mut [u8], seen: usize) -> io::Result<usize> {
    match crate::sys::peek::peek(socket, bytes)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count if count == seen => Err(io::ErrorKind::WouldBlock.into()),
        count => Ok(count),
    }
}

/// Reads exactly `length` bytes, which are known to be available.
async fn take(stream: &mut Stream, length: usize) -> io::Result<()> {
    let mut rest = [0; HEADER_BYTES_MAX];
    let mut rest = &mut rest[..length];
    while !rest.is_empty() {
        let count = match stream {
            Stream::Tcp(socket) => socket.try_read(rest)?,
            Stream::Unix(socket) => socket.try_read(rest)?,
            Stream::Tls(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        rest = &mut rest[count..];
    }
    Ok(())
}
