//! HTTP/3 over a network that loses, duplicates and reorders packets: a relay between client and server.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::peer::{Identity, Peer};
use super::serving::{pattern, site};
use crate::harness::Setup;
use crate::upstream::Upstream;

/// What happens to packets, each in a thousand.
#[derive(Clone, Copy)]
pub(super) struct Network {
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    /// Held back until the next packet has passed.
    pub(super) reordered: u64,
    /// How long each packet is on its way, in each direction.
    pub(super) delay: Duration,
}

impl Network {
    /// Every packet arrives once and in order.
    pub(super) const PERFECT: Network = Network {
        lost: 0,
        duplicated: 0,
        reordered: 0,
        delay: Duration::ZERO,
    };
}

/// Packets on their way in one direction. Further ones are lost, as at a full router.
const UNDER_WAY_MAX: usize = 4_096;

/// A relay for one client.
pub(super) struct Relay {
    pub(super) port: u16,
    pub(super) lost: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Numbers that follow from the seed alone (xorshift).
struct Dice(u64);

impl Dice {
    fn thousandth(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % 1000
    }
}

impl Relay {
    pub(super) fn start(server: u16, network: Network, seed: u64) -> Relay {
        let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let back = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        back.connect((Ipv4Addr::LOCALHOST, server))
            .expect("an address");
        let relay = Relay {
            port: front.local_addr().expect("it is bound").port(),
            lost: Arc::default(),
            is_over: Arc::default(),
        };
        for socket in [&front, &back] {
            let pause = Some(Duration::from_millis(5));
            socket.set_read_timeout(pause).expect("longer than zero");
        }
        let client: Arc<std::sync::Mutex<Option<SocketAddr>>> = Arc::default();
        let copies = || {
            let copy = |socket: &UdpSocket| socket.try_clone().expect("a descriptor is free");
            (copy(&front), copy(&back))
        };
        let (from, to) = copies();
        let (known, lost, is_over) = (client.clone(), relay.lost.clone(), relay.is_over.clone());
        thread::spawn(move || {
            let receive = |buf: &mut [u8]| {
                let (count, addr) = from.recv_from(buf).ok()?;
                *known.lock().expect("no panic") = Some(addr);
                Some(count)
            };
            let send = delayed(network.delay, move |packet| drop(to.send(packet)));
            carry(receive, send, network, Dice(seed), &lost, &is_over);
        });
        let (to, from) = copies();
        let (lost, is_over) = (relay.lost.clone(), relay.is_over.clone());
        thread::spawn(move || {
            let receive = |buf: &mut [u8]| from.recv(buf).ok();
            let send = delayed(network.delay, move |packet| {
                if let Some(addr) = *client.lock().expect("no panic") {
                    drop(to.send_to(packet, addr));
                }
            });
            carry(receive, send, network, Dice(seed + 1), &lost, &is_over);
        });
        relay
    }
}

/// What sends packets.
type Sending = Box<dyn Fn(&[u8]) + Send>;

/// What sends packets after `delay`. Its thread ends with it.
fn delayed(delay: Duration, send: impl Fn(&[u8]) + Send + 'static) -> Sending {
    if delay.is_zero() {
        return Box::new(send);
    }
    let (enter, leave): (SyncSender<(Instant, Vec<u8>)>, Receiver<_>) = sync_channel(UNDER_WAY_MAX);
    thread::spawn(move || {
        for (due, packet) in leave {
            // The length of the way is what this network is about.
            thread::sleep(due.saturating_duration_since(Instant::now()));
            send(&packet);
        }
    });
    Box::new(move |packet| drop(enter.try_send((Instant::now() + delay, packet.to_vec()))))
}

/// One direction.
fn carry(
    receive: impl Fn(&mut [u8]) -> Option<usize>,
    send: impl Fn(&[u8]),
    network: Network,
    mut dice: Dice,
    lost: &AtomicU64,
    is_over: &AtomicBool,
) {
    let mut buf = [0; 65_536];
    let mut held: Option<Vec<u8>> = None;
    while !is_over.load(Ordering::Relaxed) {
        let Some(count) = receive(&mut buf) else {
            if let Some(packet) = held.take() {
                send(&packet);
            }
            continue;
        };
        let packet = &buf[..count];
        if dice.thousandth() < network.lost {
            lost.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        if held.is_none() && dice.thousandth() < network.reordered {
            held = Some(packet.to_vec());
            continue;
        }
        send(packet);
        if dice.thousandth() < network.duplicated {
            send(packet);
        }
        if let Some(packet) = held.take() {
            send(&packet);
        }
    }
}

/// A download, an upload and small requests through the relay.
fn survive(network: Network, seed: u64) {
    let upstream = Upstream::echo();
    let text = site(
        "",
        &format!(
            "root {{folder}}\nrespond /hi hi\nroute /echo {{\n\treverse_proxy 127.0.0.1:{}\n}}\nfile_server",
            upstream.port
        ),
    );
    let setup = Setup::new(&text);
    let (large, upload) = (pattern(1_000_000), pattern(300_000));
    setup.folder().write("large.bin", &large);
    let server = setup.start();
    let relay = Relay::start(server.port, network, seed);
    let mut peer = Peer::begin(&Identity::new(), relay.port, "localhost");
    peer.drive("the handshake", |peer| peer.is_connected);
    let download = peer.get("/large.bin");
    for _ in 0..20 {
        assert_eq!(peer.fetch("/hi").text(), "hi", "seed {seed}");
    }
    assert!(peer.response(download).body == large, "seed {seed}");
    let id = peer.post("/echo", &upload);
    let response = peer.response(id);
    assert!(response.body.ends_with(&upload), "seed {seed}");
    let lost = relay.lost.load(Ordering::Relaxed);
    assert_eq!(network.lost > 0, lost > 0, "{lost} were lost");
}

#[test]
fn one_packet_in_a_hundred_is_lost() {
    survive(
        Network {
            lost: 10,
            ..Network::PERFECT
        },
        0x5eed,
    );
}

#[test]
fn five_packets_in_a_hundred_are_lost() {
    survive(
        Network {
            lost: 50,
            ..Network::PERFECT
        },
        0x5eed_0001,
    );
}

#[test]
fn packets_are_duplicated_and_reordered() {
    survive(
        Network {
            lost: 5,
            duplicated: 100,
            reordered: 100,
            ..Network::PERFECT
        },
        0x5eed_0002,
    );
}
