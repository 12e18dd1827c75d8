use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Wake, Waker};

use sluice_message::FieldId;
use sluice_net::spool::Folder;
use sluice_net::{FailureKind, Side};
use sluice_policy::buffering::Bounds;

use std::task::Context;

use sluice_message::Fields;

use super::*;

/// The next action of a scripted body.
enum Act {
    Give(Vec<u8>),
    Fail,
    End,
}

/// A body that follows a script; at its end the body is pending.
#[derive(Clone, Default)]
struct Script {
    acts: Rc<RefCell<VecDeque<Act>>>,
    length: Rc<Cell<Option<u64>>>,
    trailers: Rc<Cell<Option<Fields>>>,
    is_gone: Rc<Cell<bool>>,
}

impl Script {
    fn of(acts: impl IntoIterator<Item = Act>) -> Script {
        let script = Script::default();
        script.acts.borrow_mut().extend(acts);
        script
    }

    fn stream(&self) -> Box<dyn BodyStream> {
        Box::new(Scripted {
            script: self.clone(),
            shown: Vec::new(),
        })
    }
}

struct Scripted {
    script: Script,
    shown: Vec<u8>,
}

impl BodyStream for Scripted {
    fn len(&self) -> Option<u64> {
        self.script.length.get()
    }

    fn poll_data(&mut self, _cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if self.shown.is_empty() {
            match self.script.acts.borrow_mut().pop_front() {
                Some(Act::Give(bytes)) => self.shown = bytes,
                Some(Act::Fail) => {
                    let failure = Failure::new(Side::Upstream, FailureKind::Closed);
                    return Poll::Ready(Err(failure));
                }
                Some(Act::End) => {}
                None => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(&self.shown))
    }

    fn consume(&mut self, count: usize) {
        self.shown.drain(..count);
        if let Some(left) = self.script.length.get() {
            self.script.length.set(Some(left - count as u64));
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.script.trailers.take()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.script.is_gone.set(true);
    }
}

fn rules(bounds: Bounds, folder: &str) -> Arc<Rules> {
    Arc::new(Rules::with(bounds, Folder::new(folder)))
}

const BOUNDS: Bounds = Bounds {
    memory_max: 8,
    memory_kept: 0,
    write_bytes: 4,
    file_max: 1000,
};

fn temp() -> String {
    std::env::temp_dir().to_string_lossy().into_owned()
}

/// Wakes the thread of a test.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn run(test: impl AsyncFnOnce(Rc<Worker>)) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut running = std::pin::pin!(test(Worker::new(0, 1)));
    while running.as_mut().poll(&mut cx).is_pending() {
        std::thread::park();
    }
}

fn give(text: &str) -> Act {
    Act::Give(text.as_bytes().to_vec())
}

fn peek(body: &mut Ahead) -> Poll<Result<String, Failure>> {
    let mut cx = Context::from_waker(Waker::noop());
    let text = |data: &[u8]| String::from_utf8(data.to_vec()).unwrap();
    body.poll_data(&mut cx).map_ok(text)
}

fn ahead(body: &mut Ahead) {
    let mut cx = Context::from_waker(Waker::noop());
    assert!(body.poll_ahead(&mut cx).is_pending());
}

/// Reads to the end, a few bytes at a time.
async fn rest(body: &mut dyn BodyStream) -> Result<String, Failure> {
    let mut out = Vec::new();
    loop {
        let count = poll_fn(|cx| {
            body.poll_data(cx).map_ok(|data| {
                let count = data.len().min(3);
                out.extend_from_slice(&data[..count]);
                count
            })
        })
        .await?;
        if count == 0 {
            return Ok(String::from_utf8(out).unwrap());
        }
        body.consume(count);
    }
}

/// Reads ahead until the sender is finished.
async fn drain(body: &mut Ahead, script: &Script) {
    poll_fn(|cx| {
        assert!(body.poll_ahead(cx).is_pending());
        match script.is_gone.get() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

#[test]
fn a_body_whose_receiver_keeps_up_is_passed_on_as_it_is() {
    run(async |worker| {
        let script = Script::of([give("one"), give("two"), Act::End]);
        let mut body = Ahead::new(&worker, &rules(BOUNDS, "/nowhere"), script.stream());
        assert_eq!(rest(&mut body).await.unwrap(), "onetwo");
        assert_eq!(worker.counters.spooled.value(), 0);
    });
}

#[test]
fn what_is_shown_stays_the_beginning_while_more_is_read() {
    run(async |worker| {
        let script = Script::of([give("shown-before"), give("and"), give("more")]);
        let mut body = Ahead::new(&worker, &rules(BOUNDS, "/nowhere"), script.stream());
        assert!(matches!(peek(&mut body), Poll::Ready(Ok(text)) if text == "shown-before"));
        ahead(&mut body);
        assert!(matches!(peek(&mut body), Poll::Ready(Ok(text)) if text == "shown-before"));
        body.consume(5);
        assert!(matches!(peek(&mut body), Poll::Ready(Ok(text)) if text == "-before"));
        assert!(script.acts.borrow().is_empty(), "there was room for more");
        script.acts.borrow_mut().push_back(Act::End);
        assert_eq!(rest(&mut body).await.unwrap(), "-beforeandmore");
    });
}

#[test]
fn the_sender_is_free_once_all_was_read() {
    run(async |worker| {
        let text = "0123456789".repeat(20);
        let pieces = text.as_bytes().chunks(7).map(|one| Act::Give(one.to_vec()));
        let script = Script::of(pieces.chain([Act::End]));
        script.length.set(Some(200));
        let mut trailers = Fields::new();
        trailers.push(FieldId::Etag, b"x");
        script.trailers.set(Some(trailers));
        let mut body = Ahead::new(&worker, &rules(BOUNDS, &temp()), script.stream());
        assert_eq!(body.len(), Some(200));
        drain(&mut body, &script).await;
        assert_eq!(worker.counters.spool_files.value(), 1);
        assert_eq!(body.len(), None, "trailer fields follow");
        assert_eq!(rest(&mut body).await.unwrap(), text);
        assert_eq!(
            body.trailers().unwrap().first(FieldId::Etag),
            Some(&b"x"[..])
        );
        drop(body);
        assert_eq!(worker.counters.spool_files.value(), 0);
        assert_eq!(worker.counters.spool_bytes.value(), 0);
    });
}

#[test]
fn a_failure_comes_after_what_came_before_it() {
    run(async |worker| {
        let script = Script::of([give("0123456789"), give("abc"), Act::Fail]);
        let mut body = Ahead::new(&worker, &rules(BOUNDS, &temp()), script.stream());
        drain(&mut body, &script).await;
        let mut out = String::new();
        let failure = loop {
            match poll_fn(|cx| body.poll_data(cx).map_ok(<[u8]>::to_vec)).await {
                Ok(data) => {
                    out.push_str(std::str::from_utf8(&data).unwrap());
                    body.consume(data.len());
                }
                Err(failure) => break failure,
            }
        };
        assert_eq!(out, "0123456789abc");
        assert_eq!(
            (failure.side, failure.kind),
            (Side::Upstream, FailureKind::Closed)
        );
    });
}

#[test]
fn without_a_file_memory_is_the_limit() {
    run(async |worker| {
        let pieces = ["first", "2345", "6789", "abcde", "fghij"].map(give);
        let script = Script::of(pieces);
        let mut body = Ahead::new(&worker, &rules(BOUNDS, "/nowhere/at/all"), script.stream());
        // The first is held for the receiver, and eight bytes wait behind it.
        poll_fn(|cx| {
            let _ = body.poll_ahead(cx);
            match worker.counters.spool_failures.value() {
                0 => Poll::Pending,
                _ => Poll::Ready(()),
            }
        })
        .await;
        // Data read during the write waits as well, but no more than that.
        assert!(!script.acts.borrow().is_empty(), "its sender waits");
        script.acts.borrow_mut().push_back(Act::End);
        assert_eq!(rest(&mut body).await.unwrap(), "first23456789abcdefghij");
    });
}

fn spooling(bounds: Bounds, folder: &str) -> Buffering {
    Buffering {
        spooling: Some(Spooling {
            rules: rules(bounds, folder),
            always: true,
        }),
        ..Buffering::default()
    }
}

#[test]
fn a_request_is_here_as_a_whole_and_as_often_as_wanted() {
    run(async |worker| {
        for len in [0, 1, 7, 8, 9, 12, 16, 17, 100] {
            let text = "0123456789"
                .repeat(len)
                .chars()
                .take(len)
                .collect::<String>();
            let pieces = text.as_bytes().chunks(5).map(|one| Act::Give(one.to_vec()));
            let script = Script::of(pieces.chain([Act::End]));
            let spooling = spooling(BOUNDS, &temp());
            let body = RequestBody::Stream(script.stream());
            let RequestBody::Stream(mut body) = spooling.spool(&worker, body).await.unwrap() else {
                panic!("there is one");
            };
            assert!(script.is_gone.get() && body.is_rewindable());
            assert_eq!(body.len(), Some(len as u64));
            for _ in 0..3 {
                assert_eq!(rest(&mut *body).await.unwrap(), text, "{len}");
                assert_eq!(body.len(), Some(0));
                body.rewind();
                assert_eq!(body.len(), Some(len as u64));
                poll_fn(|cx| body.poll_data(cx).map_ok(|_| ()))
                    .await
                    .unwrap();
                body.rewind();
            }
        }
        assert_eq!(worker.counters.spool_files.value(), 0);
    });
}

#[test]
fn a_request_that_came_with_its_head_stays_where_it_is() {
    run(async |worker| {
        let script = Script::of([give("whole")]);
        script.length.set(Some(5));
        let body = RequestBody::Stream(script.stream());
        let body = spooling(BOUNDS, "/nowhere")
            .spool(&worker, body)
            .await
            .unwrap();
        assert!(!script.is_gone.get(), "nothing was copied");
        assert_eq!(body.len(), Some(5));
    });
}

#[test]
fn a_request_that_cannot_wait_goes_on_as_it_comes() {
    run(async |worker| {
        let text = "0123456789".repeat(10);
        let pieces = text.as_bytes().chunks(6).map(|one| Act::Give(one.to_vec()));
        let script = Script::of(pieces.chain([Act::End]));
        let body = RequestBody::Stream(script.stream());
        let spooling = spooling(BOUNDS, "/nowhere/at/all");
        let RequestBody::Stream(mut body) = spooling.spool(&worker, body).await.unwrap() else {
            panic!("there is one");
        };
        assert!(!script.is_gone.get() && !body.is_rewindable());
        assert_eq!(rest(&mut *body).await.unwrap(), text);
    });
}

#[test]
fn a_request_that_breaks_off_never_leaves() {
    run(async |worker| {
        let script = Script::of([give("0123456789"), Act::Fail]);
        let body = RequestBody::Stream(script.stream());
        let spooled = spooling(BOUNDS, &temp()).spool(&worker, body).await;
        assert!(spooled.is_err() && script.is_gone.get());
        assert_eq!(worker.counters.spool_files.value(), 0);
    });
}
