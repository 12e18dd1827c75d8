//! Clients with certificates, and clients that use plain HTTP on a TLS port.

use std::sync::Arc;

use pki_types::pem::PemObject;
use pki_types::{CertificateDer, PrivateKeyDer};
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, SignatureScheme};

use crate::client::exchange;
use crate::harness::{Server, free_port};
use crate::tls;

/// A server with these lines on a second port, with its own certificate and the fixtures' CAs.
struct Site {
    server: Server,
    port: u16,
    root: CertificateDer<'static>,
}

const FIXTURES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../engine/net/src/tls/rustls_session/chains/fixtures"
);

fn site(servers: &str) -> Site {
    let port = free_port();
    let conf = "events {}\nhttp {\nssl_certificate site.pem;\nssl_certificate_key site.key;\n\
                server { listen 127.0.0.1:{port}; return 200 \"[$ssl_client_verify][$ssl_cipher]\"; }\n";
    let conf = format!("{conf}{servers}\n}}\n").replace("{tls}", &port.to_string());
    let setup = super::setup(&conf.replace("{fixtures}", FIXTURES));
    let names = [
        "a", "b", "open", "on", "optional", "any", "listed", "nobody",
    ];
    let names = names.map(|name| format!("{name}.test"));
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    setup.folder().write("site.pem", made.cert.pem());
    let key = made.signing_key.serialize_pem();
    setup.folder().write("site.key", key);
    Site {
        server: setup.start(),
        port,
        root: made.cert.der().clone(),
    }
}

impl Site {
    /// A client that presents these fixture certificates.
    fn client(&self, chain: &[&str], only_old: bool) -> Arc<ClientConfig> {
        let versions = if only_old { [&TLS12] } else { [&TLS13] };
        if chain.is_empty() {
            return tls::trusting(self.root.clone(), &versions);
        }
        let file = |name: &str| format!("{FIXTURES}/{name}");
        let read = |name: &&str| CertificateDer::from_pem_file(file(&format!("{name}.pem")));
        let chain: Result<Vec<_>, _> = chain.iter().map(read).collect();
        let key = PrivateKeyDer::from_pem_file(file("c.key")).expect("a key");
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.root.clone()).expect("a root certificate");
        let key = default_provider().key_provider.load_private_key(key);
        let shown = CertifiedKey::new(chain.expect("certificates"), key.expect("a key"));
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&versions)
            .expect("the provider knows them")
            .with_root_certificates(roots)
            .with_client_cert_resolver(Arc::new(Shows(Arc::new(shown))));
        Arc::new(config)
    }

    /// Status and body of the response to a request for `path` of `host`, with a handshake for `name`.
    fn ask(&self, client: &Arc<ClientConfig>, name: &str, host: &str, path: &str) -> (u16, String) {
        let mut wire = tls::connect(client, self.port, name).expect("a handshake");
        let (head, body) = tls::get(&mut wire, host, path);
        let status = head[0].split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.expect("a status"), body)
    }

    fn get(&self, chain: &[&str], host: &str) -> (u16, String) {
        self.ask(&self.client(chain, false), host, host, "/")
    }
}

/// Presents a certificate regardless of its version and of the server's request.
#[derive(Debug)]
struct Shows(Arc<CertifiedKey>);

