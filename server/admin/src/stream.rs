//! The event stream: a snapshot each second, as server-sent events. One task on the worker of the admin API takes the
//! samples and makes each snapshot once for all subscribers. A subscriber that reads slowly misses snapshots, one that
//! reads nothing is dropped by the connection's write timeout; none of them holds more than one snapshot.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use sluice_message::Status;
use sluice_net::{BodyStream, Failure, Worker};

use crate::api::Reply;
use crate::limits::{SAMPLE_PAUSE, SUBSCRIBERS_MAX};
use crate::orders::Current;

/// The latest snapshot, for the subscribers of this worker.
#[derive(Default)]
pub struct Feed {
    /// Counts the snapshots.
    number: Cell<u64>,
    latest: RefCell<Option<Rc<[u8]>>>,
    has_ended: Cell<bool>,
    /// The subscribers; those that wait have a waker.
    subscribers: RefCell<BTreeMap<u64, Option<Waker>>>,
    next_subscriber: Cell<u64>,
}

impl Feed {
    fn publish(&self, snapshot: &[u8]) {
        *self.latest.borrow_mut() = Some(event(snapshot));
        self.number.set(self.number.get() + 1);
        self.wake();
    }

    fn end(&self) {
        self.has_ended.set(true);
        self.wake();
    }

    fn wake(&self) {
        let mut subscribers = self.subscribers.borrow_mut();
        let wakers: Vec<Waker> = subscribers.values_mut().filter_map(Option::take).collect();
        drop(subscribers);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// A snapshot as an event. JSON on one line needs no escaping.
fn event(snapshot: &[u8]) -> Rc<[u8]> {
    let text = snapshot.trim_ascii_end();
    let mut event = Vec::with_capacity(text.len() + 32);
    event.extend_from_slice(b"event: snapshot\ndata: ");
    event.extend_from_slice(text);
    event.extend_from_slice(b"\n\n");
    event.into()
}

/// Takes a sample each second for as long as the worker runs, and sends snapshots to the subscribers.
pub async fn sample(worker: Rc<Worker>, current: Current) {
    let feed = worker.local::<Feed>();
    let timer = worker.timers.timer();
    while !worker.draining.get() {
        if let Some(counts) = current.counts() {
            counts.sample();
            if !feed.subscribers.borrow().is_empty() {
                feed.publish(&counts.status(&current.actions()));
            }
        }
        timer.set(&worker.clock, SAMPLE_PAUSE);
        poll_fn(|cx| timer.poll_expired(cx)).await;
    }
    feed.end();
}

/// Adds a subscriber, which gets `snapshot` at once. The error is the response if there are too many.
pub fn subscribe(feed: &Rc<Feed>, snapshot: Vec<u8>) -> Result<Box<dyn BodyStream>, Reply> {
    if feed.subscribers.borrow().len() >= SUBSCRIBERS_MAX {
        let why = format!("{SUBSCRIBERS_MAX} clients already read this stream; try again later");
        return Err(Reply::error(Status::SERVICE_UNAVAILABLE, why));
    }
    let id = feed.next_subscriber.get();
    feed.next_subscriber.set(id + 1);
    feed.subscribers.borrow_mut().insert(id, None);
    Ok(Box::new(Subscriber {
        feed: feed.clone(),
        id,
        number: feed.number.get(),
        event: event(&snapshot),
        sent: 0,
    }))
}

/// The body of a response to a subscriber.
struct Subscriber {
    feed: Rc<Feed>,
    id: u64,
    /// The number of the snapshot that it has.
    number: u64,
    event: Rc<[u8]>,
    sent: usize,
}

impl BodyStream for Subscriber {
    fn len(&self) -> Option<u64> {
        None
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if self.sent == self.event.len() {
            let latest = self.feed.latest.borrow().clone();
            match latest {
                _ if self.feed.has_ended.get() => {}
                Some(latest) if self.number != self.feed.number.get() => {
                    (self.event, self.sent) = (latest, 0);
                    self.number = self.feed.number.get();
                }
                Some(_) | None => {
                    let waker = Some(cx.waker().clone());
                    self.feed.subscribers.borrow_mut().insert(self.id, waker);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(&self.event[self.sent..]))
    }

    fn consume(&mut self, count: usize) {
        self.sent += count;
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.feed.subscribers.borrow_mut().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that a subscriber can read now; `None` at the end.
    fn read(stream: &mut Box<dyn BodyStream>) -> Option<String> {
        let mut text = String::new();
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            let part = match stream.poll_data(&mut cx) {
                Poll::Pending => return Some(text),
                Poll::Ready(Ok([])) => return None,
                Poll::Ready(Ok(part)) => String::from_utf8_lossy(part).into_owned(),
                Poll::Ready(Err(failure)) => panic!("{failure}"),
            };
            stream.consume(part.len());
            text.push_str(&part);
        }
    }

    fn subscribed(feed: &Rc<Feed>, snapshot: &str) -> Box<dyn BodyStream> {
        let subscribed = subscribe(feed, snapshot.as_bytes().to_vec());
        subscribed.unwrap_or_else(|_| panic!("there is room"))
    }

    #[test]
    fn a_subscriber_gets_each_snapshot_and_a_slow_one_the_latest() {
        let feed = Rc::new(Feed::default());
        let mut quick = subscribed(&feed, "{\"a\":1}\n");
        let mut slow = subscribed(&feed, "0");
        let first = "event: snapshot\ndata: {\"a\":1}\n\n";
        assert_eq!(read(&mut quick).as_deref(), Some(first));
        assert_eq!(read(&mut quick).as_deref(), Some(""));
        for number in 1..100 {
            feed.publish(number.to_string().as_bytes());
            let expected = format!("event: snapshot\ndata: {number}\n\n");
            assert_eq!(read(&mut quick), Some(expected));
        }
        let both = "event: snapshot\ndata: 0\n\nevent: snapshot\ndata: 99\n\n";
        assert_eq!(read(&mut slow).as_deref(), Some(both));
        feed.end();
        assert_eq!(read(&mut quick), None);
    }

    #[test]
    fn subscribers_are_bounded_and_make_room() {
        let feed = Rc::new(Feed::default());
        let all: Vec<_> = (0..SUBSCRIBERS_MAX)
            .map(|_| subscribed(&feed, "0"))
            .collect();
        let refused = subscribe(&feed, Vec::new()).err().map(|reply| reply.status);
        assert_eq!(refused, Some(Status::SERVICE_UNAVAILABLE));
        drop(all);
        subscribed(&feed, "0");
        assert!(feed.subscribers.borrow().is_empty());
    }
}
