//! Closing so that the client gets to read the last answer: a socket closed over unread input is reset, and a
//! reset overtakes what was sent.

use std::future::poll_fn;
use std::io::IoSlice;
use std::task::{Poll, ready};

use super::Link;
use crate::limits::{LINGER, LINGER_BYTES_MAX};
use crate::stream::Stream;

/// Ends our direction, then reads and throws away what the client still sends, for a limited time and amount.
pub(super) async fn close(link: &Link) {
    link.timer.set_yielding(&link.worker.clock, LINGER);
    let mut thrown_away = 0;
    let mut shut_down = false;
    poll_fn(|cx| {
        if link.timer.poll_expired(cx).is_ready() {
            return Poll::Ready(());
        }
        if !shut_down {
            if ready!(link.stream.borrow_mut().poll_shutdown(cx)).is_err() {
                return Poll::Ready(());
            }
            shut_down = true;
        }
        loop {
            link.input.borrow_mut().clear();
            match ready!(link.poll_fill(cx)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(count) => thrown_away += count,
            }
            if thrown_away > LINGER_BYTES_MAX {
                return Poll::Ready(());
            }
        }
    })
    .await;
    link.input.borrow_mut().clear();
    link.rest();
}

const PLAIN_ON_TLS: &[u8] = b"HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\n\
    Client sent an HTTP request to an HTTPS server.\n";

/// Tells a client that spoke plain HTTP to a TLS listener what is wrong.
pub(super) async fn refuse_plain_http(link: &Link) {
    poll_fn(|cx| {
        let mut stream = link.stream.borrow_mut();
        if let Stream::Tls(tls) = &mut *stream {
            let plain = tls.take_socket();
            *stream = plain;
        }
        // A short answer fits the empty send buffer of a new connection; if not, the client learns nothing.
        stream
            .poll_write(cx, &[IoSlice::new(PLAIN_ON_TLS)])
            .map(|_| ())
    })
    .await;
    close(link).await;
}
