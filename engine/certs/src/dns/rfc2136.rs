//! DNS records at a name server of the user's, by dynamic updates (RFC 2136) over TCP, signed with a shared key (TSIG,
//! RFC 8945). Requests and responses are both verified.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, SystemTime};

use aws_lc_rs::{hmac, rand};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::rest::{no_zone, zones_of};
use super::service::Service;
use crate::limits::{DNS_UPDATE_TIMEOUT, TSIG_FUDGE_SECONDS};

const SOA: u16 = 6;
const TXT: u16 = 16;
const TSIG: u16 = 250;
const IN: u16 = 1;
const NONE: u16 = 254;
const ANY: u16 = 255;
const QUERY: u16 = 0;
/// The opcode of updates, shifted to its position in the flags.
const UPDATE: u16 = 5 << 11;

/// Checks the settings.
pub(super) fn check(service: &Service) -> Result<(), String> {
    Server::open(service).map(drop)
}

pub(super) fn set(
    service: &Service,
    name: &str,
    text: &str,
    ttl: Duration,
) -> Result<String, String> {
    let server = Server::open(service)?;
    let zone = server.zone(name)?;
    server.update(
        &zone,
        &record(name, IN, ttl.as_secs().max(60) as u32, text)?,
    )?;
    Ok(zone)
}

pub(super) fn clear(service: &Service, name: &str, text: &str, zone: &str) -> Result<(), String> {
    let server = Server::open(service)?;
    // Class NONE deletes exactly this record (RFC 2136, section 2.5.4).
    server.update(zone, &record(name, NONE, 0, text)?)
}

fn record(name: &str, class: u16, ttl: u32, text: &str) -> Result<Vec<u8>, String> {
    let length = u8::try_from(text.len()).map_err(|_| "the text is too long".to_owned())?;
    let mut record = wire(name)?;
    put(&mut record, &[TXT, class]);
    record.extend(ttl.to_be_bytes());
    put(&mut record, &[u16::from(length) + 1]);
    record.push(length);
    record.extend(text.as_bytes());
    Ok(record)
}

/// The server with its key.
struct Server {
    addr: SocketAddr,
    /// The name of the key, in wire format.
    key_name: Vec<u8>,
    /// The name of the algorithm, in wire format.
    algorithm: Vec<u8>,
    key: hmac::Key,
}

