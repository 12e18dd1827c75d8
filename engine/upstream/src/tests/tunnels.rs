//! Connections joined after an upgrade.

use std::cell::RefCell;

use sluice_wire::h1::ResponseKind;

use super::*;
use sluice_net::stream::Stream;
use sluice_net::tunnel::{Traffic, join_counted};

const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
const SWITCHED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";

/// A connected pair of sockets: ours and the client's.
async fn client() -> (Stream, TcpStream) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (
        Stream::Tcp(listener.accept().await.unwrap().0.into()),
        theirs,
    )
}

async fn open(
    worker: &Rc<Worker>,
    fake: &Fake,
    lifetime: Option<Duration>,
) -> sluice_net::tunnel::Tunnel {
    let request = upload(UPGRADE, BodyFraming::None, RequestBody::None);
    let begun = begin(worker, &fake.endpoint(), Method::Get, request).await;
    let (response, call) = begun.map_err(|f| f.failure).unwrap();
    assert_eq!(response.framing.kind, ResponseKind::Switched);
    call.into_tunnel(worker, lifetime).unwrap()
}

#[test]
fn bytes_flow_both_ways_early_ones_included_until_both_sides_end() {
    let fake = Fake::new(|mut socket| {
        read_head(&mut socket);
        socket
            .write_all(format!("{SWITCHED}early").as_bytes())
            .unwrap();
        let mut all = Vec::new();
        socket.read_to_end(&mut all).unwrap();
        all.reverse();
        socket.write_all(&all).unwrap();
    });
    on_worker(|worker| async move {
        let tunnel = open(&worker, &fake, None).await;
        let (ours, mut theirs) = client().await;
        let client = thread::spawn(move || {
            theirs.write_all(&vec![b'x'; 2_000_000]).unwrap();
            // The client ends its direction; the other one stays open.
            theirs.shutdown(std::net::Shutdown::Write).unwrap();
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).unwrap();
            all
        });
        let traffic = join_counted(&RefCell::new(ours), b"first".to_vec(), tunnel, &worker).await;
        assert_eq!(
            traffic,
            Traffic {
                sent_up: 2_000_005,
                sent_down: 2_000_010
            }
        );
        let all = client.join().unwrap();
        assert!(all.starts_with(b"earlyxxx") && all.ends_with(b"xxxtsrif"));
        assert_eq!(Pool::of(&worker).idle(), 0);
    });
}

#[test]
fn a_slow_side_holds_the_other_back() {
    let written = Arc::new(AtomicUsize::new(0));
    let count = written.clone();
    let fake = Fake::new(move |mut socket| {
        read_head(&mut socket);
        socket.write_all(SWITCHED.as_bytes()).unwrap();
        while socket.write_all(&[b'x'; 65_536]).is_ok() {
            count.fetch_add(65_536, Ordering::SeqCst);
        }
    });
    on_worker(|worker| async move {
        let tunnel = open(&worker, &fake, Some(Duration::from_millis(800))).await;
        let (ours, theirs) = client().await;
        let watching = written.clone();
        let held_back = tokio::task::spawn_local(async move {
            // That the upstream is held up is seen by nothing but the time.
            tokio::time::sleep(Duration::from_millis(400)).await;
            let before = watching.load(Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(100)).await;
            watching.load(Ordering::SeqCst) == before
        });
        // This also shows that the tunnel ends after its lifetime.
        join_counted(&RefCell::new(ours), Vec::new(), tunnel, &worker).await;
        assert!(held_back.await.unwrap(), "the upstream has to wait");
        drop(theirs);
    });
}

#[test]
fn a_reset_of_one_side_ends_the_tunnel() {
    let fake = Fake::new(|mut socket| {
        read_head(&mut socket);
        socket.write_all(SWITCHED.as_bytes()).unwrap();
        // Unread bytes at the close cause a reset.
        thread::sleep(Duration::from_millis(50));
    });
    on_worker(|worker| async move {
        let tunnel = open(&worker, &fake, None).await;
        let (ours, mut theirs) = client().await;
        let client = thread::spawn(move || {
            theirs.write_all(b"never read").unwrap();
            theirs.read_to_end(&mut Vec::new()).unwrap_or(0)
        });
        let ours = RefCell::new(ours);
        join_counted(&ours, Vec::new(), tunnel, &worker).await;
        drop(ours);
        assert_eq!(client.join().unwrap(), 0);
    });
}
