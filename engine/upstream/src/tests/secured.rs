//! Upstreams behind TLS.

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;
use crate::{Dialling, ProxyProtocol, ProxyTls, Through};
use sluice_net::failure::{FailureKind, Retry};
use sluice_net::tls::{Connector, ConnectorOptions, ServerTrust};

pub(super) type Secured = StreamOwned<ServerConnection, TcpStream>;

/// An upstream that runs `script` on each connection once the handshake is done.
fn secured(script: impl Fn(Secured) + Send + Sync + 'static) -> (Fake, ServerTrust) {
    secured_offering(&[], script)
}

/// The same, offering these ALPN protocols.
pub(super) fn secured_offering(
    alpn: &[&[u8]],
    script: impl Fn(Secured) + Send + Sync + 'static,
) -> (Fake, ServerTrust) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let trust = ServerTrust::Pool(vec![made.cert.der().to_vec()]);
    let mut config = ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(vec![made.cert.der().clone()], key)
    .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let config = Arc::new(config);
    let fake = Fake::new(move |socket| {
        script(StreamOwned::new(
            ServerConnection::new(config.clone()).unwrap(),
            socket,
        ));
    });
    (fake, trust)
}

fn over_tls(fake: &Fake, trust: ServerTrust) -> Arc<Endpoint> {
    over_tls_with(
        fake,
        ConnectorOptions {
            trust,
            ..ConnectorOptions::default()
        },
    )
}

fn over_tls_with(fake: &Fake, options: ConnectorOptions) -> Arc<Endpoint> {
    let tls = Some(Arc::new(Connector::new(options).unwrap()));
    let timeouts = Timeouts {
        dial: Duration::from_millis(500),
        ..Timeouts::default()
    };
    fake.endpoint_with(Options {
        tls,
        timeouts,
        ..Options::default()
    })
}

#[test]
fn requests_go_over_one_verified_connection() {
    let (fake, trust) = secured(|mut socket| {
        while read_head(&mut socket).is_some() {
            let body = "x".repeat(100_000);
            let length = body.len();
            write!(
                socket,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"
            )
            .unwrap();
            socket.flush().unwrap();
        }
    });
    on_worker(|worker| async move {
        let endpoint = over_tls(&fake, trust);
        for _ in 0..5 {
            assert_eq!(fetch(&worker, &endpoint).await.unwrap().body.len(), 100_000);
            settle().await;
        }
        assert_eq!(fake.accepted(), 1);
    });
}

#[test]
fn an_untrusted_upstream_gets_no_request() {
    let (fake, _) = secured(|mut socket| assert!(read_head(&mut socket).is_none()));
    let (_, other) = secured(|_| {});
    on_worker(|worker| async move {
        let failure = fetch(&worker, &over_tls(&fake, other)).await.err().unwrap();
        assert_eq!(
            (failure.kind, failure.retry),
            (FailureKind::Tls, Retry::Always)
        );
        let anyone = over_tls(&fake, ServerTrust::Anyone);
        assert_eq!(
            fetch(&worker, &anyone).await.err().unwrap().kind,
            FailureKind::Closed
        );
    });
}

/// Attack row 13: data before the handshake is not accepted as a response.
#[test]
fn plain_bytes_before_the_handshake_are_not_a_response() {
    let fake = Fake::new(|mut socket| {
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged");
        let _ = socket.read(&mut [0; 1024]);
    });
    let silent = Fake::new(|mut socket| {
        let _ = socket.read_to_end(&mut Vec::new());
    });
    on_worker(|worker| async move {
        let failure = fetch(&worker, &over_tls(&fake, ServerTrust::Anyone))
            .await
            .err()
            .unwrap();
        assert_eq!(failure.kind, FailureKind::Tls);
        // A silent peer is subject to the dial timeout.
        let failure = fetch(&worker, &over_tls(&silent, ServerTrust::Anyone))
            .await
            .err()
            .unwrap();
        assert_eq!(failure.kind, FailureKind::Dial);
    });
}

