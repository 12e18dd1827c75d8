use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use pki_types::CertificateDer;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, PKCS_ECDSA_P256_SHA256, SigningKey,
};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::sign::CertifiedKey;
use time::OffsetDateTime;

use super::*;
use crate::renewal::Lifetime;
use crate::store::Fallback;
use crate::subject::Subject;
use crate::tests::TempFolder;
use sluice_net::tls::der::{
    BIT_STRING, ENUMERATED, GENERALIZED_TIME, INTEGER, OCTET_STRING, OID, Reader, SEQUENCE, element,
};

/// ecdsa-with-SHA256, as an algorithm identifier.
const ECDSA: &[u8] = &[
    0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02,
];
const GOOD: u8 = 0;
const REVOKED: u8 = 1;
const AWAY: u8 = 2;
const FORGED: u8 = 3;
const DELEGATED: u8 = 4;
const STRANGER: u8 = 5;
const OTHER: u8 = 6;

/// A CA with a responder whose behaviour can be changed.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    cert: CertificateDer<'static>,
    manner: Arc<AtomicU8>,
    asked: Arc<AtomicUsize>,
    url: String,
}

fn key() -> KeyPair {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap()
}

fn time_text(at: OffsetDateTime) -> Vec<u8> {
    let (y, m, d) = at.to_calendar_date();
    let (h, min, s) = at.to_hms();
    let text = format!("{y:04}{:02}{d:02}{h:02}{min:02}{s:02}Z", u8::from(m));
    element(GENERALIZED_TIME, &[text.as_bytes()])
}

/// A response for the certificate in a request, signed by `signer`.
fn response(request: &[u8], manner: u8, signer: &KeyPair, delegate: Option<&[u8]>) -> Vec<u8> {
    let mut inner = Reader(request);
    for _ in 0..4 {
        inner = Reader(inner.take(SEQUENCE).unwrap().content);
    }
    let mut id = inner.take(SEQUENCE).unwrap().whole.to_vec();
    if manner == OTHER {
        let last = id.len() - 1;
        id[last] ^= 1;
    }
    let now = OffsetDateTime::now_utc();
    let status = match manner {
        REVOKED => element(0xa1, &[&time_text(now)]),
        _ => element(0x80, &[]),
    };
    let until = element(0xa0, &[&time_text(now + Duration::from_secs(3600))]);
    let single = element(SEQUENCE, &[&id, &status, &time_text(now), &until]);
    let by_key = element(0xa2, &[&element(OCTET_STRING, &[&[7; 20]])]);
    let list = element(SEQUENCE, &[&single]);
    let said = element(SEQUENCE, &[&by_key, &time_text(now), &list]);
    let mut signature = vec![0];
    signature.extend(signer.sign(&said).unwrap());
    if manner == FORGED {
        let last = signature.len() - 1;
        signature[last] ^= 1;
    }
    let certs = delegate.map(|der| element(0xa0, &[&element(SEQUENCE, &[der])]));
    let certs = certs.unwrap_or_default();
    let basic = element(
        SEQUENCE,
        &[&said, ECDSA, &element(BIT_STRING, &[&signature]), &certs],
    );
    let oid = element(
        OID,
        &[&[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01]],
    );
    let bytes = element(SEQUENCE, &[&oid, &element(OCTET_STRING, &[&basic])]);
    element(
        SEQUENCE,
        &[&element(ENUMERATED, &[&[0]]), &element(0xa0, &[&bytes])],
    )
}

impl Authority {
    fn new() -> Authority {
        let own = key();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let cert = params.self_signed(&own).unwrap().der().clone();
        let again = KeyPair::from_pem(&own.serialize_pem()).unwrap();
        let issuer = Issuer::new(params, own);
        let (delegate, delegate_key) = delegate(&issuer, true);
        let (stranger, stranger_key) = delegate_of_stranger();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (manner, asked): (Arc<AtomicU8>, Arc<AtomicUsize>) = Default::default();
        let (shown, counted) = (manner.clone(), asked.clone());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut reader = BufReader::new(client.unwrap());
                let (mut line, mut length) = (String::new(), 0);
                while reader.read_line(&mut line).unwrap() > 2 {
                    let lower = line.to_ascii_lowercase();
                    if let Some(text) = lower.strip_prefix("content-length:") {
                        length = text.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let mut request = vec![0; length];
                reader.read_exact(&mut request).unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                let manner = shown.load(Ordering::SeqCst);
                let body = match manner {
                    DELEGATED => response(&request, manner, &delegate_key, Some(&delegate)),
                    STRANGER => response(&request, manner, &stranger_key, Some(&stranger)),
                    _ => response(&request, manner, &again, None),
                };
                let status = if manner == AWAY { 503 } else { 200 };
                let head = format!(
                    "HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                let stream = reader.get_mut();
                let _ = stream
                    .write_all(head.as_bytes())
                    .and_then(|()| stream.write_all(&body));
            }
        });
        Authority {
            issuer,
            cert,
            manner,
            asked,
            url,
        }
    }

