//! Client and server sessions connected in memory, and streams connected by a socket pair.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::ClientHello;
use rustls::{ServerConfig, SupportedProtocolVersion, version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::*;
use crate::stream::Stream;
use crate::unix_socket::UnixSocket;

struct Fixed(Arc<ServerConfig>);

impl ConfigChoice for Fixed {
    fn choose(&self, _: &ClientHello<'_>, _: Ends) -> Arc<ServerConfig> {
        self.0.clone()
    }
}

/// A server for `localhost` and a client that trusts it.
fn pair_of(versions: &[&'static SupportedProtocolVersion]) -> (RustlsAcceptor, Connector) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let cert = made.cert.der().to_vec();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(cert.clone())], key)
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
    let options = ConnectorOptions {
        trust: ServerTrust::Pool(vec![cert]),
        ..Default::default()
    };
    (
        RustlsAcceptor::new(Arc::new(Fixed(Arc::new(config)))),
        Connector::new(options).unwrap(),
    )
}

fn pair() -> (RustlsAcceptor, Connector) {
    pair_of(&[&version::TLS13, &version::TLS12])
}

/// Counts calls and collects the bytes.
#[derive(Default)]
struct Sink {
    calls: usize,
    bytes: Vec<u8>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.calls += 1;
        slices
            .iter()
            .for_each(|slice| self.bytes.extend_from_slice(slice));
        Ok(slices.iter().map(|slice| slice.len()).sum())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn output(session: &mut dyn Session) -> Vec<u8> {
    let mut sink = Sink::default();
    while session.has_output() {
        session.transmit(&mut sink).unwrap();
    }
    sink.bytes
}

fn input(session: &mut dyn Session, bytes: &[u8], step: usize) -> Result<(), SessionError> {
    for piece in bytes.chunks(step) {
        let mut rest = piece;
        while !rest.is_empty() {
            rest = &rest[session.receive(rest)?..];
        }
    }
    Ok(())
}

/// Transfers bytes both ways in pieces of `step` until neither side has output.
fn join(
    client: &mut dyn Session,
    server: &mut dyn Session,
    step: usize,
) -> Result<(), SessionError> {
    while client.has_output() || server.has_output() {
        input(server, &output(client), step)?;
        input(client, &output(server), step)?;
    }
    Ok(())
}

fn joined(acceptor: &dyn Acceptor, connector: &Connector) -> (Box<dyn Session>, Box<dyn Session>) {
    let (mut client, mut server) = (connector.connect("localhost").unwrap(), acceptor.accept());
    join(&mut *client, &mut *server, usize::MAX).unwrap();
    (client, server)
}

fn read_all(session: &mut dyn Session) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = [0; 1000];
    loop {
        match session.read(&mut piece) {
            0 => return all,
            count => all.extend_from_slice(&piece[..count]),
        }
    }
}

/// The lengths of the records in `bytes`, which must end with a complete one.
fn record_lengths(mut bytes: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while !bytes.is_empty() {
        let length = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
        lengths.push(length);
        bytes = &bytes[5 + length..];
    }
    lengths
}

#[test]
fn a_handshake_settles_the_same_however_it_is_cut() {
    for (versions, name) in [(&version::TLS13, "tls1.3"), (&version::TLS12, "tls1.2")] {
        for step in [1, 2, 5, 100, usize::MAX] {
            let (acceptor, connector) = pair_of(&[versions]);
            let (mut client, mut server) =
                (connector.connect("localhost").unwrap(), acceptor.accept());
            assert!(server.is_handshaking());
            join(&mut *client, &mut *server, step).unwrap();
            assert!(
                !client.is_handshaking() && !server.is_handshaking(),
                "step {step}"
            );
            let info = server.info();
            assert_eq!((info.version, &*info.server_name), (name, "localhost"));
            assert_eq!(info.alpn, b"http/1.1");
            assert!(
                info.cipher.starts_with("TLS_") && !info.resumed,
                "{}",
                info.cipher
            );
            assert_eq!(client.info().cipher, info.cipher);
            assert_eq!(client.write(&[IoSlice::new(b"ask")]).unwrap(), 3);
            assert_eq!(
                server
                    .write(&[IoSlice::new(b"ans"), IoSlice::new(b"wer")])
                    .unwrap(),
                6
            );
            join(&mut *client, &mut *server, step).unwrap();
            assert_eq!(read_all(&mut *server), b"ask");
            assert_eq!(read_all(&mut *client), b"answer");
        }
    }
}

#[test]
fn a_hello_in_records_of_one_byte_is_understood() {
    let (acceptor, connector) = pair();
    let (mut client, mut server) = (connector.connect("localhost").unwrap(), acceptor.accept());
    let hello = output(&mut *client);
    let mut cut = Vec::new();
    for byte in &hello[5..] {
        cut.extend_from_slice(&[hello[0], hello[1], hello[2], 0, 1, *byte]);
    }
    input(&mut *server, &cut, 7).unwrap();
    let flight = output(&mut *server);
    input(&mut *client, &flight, usize::MAX).unwrap();
    assert!(!client.is_handshaking());
}

#[test]
fn a_large_response_is_written_in_full_tls_records_by_one_call() {
    let (acceptor, connector) = pair();
    let (mut client, mut server) = joined(&acceptor, &connector);
    let (head, body) = (vec![b'h'; 200], vec![b'b'; 64 * 1024]);
    let taken = server
        .write(&[IoSlice::new(&head), IoSlice::new(&body)])
        .unwrap();
    assert_eq!(taken, head.len() + body.len());
    let mut sink = Sink::default();
    server.transmit(&mut sink).unwrap();
    assert!(!server.has_output());
    assert_eq!(sink.calls, 1);
    assert_eq!(
        record_lengths(&sink.bytes),
        [16401, 16401, 16401, 16401, 217]
    );
    input(&mut *client, &sink.bytes[..16406], usize::MAX).unwrap();
    assert_eq!(read_all(&mut *client).len(), 16384);
}

#[test]
fn encrypting_ahead_of_the_socket_has_a_limit() {
    let (acceptor, connector) = pair();
    let (_client, mut server) = joined(&acceptor, &connector);
    let large = vec![0; 1 << 20];
    assert_eq!(
        server.write(&[IoSlice::new(&large)]).unwrap(),
        crate::limits::TLS_OUTPUT_BYTES_MAX
    );
    assert_eq!(server.write(&[IoSlice::new(&large)]).unwrap(), 0);
    assert!(output(&mut *server).len() > crate::limits::TLS_OUTPUT_BYTES_MAX);
    assert!(server.write(&[IoSlice::new(&large)]).unwrap() > 0);
}

#[test]
fn a_session_trimmed_at_any_point_goes_on() {
    let (acceptor, connector) = pair();
    let (mut client, mut server) = joined(&acceptor, &connector);
    for cut in [1, 5, 4096, 5000, 16_406, 40_000] {
        assert_eq!(server.write(&[IoSlice::new(&[7; 60_000])]).unwrap(), 60_000);
        let sent = output(&mut *server);
        let mut got = Vec::new();
        for part in [&sent[..cut], &sent[cut..]] {
            let mut rest = part;
            while !rest.is_empty() {
                rest = &rest[client.receive(rest).unwrap()..];
                got.extend(read_all(&mut *client));
            }
            client.trim();
        }
        assert!(got == [7; 60_000], "cut at {cut}");
    }
}

#[test]
fn tickets_wait_for_the_first_response_in_tls_1_3_only() {
    for (versions, waits) in [(&version::TLS13, true), (&version::TLS12, false)] {
        let (acceptor, connector) = pair_of(&[versions]);
        let (_client, server) = joined(&acceptor, &connector);
        assert_eq!(server.may_output_wait(), waits);
    }
}

#[test]
fn a_second_session_of_a_connector_resumes() {
    for versions in [&version::TLS13, &version::TLS12] {
        let (acceptor, connector) = pair_of(&[versions]);
        let (first, _) = joined(&acceptor, &connector);
        assert!(!first.info().resumed);
        let (client, server) = joined(&acceptor, &connector);
        assert!(client.info().resumed && server.info().resumed);
    }
}

#[test]
fn plain_http_is_recognized_from_its_first_bytes() {
    let (acceptor, _) = pair();
    for request in [
        "GET / HTTP/1.1\r\n",
        "POST /x HTTP/1.1",
        "PRI * HTTP/2.0",
        "DELETE /",
        "OPTIONS *",
    ] {
        for step in [1, 3, 100] {
            let failed = input(&mut *acceptor.accept(), request.as_bytes(), step);
            assert!(
                matches!(failed, Err(SessionError::PlainHttp)),
                "{request} by {step}"
            );
        }
    }
    for other in ["GETX", "SSH-2.0-x", "\0\0\0\0\0", "get / http"] {
        let failed = input(&mut *acceptor.accept(), other.as_bytes(), 1);
        assert!(matches!(failed, Err(SessionError::Tls(_))), "{other:?}");
    }
}

#[test]
fn garbage_is_refused_with_an_alert_and_without_a_panic() {
    let (acceptor, connector) = pair();
    let seed = std::process::id();
    println!("seed {seed}");
    let mut random = seed | 1;
    let mut byte = move || {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        (random >> 8) as u8
    };
    for round in 0..300 {
        let mut client = connector.connect("localhost").unwrap();
        let mut server = acceptor.accept();
        let mut hello = output(&mut *client);
        // A damaged ClientHello, then noise in well-formed records.
        for _ in 0..1 + round % 4 {
            let at = (usize::from(byte()) << 8 | usize::from(byte())) % hello.len();
            hello[at] = byte();
        }
        let noise: Vec<u8> = (0..64).map(|_| byte()).collect();
        hello.extend_from_slice(&[22, 3, 3, 0, 64]);
        hello.extend_from_slice(&noise);
        if input(&mut *server, &hello, usize::MAX).is_err() {
            let _ = output(&mut *server);
            assert!(
                server.receive(b"more").is_err(),
                "an ended session stays ended"
            );
        }
    }
    let mut server = acceptor.accept();
    assert!(input(&mut *server, &[22, 3, 1, 0, 4, 1, 0, 0, 0], usize::MAX).is_err());
    assert_eq!(output(&mut *server)[0], 21, "an alert record");
}

#[test]
fn plaintext_before_the_servers_handshake_ends_the_session() {
    let (_, connector) = pair();
    let mut client = connector.connect("localhost").unwrap();
    output(&mut *client);
    let injected = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    assert!(input(&mut *client, injected, usize::MAX).is_err());
    assert!(!client.has_plaintext());
}

#[test]
fn an_untrusted_certificate_is_refused_unless_verification_is_off() {
    let (acceptor, _) = pair();
    let (_, stranger) = pair();
    let (mut client, mut server) = (stranger.connect("localhost").unwrap(), acceptor.accept());
    let failed = join(&mut *client, &mut *server, usize::MAX).unwrap_err();
    assert!(failed.to_string().contains("certificate"), "{failed}");
    let error = input(&mut *server, &output(&mut *client), usize::MAX).unwrap_err();
    assert!(error.to_string().contains("alert"), "{error}");

    let options = ConnectorOptions {
        trust: ServerTrust::Anyone,
        ..Default::default()
    };
    let (client, _) = joined(&acceptor, &Connector::new(options).unwrap());
    assert!(!client.is_handshaking());
}

#[test]
fn the_name_verified_is_the_configured_one_or_the_host() {
    let (acceptor, trusting) = pair();
    let (mut client, mut server) = (trusting.connect("127.0.0.1").unwrap(), acceptor.accept());
    assert!(join(&mut *client, &mut *server, usize::MAX).is_err());
    assert!(matches!(
        trusting.connect("no name"),
        Err(ConnectorError::ServerName(_))
    ));
}

#[test]
fn pem_without_a_certificate_is_refused() {
    assert!(certificates_from_pem(b"").is_err());
    assert!(ClientIdentity::from_pem(b"x", b"y").is_err());
    let made = rcgen::generate_simple_self_signed(vec!["client".to_owned()]).unwrap();
    let key = made.signing_key.serialize_pem();
    assert!(ClientIdentity::from_pem(made.cert.pem().as_bytes(), key.as_bytes()).is_ok());
}

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

fn stream(socket: UnixStream) -> Stream {
    Stream::Unix(Box::new(
        UnixSocket::new(socket.into_std().unwrap()).unwrap(),
    ))
}

fn streams() -> (TlsStream, TlsStream) {
    let (acceptor, connector) = pair();
    let (a, b) = UnixStream::pair().unwrap();
    let client = TlsStream::client(stream(a), connector.connect("localhost").unwrap());
    (client, TlsStream::server(stream(b), acceptor.accept()))
}

async fn open(client: &mut TlsStream, server: &mut TlsStream) {
    let (mut c, mut s) = (false, false);
    poll_fn(|cx| {
        if !c && let Poll::Ready(done) = client.poll_handshake(cx) {
            done.unwrap();
            c = true;
        }
        // In TLS 1.3, the client's last message is sent together with its first request.
        if c && let Poll::Ready(flushed) = client.poll_flush(cx) {
            flushed.unwrap();
        }
        if !s && let Poll::Ready(done) = server.poll_handshake(cx) {
            done.unwrap();
            s = true;
        }
        if c && s {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

async fn read_some(stream: &mut TlsStream, buf: &mut Vec<u8>) -> io::Result<usize> {
    poll_fn(|cx| stream.poll_read(cx, buf)).await
}

#[test]
fn streams_carry_bytes_and_end_cleanly_both_ways() {
    run(async {
        let (mut client, mut server) = streams();
        open(&mut client, &mut server).await;
        poll_fn(|cx| client.poll_write(cx, &[IoSlice::new(b"request")]))
            .await
            .unwrap();
        let mut buf = Vec::with_capacity(100);
        assert_eq!(read_some(&mut server, &mut buf).await.unwrap(), 7);
        poll_fn(|cx| client.poll_shutdown(cx)).await.unwrap();
        poll_fn(|cx| server.poll_readable(cx)).await.unwrap();
        assert_eq!(read_some(&mut server, &mut buf).await.unwrap(), 0);
        // The other direction stays open.
        poll_fn(|cx| server.poll_write(cx, &[IoSlice::new(b"answer")]))
            .await
            .unwrap();
        poll_fn(|cx| server.poll_shutdown(cx)).await.unwrap();
        let mut response = Vec::with_capacity(100);
        assert_eq!(read_some(&mut client, &mut response).await.unwrap(), 6);
        assert_eq!(read_some(&mut client, &mut response).await.unwrap(), 0);
        assert_eq!((&buf[..], &response[..]), (&b"request"[..], &b"answer"[..]));
    });
}

#[test]
fn a_socket_that_ends_without_close_notify_is_a_truncation() {
    run(async {
        let (mut client, mut server) = streams();
        open(&mut client, &mut server).await;
        poll_fn(|cx| server.poll_write(cx, &[IoSlice::new(b"half")]))
            .await
            .unwrap();
        drop(server);
        let mut buf = Vec::with_capacity(100);
        assert_eq!(read_some(&mut client, &mut buf).await.unwrap(), 4);
        let error = read_some(&mut client, &mut buf).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    });
}

#[test]
fn a_small_buffer_gets_everything_in_turn() {
    run(async {
        let (mut client, mut server) = streams();
        open(&mut client, &mut server).await;
        let sent: Vec<u8> = (0..50_000_u32).map(|n| (n % 251) as u8).collect();
        let mut written = 0;
        let mut got = Vec::new();
        while got.len() < sent.len() {
            poll_fn(|cx| {
                while written < sent.len() {
                    let Poll::Ready(count) =
                        server.poll_write(cx, &[IoSlice::new(&sent[written..])])
                    else {
                        break;
                    };
                    written += count.unwrap();
                }
                let _ = server.poll_flush(cx);
                Poll::Ready(())
            })
            .await;
            let mut buf = Vec::with_capacity(if got.len() % 2 == 0 { 777 } else { 20_000 });
            read_some(&mut client, &mut buf).await.unwrap();
            got.extend_from_slice(&buf);
        }
        assert!(got == sent);
    });
}

#[test]
fn a_peer_that_does_not_read_stops_the_writer_and_all_arrives_in_the_end() {
    run(async {
        let (mut client, mut server) = streams();
        open(&mut client, &mut server).await;
        let block: Vec<u8> = (0..65_536_u32).map(|n| (n % 253) as u8).collect();
        let mut taken = 0_usize;
        let mut idle = Context::from_waker(Waker::noop());
        let mut push = |server: &mut TlsStream, cx: &mut Context<'_>, until: usize| {
            while taken < until {
                let at = taken % block.len();
                match server.poll_write(cx, &[IoSlice::new(&block[at..])]) {
                    Poll::Ready(count) => taken += count.unwrap(),
                    Poll::Pending => return taken,
                }
            }
            taken
        };
        let all = 16 << 20;
        let stuck = push(&mut server, &mut idle, all);
        assert!(stuck < 2 << 20, "stopped after {stuck}");
        assert_eq!(push(&mut server, &mut idle, all), stuck);
        let mut received = 0;
        let mut buf = Vec::with_capacity(64 * 1024);
        poll_fn(|cx| {
            if push(&mut server, cx, all) == all {
                let _ = server.poll_flush(cx);
            }
            loop {
                buf.clear();
                match client.poll_read(cx, &mut buf) {
                    Poll::Ready(count) => {
                        count.unwrap();
                        for byte in &buf {
                            assert_eq!(*byte, block[received % block.len()]);
                            received += 1;
                        }
                        if received == all {
                            return Poll::Ready(());
                        }
                    }
                    Poll::Pending => {
                        return Poll::Pending;
                    }
                }
            }
        })
        .await;
    });
}

#[test]
fn plain_http_leaves_a_socket_to_respond_on() {
    run(async {
        let (acceptor, _) = pair();
        let (mut client, b) = UnixStream::pair().unwrap();
        let mut server = TlsStream::server(stream(b), acceptor.accept());
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        let failed = poll_fn(|cx| server.poll_handshake(cx)).await.unwrap_err();
        assert!(matches!(failed, HandshakeError::PlainHttp));
        let mut socket = server.take_socket();
        poll_fn(|cx| socket.poll_write(cx, &[IoSlice::new(b"HTTP/1.0 400")]))
            .await
            .unwrap();
        let mut response = [0; 12];
        client.read_exact(&mut response).await.unwrap();
        assert_eq!(&response, b"HTTP/1.0 400");
    });
}

#[test]
fn a_refused_client_gets_an_alert_and_a_silent_close_is_named() {
    run(async {
        let (acceptor, _) = pair();
        let (mut client, b) = UnixStream::pair().unwrap();
        let mut server = TlsStream::server(stream(b), acceptor.accept());
        client
            .write_all(&[22, 3, 1, 0, 4, 1, 0, 0, 0])
            .await
            .unwrap();
        let failed = poll_fn(|cx| server.poll_handshake(cx)).await.unwrap_err();
        assert!(matches!(failed, HandshakeError::Refused(_)), "{failed}");
        let mut alert = [0; 7];
        client.read_exact(&mut alert).await.unwrap();
        assert_eq!(alert[0], 21);

        let (client, b) = UnixStream::pair().unwrap();
        let mut server = TlsStream::server(stream(b), acceptor.accept());
        drop(client);
        let failed = poll_fn(|cx| server.poll_handshake(cx)).await.unwrap_err();
        assert!(matches!(failed, HandshakeError::Closed), "{failed}");
    });
}