impl ResolvesClientCert for Shows {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

const SERVERS: &str = r#"
server { listen 127.0.0.1:{tls} ssl; server_name open.test; return 200 "open $ssl_client_verify"; }
server { listen 127.0.0.1:{tls} ssl; server_name on.test; ssl_verify_client on;
  ssl_client_certificate {fixtures}/ca.pem; return 200 "$ssl_client_verify|$ssl_client_s_dn|$ssl_client_i_dn|$ssl_client_serial|$ssl_client_fingerprint|$ssl_client_v_start|$ssl_client_v_end|$ssl_client_s_dn_legacy"; }
server { listen 127.0.0.1:{tls} ssl; server_name optional.test; ssl_verify_client optional;
  ssl_client_certificate {fixtures}/ca.pem; return 200 "$ssl_client_verify"; }
server { listen 127.0.0.1:{tls} ssl; server_name any.test; ssl_verify_client optional_no_ca;
  return 200 "$ssl_client_verify"; }
server { listen 127.0.0.1:{tls} ssl; server_name listed.test; ssl_verify_client optional; ssl_verify_depth 3;
  ssl_client_certificate {fixtures}/ca.pem; ssl_crl {fixtures}/ca.crl;
  error_page 495 496 497 =200 /why; location = /why { return 200 "why $ssl_client_verify"; }
  location / { return 200 "$ssl_client_verify"; } }
"#;

#[test]
fn clients_need_the_certificate_that_their_server_requires() {
    let site = site(SERVERS);
    let page = |text: &str| {
        format!(
            "<html>\r\n<head><title>400 {text}</title></head>\r\n<body>\r\n<center><h1>400 Bad Request</h1></center>\r\n\
             <center>{text}</center>\r\n<hr><center>sluice</center>\r\n</body>\r\n</html>\r\n"
        )
    };
    let wrong = (400, page("The SSL certificate error"));
    let none = (400, page("No required SSL certificate was sent"));
    let ok = |text: &str| (200, text.to_owned());
    for (chain, host, expected) in [
        (&[][..], "open.test", ok("open NONE")),
        (&["client"], "open.test", ok("open NONE")),
        (&[], "on.test", none),
        (&["stranger"], "on.test", wrong.clone()),
        (&["below2", "i2", "i1"], "on.test", wrong.clone()),
        (&[], "optional.test", ok("NONE")),
        (&["client"], "optional.test", ok("SUCCESS")),
        (&["below1", "i1"], "optional.test", ok("SUCCESS")),
        (&["server"], "optional.test", wrong.clone()),
        (
            &["client"],
            "any.test",
            ok("FAILED:unable to verify the first certificate"),
        ),
        (&["expired"], "any.test", wrong),
        (&["client"], "listed.test", ok("SUCCESS")),
        (
            &["revoked"],
            "listed.test",
            ok("why FAILED:certificate revoked"),
        ),
        (
            &["below1", "i1"],
            "listed.test",
            ok("why FAILED:unable to get certificate CRL"),
        ),
    ] {
        assert_eq!(site.get(chain, host), expected, "{chain:?} {host}");
    }
}

#[test]
fn certificate_variables_have_nginxs_format() {
    let site = site(SERVERS);
    let (status, body) = site.get(&["client"], "on.test");
    assert_eq!(status, 200);
    let values: Vec<&str> = body.split('|').collect();
    assert_eq!(values[..2], ["SUCCESS", "CN=client"]);
    assert_eq!(values[2], r"CN=Root CA,O=\C3\9Cn\C3\AF\, Inc,C=DE");
    assert_eq!(values[3], "1004");
    assert_eq!(values[4].len(), 40);
    assert_eq!(
        values[5..],
        [
            "Jan  1 00:00:00 2000 GMT",
            "Jan  1 00:00:00 2126 GMT",
            "/CN=client"
        ]
    );
    // Resumed sessions are checked, too, in both versions.
    for only_old in [false, true] {
        let client = site.client(&["revoked"], only_old);
        for _ in 0..3 {
            let response = site.ask(&client, "listed.test", "listed.test", "/");
            assert_eq!(response.1, "why FAILED:certificate revoked", "{only_old}");
        }
    }
}

#[test]
fn who_shook_hands_with_another_server_is_turned_away_where_certificates_count() {
    let site = site(SERVERS);
    let client = site.client(&["client"], false);
    assert_eq!(site.ask(&client, "optional.test", "on.test", "/").0, 421);
    assert_eq!(site.ask(&client, "open.test", "on.test", "/").0, 421);
    assert_eq!(
        site.ask(&client, "optional.test", "open.test", "/").1,
        "open SUCCESS"
    );
    // An unknown name uses the default server, whose handshake did not request a certificate.
    let response = site.ask(&client, "nobody.test", "on.test", "/");
    assert!(
        response.1.contains("No required SSL certificate"),
        "{response:?}"
    );
}

#[test]
fn plain_http_where_tls_is_spoken_gets_a_page_that_may_be_another() {
    let site = site(
        "server { listen 127.0.0.1:{tls} ssl; server_name a.test; return 200 \"$scheme\"; }\n\
         server { listen 127.0.0.1:{tls} ssl; server_name b.test; error_page 497 =301 https://$host:$server_port$request_uri;\n\
         return 200 \"$scheme\"; }",
    );
    let plain = |host: &str| {
        let request = format!("GET /q?a=b HTTP/1.1\r\nHost: {host}\r\n\r\n");
        exchange(site.port, request)
    };
    let response = plain("a.test");
    assert_eq!(response.status, 400);
    assert_eq!(response.field("connection"), Some("close"));
    assert!(
        response
            .text()
            .contains("<center>The plain HTTP request was sent to HTTPS port</center>")
    );
    let response = plain("b.test");
    assert_eq!(response.status, 301);
    let location = format!("https://b.test:{}/q?a=b", site.port);
    assert_eq!(response.field("location"), Some(location.as_str()));
    assert_eq!(site.get(&[], "b.test"), (200, "https".to_owned()));
    // Without TLS these variables are empty.
    let response = exchange(
        site.server.port,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(response.text(), "[][]");
}