    fn pair(&self, name: &str) -> Arc<Pair> {
        let own = key();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = OffsetDateTime::now_utc() - Duration::from_secs(60);
        params.not_after = OffsetDateTime::now_utc() + Duration::from_secs(1_000_000);
        let location = element(0x86, &[self.url.as_bytes()]);
        let method = element(OID, &[&[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01]]);
        let access = element(SEQUENCE, &[&element(SEQUENCE, &[&method, &location])]);
        let oid = [1, 3, 6, 1, 5, 5, 7, 1, 1];
        params.custom_extensions = vec![CustomExtension::from_oid_content(&oid, access)];
        let cert = params.signed_by(&own, &self.issuer).unwrap().der().clone();
        let der = pki_types::PrivateKeyDer::try_from(own.serialize_der()).unwrap();
        let chain = vec![cert, self.cert.clone()];
        let now = SystemTime::now();
        Arc::new(Pair {
            certified: Arc::new(CertifiedKey::new(chain, any_supported_type(&der).unwrap())),
            subjects: vec![Subject::parse(name).unwrap()],
            lifetime: Lifetime {
                from: now - Duration::from_secs(60),
                until: now + Duration::from_secs(1_000_000),
            },
            origin: name.to_owned(),
            tags: Vec::new(),
            responder: String::new(),
            standing: crate::pair::PairStanding::Settled,
        })
    }
}

/// A certificate with or without the OCSP signing usage.
fn delegate(issuer: &Issuer<'static, KeyPair>, may: bool) -> (Vec<u8>, KeyPair) {
    let own = key();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    if may {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::OcspSigning];
    }
    let cert = params.signed_by(&own, issuer).unwrap();
    (cert.der().to_vec(), own)
}

fn delegate_of_stranger() -> (Vec<u8>, KeyPair) {
    let params = CertificateParams::new(Vec::new()).unwrap();
    delegate(&Issuer::new(params, key()), true)
}

fn stapled(store: &CertStore, name: &str) -> Option<Vec<u8>> {
    let chosen = store.choose(
        Some(name),
        None,
        &Fallback::default(),
        crate::selection::Unmatched::Refuse,
        |_| true,
    );
    chosen.and_then(|chosen| chosen.ocsp.clone())
}

#[test]
fn an_ocsp_response_is_stapled_cached_and_refreshed_half_way() {
    let (folder, authority) = (TempFolder::new(), Authority::new());
    let storage = Storage::new(folder.path());
    let store = CertStore::new([authority.pair("a.test")]);
    let stapler = Stapler::new(storage.clone());
    let how = Stapling::default();
    let now = SystemTime::now();
    assert_eq!(stapled(&store, "a.test"), None);
    let round = stapler.round(&store, &how, now);
    assert!(
        round.notices.is_empty() && round.revoked.is_empty(),
        "{round:?}"
    );
    let first = stapled(&store, "a.test").expect("it is stapled");
    stapler.round(&store, &how, now + Duration::from_secs(600));
    assert_eq!(
        authority.asked.load(Ordering::SeqCst),
        1,
        "it is still good"
    );
    // A new process has the response immediately, even if the responder is unavailable.
    authority.manner.store(AWAY, Ordering::SeqCst);
    let fresh = CertStore::new(store.pairs());
    let again = Stapler::new(storage);
    assert!(again.round(&fresh, &how, now).notices.is_empty());
    assert_eq!(stapled(&fresh, "a.test"), Some(first.clone()));
    // It is renewed in the middle of its validity; a failure does not remove the old one.
    let later = now + Duration::from_secs(2000);
    assert_eq!(again.round(&fresh, &how, later).notices.len(), 1);
    assert_eq!(stapled(&fresh, "a.test"), Some(first));
    // An expired response is not served.
    again.round(&fresh, &how, now + Duration::from_secs(4000));
    assert_eq!(stapled(&fresh, "a.test"), None);
}

#[test]
fn certificates_without_signing_rights_are_not_trusted() {
    let (folder, authority) = (TempFolder::new(), Authority::new());
    for (manner, is_believed) in [
        (GOOD, true),
        (DELEGATED, true),
        (FORGED, false),
        (STRANGER, false),
        (OTHER, false),
        (AWAY, false),
    ] {
        authority.manner.store(manner, Ordering::SeqCst);
        let store = CertStore::new([authority.pair("a.test")]);
        let stapler = Stapler::new(Storage::new(folder.path()));
        let round = stapler.round(&store, &Stapling::default(), SystemTime::now());
        assert_eq!(stapled(&store, "a.test").is_some(), is_believed, "{manner}");
        assert_eq!(round.notices.is_empty(), is_believed, "{manner}");
    }
    let plain = delegate(&authority.issuer, false).0;
    let chain = [CertificateDer::from(plain), authority.cert.clone()];
    assert!(Question::new(&chain).is_some());
}

#[test]
fn a_revoked_certificate_is_reported_and_responders_can_be_overridden() {
    let (folder, authority) = (TempFolder::new(), Authority::new());
    authority.manner.store(REVOKED, Ordering::SeqCst);
    let pair = authority.pair("a.test");
    let store = CertStore::new([pair.clone()]);
    let stapler = Stapler::new(Storage::new(folder.path()));
    let round = stapler.round(&store, &Stapling::default(), SystemTime::now());
    assert!(Arc::ptr_eq(&round.revoked[0], &pair));
    assert_eq!(stapled(&store, "a.test"), None);
    let off = Stapling {
        responder: Arc::new(|name, _| (name != "a.test").then(String::new)),
        ..Stapling::default()
    };
    let asked = authority.asked.load(Ordering::SeqCst);
    stapler.round(&store, &off, SystemTime::now());
    assert_eq!(authority.asked.load(Ordering::SeqCst), asked);
    // An INTEGER in a request is the serial number exactly as in the certificate.
    let question = Question::new(&pair.certified.cert).unwrap();
    let request = question.encode();
    let serial = element(INTEGER, &[question.leaf().raw_serial()]);
    assert!(request.windows(serial.len()).any(|window| window == serial));
}
