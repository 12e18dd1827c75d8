//! The first of several addresses that accepts: those of one version of IP one after the other, those of the other
//! version beside them after a moment (RFC 8305). Looking addresses up is left to `names`.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};

use crate::failure::Failure;
use crate::stream::Stream;
use crate::upstream::dial::{refused, timed_out, within};
use crate::upstream::dialling::{Dialling, Fallback, Reach, split};
use crate::upstream::limits::FALLBACK_DELAY;
use crate::worker::Worker;

/// Connects to one of `addresses`, which are tried for `limit` together.
pub(super) async fn connect(
    worker: &Rc<Worker>,
    addresses: &[SocketAddr],
    dialling: Option<&Dialling>,
    limit: Duration,
) -> Result<Stream, Failure> {
    let reach = dialling.map_or(Reach::Anywhere, |dialling| dialling.reach);
    let allowed: Vec<SocketAddr> = addresses
        .iter()
        .copied()
        .filter(|address| reach.allows(address.ip()))
        .collect();
    if allowed.is_empty() {
        return Err(no_address(addresses));
    }
    let local = dialling.and_then(|dialling| dialling.local_address);
    let (first, second) = split(&allowed);
    let first = in_turn(worker, &first, local, limit);
    if second.is_empty() {
        return first.await;
    }
    let delay = match dialling.map_or(Fallback::Usual, |dialling| dialling.fallback) {
        Fallback::Usual => FALLBACK_DELAY,
        Fallback::After(delay) => delay,
        Fallback::Never => limit,
    };
    let second = in_turn(worker, &second, local, limit);
    race(worker, pin!(first), pin!(second), delay).await
}

fn no_address(addresses: &[SocketAddr]) -> Failure {
    let why = if addresses.is_empty() {
        "the name has no address of the wanted version of IP"
    } else {
        "requests may not name addresses of this link, groups or no host"
    };
    refused(io::Error::other(why))
}

/// Runs `first`, and `second` beside it as soon as `first` has failed or `delay` is over.
async fn race(
    worker: &Worker,
    mut first: Pin<&mut impl Future<Output = Result<Stream, Failure>>>,
    mut second: Pin<&mut impl Future<Output = Result<Stream, Failure>>>,
    delay: Duration,
) -> Result<Stream, Failure> {
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
            // The failure of the preferred version tells more.
            (Some(failure), Some(_)) => Poll::Ready(Err(failure)),
            (lost, _) => {
                lost_first = lost;
                Poll::Pending
            }
        }
    })
    .await
}

/// Ready with a stream; a failure is noted, after which nothing is polled any more.
fn poll_unless_lost(
    dial: &mut Pin<&mut impl Future<Output = Result<Stream, Failure>>>,
    lost: &mut Option<Failure>,
    cx: &mut Context<'_>,
) -> Poll<Stream> {
    if lost.is_some() {
        return Poll::Pending;
    }
    match dial.as_mut().poll(cx) {
        Poll::Ready(Ok(stream)) => Poll::Ready(stream),
        Poll::Ready(Err(failure)) => {
            *lost = Some(failure);
            Poll::Pending
        }
        Poll::Pending => Poll::Pending,
    }
}

/// The first of `addresses` that accepts; each gets its share of the time, so that a dead one leaves some for the
/// others.
async fn in_turn(
    worker: &Rc<Worker>,
    addresses: &[SocketAddr],
    local: Option<IpAddr>,
    limit: Duration,
) -> Result<Stream, Failure> {
    let share = limit / addresses.len().max(1) as u32;
    let mut last = timed_out();
    for address in addresses {
        match within(worker, share, connect_from(*address, local)).await {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(failure)) => last = failure,
            None => last = timed_out(),
        }
    }
    Err(last)
}

async fn connect_from(address: SocketAddr, local: Option<IpAddr>) -> Result<Stream, Failure> {
    let socket = match local {
        None => TcpStream::connect(address).await,
        Some(local) => bound(address, local).await,
    };
    let socket = socket.map_err(refused)?;
    socket.set_nodelay(true).map_err(refused)?;
    Ok(Stream::Tcp(socket))
}

async fn bound(address: SocketAddr, local: IpAddr) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.bind(SocketAddr::new(local, 0))?;
    socket.connect(address).await
}
