//! Connects to the first of several addresses that accepts ("Happy Eyeballs", RFC 8305): those of one IP version in
//! sequence, those of the other in parallel after a delay. `names` resolves the addresses.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};

use crate::dialling::{Dialling, Fallback, Reach, SocketBuffers, split};
use crate::failures::{refused, timed_out};
use crate::limits::FALLBACK_DELAY;
use sluice_net::failure::Failure;
use sluice_net::stream::Stream;
use sluice_net::timeout::within;
use sluice_net::worker::Worker;

/// Connects to one of `addresses` over TCP, within `limit` for all of them together.
pub(crate) async fn connect(
    worker: &Rc<Worker>,
    addresses: &[SocketAddr],
    dialling: Option<&Dialling>,
    limit: Duration,
) -> Result<Stream, Failure> {
    connect_by(worker, addresses, (dialling, limit), connect_from).await
}

/// Like [`connect`], with `dial` for each address.
pub(crate) async fn connect_by<T, F>(
    worker: &Rc<Worker>,
    addresses: &[SocketAddr],
    (dialling, limit): (Option<&Dialling>, Duration),
    dial: impl Fn(SocketAddr, Local) -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let reach = dialling.map_or(Reach::Anywhere, |dialling| dialling.reach);
    let allowed: Vec<SocketAddr> = addresses
        .iter()
        .copied()
        .filter(|address| reach.allows(address.ip()))
        .collect();
    if allowed.is_empty() {
        return Err(no_address(addresses));
    }
    let local = dialling.map(Local::of).unwrap_or_default();
    let (first, second) = split(&allowed);
    let first = in_turn(worker, &first, limit, |address| dial(address, local));
    if second.is_empty() {
        return first.await;
    }
    let delay = match dialling.map_or(Fallback::Usual, |dialling| dialling.fallback) {
        Fallback::Usual => FALLBACK_DELAY,
        Fallback::After(delay) => delay,
        Fallback::Never => limit,
    };
    let second = in_turn(worker, &second, limit, |address| dial(address, local));
    race(worker, pin!(first), pin!(second), delay).await
}

fn no_address(addresses: &[SocketAddr]) -> Failure {
    let why = if addresses.is_empty() {
        "the name has no address of the configured IP version"
    } else {
        "link-local, multicast and unspecified addresses are not allowed in requests"
    };
    refused(io::Error::other(why))
}

/// Runs `first`, and `second` in parallel as soon as `first` has failed or `delay` has passed.
async fn race<T>(
    worker: &Worker,
    mut first: Pin<&mut impl Future<Output = Result<T, Failure>>>,
    mut second: Pin<&mut impl Future<Output = Result<T, Failure>>>,
    delay: Duration,
) -> Result<T, Failure> {
    let timer = worker.timers.timer();
    timer.set(&worker.clock, delay);
    let (mut lost_first, mut lost_second) = (None, None);
    poll_fn(|cx| {
        if let Poll::Ready(won) = poll_unless_lost(&mut first, &mut lost_first, cx) {
            return Poll::Ready(Ok(won));
        }
        if lost_first.is_none() && timer.poll_expired(cx).is_pending() {
            return Poll::Pending;
        }
        if let Poll::Ready(won) = poll_unless_lost(&mut second, &mut lost_second, cx) {
            return Poll::Ready(Ok(won));
        }
        match (lost_first.take(), &lost_second) {
            // The failure of the preferred version is more informative.
            (Some(failure), Some(_)) => Poll::Ready(Err(failure)),
            (lost, _) => {
                lost_first = lost;
                Poll::Pending
            }
        }
    })
    .await
}

/// Ready with a connection. A failure is stored in `lost`, after which `dial` is not polled again.
fn poll_unless_lost<T>(
    dial: &mut Pin<&mut impl Future<Output = Result<T, Failure>>>,
    lost: &mut Option<Failure>,
    cx: &mut Context<'_>,
) -> Poll<T> {
    if lost.is_some() {
        return Poll::Pending;
    }
    match dial.as_mut().poll(cx) {
        Poll::Ready(Ok(made)) => Poll::Ready(made),
        Poll::Ready(Err(failure)) => {
            *lost = Some(failure);
            Poll::Pending
        }
        Poll::Pending => Poll::Pending,
    }
}

/// Connects to the first of `addresses` that accepts; each gets an equal share of the time, so that an unreachable one
/// leaves some for the others.
async fn in_turn<T, F>(
    worker: &Rc<Worker>,
    addresses: &[SocketAddr],
    limit: Duration,
    dial: impl Fn(SocketAddr) -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let share = limit / addresses.len().max(1) as u32;
    let mut last = timed_out();
    for address in addresses {
        match within(worker, share, dial(*address)).await {
            Some(Ok(made)) => return Ok(made),
            Some(Err(failure)) => last = failure,
            None => last = timed_out(),
        }
    }
    Err(last)
}

/// Options of the local end of a connection.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Local {
    /// The address to bind to.
    pub(crate) address: Option<SocketAddr>,
    /// The kernel's buffers.
    pub(crate) buffers: SocketBuffers,
}

impl Local {
    fn of(dialling: &Dialling) -> Local {
        Local {
            address: dialling.local_address,
            buffers: dialling.buffers,
        }
    }
}

async fn connect_from(address: SocketAddr, local: Local) -> Result<Stream, Failure> {
    let socket = match local == Local::default() {
        true => TcpStream::connect(address).await,
        false => set_up(address, local).await,
    };
    let socket = socket.map_err(refused)?;
    socket.set_nodelay(true).map_err(refused)?;
    Ok(Stream::Tcp(socket.into()))
}

/// Buffer sizes are set before connecting: TCP announces its window scale in the SYN (RFC 7323, section 2.2).
async fn set_up(address: SocketAddr, local: Local) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(bytes) = local.buffers.receive {
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(bytes) = local.buffers.send {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(address) = local.address {
        if address.port() > 0 {
            // A connection from this port may have just ended (TIME_WAIT).
            socket.set_reuseaddr(true)?;
        }
        socket.bind(address).map_err(|error| {
            io::Error::new(error.kind(), format!("local address {address}: {error}"))
        })?;
    }
    socket.connect(address).await
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use socket2::SockRef;

    use super::*;

    #[test]
    fn sockets_have_the_configured_sizes() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .expect("a runtime");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let local = Local {
            address: Some(SocketAddr::from(([127, 0, 0, 5], 0))),
            buffers: SocketBuffers {
                receive: Some(20_000),
                send: Some(30_000),
            },
        };
        let socket = runtime
            .block_on(set_up(address, local))
            .expect("somebody listens");
        // Linux doubles the size for its own bookkeeping (socket(7)).
        let sizes = SockRef::from(&socket);
        assert_eq!(sizes.recv_buffer_size().expect("it tells"), 40_000);
        assert_eq!(sizes.send_buffer_size().expect("it tells"), 60_000);
        let from = socket.local_addr().expect("it is bound").ip();
        assert_eq!(from, std::net::IpAddr::from([127, 0, 0, 5]));
    }
}
