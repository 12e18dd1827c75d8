//! Orders with a fake API that responds like ZeroSSL's.

use sluice_dns::DnsProvider;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::fake::{Asked, Fake};
use crate::limits::ZEROSSL_DETAILS_MAX;

const CHAIN: &str = r#"{"certificate.crt":"-----BEGIN CERTIFICATE-----\nleaf\n-----END CERTIFICATE-----\n","ca_bundle.crt":"-----BEGIN CERTIFICATE-----\nabove\n-----END CERTIFICATE-----"}"#;
const FILE: &str = "/.well-known/pki-validation/AB12.txt";

fn order(name: &str) -> String {
    json!({"id": "abc123", "status": "draft", "validation": {"other_methods": {name: {
        "file_validation_url_http": format!("http://{name}{FILE}"),
        "file_validation_content": ["one", "comodoca.com", "three"],
        "cname_validation_p1": "_AB12.a.test",
        "cname_validation_p2": "CD.EF.comodoca.com",
    }}}})
    .to_string()
}

fn options(fake: &Fake, http_port: u16) -> ZeroSslOptions {
    ZeroSslOptions {
        api_url: fake.base.clone(),
        api_key: "k3y+".to_owned(),
        validity_days: Some(90),
        http_port,
        listen_host: "127.0.0.1".to_owned(),
        cname: None,
        timeout: Duration::from_secs(2),
    }
}

fn issue(options: ZeroSslOptions, name: &str) -> Result<Issued, CertsError> {
    let challenges = Arc::new(Challenges::default());
    let issuer = ZeroSslIssuer::new(options, challenges.clone());
    let key = crate::KeyType::default().generate().unwrap();
    let request = Request {
        subject: &Subject::parse(name).unwrap(),
        key: &key,
        replaces: None,
        failures: 0,
        must_staple: false,
    };
    let issued = issuer.issue(&request, SystemTime::now());
    assert!(challenges.is_idle(), "a file is left");
    issued
}

#[path = "../../../../tests/support/ports.rs"]
mod ports;
use ports::free_port;

fn fetched(port: u16) -> String {
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(client, "GET {FILE} HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    response
}

/// The responses for a complete order for `name`; `check` provides the validation details.
fn whole(
    name: &'static str,
    check: impl Fn(&Asked) -> String + Send + 'static,
) -> impl Fn(&Asked) -> (u16, String) + Send + 'static {
    let looks = AtomicUsize::new(0);
    move |asked| {
        let Some(path) = asked.line.strip_suffix("?access_key=k3y%2B") else {
            let no = r#"{"success":false,"error":{"code":101,"type":"invalid_access_key"}}"#;
            return (200, no.to_owned());
        };
        let text = match path {
            "POST /certificates" => order(name),
            "POST /certificates/abc123/challenges" => check(asked),
            "GET /certificates/abc123" if looks.fetch_add(1, Ordering::Relaxed) == 0 => {
                r#"{"id":"abc123","status":"pending_validation"}"#.to_owned()
            }
            "GET /certificates/abc123" => r#"{"id":"abc123","status":"issued"}"#.to_owned(),
            "GET /certificates/abc123/download/return" => CHAIN.to_owned(),
            _ => r#"{"success":1}"#.to_owned(),
        };
        (200, text)
    }
}

#[test]
fn a_certificate_comes_by_a_file_that_is_served_meanwhile() {
    let port = free_port();
    let fake = Fake::start(whole("a.test", move |asked| {
        assert!(asked.body.contains("HTTP_CSR_HASH"), "{asked:?}");
        let response = fetched(port);
        assert!(
            response.ends_with("\r\n\r\none\ncomodoca.com\nthree"),
            "{response}"
        );
        r#"{"id":"abc123","status":"pending_validation"}"#.to_owned()
    }));
    let issued = issue(options(&fake, port), "a.test").unwrap();
    let chain = String::from_utf8(issued.chain).unwrap();
    assert_eq!(chain.matches("-----BEGIN CERTIFICATE-----\n").count(), 2);
    assert!(chain.find("leaf") < chain.find("above"));
    assert_eq!(issued.about["id"], "abc123");
    let created: Value = serde_json::from_str(&fake.asked()[0].body).unwrap();
    assert_eq!(created["certificate_domains"], "a.test");
    assert_eq!(created["certificate_validity_days"], 90);
    assert_eq!(created["strict_domains"], 1);
    let csr = created["certificate_csr"].as_str().unwrap();
    let (_, csr) = x509_parser::pem::parse_x509_pem(csr.as_bytes()).unwrap();
    // The common name: its OID (2.5.4.3) and the text.
    let name = [&[0x55, 4, 3, 0x0c, 6][..], b"a.test"].concat();
    assert!(csr.contents.windows(name.len()).any(|w| w == name));
    assert!(fake.lines().iter().all(|line| !line.contains("cancel")));
}

