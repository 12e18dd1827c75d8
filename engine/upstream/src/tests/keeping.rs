//! Which connections are pooled, for how long, and which are not reused.

use super::*;
use sluice_net::failure::{FailureKind, Retry};

const HI: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

#[test]
fn one_connection_serves_request_after_request() {
    let fake = Fake::responding(HI);
    on_worker(|worker| async move {
        let endpoint = fake.endpoint();
        for _ in 0..20 {
            assert_eq!(fetch(&worker, &endpoint).await.unwrap().body, b"hi");
        }
        assert_eq!((fake.accepted(), Pool::of(&worker).idle()), (1, 1));
        // An equal endpoint of a newer configuration finds it, too.
        fetch(&worker, &fake.endpoint()).await.unwrap();
        assert_eq!(fake.accepted(), 1);
    });
}

#[test]
fn a_connection_closed_while_unused_is_passed_over() {
    let fake = Fake::closing(HI);
    on_worker(|worker| async move {
        let endpoint = fake.endpoint();
        for _ in 0..5 {
            assert_eq!(fetch(&worker, &endpoint).await.unwrap().body, b"hi");
            settle().await;
        }
        assert_eq!(fake.accepted(), 5);
    });
}

#[test]
fn unexpected_bytes_make_an_idle_connection_unusable() {
    let fake = Fake::new(|mut socket| {
        while read_head(&mut socket).is_some() {
            socket.write_all(HI.as_bytes()).unwrap();
            // After the client has its response: by then the connection is in the pool.
            thread::sleep(Duration::from_millis(20));
            // A response-splitting origin: this must not become the response to another client's request.
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen");
        }
    });
    on_worker(|worker| async move {
        let endpoint = fake.endpoint();
        for _ in 0..3 {
            assert_eq!(fetch(&worker, &endpoint).await.unwrap().body, b"hi");
            settle().await;
        }
        assert_eq!(fake.accepted(), 3);
    });
}

#[test]
fn a_kept_connection_that_dies_under_a_request_says_so() {
    let fake = Fake::new(|mut socket| {
        read_head(&mut socket);
        socket.write_all(HI.as_bytes()).unwrap();
        read_head(&mut socket);
    });
    on_worker(|worker| async move {
        let endpoint = fake.endpoint();
        fetch(&worker, &endpoint).await.unwrap();
        let request = upload(GET, BodyFraming::None, RequestBody::None);
        let failed = begin(&worker, &endpoint, Method::Get, request)
            .await
            .err()
            .unwrap();
        assert_eq!(failed.origin, Origin::Kept);
        assert_eq!(failed.failure.kind, FailureKind::Closed);
        assert_eq!(failed.failure.retry, Retry::IfIdempotent);
        assert!(failed.body.is_some_and(|body| body.is_none()));
    });
}

#[test]
fn no_more_are_kept_than_the_limit_and_none_for_longer_than_theirs() {
    let fake = Fake::responding(HI);
    on_worker(|worker| async move {
        let keep_alive = KeepAlive::Keep {
            idle_timeout: Duration::from_millis(200),
            idle_max: 2,
        };
        let endpoint = fake.endpoint_with(Options {
            keep_alive,
            ..Options::default()
        });
        let mut links = Vec::new();
        for _ in 0..4 {
            links.push(obtain_link(&worker, &endpoint).await);
        }
        for link in links {
            Pool::of(&worker).put(link, worker.clock.coarse());
        }
        assert_eq!(Pool::of(&worker).idle(), 2);
        eventually(|| Pool::of(&worker).idle() == 0).await;

        let options = Options {
            keep_alive: KeepAlive::Off,
            ..Options::default()
        };
        fetch(&worker, &fake.endpoint_with(options)).await.unwrap();
        assert_eq!(Pool::of(&worker).idle(), 0);
    });
}

