//! TLS: valid certificates, untrusted ones, and protocols other than requested.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::crypto::aws_lc_rs;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::{BODY, failures, load, plan};
use crate::generator::Plan;
use crate::generator::target::{HttpVersion, Reach, Target};
use crate::generator::trust::{TlsOptions, key_algorithm, prepare};
use crate::result::FailureClass;

/// A server with its own certificate for localhost, and the file with that certificate.
struct Secure {
    address: SocketAddr,
    ca: Removed,
}

/// A file that is removed on drop.
struct Removed(std::path::PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn start(name: &str, alpn: &[&[u8]]) -> Secure {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    let ca = std::env::temp_dir().join(format!("lab-{name}-{}.pem", std::process::id()));
    std::fs::write(&ca, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let session = ServerConnection::new(config.clone()).unwrap();
            std::thread::spawn(move || talk(StreamOwned::new(session, socket)));
        }
    });
    let ca = Removed(ca);
    Secure { address, ca }
}

/// Sends a response larger than one TLS record after every read.
fn talk(mut stream: StreamOwned<ServerConnection, std::net::TcpStream>) {
    let mut buf = [0; 4096];
    while stream.read(&mut buf).is_ok_and(|got| got > 0) {
        let body = BODY.repeat(10_000);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        if stream
            .write_all(&[head.as_bytes(), &body].concat())
            .is_err()
        {
            return;
        }
    }
}

fn secure_plan(server: &Secure, version: HttpVersion, options: &TlsOptions) -> Plan {
    let mut plan = plan(server.address, Some(12));
    let url = format!("https://localhost:{}/", server.address.port());
    plan.target = Target::parse(&url, version, None, Reach::Loopback).unwrap();
    plan.tls = prepare(options, &plan.target).unwrap();
    plan.requests[0].expect = crate::generator::expect::Expect::exactly(200, &BODY.repeat(10_000));
    plan
}

#[test]
fn a_trusted_server_is_loaded_and_its_protocol_noted() {
    let server = start("trusted", &[b"http/1.1"]);
    for (version, wanted) in [("1.2", "TLSv1_2"), ("1.3", "TLSv1_3")] {
        let options = TlsOptions {
            ca: Some(server.ca.0.clone()),
            version: Some(version.into()),
            ..TlsOptions::default()
        };
        let mut plan = secure_plan(&server, HttpVersion::Http1, &options);
        plan.requests_per_connection_max = Some(3);
        let load = load(&plan);
        assert_eq!((load.ok, load.failed()), (12, 0), "{:?}", load.failures);
        assert_eq!(load.connections.tls_version.as_deref(), Some(wanted));
        assert_eq!(load.connections.alpn.as_deref(), Some("http/1.1"));
        let handshakes = load.latency.tls.as_ref().map(|tls| tls.count);
        assert_eq!(handshakes, Some(load.connections.opened));
    }
}

#[test]
fn sessions_are_resumed_where_that_is_wanted() {
    let server = start("resumed", &[]);
    for version in ["1.2", "1.3"] {
        for resume in [false, true] {
            let options = TlsOptions {
                insecure: true,
                version: Some(version.into()),
                resume,
                ..TlsOptions::default()
            };
            let mut plan = secure_plan(&server, HttpVersion::Http1, &options);
            plan.requests_max = Some(40);
            (plan.connections, plan.threads) = (4, 1);
            plan.requests_per_connection_max = Some(1);
            let load = load(&plan);
            assert_eq!((load.ok, load.failed()), (40, 0), "{:?}", load.failures);
            let connections = load.connections;
            assert_eq!(connections.key.as_deref(), Some("ECDSA"));
            let resumed = connections.resumed.unwrap_or(0);
            match resume {
                false => assert_eq!(resumed, 0),
                // The first connection of each client may begin before there is a session.
                true => assert!(resumed >= connections.opened - 4, "{connections:?}"),
            }
        }
    }
}

#[test]
fn keys_are_distinguished() {
    let names = || vec!["localhost".to_string()];
    let params = rcgen::CertificateParams::new(names()).unwrap();
    let (rsa, size) = (&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048);
    for (key, expected) in [
        (rcgen::KeyPair::generate_rsa_for(rsa, size), "RSA"),
        (
            rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
            "ECDSA",
        ),
        (
            rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519),
            "Ed25519",
        ),
    ] {
        let made = params.self_signed(&key.unwrap()).unwrap();
        assert_eq!(key_algorithm(made.der()), Some(expected));
    }
    assert_eq!(key_algorithm(&vec![0; 100].into()), None);
}

#[test]
fn an_untrusted_certificate_is_a_failure_class_of_its_own() {
    let server = start("stranger", &[]);
    let other = start("other", &[]);
    let options = TlsOptions {
        ca: Some(other.ca.0.clone()),
        ..TlsOptions::default()
    };
    let load = load(&secure_plan(&server, HttpVersion::Http1, &options));
    assert_eq!(failures(&load), [(FailureClass::Certificate, 12)]);
}

#[test]
fn a_server_without_http2_is_a_downgrade() {
    let server = start("old", &[]);
    let options = TlsOptions {
        insecure: true,
        ..TlsOptions::default()
    };
    let load = load(&secure_plan(&server, HttpVersion::Http2, &options));
    assert_eq!(failures(&load), [(FailureClass::Downgrade, 12)]);
}

#[test]
fn unsupported_options_are_reported() {
    let server = start("options", &[]);
    let url = format!("https://localhost:{}/", server.address.port());
    let target = Target::parse(&url, HttpVersion::Http1, None, Reach::Loopback).unwrap();
    for (options, word) in [
        (
            TlsOptions {
                version: Some("1.1".into()),
                ..TlsOptions::default()
            },
            "1.1",
        ),
        (
            TlsOptions {
                ca: Some("/no/such/file".into()),
                ..TlsOptions::default()
            },
            "/no/such/file",
        ),
    ] {
        let error = prepare(&options, &target).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
}
