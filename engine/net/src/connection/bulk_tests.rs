//! Which connections get large buffers for their next read.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::Write;
use std::net;
use std::rc::Rc;
use std::task::Context;
use std::time::Duration;

use sluice_wire::h1::{BodyFraming, Limits};
use tokio::net::TcpStream;

use super::Link;
use super::body::H1Body;
use crate::body::BodyStream;
use crate::limits::{BULK_BUFFER_BYTES, READ_BUFFER_BYTES};
use crate::service::ClientLimits;
use crate::stream::Stream;
use crate::worker::Worker;

fn block_on(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_io().build().unwrap();
    runtime.block_on(test);
}

/// A connection of a client.
struct Pair {
    client: net::TcpStream,
    link: Rc<Link>,
}

impl Pair {
    fn connect() -> Pair {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let stream = Stream::Tcp(TcpStream::from_std(accepted).unwrap().into());
        let link = Link::new(stream, Rc::new(Worker::default()));
        Pair { client, link }
    }

    /// The capacity of the buffer for the next read, of one byte.
    async fn next_capacity(&mut self) -> usize {
        self.client.write_all(b"x").unwrap();
        poll_fn(|cx| self.link.poll_fill(cx)).await.unwrap();
        let mut input = self.link.input.borrow_mut();
        let capacity = input.capacity();
        self.link
            .worker
            .buffers
            .give_back(std::mem::take(&mut input));
        capacity
    }

    /// Sends a body of so many bytes; of each piece `take` says how many bytes are consumed at once.
    async fn send(&mut self, bytes: usize, take: impl Fn(usize) -> usize) {
        // It fits into the buffers of the sockets.
        self.client.write_all(&vec![b'x'; bytes]).unwrap();
        let (framing, limits) = (BodyFraming::Length(bytes as u64), Limits::default());
        let client = ClientLimits::patient(Duration::from_secs(60));
        self.link.body_bytes.set(0);
        let mut body = H1Body::new(&self.link, (framing, 0), &limits, false, &client);
        loop {
            let read = poll_fn(|cx| body.poll_data(cx).map_ok(<[u8]>::len));
            match read.await.unwrap() {
                0 => return,
                count => body.consume(take(count)),
            }
        }
    }
}

#[test]
fn after_a_large_body_the_next_read_is_large() {
    block_on(async {
        let mut pair = Pair::connect();
        assert_eq!(pair.next_capacity().await, READ_BUFFER_BYTES);
        pair.send(READ_BUFFER_BYTES + 1, |count| count).await;
        assert_eq!(pair.next_capacity().await, BULK_BUFFER_BYTES);
        // A request without a body changes nothing.
        assert_eq!(pair.next_capacity().await, BULK_BUFFER_BYTES);
        pair.send(READ_BUFFER_BYTES, |count| count).await;
        assert_eq!(pair.next_capacity().await, READ_BUFFER_BYTES);
    });
}

#[test]
fn while_the_receiver_of_a_body_is_slow_reads_are_not_large() {
    block_on(async {
        let mut pair = Pair::connect();
        let (link, pieces) = (pair.link.clone(), Cell::new(0));
        link.sends_bulk.set(true);
        let take = |count: usize| {
            let is_first = pieces.get() == 0;
            assert_eq!(link.sends_bulk.get(), is_first);
            pieces.set(pieces.get() + 1);
            // The last byte is taken alone.
            count.div_ceil(2)
        };
        pair.send(READ_BUFFER_BYTES + 1, take).await;
        assert!(pieces.get() > 1);
        assert!(
            link.sends_bulk.get(),
            "the next body may have another receiver"
        );
    });
}

#[test]
fn a_head_that_stops_in_the_middle_waits_in_a_small_buffer() {
    block_on(async {
        let mut pair = Pair::connect();
        pair.link.sends_bulk.set(true);
        pair.client.write_all(b"GET / HT").unwrap();
        poll_fn(|cx| pair.link.poll_fill(cx)).await.unwrap();
        assert_eq!(pair.link.input.borrow().capacity(), BULK_BUFFER_BYTES);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(pair.link.poll_fill(&mut cx).is_pending());
        let input = pair.link.input.borrow();
        assert_eq!(
            (&input[..], input.capacity()),
            (&b"GET / HT"[..], READ_BUFFER_BYTES)
        );
    });
}

#[test]
fn a_body_begins_behind_its_head_and_leaves_the_next_request() {
    block_on(async {
        let mut pair = Pair::connect();
        pair.client.write_all(b"headbodynext").unwrap();
        poll_fn(|cx| pair.link.poll_fill(cx)).await.unwrap();
        let (framing, limits) = ((BodyFraming::Length(4), 4), Limits::default());
        let client = ClientLimits::patient(Duration::from_secs(60));
        let mut body = H1Body::new(&pair.link, framing, &limits, false, &client);
        let piece = poll_fn(|cx| body.poll_data(cx).map_ok(<[u8]>::to_vec)).await;
        assert_eq!(piece.unwrap(), b"body");
        body.consume(4);
        let end = poll_fn(|cx| body.poll_data(cx).map_ok(<[u8]>::len)).await;
        assert_eq!(end.unwrap(), 0);
        assert_eq!(*pair.link.input.borrow(), b"next");
    });
}