#[test]
fn a_certificate_comes_by_a_record_that_is_removed_again() {
    let fake = Fake::start(whole("*.a.test", |asked| {
        assert!(asked.body.contains("CNAME_CSR_HASH"), "{asked:?}");
        r#"{"id":"abc123","status":"issued"}"#.to_owned()
    }));
    let said = std::env::temp_dir().join(format!("sluice-zerossl-{}", std::process::id()));
    let script = format!("echo \"$@\" >> {}", said.display());
    let mut options = options(&fake, 0);
    options.cname = Some(DnsOptions {
        provider: DnsProvider::Exec(["/bin/sh", "-c", &script, "x"].map(str::to_owned).to_vec()),
        ttl: Duration::ZERO,
        delay: Duration::ZERO,
        timeout: None,
        resolvers: Vec::new(),
        override_domain: String::new(),
    });
    let _ = std::fs::remove_file(&said);
    issue(options, "*.a.test").unwrap();
    let output = std::fs::read_to_string(&said).unwrap();
    let _ = std::fs::remove_file(&said);
    assert_eq!(
        output,
        "present _AB12.a.test CD.EF.comodoca.com CNAME\ncleanup _AB12.a.test CD.EF.comodoca.com CNAME\n"
    );
}

#[test]
fn a_refusal_is_reported_and_the_order_cancelled() {
    let fake = Fake::start(whole("a.test", |_| {
        r#"{"success":0,"error":{"code":0,"type":"domain_control_validation_failed",
            "details":{"a.test":{"x":{"error_info":"404 k3y+ LONG"}}}}}"#
            .replace("LONG", &"x".repeat(2 * ZEROSSL_DETAILS_MAX))
    }));
    let error = issue(options(&fake, free_port()), "a.test").unwrap_err();
    let CertsError::Authority { fault, what, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*fault, Fault::Refused);
    assert!(what.contains("domain_control_validation_failed"), "{what}");
    assert!(what.len() < ZEROSSL_DETAILS_MAX + 100, "{what}");
    assert!(what.contains("404") && !what.contains("k3y"), "{what}");
    let last = fake.lines().pop().unwrap();
    assert!(
        last.starts_with("POST /certificates/abc123/cancel?"),
        "{last}"
    );
}

#[test]
fn an_order_ends_in_time_and_with_any_other_status() {
    for (status, words) in [
        ("pending_validation", "after 1 s"),
        ("cancelled", "`cancelled`"),
    ] {
        let fake = Fake::start(move |asked| {
            let is_first = asked.line.starts_with("POST /certificates?");
            let other = format!(r#"{{"id":"abc123","status":"{status}"}}"#);
            (200, if is_first { order("a.test") } else { other })
        });
        let mut options = options(&fake, free_port());
        options.timeout = Duration::from_secs(1);
        let error = issue(options, "a.test").unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert!(fake.lines().pop().unwrap().contains("/cancel?"));
    }
}

#[test]
fn an_unreachable_ca_is_distinguished_from_a_refusal() {
    for (status, wanted) in [
        (429, Fault::Busy),
        (503, Fault::Unreachable),
        (403, Fault::Refused),
    ] {
        let fake = Fake::start(move |_| (status, "no".to_owned()));
        match issue(options(&fake, 0), "a.test").unwrap_err() {
            CertsError::Authority { fault, .. } => assert_eq!(fault, wanted),
            other => panic!("{other:?}"),
        }
        assert_eq!(fake.lines().len(), 1);
    }
}

#[test]
fn nothing_but_what_belongs_to_the_name_is_shown() {
    let odd_file = |_: &Asked| (200, order("a.test").replace("pki-validation", "other"));
    let error = issue(options(&Fake::start(odd_file), 0), "a.test").unwrap_err();
    assert!(error.to_string().contains("unusual place"), "{error}");
    assert!(is_below("_AB.A.test", "a.test") && is_below("_ab.a.test", "*.a.test"));
    for record in ["a.test", ".a.test", "_ab.b.test", "_ab.xa.test", ""] {
        assert!(!is_below(record, "a.test"), "{record}");
    }
}

#[test]
fn a_wildcard_without_dns_contacts_no_ca() {
    let fake = Fake::start(|_| (200, "{}".to_owned()));
    let error = issue(options(&fake, 0), "*.a.test").unwrap_err();
    assert!(error.to_string().contains("needs the DNS check"), "{error}");
    assert!(fake.lines().is_empty());
}