impl Server {
    fn open(service: &Service) -> Result<Server, String> {
        let text = service.value("server");
        let with_port = || text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53));
        let addr = text.parse::<SocketAddr>().or_else(|_| with_port());
        let addr = addr.map_err(|_| format!("`{text}` is not a DNS server address"))?;
        let name = match service.value("key_alg").trim_end_matches('.') {
            "" => "hmac-sha256",
            name => name,
        };
        let algorithm = match name.to_ascii_lowercase().as_str() {
            "hmac-sha1" => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            "hmac-sha224" => hmac::HMAC_SHA224,
            "hmac-sha256" => hmac::HMAC_SHA256,
            "hmac-sha384" => hmac::HMAC_SHA384,
            "hmac-sha512" => hmac::HMAC_SHA512,
            _ => return Err(format!("`{name}` is not a supported TSIG algorithm")),
        };
        let key = STANDARD.decode(service.value("key"));
        let key = key.map_err(|_| "the key of `rfc2136` is not base64".to_owned())?;
        Ok(Server {
            addr,
            key_name: wire(service.value("key_name"))?,
            algorithm: wire(name)?,
            key: hmac::Key::new(algorithm, &key),
        })
    }

    /// The zone that contains `name`: the longest suffix with an SOA record.
    fn zone(&self, name: &str) -> Result<String, String> {
        for zone in zones_of(name) {
            let mut query = head(QUERY, [1, 0, 0, 0])?;
            query.extend(wire(zone)?);
            put(&mut query, &[SOA, IN]);
            let answer = Message::parse(self.exchange(&query)?)?;
            if answer.code() == 0 && answer.has(SOA) {
                return Ok(zone.to_owned());
            }
        }
        Err(no_zone("the DNS server", name))
    }

    fn update(&self, zone: &str, record: &[u8]) -> Result<(), String> {
        let mut update = head(UPDATE, [1, 0, 1, 0])?;
        update.extend(wire(zone)?);
        put(&mut update, &[SOA, IN]);
        update.extend(record);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs();
        let (signed, mac) = self.signed(&update, now, &[]);
        let answer = Message::parse(self.exchange(&signed)?)?;
        match answer.code() {
            0 => self.verify(&answer, &mac, now),
            code => Err(format!(
                "the DNS server refuses the update: {}",
                code_name(code)
            )),
        }
    }

    /// A message with its signature appended, and the MAC. `request` is the MAC of the request, if this is a response.
    fn signed(&self, message: &[u8], now: u64, request: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mac = hmac::sign(&self.key, &self.digested(message, now, request));
        let mac = mac.as_ref().to_vec();
        let mut data = self.algorithm.clone();
        data.extend(&now.to_be_bytes()[2..]);
        put(&mut data, &[TSIG_FUDGE_SECONDS, mac.len() as u16]);
        data.extend(&mac);
        data.extend(&message[..2]);
        put(&mut data, &[0, 0]);
        let mut signed = message.to_vec();
        let additional = u16::from_be_bytes([signed[10], signed[11]]) + 1;
        signed[10..12].copy_from_slice(&additional.to_be_bytes());
        signed.extend(&self.key_name);
        put(&mut signed, &[TSIG, ANY, 0, 0, data.len() as u16]);
        signed.extend(data);
        (signed, mac)
    }

    /// The data to sign (RFC 8945, section 4.3).
    fn digested(&self, message: &[u8], now: u64, request: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        if !request.is_empty() {
            put(&mut text, &[request.len() as u16]);
            text.extend(request);
        }
        text.extend(message);
        text.extend(&self.key_name);
        put(&mut text, &[ANY, 0, 0]);
        text.extend(&self.algorithm);
        text.extend(&now.to_be_bytes()[2..]);
        put(&mut text, &[TSIG_FUDGE_SECONDS, 0, 0]);
        text
    }

    /// Verifies that a response is signed with the key.
    fn verify(&self, answer: &Message, request: &[u8], now: u64) -> Result<(), String> {
        let forged = || "the DNS answer is not signed with the key".to_owned();
        let signature = answer.signature().ok_or_else(forged)?;
        if signature.time.abs_diff(now) > u64::from(TSIG_FUDGE_SECONDS) {
            return Err("the clocks of the DNS server and of this machine differ".to_owned());
        }
        let mut unsigned = answer.bytes[..signature.at].to_vec();
        let additional = u16::from_be_bytes([unsigned[10], unsigned[11]]).wrapping_sub(1);
        unsigned[10..12].copy_from_slice(&additional.to_be_bytes());
        let mut text = self.digested(&unsigned, signature.time, request);
        // Replace our fudge, error and other data by the server's.
        text.truncate(text.len() - 6);
        put(&mut text, &[signature.fudge, signature.error]);
        put(&mut text, &[signature.other.len() as u16]);
        text.extend(&signature.other);
        hmac::verify(&self.key, &text, &signature.mac).map_err(|_| forged())
    }

    fn exchange(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let told = |error: std::io::Error| format!("DNS server {}: {error}", self.addr);
        let mut stream =
            TcpStream::connect_timeout(&self.addr, DNS_UPDATE_TIMEOUT).map_err(told)?;
        stream
            .set_read_timeout(Some(DNS_UPDATE_TIMEOUT))
            .map_err(told)?;
        stream
            .set_write_timeout(Some(DNS_UPDATE_TIMEOUT))
            .map_err(told)?;
        let mut framed = Vec::new();
        put(&mut framed, &[message.len() as u16]);
        framed.extend(message);
        stream.write_all(&framed).map_err(told)?;
        let mut length = [0; 2];
        stream.read_exact(&mut length).map_err(told)?;
        let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut answer).map_err(told)?;
        match answer.get(..2) == message.get(..2) {
            true => Ok(answer),
            false => Err("the DNS answer does not match the query".to_owned()),
        }
    }
}

/// A message header with a random ID; `counts` are the record counts of its sections.
fn head(flags: u16, counts: [u16; 4]) -> Result<Vec<u8>, String> {
    let mut id = [0; 2];
    rand::fill(&mut id).map_err(|_| "the system gives no randomness".to_owned())?;
    let mut head = id.to_vec();
    put(&mut head, &[flags]);
    put(&mut head, &counts);
    Ok(head)
}