#[test]
fn the_last_connection_given_back_is_taken_first() {
    let fake = Fake::responding(HI);
    on_worker(|worker| async move {
        let endpoint = fake.endpoint();
        let a = obtain_link(&worker, &endpoint).await;
        let b = obtain_link(&worker, &endpoint).await;
        let local = |link: &Link| match &link.stream {
            sluice_net::Stream::Tcp(socket) => socket.local_addr().unwrap(),
            sluice_net::Stream::Unix(_) | sluice_net::Stream::Tls(_) => {
                unreachable!("dialled by TCP")
            }
        };
        let last = local(&b);
        Pool::of(&worker).put(a, worker.clock.coarse());
        Pool::of(&worker).put(b, worker.clock.coarse());
        let taken = Pool::of(&worker)
            .take(&endpoint, worker.clock.coarse())
            .unwrap();
        assert_eq!((local(&taken), taken.origin()), (last, Origin::Kept));
    });
}

#[test]
fn requests_beyond_the_limit_of_an_upstream_wait_for_their_turn() {
    let fake = Fake::responding(HI);
    on_worker(|worker| async move {
        let timeouts = Timeouts {
            queue: Duration::from_millis(200),
            ..Timeouts::default()
        };
        let options = Options {
            busy_max: Some(1),
            timeouts,
            ..Options::default()
        };
        let endpoint = fake.endpoint_with(options);
        let first = obtain_link(&worker, &endpoint).await;
        let refused = obtain(&worker, &endpoint, Wanted::Any, b"")
            .await
            .err()
            .unwrap();
        assert_eq!(
            (refused.kind, refused.retry),
            (FailureKind::Limit, Retry::Always)
        );
        let pool = worker.clone();
        tokio::task::spawn_local(async move {
            settle().await;
            Pool::of(&pool).put(first, pool.clock.coarse());
        });
        assert_eq!(fetch(&worker, &endpoint).await.unwrap().body, b"hi");
        assert_eq!(fake.accepted(), 1);
    });
}

#[test]
fn giving_a_call_up_closes_its_connection() {
    let ended = Arc::new(AtomicUsize::new(0));
    let count = ended.clone();
    let fake = Fake::new(move |mut socket| {
        read_head(&mut socket);
        assert_eq!(socket.read(&mut [0]).unwrap_or(0), 0);
        count.fetch_add(1, Ordering::SeqCst);
    });
    on_worker(|worker| async move {
        let endpoint = fake.endpoint();
        let gone = tokio::time::timeout(Duration::from_millis(50), fetch(&worker, &endpoint)).await;
        assert!(gone.is_err());
        eventually(|| ended.load(Ordering::SeqCst) == 1).await;
        assert_eq!(Pool::of(&worker).idle(), 0);
    });
}

/// An upstream that closes a connection `idle` after its last response, and counts requests.
fn impatient(idle: Duration, requests: Arc<AtomicUsize>) -> Fake {
    Fake::new(move |mut socket| {
        socket.set_read_timeout(Some(idle)).unwrap();
        while read_head(&mut socket).is_some() {
            requests.fetch_add(1, Ordering::SeqCst);
            socket.write_all(HI.as_bytes()).unwrap();
        }
    })
}

/// Lets real time pass: what is tested is how a pool learns the idle timeout of an upstream, on a clock it does not own.
async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Real time: on a busy machine an upstream may close much later than it means to, so that its connection is rightly
/// used again. What no attempt may show is a failure or a request that is sent twice.
#[test]
fn a_pool_learns_when_an_upstream_closes_and_does_not_get_in_its_way() {
    const ATTEMPTS: usize = 4;
    assert!(
        (0..ATTEMPTS).any(|_| is_left_alone()),
        "old connections are used again"
    );
}

