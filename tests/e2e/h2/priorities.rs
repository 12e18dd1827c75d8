//! The order of several responses on one connection (RFC 9218). The connection's flow-control window is the bottleneck:
//! each window update goes to the stream whose turn it is.

use std::collections::BTreeMap;
use std::time::Duration;

use super::peer::{DATA, END_STREAM, HEADERS, INITIAL_WINDOW, PRIORITY_UPDATE, Peer, request};
use super::serving::plain;
use crate::harness::{Server, Setup};

/// The initial window of a connection (RFC 9113, section 6.9.2).
const WINDOW: usize = 65_535;

const LARGE: usize = 2_000_000;
const SMALL: usize = 100_000;

fn start() -> Server {
    let setup = Setup::new(&plain("", "root * {folder}/www\nfile_server"));
    setup.folder().write("www/large", vec![b'x'; LARGE]);
    setup.folder().write("www/small", vec![b'x'; SMALL]);
    setup.start()
}

/// A client whose responses are held up only by the connection's window.
fn connect(server: &Server) -> Peer {
    Peer::connect_with(server.port, &[(INITIAL_WINDOW, 0x7fff_ffff)])
}

/// Requests a file, and waits until its response has begun.
fn ask(peer: &mut Peer, path: &str, priority: Option<&str>) -> u32 {
    let mut fields = request("GET", path).to_vec();
    fields.extend(priority.map(|value| ("priority", value)));
    let id = peer.ask(&fields);
    let head = peer.frame_of(HEADERS).expect("an answer");
    assert_eq!(head.id, id);
    id
}

fn update(peer: &mut Peer, id: u32, priority: &str) {
    let payload = [&id.to_be_bytes()[..], priority.as_bytes()].concat();
    peer.send(PRIORITY_UPDATE, 0, 0, &payload);
}

/// Reads `len` bytes of DATA, or all up to the end of `last`; returns the number of bytes on each stream.
fn content(peer: &mut Peer, len: usize, last: Option<u32>) -> BTreeMap<u32, usize> {
    let (mut came, mut sum) = (BTreeMap::new(), 0);
    while sum < len {
        let frame = peer.frame_of(DATA).expect("content");
        sum += frame.payload.len();
        *came.entry(frame.id).or_default() += frame.payload.len();
        if last == Some(frame.id) && frame.flags & END_STREAM != 0 {
            break;
        }
    }
    came
}

fn add(to: &mut BTreeMap<u32, usize>, more: BTreeMap<u32, usize>) {
    for (id, count) in more {
        *to.entry(id).or_default() += count;
    }
}

/// Increments the window by `len` bytes and returns where they arrived.
fn give(peer: &mut Peer, len: usize) -> BTreeMap<u32, usize> {
    peer.give_window(0, len as u32);
    content(peer, len, None)
}

#[test]
fn an_urgent_response_overtakes_a_large_one() {
    let server = start();
    let mut peer = connect(&server);
    let large = ask(&mut peer, "/large", Some("u=5"));
    assert_eq!(content(&mut peer, WINDOW, None), [(large, WINDOW)].into());
    let small = ask(&mut peer, "/small", Some("u=1"));
    let step = 20_000;
    for _ in 0..SMALL / step {
        assert_eq!(give(&mut peer, step), [(small, step)].into());
    }
    assert_eq!(
        give(&mut peer, step),
        [(large, step)].into(),
        "and then it goes on"
    );
}

#[test]
fn responses_of_equal_urgency_are_sent_in_order_or_interleaved() {
    let server = start();
    let mut peer = connect(&server);
    let whole = ask(&mut peer, "/large", Some("u=2"));
    content(&mut peer, WINDOW, None);
    // It is not incremental, and came first.
    let second = ask(&mut peer, "/large", Some("u=2"));
    for _ in 0..10 {
        assert_eq!(give(&mut peer, 20_000), [(whole, 20_000)].into());
    }
    peer.reset(whole, 8);
    assert_eq!(give(&mut peer, 20_000), [(second, 20_000)].into());
    // Incremental responses share evenly.
    let mut peer = connect(&server);
    let mut fields = request("GET", "/large").to_vec();
    fields.push(("priority", "u=2, i"));
    let ids = [(); 3].map(|()| peer.ask(&fields));
    content(&mut peer, WINDOW, None);
    let mut came = BTreeMap::<u32, usize>::new();
    for _ in 0..30 {
        add(&mut came, give(&mut peer, 10_000));
    }
    for id in ids {
        let share = came.get(&id).copied().unwrap_or_default();
        assert!((80_000..=120_000).contains(&share), "{came:?}");
    }
}

#[test]
fn a_client_can_change_its_mind() {
    let server = start();
    let mut peer = connect(&server);
    // The priority update arrives before its request.
    update(&mut peer, 3, "u=0");
    let first = ask(&mut peer, "/large", Some("u=4"));
    content(&mut peer, WINDOW, None);
    let second = ask(&mut peer, "/large", Some("u=7"));
    assert_eq!(second, 3);
    assert_eq!(give(&mut peer, 20_000), [(second, 20_000)].into());
    update(&mut peer, second, "u=6");
    assert_eq!(give(&mut peer, 20_000), [(first, 20_000)].into());
    update(&mut peer, second, "u=1");
    assert_eq!(give(&mut peer, 20_000), [(second, 20_000)].into());
}

/// A client that sends no priorities may be a proxy, whose own clients are unrelated.
#[test]
fn responses_without_priorities_are_interleaved() {
    let server = start();
    let mut peer = connect(&server);
    let large = ask(&mut peer, "/large", None);
    content(&mut peer, WINDOW, None);
    let small = ask(&mut peer, "/small", None);
    let mut came = BTreeMap::<u32, usize>::new();
    for _ in 0..10 {
        add(&mut came, give(&mut peer, 10_000));
    }
    assert!(came[&large] >= 30_000 && came[&small] >= 30_000, "{came:?}");
}

/// A stream may wait for more urgent responses as long as these take, and the client is not to blame.
#[test]
fn waiting_for_more_urgent_responses_is_not_a_timeout() {
    let setup = Setup::new(&plain(
        "timeouts {\n\t\t\twrite 1s\n\t\t}",
        "root * {folder}/www\nfile_server",
    ));
    setup.folder().write("www/large", vec![b'x'; 30_000_000]);
    setup.folder().write("www/small", vec![b'x'; SMALL]);
    let server = setup.start();
    let mut peer = connect(&server);
    peer.give_window(0, 0x7000_0000);
    let large = ask(&mut peer, "/large", Some("u=1"));
    let mut fields = request("GET", "/small").to_vec();
    fields.push(("priority", "u=6"));
    let small = peer.ask(&fields);
    let mut came = BTreeMap::new();
    // More than the write timeout passes, while something is read all the time.
    for _ in 0..25 {
        // A client that reads slowly: the pauses are what is tested.
        std::thread::sleep(Duration::from_millis(100));
        add(&mut came, content(&mut peer, 100_000, None));
    }
    add(&mut came, content(&mut peer, usize::MAX, Some(large)));
    add(&mut came, content(&mut peer, usize::MAX, Some(small)));
    assert_eq!(came.get(&small), Some(&SMALL), "{came:?}");
}
