//! A DNS server on a free loopback port, over UDP and TCP, with records set by the test.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

const A: u16 = 1;
const AAAA: u16 = 28;
const SRV: u16 = 33;

const UNPOISONED: &str = "nobody panics with it";

/// A record of a name.
#[derive(Clone)]
pub enum Record {
    Address(Ipv4Addr),
    Address6(Ipv6Addr),
    /// SRV: port, priority, and target.
    Service(u16, u16, &'static str),
    /// SRV with weight: the weight precedes the target.
    Weighted(u16, u16, u16, &'static str),
}

/// How queries are handled.
#[derive(Clone, Copy, PartialEq)]
pub enum Mood {
    Replies,
    /// Sets the truncation flag over UDP.
    TooLong,
    Silent,
    /// Sends malformed replies, a different one each time.
    Babbles,
}

pub struct Dns {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    asked: Arc<AtomicUsize>,
}

struct State {
    mood: Mood,
    ttl: u32,
    records: Vec<(&'static str, Record)>,
}

impl Dns {
    pub fn knowing(records: Vec<(&'static str, Record)>) -> Dns {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().expect("it is bound")) {
                break (udp, tcp);
            }
        };
        let dns = Dns {
            address: udp.local_addr().expect("it is bound"),
            state: Arc::new(Mutex::new(State {
                mood: Mood::Replies,
                ttl: 3600,
                records,
            })),
            asked: Arc::default(),
        };
        let (state, asked) = (dns.state.clone(), dns.asked.clone());
        thread::spawn(move || {
            let mut question = [0; 2048];
            while let Ok((count, from)) = udp.recv_from(&mut question) {
                let number = asked.fetch_add(1, Ordering::SeqCst);
                let state = state.lock().expect(UNPOISONED);
                let question = &question[..count];
                let answer = match state.mood {
                    Mood::Silent => continue,
                    Mood::TooLong => cut(question),
                    Mood::Replies => state.answer(question),
                    Mood::Babbles => babble(question, number),
                };
                let _ = udp.send_to(&answer, from);
            }
        });
        let state = dns.state.clone();
        thread::spawn(move || {
            for mut socket in tcp.incoming().map_while(Result::ok) {
                let mut length = [0; 2];
                while socket.read_exact(&mut length).is_ok() {
                    let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
                    if socket.read_exact(&mut question).is_err() {
                        break;
                    }
                    let answer = state.lock().expect(UNPOISONED).answer(&question);
                    let length = u16::try_from(answer.len()).expect("it fits").to_be_bytes();
                    let _ = socket.write_all(&[&length[..], &answer].concat());
                }
            }
        });
        dns
    }

    pub fn set(&self, records: Vec<(&'static str, Record)>) {
        self.state.lock().expect(UNPOISONED).records = records;
    }

    pub fn mood(&self, mood: Mood) {
        self.state.lock().expect(UNPOISONED).mood = mood;
    }

    pub fn ttl(&self, seconds: u32) {
        self.state.lock().expect(UNPOISONED).ttl = seconds;
    }

    /// Number of queries over UDP so far.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// The end of the question, its name and its type.
fn parse(message: &[u8]) -> (usize, String, u16) {
    let (mut at, mut name) = (12, String::new());
    while message[at] != 0 {
        let length = usize::from(message[at]);
        let label = &message[at + 1..at + 1 + length];
        name.push_str(&String::from_utf8_lossy(label).to_ascii_lowercase());
        name.push('.');
        at += 1 + length;
    }
    let kind = u16::from_be_bytes([message[at + 1], message[at + 2]]);
    (at + 5, name, kind)
}

fn head(question: &[u8], flags: u16, answers: u16) -> Vec<u8> {
    let (end, _, _) = parse(question);
    let mut out = question[..2].to_vec();
    for number in [flags, 1, answers, 0, 0] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(&question[12..end]);
    out
}

/// A reply with the truncation flag.
fn cut(question: &[u8]) -> Vec<u8> {
    head(question, 0x8380, 0)
}

/// A malformed reply to `question`: truncated, with a pointer loop, wrong counts, a wrong ID, or garbage.
fn babble(question: &[u8], number: usize) -> Vec<u8> {
    let mut whole = head(question, 0x8180, 1);
    match number % 7 {
        0 => Vec::new(),
        1 => question[..7].to_vec(),
        2 => {
            // A name that is a pointer to itself.
            let here = u16::try_from(whole.len()).expect("it fits") | 0xc000;
            whole.extend_from_slice(&here.to_be_bytes());
            whole.extend_from_slice(&[0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
            whole
        }
        3 => head(question, 0x8180, 0xffff),
        4 => {
            // A record longer than the message.
            whole.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0xff, 0xff, 127]);
            whole
        }
        5 => {
            // The ID of another query.
            whole[0] ^= 0x55;
            whole
        }
        _ => (0..=255).cycle().take(4_000).collect(),
    }
}

impl State {
    fn answer(&self, question: &[u8]) -> Vec<u8> {
        let (_, name, kind) = parse(question);
        let known: Vec<&Record> = self
            .records
            .iter()
            .filter(|(known, _)| *known == name)
            .map(|(_, record)| record)
            .collect();
        let data: Vec<Vec<u8>> = known
            .iter()
            .filter_map(|record| record.data(kind))
            .collect();
        let code = if known.is_empty() { 3 } else { 0 };
        let mut out = head(question, 0x8180 | code, data.len() as u16);
        for data in data {
            // A pointer to the name in the question, the type, class IN.
            out.extend_from_slice(&[0xc0, 12]);
            out.extend_from_slice(&kind.to_be_bytes());
            out.extend_from_slice(&[0, 1]);
            out.extend_from_slice(&self.ttl.to_be_bytes());
            out.extend_from_slice(&(data.len() as u16).to_be_bytes());
            out.extend_from_slice(&data);
        }
        out
    }
}

impl Record {
    fn data(&self, kind: u16) -> Option<Vec<u8>> {
        match (self, kind) {
            (Record::Address(ip), A) => Some(ip.octets().to_vec()),
            (Record::Address6(ip), AAAA) => Some(ip.octets().to_vec()),
            (Record::Service(port, priority, host), SRV) => {
                Some(service(*port, *priority, 1, host))
            }
            (Record::Weighted(port, priority, weight, host), SRV) => {
                Some(service(*port, *priority, *weight, host))
            }
            _ => None,
        }
    }
}

fn service(port: u16, priority: u16, weight: u16, host: &str) -> Vec<u8> {
    let mut data = Vec::new();
    for number in [priority, weight, port] {
        data.extend_from_slice(&number.to_be_bytes());
    }
    for label in host.split('.') {
        data.push(label.len() as u8);
        data.extend_from_slice(label.as_bytes());
    }
    data.push(0);
    data
}
