//! DNS records at a name server of the user's, by dynamic updates (RFC 2136) over TCP, signed with a shared key (TSIG,
//! RFC 8945). `hickory-proto` writes and reads the messages and says what is signed; requests and responses are both
//! verified here, also with the algorithms that the library has no MAC for.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, SystemTime};

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hickory_proto::op::{Message, OpCode, Query, ResponseCode, UpdateMessage};
use hickory_proto::rr::rdata::TXT;
use hickory_proto::rr::rdata::tsig::{
    TSIG, TsigAlgorithm, make_tsig_record, message_tbs, signed_bitmessage_to_buf,
};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

use crate::limits::{DNS_UPDATE_TIMEOUT, TSIG_FUDGE_SECONDS};
use crate::rest::{no_zone, zones_of};
use crate::service::Service;

/// Checks the settings.
pub(crate) fn check(service: &Service) -> Result<(), String> {
    Server::open(service).map(drop)
}

pub(crate) fn set(
    service: &Service,
    name: &str,
    text: &str,
    ttl: Duration,
) -> Result<String, String> {
    let server = Server::open(service)?;
    let zone = server.zone(name)?;
    let ttl = ttl.as_secs().max(60) as u32;
    server.update(&zone, record(name, DNSClass::IN, ttl, text)?)?;
    Ok(zone)
}

pub(crate) fn clear(service: &Service, name: &str, text: &str, zone: &str) -> Result<(), String> {
    let server = Server::open(service)?;
    // Class NONE deletes exactly this record (RFC 2136, section 2.5.4).
    server.update(zone, record(name, DNSClass::NONE, 0, text)?)
}

fn record(name: &str, class: DNSClass, ttl: u32, text: &str) -> Result<Record, String> {
    if text.len() > usize::from(u8::MAX) {
        return Err("the text is too long".to_owned());
    }
    let text = RData::TXT(TXT::new(vec![text.to_owned()]));
    let mut record = Record::from_rdata(parse_name(name)?, ttl, text);
    record.dns_class = class;
    Ok(record)
}

/// The algorithms of keys: their names here, in messages, and of `aws-lc-rs`. The library computes no MAC with SHA-1
/// and SHA-224.
const ALGORITHMS: [(&str, TsigAlgorithm, hmac::Algorithm); 5] = [
    (
        "hmac-sha1",
        TsigAlgorithm::HmacSha1,
        hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
    ),
    ("hmac-sha224", TsigAlgorithm::HmacSha224, hmac::HMAC_SHA224),
    ("hmac-sha256", TsigAlgorithm::HmacSha256, hmac::HMAC_SHA256),
    ("hmac-sha384", TsigAlgorithm::HmacSha384, hmac::HMAC_SHA384),
    ("hmac-sha512", TsigAlgorithm::HmacSha512, hmac::HMAC_SHA512),
];

/// The server with its key.
struct Server {
    addr: SocketAddr,
    key_name: Name,
    algorithm: TsigAlgorithm,
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
        let known = ALGORITHMS
            .into_iter()
            .find(|(known, ..)| known.eq_ignore_ascii_case(name));
        let (_, algorithm, hash) =
            known.ok_or_else(|| format!("`{name}` is not a supported TSIG algorithm"))?;
        let key = STANDARD.decode(service.value("key"));
        let key = key.map_err(|_| "the key of `rfc2136` is not base64".to_owned())?;
        Ok(Server {
            addr,
            key_name: parse_name(service.value("key_name"))?,
            algorithm,
            key: hmac::Key::new(hash, &key),
        })
    }

    /// The zone that contains `name`: the longest suffix with an SOA record.
    fn zone(&self, name: &str) -> Result<String, String> {
        for zone in zones_of(name) {
            let mut query = Message::query();
            query.add_query(Query::query(parse_name(zone)?, RecordType::SOA));
            let answer = parse(&self.exchange(&encode(&query)?)?)?;
            // A negative response has an SOA record as well, in another section: only the answer section counts.
            let mut answers = answer.answers.iter();
            let has_soa = answers.any(|record| record.record_type() == RecordType::SOA);
            if answer.response_code == ResponseCode::NoError && has_soa {
                return Ok(zone.to_owned());
            }
        }
        Err(no_zone("the DNS server", name))
    }

    fn update(&self, zone: &str, record: Record) -> Result<(), String> {
        let mut update = Message::query();
        update.metadata.op_code = OpCode::Update;
        update.add_zone(Query::query(parse_name(zone)?, RecordType::SOA));
        update.add_update(record);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs();
        let (signed, mac) = self.signed(update, now, &[])?;
        let response = self.exchange(&signed)?;
        match parse(&response)?.response_code.low() {
            0 => self.verify(&response, &mac, now),
            code => Err(format!(
                "the DNS server refused the update: {}",
                code_name(code)
            )),
        }
    }

    /// A message with its signature appended, and the MAC. `request` is the MAC of the request, if this is a response.
    fn signed(
        &self,
        mut message: Message,
        now: u64,
        request: &[u8],
    ) -> Result<(Vec<u8>, Vec<u8>), String> {
        let id = message.id;
        let algorithm = self.algorithm.clone();
        let unsigned = TSIG::new(
            algorithm,
            now,
            TSIG_FUDGE_SECONDS,
            Vec::new(),
            id,
            None,
            Vec::new(),
        );
        let covered = message_tbs(&message, &unsigned, &self.key_name);
        let covered = covered.map_err(|error| error.to_string())?;
        let mut context = hmac::Context::with_key(&self.key);
        if !request.is_empty() {
            // RFC 8945, section 4.3.1.
            context.update(&(request.len() as u16).to_be_bytes());
            context.update(request);
        }
        context.update(&covered);
        let mac = context.sign().as_ref().to_vec();
        let signature = make_tsig_record(self.key_name.clone(), unsigned.set_mac(mac.clone()));
        message.set_signature(Box::new(signature));
        Ok((encode(&message)?, mac))
    }

    /// Verifies that a response, which [`parse`] has accepted, is signed with the key.
    fn verify(&self, response: &[u8], request: &[u8], now: u64) -> Result<(), String> {
        let forged = || "the DNS answer is not signed with the key".to_owned();
        let request = (!request.is_empty()).then_some(request);
        let (covered, signature) =
            signed_bitmessage_to_buf(response, request, true).map_err(|_| forged())?;
        if signature.data.time.abs_diff(now) > u64::from(TSIG_FUDGE_SECONDS) {
            return Err("the clocks of the DNS server and of this machine differ".to_owned());
        }
        hmac::verify(&self.key, &covered, &signature.data.mac).map_err(|_| forged())
    }

    fn exchange(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let with_server = |error: std::io::Error| format!("DNS server {}: {error}", self.addr);
        let mut stream =
            TcpStream::connect_timeout(&self.addr, DNS_UPDATE_TIMEOUT).map_err(with_server)?;
        stream
            .set_read_timeout(Some(DNS_UPDATE_TIMEOUT))
            .map_err(with_server)?;
        stream
            .set_write_timeout(Some(DNS_UPDATE_TIMEOUT))
            .map_err(with_server)?;
        let mut framed = (message.len() as u16).to_be_bytes().to_vec();
        framed.extend(message);
        stream.write_all(&framed).map_err(with_server)?;
        let mut length = [0; 2];
        stream.read_exact(&mut length).map_err(with_server)?;
        let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut answer).map_err(with_server)?;
        match answer.get(..2) == message.get(..2) {
            true => Ok(answer),
            false => Err("the DNS answer does not match the query".to_owned()),
        }
    }
}

