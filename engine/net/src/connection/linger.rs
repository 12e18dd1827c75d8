//! Lingering close: lets the client read the last response. Closing a socket with unread input resets the connection,
//! and the reset discards data that the client has not read.

use std::future::poll_fn;
use std::io::IoSlice;
use std::task::{Poll, ready};

use super::{BodyState, Link};
use crate::service::{Linger, Lingering};
use crate::stream::Stream;

/// Shuts down the sending direction, then reads and discards what the client still sends, up to a time and size limit.
pub(super) async fn close(link: &Link, linger: Linger) {
    let clock = &link.worker.clock;
    let until = clock.coarse() + linger.time;
    let pause = linger.pause.min(linger.time);
    link.timer.set_yielding(clock, pause);
    let waits = match linger.when {
        Lingering::Never => false,
        Lingering::Unread => {
            let is_whole = matches!(*link.body.borrow(), BodyState::Finished);
            !is_whole || !link.input.borrow().is_empty() || link.stream.borrow().has_arrived()
        }
        Lingering::Unannounced | Lingering::Always => true,
    };
    if !waits && !matches!(*link.stream.borrow(), Stream::Tls(_)) {
        // Closing sends the FIN as well.
        return link.give_back_input();
    }
    let mut thrown_away = 0;
    let mut shut_down = false;
    poll_fn(|cx| {
        if link.timer.poll_expired(cx).is_ready() {
            return Poll::Ready(());
        }
        if !shut_down {
            if ready!(link.stream.borrow_mut().poll_shutdown(cx)).is_err() || !waits {
                return Poll::Ready(());
            }
            shut_down = true;
        }
        loop {
            link.input.borrow_mut().clear();
            match ready!(link.poll_fill(cx)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(count) => thrown_away += count as u64,
            }
            let left = until.since(clock.coarse());
            if thrown_away > linger.bytes_max || left.is_zero() {
                return Poll::Ready(());
            }
            link.timer.set_yielding(clock, left.min(pause));
        }
    })
    .await;
    link.give_back_input();
}

/// Makes the kernel discard all data of a connection and reset it when it is closed.
pub(super) fn reset(link: &Link) {
    link.stream.borrow().reset_on_close();
}

const PLAIN_ON_TLS: &[u8] = b"HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\n\
    Client sent an HTTP request to an HTTPS server.\n";

/// Sends an error to a client that speaks plain HTTP to a TLS listener.
pub(super) async fn refuse_plain_http(link: &Link) {
    poll_fn(|cx| {
        let mut stream = link.stream.borrow_mut();
        if let Stream::Tls(tls) = &mut *stream {
            let plain = tls.take_socket();
            *stream = plain;
        }
        // A short response fits into the empty send buffer of a new connection; if not, it is dropped.
        stream
            .poll_write(cx, &[IoSlice::new(PLAIN_ON_TLS)])
            .map(|_| ())
    })
    .await;
    close(link, Linger::default()).await;
}
