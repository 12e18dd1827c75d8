//! Lanes whose other end is this test: no process, and nothing that depends on time.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use sluice_wire::python::{Header, Kind};

use super::*;
use crate::lane::Local;
use crate::queue::Grant;
use crate::settings::{Interface, Settings};
use crate::snapshot::ProcessState;

/// A lane to a process that does not exist, and its other end.
struct Rig {
    mux: Rc<Mux>,
    other: UnixStream,
}

/// Runs a test with a lane to an application of this interface.
fn with_lane(interface: Interface, test: impl AsyncFnOnce(Rig)) {
    with_settings(interface, |_| {}, test);
}

fn with_settings(
    interface: Interface,
    change: impl FnOnce(&mut Settings),
    test: impl AsyncFnOnce(Rig),
) {
    let mut settings = Settings::new("test", interface, "app:app");
    settings.threads = 1;
    change(&mut settings);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let worker = Worker::new(0, 1);
        let process = Arc::new(Process::new(1, 0, u64::MAX, &settings));
        let group = Arc::new(Group::new(1, settings, 1, Arc::new(|_| {})));
        process.greet(Greeting {
            interface: Some(interface),
            marshal: true,
            ..Greeting::default()
        });
        process.set_state(ProcessState::Ready);
        let (ours, other) = UnixStream::pair().unwrap();
        process.seat(0).open(vec![ours.into()]);
        group.publish(vec![process.clone()]);
        let local = Local::of(&worker, &group);
        let placed = local.placed(Grant { process, seat: 0 }).unwrap();
        let mux = placed.keep().unwrap();
        test(Rig { mux, other }).await;
    });
}

impl Rig {
    /// Opens a stream for a request, as [`crate::Application`] does it.
    fn open(&self) -> StreamId {
        // As many as the test wants: that a thread gets only some is tested elsewhere.
        self.mux.process.seat(0).reserve(usize::MAX, 0);
        self.mux.process.note_reserved();
        let write = |out: &mut Vec<u8>| out.extend_from_slice(b"{0");
        self.mux.open(Form::Http, End::Here, write).unwrap()
    }