#[test]
fn a_body_until_the_end_needs_a_proper_end() {
    let (proper, trust) = secured(|mut socket| {
        read_head(&mut socket);
        socket.write_all(b"HTTP/1.1 200 OK\r\n\r\nwhole").unwrap();
        socket.conn.send_close_notify();
        socket.flush().unwrap();
    });
    let (cut, cut_trust) = secured(|mut socket| {
        read_head(&mut socket);
        socket.write_all(b"HTTP/1.1 200 OK\r\n\r\npart").unwrap();
        socket.flush().unwrap();
    });
    on_worker(|worker| async move {
        let got = fetch(&worker, &over_tls(&proper, trust)).await.unwrap();
        assert_eq!(got.body, b"whole");
        let failure = fetch(&worker, &over_tls(&cut, cut_trust))
            .await
            .err()
            .unwrap();
        assert_eq!(failure.kind, FailureKind::Closed);
    });
}

#[test]
fn the_groups_that_are_named_are_those_of_the_handshake() {
    let (fake, trust) = secured(|mut socket| {
        read_head(&mut socket);
        let group = socket.conn.negotiated_key_exchange_group();
        let name = format!("{:?}", group.expect("hands were shaken").name()).to_lowercase();
        let length = name.len();
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{name}");
        socket.write_all(response.as_bytes()).unwrap();
        socket.flush().unwrap();
    });
    on_worker(|worker| async move {
        for curve in ["x25519", "secp256r1", "secp384r1", "x25519mlkem768"] {
            let options = ConnectorOptions {
                trust: trust.clone(),
                curves: vec![curve.to_owned()],
                ..ConnectorOptions::default()
            };
            let endpoint = over_tls_with(&fake, options);
            let got = fetch(&worker, &endpoint).await.unwrap();
            assert_eq!(got.body, curve.as_bytes());
        }
    });
}

/// The proxy's certificate is verified, and nothing is sent to the proxy in plaintext.
#[test]
fn a_proxy_may_be_behind_tls_itself() {
    let (proxy, trust) = secured(|mut socket| {
        let asked = read_head(&mut socket).unwrap_or_default();
        if asked.is_empty() {
            return;
        }
        assert!(asked.starts_with("CONNECT 127.0.0.1:"), "{asked}");
        assert!(
            asked.contains("Proxy-Authorization: Basic x\r\n"),
            "{asked}"
        );
        write!(socket, "HTTP/1.1 200 OK\r\n\r\n").unwrap();
        socket.flush().unwrap();
        while read_head(&mut socket).is_some() {
            write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy").unwrap();
            socket.flush().unwrap();
        }
    });
    let unasked = Fake::new(|_| panic!("the way leads through the proxy"));
    let by = |proxy: &Fake, trust: ServerTrust| {
        let connector = Connector::new(ConnectorOptions {
            trust,
            ..ConnectorOptions::default()
        });
        let through = Through {
            protocol: ProxyProtocol::Connect {
                authorization: Some("Basic x".to_owned()),
            },
            host: "127.0.0.1".to_owned(),
            port: proxy.address.port(),
            tls: Some(ProxyTls(Arc::new(connector.unwrap()))),
        };
        let dialling = Dialling {
            through: Some(through),
            ..Dialling::default()
        };
        unasked.endpoint_with(Options {
            dialling: Some(Arc::new(dialling)),
            ..Options::default()
        })
    };
    let (_, other) = secured(|_| {});
    let trusted = by(&proxy, trust);
    let stranger = by(&proxy, other);
    on_worker(|worker| async move {
        assert_eq!(fetch(&worker, &trusted).await.unwrap().body, b"proxy");
        let failure = fetch(&worker, &stranger).await.err().unwrap();
        assert_eq!(failure.kind, FailureKind::Tls);
    });
}