/// Whether connections that the upstream is about to close are not used, and young ones are. The tick of the tests is
/// 10 ms, so times here are shorter than a server's.
fn is_left_alone() -> bool {
    let requests = Arc::new(AtomicUsize::new(0));
    let fake = impatient(Duration::from_millis(600), requests.clone());
    on_worker(|worker| async move {
        let endpoint = fake.endpoint();
        fetch(&worker, &endpoint).await.unwrap();
        // Nothing has been learned yet; after this pause it has.
        pause(1_900).await;
        let dialled = fake.accepted();
        for _ in 0..6 {
            // About when the upstream closes. A retry is not permitted: a failure would show.
            fetch(&worker, &endpoint).await.unwrap();
            pause(600).await;
        }
        let old_are_left = fake.accepted() == dialled + 6;
        fetch(&worker, &endpoint).await.unwrap();
        let before = fake.accepted();
        for _ in 0..5 {
            pause(20).await;
            fetch(&worker, &endpoint).await.unwrap();
        }
        let young_are_used = fake.accepted() == before;
        assert_eq!(
            requests.load(Ordering::SeqCst),
            1 + 6 + 6,
            "nothing was sent twice"
        );
        old_are_left && young_are_used
    })
}

#[test]
fn what_was_learned_is_forgotten_when_connections_live_longer() {
    let fake = Fake::new(|mut socket| {
        // The first connection is closed immediately, as by a restart; others live long.
        let first = read_head(&mut socket).unwrap().contains("first");
        socket.write_all(HI.as_bytes()).unwrap();
        while !first && read_head(&mut socket).is_some() {
            socket.write_all(HI.as_bytes()).unwrap();
        }
    });
    on_worker(|worker| async move {
        let endpoint = fake.endpoint();
        let first = upload(
            "GET /first HTTP/1.1\r\nHost: x\r\n\r\n",
            BodyFraming::None,
            RequestBody::None,
        );
        fetch_with(&worker, &endpoint, Method::Get, first)
            .await
            .unwrap();
        pause(50).await;
        // It is found closed here, or by the sweep before.
        fetch(&worker, &endpoint).await.unwrap();
        pause(1_200).await;
        for _ in 0..5 {
            fetch(&worker, &endpoint).await.unwrap();
            pause(300).await;
        }
        assert!(fake.accepted() <= 3, "{} were dialled", fake.accepted());
    });
}

#[test]
fn an_upstream_that_says_when_it_closes_is_believed() {
    let fake =
        Fake::responding("HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nhi");
    on_worker(|worker| async move {
        let endpoint = fake.endpoint();
        fetch(&worker, &endpoint).await.unwrap();
        pause(300).await;
        fetch(&worker, &endpoint).await.unwrap();
        assert_eq!(fake.accepted(), 1);
        pause(950).await;
        fetch(&worker, &endpoint).await.unwrap();
        assert_eq!(fake.accepted(), 2, "it would have been close");
    });
}

#[test]
fn the_queue_before_a_busy_upstream_is_bounded() {
    let fake = Fake::responding(HI);
    on_worker(|worker| async move {
        let options = Options {
            busy_max: Some(1),
            ..Options::default()
        };
        let endpoint = fake.endpoint_with(options);
        let first = obtain_link(&worker, &endpoint).await;
        let mut waiting = Vec::new();
        for _ in 0..limits::QUEUE_MAX {
            let (worker, endpoint) = (worker.clone(), endpoint.clone());
            waiting.push(tokio::task::spawn_local(async move {
                obtain(&worker, &endpoint, Wanted::Any, b"").await.map(drop)
            }));
        }
        settle().await;
        let refused = obtain(&worker, &endpoint, Wanted::Any, b"")
            .await
            .err()
            .unwrap();
        assert_eq!(
            (refused.kind, refused.retry),
            (FailureKind::Limit, Retry::Always)
        );
        // One leaves the queue by giving up: there is room again.
        waiting.pop().unwrap().abort();
        settle().await;
        let (queued, endpoint_too) = (worker.clone(), endpoint.clone());
        waiting.push(tokio::task::spawn_local(async move {
            obtain(&queued, &endpoint_too, Wanted::Any, b"")
                .await
                .map(drop)
        }));
        settle().await;
        drop(first);
        for task in waiting {
            assert!(task.await.unwrap().is_ok(), "each gets its turn");
        }
    });
}