    /// Reads the frames of so many requests, while the driver runs.
    async fn read_requests(&mut self, count: usize) {
        let mut bytes = vec![0; count * 18];
        self.other.set_nonblocking(true).unwrap();
        let mut at = 0;
        while at < bytes.len() {
            match self.other.read(&mut bytes[at..]) {
                Ok(0) => panic!("the lane was closed"),
                Ok(count) => at += count,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    fn send(&mut self, kind: Kind, id: StreamId, flags: u8, payload: &[u8]) {
        let mut header = Header::new(kind, id.number(), payload.len());
        header.flags = flags;
        header.small = 200;
        self.other.write_all(&header.encode()).unwrap();
        self.other.write_all(payload).unwrap();
    }

    async fn head(&self, id: StreamId) -> Found {
        let (mux, mut fields) = (&self.mux, Fields::new());
        poll_fn(
            |cx| match mux.find_head(id, HopByHop::Drop, &mut fields, cx) {
                Found::Nothing => Poll::Pending,
                found => Poll::Ready(found),
            },
        )
        .await
    }

    async fn started(&self, id: StreamId) -> bool {
        match self.head(id).await {
            Found::Gone(Gone::Died { started }) => started,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn only_the_first_unfinished_request_of_a_thread_can_have_begun() {
    with_lane(Interface::Wsgi, async |mut rig| {
        let ids: Vec<StreamId> = (0..4).map(|_| rig.open()).collect();
        rig.read_requests(4).await;
        rig.send(Kind::Response, ids[0], 1, b"");
        assert!(matches!(rig.head(ids[0]).await, Found::Head(..)));
        // One that was given up counts all the same: the thread may be busy with it.
        rig.mux.release(ids[1]);
        rig.other = UnixStream::pair().unwrap().0;
        assert!(!rig.started(ids[2]).await);
        assert!(!rig.started(ids[3]).await);
        assert_eq!(rig.mux.process.state(), ProcessState::Dead);
        assert_eq!(rig.mux.process.in_flight(), 0);
        assert!(rig.mux.open(Form::Http, End::Here, |_| {}).is_none());
    });
    with_lane(Interface::Wsgi, async |mut rig| {
        let ids: Vec<StreamId> = (0..2).map(|_| rig.open()).collect();
        rig.read_requests(2).await;
        rig.other = UnixStream::pair().unwrap().0;
        assert!(rig.started(ids[0]).await);
        assert!(!rig.started(ids[1]).await);
    });
}

#[test]
fn all_requests_of_an_event_loop_can_have_begun_unless_they_were_not_sent() {
    with_lane(Interface::Asgi, async |mut rig| {
        let ids: Vec<StreamId> = (0..2).map(|_| rig.open()).collect();
        rig.read_requests(2).await;
        let unsent = rig.open();
        rig.mux.lose_all();
        assert!(rig.started(ids[0]).await && rig.started(ids[1]).await);
        assert!(!rig.started(unsent).await);
    });
}

#[test]
fn a_response_that_was_complete_stays_valid() {
    with_lane(Interface::Wsgi, async |mut rig| {
        let id = rig.open();
        rig.read_requests(1).await;
        rig.send(Kind::Response, id, 0, b"");
        rig.send(Kind::ResponseBody, id, 1, b"whole");
        rig.other = UnixStream::pair().unwrap().0;
        assert!(matches!(rig.head(id).await, Found::Head(..)));
        let mut body = Vec::new();
        let cx = Context::from_waker(Waker::noop());
        assert!(matches!(rig.mux.take(id, &mut body, &cx), Taken::Bytes));
        assert_eq!(body, b"whole");
        assert!(matches!(rig.mux.take(id, &mut body, &cx), Taken::End(None)));
    });
}

#[test]
fn a_place_is_free_when_the_worker_says_so_and_not_when_the_client_leaves() {
    with_lane(Interface::Wsgi, async |mut rig| {
        let id = rig.open();
        rig.read_requests(1).await;
        rig.mux.release(id);
        assert_eq!(rig.mux.process.in_flight(), 1);
        rig.send(Kind::ResponseBody, id, 1, b"");
        while rig.mux.process.in_flight() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(rig.mux.process.requests(), 1);
    });
}

#[test]
fn a_violation_of_the_protocol_loses_the_lane() {
    with_lane(Interface::Asgi, async |mut rig| {
        let id = rig.open();
        rig.read_requests(1).await;
        rig.send(Kind::Trailers, id, 1, b"");
        assert!(rig.started(id).await);
        assert_eq!(rig.mux.process.death(), crate::failure::Death::Protocol);
    });
}

#[test]
fn requests_that_take_too_long_end_and_are_counted_until_the_worker_is_done() {
    let limit = |settings: &mut Settings| {
        settings.request_timeout = Some(std::time::Duration::from_secs(5));
    };
    with_settings(Interface::Wsgi, limit, async |mut rig| {
        let (first, second) = (rig.open(), rig.open());
        rig.read_requests(2).await;
        let now = rig.mux.worker.clock.coarse();
        rig.mux.expire(now + std::time::Duration::from_secs(4));
        assert_eq!(rig.mux.process.overdue(), 0);
        rig.send(Kind::Response, first, 1, b"");
        assert!(matches!(rig.head(first).await, Found::Head(..)));
        rig.mux.expire(now + std::time::Duration::from_secs(5));
        assert_eq!(rig.mux.process.overdue(), 1, "the first has ended");
        assert!(matches!(
            rig.head(second).await,
            Found::Gone(Gone::TimedOut)
        ));
        rig.mux.release(second);
        assert_eq!(rig.mux.process.overdue(), 1);
        rig.send(Kind::ResponseBody, second, 1, b"");
        while rig.mux.process.overdue() > 0 {
            tokio::task::yield_now().await;
        }
    });
}