fn put(out: &mut Vec<u8>, numbers: &[u16]) {
    out.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
}

/// A name in wire format, in lower case.
fn wire(name: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for label in name.trim_end_matches('.').split('.') {
        if label.is_empty() || label.len() > 63 || !label.is_ascii() {
            return Err(format!("`{name}` is not a name"));
        }
        out.push(label.len() as u8);
        out.extend(label.to_ascii_lowercase().into_bytes());
    }
    out.push(0);
    match out.len() <= 255 {
        true => Ok(out),
        false => Err(format!("`{name}` is too long")),
    }
}

fn code_name(code: u8) -> &'static str {
    match code {
        1 => "it does not understand it (FORMERR)",
        2 => "it fails (SERVFAIL)",
        3 => "it does not know the name (NXDOMAIN)",
        4 => "it takes no updates (NOTIMP)",
        5 => "the key may not change this record (REFUSED)",
        9 => "it does not know the key, or not the zone (NOTAUTH)",
        10 => "the name is not in the zone (NOTZONE)",
        _ => "another code",
    }
}

/// A response, with the positions of its records.
struct Message {
    bytes: Vec<u8>,
    records: Vec<Record>,
}

#[derive(Clone, Copy)]
struct Record {
    /// Its offset in the message.
    at: usize,
    kind: u16,
    data: usize,
    end: usize,
}

/// The TSIG record of a response.
struct Signature {
    at: usize,
    time: u64,
    fudge: u16,
    mac: Vec<u8>,
    error: u16,
    other: Vec<u8>,
}

impl Message {
    fn parse(bytes: Vec<u8>) -> Result<Message, String> {
        let records = records(&bytes).ok_or("the DNS answer is malformed")?;
        Ok(Message { bytes, records })
    }

    fn code(&self) -> u8 {
        self.bytes[3] & 15
    }

    fn has(&self, kind: u16) -> bool {
        // A negative response has an SOA record as well, in another section: only the answer section counts.
        let answers = usize::from(u16::from_be_bytes([self.bytes[6], self.bytes[7]]));
        self.records
            .iter()
            .take(answers)
            .any(|record| record.kind == kind)
    }

    fn signature(&self) -> Option<Signature> {
        let last = self.records.last().filter(|record| record.kind == TSIG)?;
        let data = self.bytes.get(last.data..last.end)?;
        let rest = data.get(skip_name(data, 0)?..)?;
        let number = |at: usize| Some(u16::from_be_bytes([*rest.get(at)?, *rest.get(at + 1)?]));
        let mut time = [0; 8];
        time[2..].copy_from_slice(rest.get(..6)?);
        let end = 10 + usize::from(number(8)?);
        let other = usize::from(number(end + 4)?);
        Some(Signature {
            at: last.at,
            time: u64::from_be_bytes(time),
            fudge: number(6)?,
            mac: rest.get(10..end)?.to_vec(),
            error: number(end + 2)?,
            other: rest.get(end + 6..end + 6 + other)?.to_vec(),
        })
    }
}

/// The records after the question section; `None` if the message is truncated.
fn records(bytes: &[u8]) -> Option<Vec<Record>> {
    let number = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let mut at = 12;
    for _ in 0..number(4)? {
        at = skip_name(bytes, at)? + 4;
    }
    let count = usize::from(number(6)?) + usize::from(number(8)?) + usize::from(number(10)?);
    let mut records = Vec::new();
    for _ in 0..count {
        let begin = at;
        let name_end = skip_name(bytes, at)?;
        let data = name_end + 10;
        let end = data + usize::from(number(name_end + 8)?);
        bytes.get(..end)?;
        records.push(Record {
            at: begin,
            kind: number(name_end)?,
            data,
            end,
        });
        at = end;
    }
    Some(records)
}

