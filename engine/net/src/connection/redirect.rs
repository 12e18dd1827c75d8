//! Detects plain HTTP on a TLS listener before the handshake, redirects the client to HTTPS, and closes the connection.
//! Other listener wrappers are in `listener_wrapper`.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;

use sluice_message::RequestHead;
use sluice_wire::h1::{Limits, Progress, RequestDecoder};

use super::{Link, linger};
use crate::listener_wrapper;
use crate::service::Linger;
use crate::stream::Stream;
use crate::worker::Worker;

/// The first byte of a TLS handshake record (RFC 8446, section 5.1); no HTTP method begins with it.
const HANDSHAKE: u8 = 0x16;

/// The redirect for a client that speaks plain HTTP; `None` if it does not. Its bytes stay in the socket.
pub(super) async fn response(stream: &mut Stream, limits: &Limits) -> io::Result<Option<String>> {
    let mut bytes = vec![0; limits.head_bytes_max];
    let mut decoder = RequestDecoder::new();
    let (mut head, mut seen) = (RequestHead::default(), 0);
    loop {
        seen = listener_wrapper::look_for_more(stream, &mut bytes, seen).await?;
        if bytes[0] == HANDSHAKE {
            return Ok(None);
        }
        match decoder.decode(limits, &bytes[..seen], &mut head) {
            Ok(Progress::Complete { .. }) if !head.authority.is_empty() => {
                let (host, target) = (&head.authority, head.uri.as_bytes());
                let location = [b"https://", &host[..], target].concat();
                return Ok(Some(redirect(&String::from_utf8_lossy(&location))));
            }
            Ok(Progress::Complete { .. }) | Err(_) => return Ok(Some(refusal())),
            Ok(_) if seen == bytes.len() => return Ok(Some(refusal())),
            Ok(_) => {}
        }
    }
}

/// Whether the client does not speak TLS. Its bytes stay in the socket.
pub(super) async fn is_plain(stream: &mut Stream) -> io::Result<bool> {
    let mut first = [0];
    listener_wrapper::look_for_more(stream, &mut first, 0).await?;
    // Like nginx, also treat a set highest bit (an SSLv2 hello) as TLS; the TLS library rejects it.
    Ok(first[0] != HANDSHAKE && first[0] & 0x80 == 0)
}

fn redirect(location: &str) -> String {
    format!(
        "HTTP/1.1 308 Permanent Redirect\r\nLocation: {location}\r\nConnection: close\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

fn refusal() -> String {
    "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned()
}

/// Sends `response` and closes.
pub(super) async fn send(stream: Stream, worker: Rc<Worker>, response: &str) {
    let link = Link::new(stream, worker);
    poll_fn(|cx| {
        // A short response fits into the empty send buffer of a new connection; if not, it is dropped.
        let mut stream = link.stream.borrow_mut();
        stream
            .poll_write(cx, &[IoSlice::new(response.as_bytes())])
            .map(|_| ())
    })
    .await;
    linger::close(&link, Linger::default()).await;
}