fn encode(message: &Message) -> Result<Vec<u8>, String> {
    message.to_vec().map_err(|error| error.to_string())
}

fn parse(bytes: &[u8]) -> Result<Message, String> {
    Message::from_vec(bytes).map_err(|_| "the DNS answer is malformed".to_owned())
}

/// A name in lower case.
fn parse_name(name: &str) -> Result<Name, String> {
    let lower = name.trim_end_matches('.').to_ascii_lowercase();
    let labels = lower.split('.').map(str::as_bytes);
    match Name::from_labels(labels) {
        Ok(parsed) if name.is_ascii() => Ok(parsed),
        Ok(_) => Err(format!("`{name}` is not a name")),
        // RFC 1035, section 2.3.4: 255 with the lengths of the first and of the empty last label.
        Err(_) if lower.len() > 253 => Err(format!("`{name}` is too long")),
        Err(_) => Err(format!("`{name}` is not a name")),
    }
}

fn code_name(code: u8) -> &'static str {
    match code {
        1 => "it does not understand the update (FORMERR)",
        2 => "it fails (SERVFAIL)",
        3 => "it does not know the name (NXDOMAIN)",
        4 => "it does not support updates (NOTIMP)",
        5 => "the key may not change this record (REFUSED)",
        9 => "it does not know the key, or not the zone (NOTAUTH)",
        10 => "the name is not in the zone (NOTZONE)",
        _ => "another code",
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, sync_channel};

    use hickory_proto::op::MessageType;
    use hickory_proto::rr::rdata::SOA;
    use hickory_proto::serialize::binary::BinEncodable;

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
                let message = parse(&asked).unwrap();
                let mut answer = Message::new(message.id, MessageType::Response, message.op_code);
                let answer = if message.op_code == OpCode::Update {
                    let signature = message.signature().unwrap().data.clone();
                    match own.verify(&asked, &[], signature.time) {
                        Ok(()) => {
                            let record = message.authorities[0].to_bytes().unwrap();
                            let _ = sender.send(record);
                            let signed = own.signed(answer, signature.time, &signature.mac);
                            signed.unwrap().0
                        }
                        Err(_) => {
                            answer.metadata.response_code = ResponseCode::NotAuth;
                            encode(&answer).unwrap()
                        }
                    }
                } else {
                    let zone = parse_name("example.test").unwrap();
                    if *message.queries[0].name() == zone {
                        let soa = SOA::new(zone.clone(), zone.clone(), 1, 60, 60, 60, 60);
                        answer.add_answer(Record::from_rdata(zone, 60, RData::SOA(soa)));
                    }
                    encode(&answer).unwrap()
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
        let name = parse_name(name).unwrap().to_bytes().unwrap();
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
        let plain = [0, 1, 0xa8, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(parse(&plain).is_ok());
        assert!(server.verify(&plain, &[1], 0).is_err());
    }

    #[test]
    fn invalid_settings_are_reported() {
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
        let text = record("a.test", DNSClass::IN, 1, "text").unwrap();
        whole.extend(text.to_bytes().unwrap());
        assert!(parse(&whole).is_ok());
        for length in 0..whole.len() {
            assert!(parse(&whole[..length]).is_err(), "{length}");
        }
    }
}