/// The end of a name that starts at `at`; a pointer is its last part.
fn skip_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            0 => return Some(at + 1),
            length if length >= 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, sync_channel};

    use super::*;

    const KEY: &str = "c2VjcmV0IG9mIGJvdGggc2lkZXMu";

    fn service(server: &str, key: &str) -> Result<Service, String> {
        let values = [
            ("server", server),
            ("key_name", "Key.Test."),
            ("key", key),
            ("key_alg", "hmac-sha512."),
        ];
        Service::parse(
            "rfc2136",
            values.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        )
    }

    /// A server for the zone `example.test` that accepts one key; returns the records it receives.
    fn fake() -> (String, Receiver<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let own = Server::open(&service(&addr, KEY).unwrap()).unwrap();
        let (sender, sent) = sync_channel(8);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                let mut length = [0; 2];
                client.read_exact(&mut length).unwrap();
                let mut asked = vec![0; usize::from(u16::from_be_bytes(length))];
                client.read_exact(&mut asked).unwrap();
                let mut answer = asked[..12].to_vec();
                answer[2] |= 0x80;
                answer[4..12].fill(0);
                let is_update = asked[2] & 0x78 == 0x28;
                let answer = if is_update {
                    let message = Message::parse(asked).unwrap();
                    let signature = message.signature().unwrap();
                    match own.verify(&message, &[], signature.time) {
                        Ok(()) => {
                            let record = message.records[0];
                            let _ = sender.send(message.bytes[record.at..record.end].to_vec());
                            own.signed(&answer, signature.time, &signature.mac).0
                        }
                        Err(_) => {
                            answer[3] = 9;
                            answer
                        }
                    }
                } else {
                    let zone = wire("example.test").unwrap();
                    if asked[12..].starts_with(&zone) {
                        answer[7] = 1;
                        answer.extend(zone);
                        put(&mut answer, &[SOA, IN, 0, 60, 0]);
                    }
                    answer
                };
                let mut framed = (answer.len() as u16).to_be_bytes().to_vec();
                framed.extend(answer);
                client.write_all(&framed).unwrap();
            }
        });
        (addr, sent)
    }

    #[test]
    fn a_record_is_set_and_removed_by_signed_updates() {
        let (addr, sent) = fake();
        let service = service(&addr, KEY).unwrap();
        let name = "_acme-challenge.a.example.test";
        let zone = set(&service, name, "text", Duration::from_secs(90)).unwrap();
        assert_eq!(zone, "example.test");
        clear(&service, name, "text", &zone).unwrap();
        let name = wire(name).unwrap();
        let tail = |class: [u8; 2], ttl: u8| {
            [
                &name[..],
                &[0, 16],
                &class,
                &[0, 0, 0, ttl],
                &[0, 5, 4],
                b"text",
            ]
            .concat()
        };
        assert_eq!(sent.recv().unwrap(), tail([0, 1], 90));
        assert_eq!(sent.recv().unwrap(), tail([0, 254], 0));
    }

    #[test]
    fn who_has_another_key_is_refused_and_believed_nothing() {
        let (addr, _sent) = fake();
        let stranger = service(&addr, "b3RoZXI=").unwrap();
        let name = "_acme-challenge.a.example.test";
        let error = set(&stranger, name, "text", Duration::ZERO).unwrap_err();
        assert!(error.contains("NOTAUTH"), "{error}");
        let error = set(&stranger, "_acme-challenge.b.other", "text", Duration::ZERO).unwrap_err();
        assert!(error.contains("no zone"), "{error}");
        // A response without a signature may be forged.
        let server = Server::open(&stranger).unwrap();
        let plain = Message::parse(vec![0, 1, 0xa8, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        assert!(server.verify(&plain, &[1], 0).is_err());
    }

    #[test]
    fn settings_that_cannot_be_are_told() {
        assert!(
            service("ns.example.test", KEY)
                .unwrap_err()
                .contains("ns.example.test")
        );
        assert!(service("127.0.0.1", "%").unwrap_err().contains("base64"));
        assert!(service("127.0.0.1", KEY).is_ok());
        assert!(service("[::1]:5353", KEY).is_ok());
    }

    #[test]
    fn messages_that_end_early_are_refused() {
        let mut whole = vec![0, 1, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        whole.extend(record("a.test", IN, 1, "text").unwrap());
        assert!(Message::parse(whole.clone()).is_ok());
        for length in 0..whole.len() {
            assert!(
                Message::parse(whole[..length].to_vec()).is_err(),
                "{length}"
            );
        }
    }
}
