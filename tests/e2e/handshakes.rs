//! TLS handshakes: negotiated parameters, client authentication, and floods. Certificates are tested in `tls`.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup};

use crate::harness::{Server, Setup, eventually};
use crate::tls::{Secure, client, connect, connect_to, get, root, trusting_with};
use crate::upstream::Upstream;
use crate::wire::Wire;

const OPTIONS: &str =
    "{\n\thttps_port {port}\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n";

/// A site with `rare_options` in its `tls` block.
fn site(words: &str) -> Server {
    Server::start(&format!(
        "{OPTIONS}localhost {{\n\ttls internal {{\n\t\t{words}\n\t}}\n\trespond \"{{tls_version}} {{tls_cipher}}\"\n}}\n"
    ))
}

/// The negotiated parameters of this client's handshake, or that it fails.
fn settled(
    server: &Server,
    provider: CryptoProvider,
) -> Result<(Option<NamedGroup>, String), io::Error> {
    let config = trusting_with(root(&server.folder), &[&TLS13, &TLS12], provider);
    let mut wire = connect(&config, server.port, "localhost")?;
    let group = wire.stream().conn.negotiated_key_exchange_group();
    let group = group.map(|group| group.name());
    Ok((group, get(&mut wire, "localhost", "/").1))
}

fn with_groups(groups: &[&'static dyn rustls::crypto::SupportedKxGroup]) -> CryptoProvider {
    CryptoProvider {
        kx_groups: groups.to_vec(),
        ..default_provider()
    }
}

#[test]
fn the_key_exchange_is_post_quantum_where_the_client_knows_it() {
    let server = site("protocols tls1.2");
    let group = |groups: &[_]| settled(&server, with_groups(groups)).map(|found| found.0);
    let both = [kx_group::X25519MLKEM768, kx_group::X25519];
    let found = group(&both).expect("a handshake");
    assert_eq!(found, Some(NamedGroup::X25519MLKEM768));
    for (offered, name) in [
        (kx_group::X25519, NamedGroup::X25519),
        (kx_group::SECP256R1, NamedGroup::secp256r1),
        (kx_group::SECP384R1, NamedGroup::secp384r1),
    ] {
        assert_eq!(group(&[offered]).expect("a handshake"), Some(name));
    }
}

#[test]
fn only_the_groups_of_the_configuration_are_taken() {
    let server = site("curves secp384r1 x25519");
    let group = |groups: &[_]| settled(&server, with_groups(groups)).map(|found| found.0);
    // The first key share of this client is not supported: it is asked for another.
    for (first, second, name) in [
        (
            kx_group::X25519MLKEM768,
            kx_group::SECP384R1,
            NamedGroup::secp384r1,
        ),
        (kx_group::SECP256R1, kx_group::X25519, NamedGroup::X25519),
    ] {
        assert_eq!(group(&[first, second]).expect("a handshake"), Some(name));
    }
    assert!(group(&[kx_group::SECP256R1]).is_err());
    assert!(group(&[kx_group::X25519MLKEM768]).is_err());
}

#[test]
fn versions_and_ciphers_are_those_of_the_configuration() {
    let suite = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
    let server = site(&format!("protocols tls1.2 tls1.2\n\t\tciphers {suite}"));
    let (_, body) = settled(&server, default_provider()).expect("a handshake");
    assert_eq!(body, format!("tls1.2 {suite}"));
    let newest = client(&server.folder, &[&TLS13]);
    assert!(connect(&newest, server.port, "localhost").is_err());
    let server = site("protocols tls1.3");
    let older = client(&server.folder, &[&TLS12]);
    let error = connect(&older, server.port, "localhost")
        .err()
        .expect("refused");
    assert!(error.to_string().contains("ProtocolVersion"), "{error}");
}

/// A client reports by an alert why it failed, and so do we: RFC 8446, section 6.2.
#[test]
fn alerts_say_why_a_handshake_failed() {
    let server = site("protocols tls1.2");
    let refused = |provider: CryptoProvider, port: u16| {
        let config = trusting_with(root(&server.folder), &[&TLS12], provider);
        let outcome = connect(&config, port, "localhost");
        outcome.err().expect("refused").to_string()
    };
    // The certificate has an ECDSA key.
    let rsa_only = CryptoProvider {
        cipher_suites: default_provider()
            .cipher_suites
            .into_iter()
            .filter(|suite| format!("{:?}", suite.suite()).contains("_RSA_"))
            .collect(),
        ..default_provider()
    };
    let error = refused(rsa_only, server.port);
    assert!(error.contains("HandshakeFailure"), "{error}");
    let rejecting = crate::nginx::setup(
        "events {}\nhttp {\nserver {\nlisten 127.0.0.1:{port} ssl;\nssl_reject_handshake on;\n}\n}\n",
    )
    .start();
    let error = refused(default_provider(), rejecting.port);
    assert!(error.contains("UnrecognisedName"), "{error}");
}

/// A client without TCP_NODELAY holds its request back until its handshake is acknowledged, which session tickets do:
/// they are sent before any request.
#[test]
fn session_tickets_come_right_after_the_handshake() {
    let server = site("");
    let config = client(&server.folder, &[&TLS13]);
    let mut wire = connect(&config, server.port, "localhost").expect("a handshake");
    let stream = wire.stream();
    let mut first = [0; 5];
    io::Read::read_exact(&mut stream.sock, &mut first).expect("bytes before any request");
    // A record of application data, as all encrypted records.
    assert_eq!(first[0], 23);
}

/// A CA for client certificates.
pub struct ClientCa {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl ClientCa {
    pub fn new() -> ClientCa {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        ClientCa {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// The CA, for the folder of a server.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate of this CA with its key, in DER.
    pub fn issue(
        &self,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let (leaf, key) = self.signed(change);
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        (leaf.der().clone(), key)
    }

    /// The same in PEM.
    pub fn issue_pem(&self, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        let (leaf, key) = self.signed(change);
        (leaf.pem(), key.serialize_pem())
    }

    fn signed(&self, change: impl FnOnce(&mut CertificateParams)) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec!["me.test".to_owned()]).expect("a name");
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let leaf = params.signed_by(&key, &self.issuer).expect("a certificate");
        (leaf, key)
    }

    /// A client with a certificate of this CA.
    fn client(
        &self,
        server: &Server,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Arc<ClientConfig> {
        let (leaf, key) = self.issue(change);
        let plain = client(&server.folder, &[&TLS13, &TLS12]);
        let mut config = (*plain).clone();
        let provider = Arc::new(default_provider());
        let key = provider.key_provider.load_private_key(key).expect("a key");
        let known = rustls::sign::CertifiedKey::new(vec![leaf], key);
        config.client_auth_cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(known));
        Arc::new(config)
    }
}

/// Whether this client gets a response.
fn is_let_in(config: &Arc<ClientConfig>, server: &Server, name: &str) -> bool {
    // In TLS 1.3 a rejection arrives after the end of the handshake, with the first read.
    let Ok(mut wire) = connect(config, server.port, name) else {
        return false;
    };
    let asked = format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    let sent = wire.try_send(asked);
    let head = sent.ok().and_then(|()| wire.head());
    head.is_some_and(|head| head[0].contains(" 200 "))
}

#[test]
fn each_mode_of_client_authentication_admits_the_right_clients() {
    let (known, stranger) = (ClientCa::new(), ClientCa::new());
    for (mode, without, of_stranger) in [
        ("request", true, true),
        ("require", false, true),
        ("verify_if_given", true, false),
        ("require_and_verify", false, false),
    ] {
        let setup = Setup::new(&format!(
            "{OPTIONS}localhost {{\n\ttls internal {{\n\t\tclient_auth {{\n\t\t\tmode {mode}\n\t\t\t\
             trust_pool file ca.pem\n\t\t}}\n\t}}\n\trespond ok\n}}\n"
        ));
        setup.folder().write("ca.pem", &known.pem);
        let server = setup.start();
        let plain = client(&server.folder, &[&TLS13, &TLS12]);
        assert_eq!(
            is_let_in(&plain, &server, "localhost"),
            without,
            "{mode}, none"
        );
        let own = known.client(&server, |_| ());
        assert!(is_let_in(&own, &server, "localhost"), "{mode}, a known one");
        let other = stranger.client(&server, |_| ());
        assert_eq!(
            is_let_in(&other, &server, "localhost"),
            of_stranger,
            "{mode}, another's"
        );
        let old = known.client(&server, |params| {
            params.not_after = rcgen::date_time_ymd(2020, 1, 1)
        });
        assert_eq!(
            is_let_in(&old, &server, "localhost"),
            of_stranger,
            "{mode}, an old one"
        );
    }
}

/// Row 38: invalid names are harmless text for whatever reads them.
#[test]
fn odd_names_of_clients_are_text() {
    let ca = ClientCa::new();
    let setup = Setup::new(&format!(
        "{OPTIONS}localhost {{\n\ttls internal {{\n\t\tclient_auth {{\n\t\t\ttrust_pool file ca.pem\n\t\t}}\n\t}}\n\
         \theader Name \"{{http.request.tls.client.san.dns_names.0}}\"\n\theader Subject \"{{tls_client_subject}}\"\n\trespond ok\n}}\n"
    ));
    setup.folder().write("ca.pem", &ca.pem);
    let server = setup.start();
    for odd in [
        "a\0.test",
        "*",
        "a.test\r\nSet-Cookie: x=1",
        "{env.HOME}",
        "*.*.test",
        "",
    ] {
        let config = ca.client(&server, |params| {
            params.subject_alt_names = vec![SanType::DnsName(odd.try_into().expect("ASCII"))];
            params
                .distinguished_name
                .push(rcgen::DnType::CommonName, odd);
        });
        let Ok(mut wire) = connect(&config, server.port, "localhost") else {
            continue;
        };
        wire.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let Some(head) = wire.head() else {
            continue;
        };
        assert!(head[0].contains(" 200 "), "{odd:?}: {head:?}");
        let lines = head.iter().skip(1);
        assert!(
            lines.clone().all(|line| !line.starts_with("Set-Cookie")),
            "{head:?}"
        );
        assert!(
            lines
                .clone()
                .all(|line| !line.contains(server.folder.path().to_str().expect("text")))
        );
        assert!(head.iter().all(|line| !line.contains('\0')), "{head:?}");
    }
    // A client with a normal name is identified by it.
    let mut wire = connect(&ca.client(&server, |_| ()), server.port, "localhost").expect("known");
    let (head, _) = get(&mut wire, "localhost", "/");
    assert_eq!(crate::wire::field(&head, "Name"), Some("me.test"));
}

/// Row 40: a site that requires client certificates cannot be reached through the handshake of another.
#[test]
fn nobody_reaches_a_site_through_the_handshake_of_another() {
    let ca = ClientCa::new();
    let setup = Setup::new(&format!(
        "{OPTIONS}open.localhost {{\n\ttls internal\n\trespond open\n}}\n\
         closed.localhost {{\n\ttls internal {{\n\t\tclient_auth {{\n\t\t\ttrust_pool file ca.pem\n\t\t}}\n\t}}\n\
         \trespond secret\n}}\n"
    ));
    setup.folder().write("ca.pem", &ca.pem);
    let server = setup.start();
    let plain = client(&server.folder, &[&TLS13]);
    assert!(is_let_in(&plain, &server, "open.localhost"));
    assert!(!is_let_in(&plain, &server, "closed.localhost"));
    let own = ca.client(&server, |_| ());
    assert!(is_let_in(&own, &server, "closed.localhost"));
    for host in [
        "closed.localhost",
        "CLOSED.localhost",
        "closed.localhost.",
        "closed.localhost:443",
        "nobody.localhost",
        "127.0.0.1",
    ] {
        let mut wire = connect(&plain, server.port, "open.localhost").expect("open to all");
        let (head, body) = get(&mut wire, host, "/");
        assert!(head[0].contains(" 421 "), "{host}: {head:?}");
        assert_eq!(body, "", "{host}");
    }
    // Nor the other way round; and another spelling of the same name is the same name.
    let mut wire = connect(&own, server.port, "closed.localhost").expect("known");
    assert!(get(&mut wire, "open.localhost", "/").0[0].contains(" 421 "));
    let mut wire = connect(&plain, server.port, "open.localhost").expect("open to all");
    let (head, body) = get(&mut wire, &format!("OPEN.localhost:{}", server.port), "/");
    assert!(head[0].contains(" 200 ") && body == "open", "{head:?}");
    // Over HTTP/2 the connection remains usable for its own name.
    let mut two = (*plain).clone();
    two.alpn_protocols = vec![b"h2".to_vec()];
    let wire = connect(&Arc::new(two), server.port, "open.localhost").expect("open to all");
    let mut peer = crate::h2::peer::Peer::begin(wire.reader.into_inner(), &[]);
    for (host, status) in [
        ("open.localhost", 200),
        ("closed.localhost", 421),
        ("Closed.Localhost", 421),
        ("closed.localhost:443", 421),
        ("open.localhost", 200),
    ] {
        let id = peer.ask(&[
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", host),
            (":path", "/"),
        ]);
        assert_eq!(peer.response(id).status, status, "{host}");
    }
}

/// A wildcard site's client certificate requirement does not apply to sites with names of their own.
#[test]
fn a_wildcard_demands_no_certificates_of_named_sites() {
    let ca = ClientCa::new();
    let demanding = "tls internal {\n\t\tclient_auth {\n\t\t\ttrust_pool file ca.pem\n\t\t}\n\t}";
    let setup = Setup::new(&format!(
        "{OPTIONS}*.sites.localhost {{\n\t{demanding}\n\trespond secret\n}}\n\
         open.sites.localhost {{\n\trespond open\n}}\nown.sites.localhost {{\n\ttls internal\n\trespond own\n}}\n\
         closed.sites.localhost {{\n\t{demanding}\n\trespond closed\n}}\n"
    ));
    setup.folder().write("ca.pem", &ca.pem);
    let server = setup.start();
    let plain = client(&server.folder, &[&TLS13]);
    for name in ["open.sites.localhost", "own.sites.localhost"] {
        assert!(is_let_in(&plain, &server, name), "{name}");
    }
    for name in ["any.sites.localhost", "closed.sites.localhost"] {
        assert!(!is_let_in(&plain, &server, name), "{name}");
        assert!(
            is_let_in(&ca.client(&server, |_| ()), &server, name),
            "{name}"
        );
    }
    // The wildcard site cannot be reached through the handshake of the named one.
    let mut wire = connect(&plain, server.port, "open.sites.localhost").expect("open to all");
    let (head, body) = get(&mut wire, "any.sites.localhost", "/");
    assert!(head[0].contains(" 421 ") && body.is_empty(), "{head:?}");
}

/// An incomplete ClientHello.
const HALF: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

fn half(port: u16) -> Option<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    io::Write::write_all(&mut stream, HALF).ok()?;
    Some(stream)
}

/// Row 35: when connections are scarce, one address may have only its share of pending handshakes.
#[test]
fn half_handshakes_of_one_address_leave_room_for_others() {
    let server = Setup::new(&format!("{OPTIONS}localhost {{\n\trespond ok\n}}\n"))
        .files_max(301)
        .start();
    let config = client(&server.folder, &[&TLS13]);
    // There may be 200 connections.
    let flood: Vec<_> = (0..400).filter_map(|_| half(server.port)).collect();
    let others = SocketAddr::from((Ipv6Addr::LOCALHOST, server.port));
    for _ in 0..20 {
        let begun = Instant::now();
        let mut wire = connect_to(&config, others, "localhost").expect("another address");
        assert_eq!(get(&mut wire, "localhost", "/").1, "ok");
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
    }
    let shed = server.metric("sluice_tls_handshakes_shed_total");
    assert!((100..=400).contains(&shed), "{shed}");
    drop(flood);
    eventually(
        "the end of the flood",
        || is_let_in(&config, &server, "localhost"),
        || server.stderr(),
    );
}

/// Row 35: stalled handshakes make room, from however many addresses they come.
#[test]
fn a_table_full_of_half_handshakes_makes_room() {
    let server = Setup::new(&format!("{OPTIONS}localhost {{\n\trespond ok\n}}\n"))
        .files_max(137)
        .start();
    let config = client(&server.folder, &[&TLS13]);
    // There may be 56 connections, and 64 handshakes of one address when they are scarce.
    let flood: Vec<_> = (0..120).filter_map(|_| half(server.port)).collect();
    let begun = Instant::now();
    let others = SocketAddr::from((Ipv6Addr::LOCALHOST, server.port));
    let mut wire = connect_to(&config, others, "localhost").expect("there is room");
    assert_eq!(get(&mut wire, "localhost", "/").1, "ok");
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    drop(flood);
}

/// Row 35: complete handshakes at full rate block neither connected clients nor new ones.
#[test]
fn a_flood_of_whole_handshakes_leaves_others_served() {
    let server = Server::start(&format!("{OPTIONS}localhost {{\n\trespond ok\n}}\n"));
    let config = client(&server.folder, &[&TLS13]);
    let mut served = connect(&config, server.port, "localhost").expect("a connection");
    let over = AtomicBool::new(false);
    let (mut slowest, mut joined) = (Duration::ZERO, Duration::ZERO);
    let shaken: u64 = thread::scope(|scope| {
        let flooding: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    let mut config = (*config).clone();
                    config.resumption = rustls::client::Resumption::disabled();
                    let (config, mut count) = (Arc::new(config), 0);
                    while !over.load(Ordering::Relaxed) {
                        count += u64::from(connect(&config, server.port, "localhost").is_ok());
                    }
                    count
                })
            })
            .collect();
        for _ in 0..50 {
            let begun = Instant::now();
            served.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let head = served.head().expect("an answer");
            served.body(&head).expect("a body");
            slowest = slowest.max(begun.elapsed());
            // Spread over the flood.
            thread::sleep(Duration::from_millis(20));
        }
        let begun = Instant::now();
        let others = SocketAddr::from((Ipv6Addr::LOCALHOST, server.port));
        let mut wire = connect_to(&config, others, "localhost").expect("another address");
        get(&mut wire, "localhost", "/");
        joined = begun.elapsed();
        over.store(true, Ordering::Relaxed);
        flooding
            .into_iter()
            .map(|one| one.join().expect("no panic"))
            .sum()
    });
    println!("{shaken} handshakes; others waited {slowest:?}, a new one {joined:?}");
    assert!(shaken > 50, "{shaken} are no flood");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    assert!(joined < Duration::from_secs(2), "{joined:?}");
    assert_eq!(
        server.metric("sluice_tls_handshakes_shed_total"),
        0,
        "nobody was sent away"
    );
}

/// A configuration whose sessions can be resumed at every instance that shares this folder.
fn shared(storage: &str, more: &str) -> String {
    format!(
        r#"{{"admin":{{"disabled":true}},"apps":{{"http":{{"https_port":{{port}},"servers":{{"s":{{
        "listen":[":{{port}}"],"automatic_https":{{"disable_redirects":true}},
        "tls_connection_policies":[{{{more}}}],
        "routes":[{{"match":[{{"host":["localhost"]}}],"handle":[{{"handler":"static_response","body":"ok"}}]}}]}}}}}},
        "tls":{{"session_tickets":{{"key_source":{{"provider":"distributed",
        "storage":{{"module":"file_system","root":"{storage}"}}}}}}}}}}}}"#
    )
}

#[test]
fn a_session_goes_on_at_another_instance_that_shares_its_keys() {
    let pool = crate::harness::Folder::new();
    let storage = pool.path().join("keys").display().to_string();
    let start = |more: &str, from: Option<&Server>| {
        let setup = Setup::bare();
        let text = setup.fill(&shared(&storage, more));
        setup.folder().write("sluice.json", text);
        if let Some(from) = from {
            // The same CA, as for instances behind one name.
            let copied = std::process::Command::new("cp")
                .arg("-r")
                .arg(from.folder.path().join("data"))
                .arg(setup.folder().path())
                .status();
            assert!(copied.expect("cp is there").success());
        }
        setup.args(&["--config", "sluice.json"]).start()
    };
    let one = start("", None);
    let two = start("", Some(&one));
    let strict = start(r#""alpn":["http/1.1"]"#, Some(&one));
    let config = client(&one.folder, &[&TLS13]);
    let kind = |server: &Server| {
        let mut wire = connect(&config, server.port, "localhost").expect("a connection");
        get(&mut wire, "localhost", "/");
        wire.stream().conn.handshake_kind()
    };
    assert_eq!(kind(&one), Some(HandshakeKind::Full));
    assert_eq!(kind(&two), Some(HandshakeKind::Resumed));
    assert_eq!(kind(&one), Some(HandshakeKind::Resumed));
    drop(one);
    // After a restart, too.
    let again = start("", Some(&two));
    assert_eq!(kind(&two), Some(HandshakeKind::Resumed));
    assert_eq!(kind(&again), Some(HandshakeKind::Resumed));
    assert_eq!(kind(&strict), Some(HandshakeKind::Full), "another policy");
}

/// A client that sends early data, with an unfinished handshake.
pub struct Hasty {
    conn: ClientConnection,
    socket: TcpStream,
    /// All bytes it has sent.
    sent: Vec<u8>,
}

impl Hasty {
    /// Sends a ClientHello followed by `bytes` as early data, for a client with a session; `None` if that is not
    /// permitted.
    pub fn begin(config: &Arc<ClientConfig>, port: u16, bytes: &[u8]) -> Option<Hasty> {
        let name = ServerName::try_from("localhost").expect("a name");
        let mut conn = ClientConnection::new(config.clone(), name).expect("a session");
        let mut early = conn.early_data()?;
        io::Write::write_all(&mut early, bytes).expect("it fits");
        let mut sent = Vec::new();
        while conn.wants_write() {
            conn.write_tls(&mut sent).expect("it is memory");
        }
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("somebody listens");
        let timeout = Some(Duration::from_secs(20));
        socket.set_read_timeout(timeout).expect("it can be set");
        io::Write::write_all(&mut socket, &sent).expect("it is taken");
        Some(Hasty { conn, socket, sent })
    }

    /// Reads until `is_whole`; sends nothing, so that the handshake stays unfinished.
    pub fn hear(&mut self, is_whole: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut heard = Vec::new();
        while !is_whole(&heard) {
            if self
                .conn
                .read_tls(&mut self.socket)
                .expect("it comes in time")
                == 0
            {
                break;
            }
            let state = self.conn.process_new_packets().expect("it is sound");
            let start = heard.len();
            heard.resize(start + state.plaintext_bytes_to_read(), 0);
            let read = io::Read::read(&mut self.conn.reader(), &mut heard[start..]);
            heard.truncate(start + read.unwrap_or(0));
        }
        heard
    }

    /// Completes the handshake; what follows is not early data.
    pub fn end(mut self) -> Wire<Secure> {
        while self.conn.is_handshaking() || self.conn.wants_write() {
            self.conn.complete_io(&mut self.socket).expect("it ends");
        }
        assert!(self.conn.is_early_data_accepted());
        Wire::new(Secure::new(self.conn, self.socket))
    }
}

/// Sites that accept early data, in front of an echo, with that upstream.
fn hasty(more: &str) -> (Server, Upstream) {
    let upstream = Upstream::echo();
    let server = Server::start(&format!(
        "{{\n\thttps_port {{port}}\n\tauto_https disable_redirects\n\tskip_install_trust\n\tservers {{\n\t\t{more}\n\t}}\n}}\n\
         localhost {{\n\t@early tls early_data\n\theader @early Was-Early yes\n\treverse_proxy localhost:{}\n}}\n",
        upstream.port
    ));
    (server, upstream)
}

/// A client with a session that permits early data.
fn known_client(server: &Server, alpn: &[u8]) -> Arc<ClientConfig> {
    let plain = client(&server.folder, &[&TLS13]);
    let mut config = (*plain).clone();
    config.enable_early_data = true;
    config.alpn_protocols = vec![alpn.to_vec()];
    let config = Arc::new(config);
    let mut wire = connect(&config, server.port, "localhost").expect("a connection");
    if alpn == b"h2" {
        let mut peer = crate::h2::peer::Peer::begin(wire.reader.into_inner(), &[]);
        assert_eq!(peer.fetch("/").status, 200);
    } else {
        get(&mut wire, "localhost", "/");
    }
    config
}

pub fn is_complete_response(heard: &[u8]) -> bool {
    let text = String::from_utf8_lossy(heard);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "));
    length.is_none_or(|length| length.parse() == Ok(body.len()))
}

/// Row 42: what may be a replay is served only if that is harmless, and upstreams are informed.
#[test]
fn early_data_is_served_where_it_does_no_harm_and_marked() {
    let (server, _upstream) = hasty("0rtt on");
    let config = known_client(&server, b"http/1.1");
    let ask = |request: &str| {
        let mut early = Hasty::begin(&config, server.port, request.as_bytes()).expect("it may");
        let heard = early.hear(is_complete_response);
        assert!(
            early.conn.is_handshaking() || early.conn.wants_write(),
            "the end was not sent"
        );
        (String::from_utf8_lossy(&heard).into_owned(), early)
    };
    let (said, early) = ask("GET /one HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(
        said.starts_with("HTTP/1.1 200 ") && said.contains("GET /one "),
        "{said}"
    );
    assert!(
        said.contains("\nEarly-Data: 1\n") && said.contains("Was-Early: yes"),
        "{said}"
    );
    // The same connection, once its handshake is complete.
    let mut wire = early.end();
    let (head, body) = get(&mut wire, "localhost", "/two");
    assert!(!body.contains("Early-Data"), "{body}");
    assert_eq!(crate::wire::field(&head, "Was-Early"), None);
    for harmful in [
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
        "DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx",
        "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
    ] {
        let (said, early) = ask(harmful);
        assert!(
            said.starts_with("HTTP/1.1 425 Too Early\r\n"),
            "{harmful}: {said}"
        );
        // It is served once the handshake is complete.
        let mut wire = early.end();
        wire.send("POST /late HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx");
        let head = wire.head().expect("an answer");
        assert!(head[0].contains(" 200 "), "{head:?}");
    }
    // A request that is marked already is not marked twice.
    let (said, _) = ask("GET / HTTP/1.1\r\nHost: localhost\r\nEarly-Data: 1\r\n\r\n");
    assert_eq!(said.matches("Early-Data").count(), 1, "{said}");
}

#[test]
fn early_data_that_is_sent_again_is_served_once() {
    let (server, upstream) = hasty("0rtt on");
    let config = known_client(&server, b"http/1.1");
    let request = b"GET /once HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut early = Hasty::begin(&config, server.port, request).expect("it may");
    assert!(!early.hear(is_complete_response).is_empty());
    let served = upstream.connections();
    for _ in 0..3 {
        let mut again = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).expect("it listens");
        io::Write::write_all(&mut again, &early.sent).expect("it is taken");
        again
            .set_read_timeout(Some(Duration::from_millis(300)))
            .expect("it can be set");
        // The server sends its handshake flight, and nothing after it that could be a response: the replay is not
        // processed.
        let mut heard = Vec::new();
        let _ = io::Read::read_to_end(&mut again, &mut heard);
    }
    let requests = server.metrics();
    assert!(
        requests.contains("sluice_requests_total{class=\"2xx\"} 2\n"),
        "the first visit and the early one: {requests}"
    );
    assert!(upstream.connections() <= served + 1);
}

#[test]
fn early_data_goes_over_http_2_too() {
    let (server, _upstream) = hasty("0rtt on");
    let config = known_client(&server, b"h2");
    let ask = |method: &str| {
        use crate::h2::peer::{END_HEADERS, END_STREAM, HEADERS, SETTINGS, block, frame, request};
        let mut bytes = sluice_wire::h2::PREFACE.to_vec();
        bytes.extend(frame(SETTINGS, 0, 0, &[]));
        let head = block(&request(method, "/two"));
        bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, 1, &head));
        let mut early = Hasty::begin(&config, server.port, &bytes).expect("it may");
        let heard = early.hear(|heard| response_over_h2(heard).is_some());
        assert!(
            early.conn.wants_write(),
            "the end of the handshake was not sent"
        );
        response_over_h2(&heard).expect("an answer")
    };
    let (status, body) = ask("GET");
    assert!(
        status == 200 && body.contains("\nEarly-Data: 1\n"),
        "{body}"
    );
    assert_eq!(ask("POST").0, 425);
}

/// Status and body on the first stream, once they are complete.
fn response_over_h2(heard: &[u8]) -> Option<(u16, String)> {
    use crate::h2::peer::{DATA, END_STREAM, HEADERS};
    let (mut rest, mut status, mut body) = (heard, None, Vec::new());
    loop {
        let (head, behind) = rest.split_at_checked(9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let (payload, next) = behind.split_at_checked(usize::try_from(length).ok()?)?;
        match head[3] {
            HEADERS => {
                let mut decoder = sluice_wire::h2::hpack::Decoder::new(4096);
                let decoded = decoder.decode(payload, |field| {
                    if field.name == b":status" {
                        status = String::from_utf8_lossy(field.value).parse().ok();
                    }
                });
                decoded.expect("the first block needs no other");
            }
            DATA => body.extend_from_slice(payload),
            _ => {}
        }
        if matches!(head[3], HEADERS | DATA) && head[4] & END_STREAM != 0 {
            return Some((status?, String::from_utf8_lossy(&body).into_owned()));
        }
        rest = next;
    }
}

#[test]
fn early_data_is_accepted_only_if_enabled_and_without_client_certificates() {
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for more in ["0rtt off", "keepalive_count 9"] {
        let (server, _upstream) = hasty(more);
        let config = known_client(&server, b"http/1.1");
        assert!(
            Hasty::begin(&config, server.port, request).is_none(),
            "{more}"
        );
    }
    let ca = ClientCa::new();
    let setup = Setup::new(
        "{\n\thttps_port {port}\n\tauto_https disable_redirects\n\tskip_install_trust\n\tservers {\n\t\t0rtt on\n\t}\n}\n\
         localhost {\n\ttls internal {\n\t\tclient_auth {\n\t\t\tmode verify_if_given\n\t\t\ttrust_pool file ca.pem\n\t\t}\n\t}\n\
         \trespond ok\n}\n",
    );
    setup.folder().write("ca.pem", &ca.pem);
    let server = setup.start();
    let config = known_client(&server, b"http/1.1");
    assert!(Hasty::begin(&config, server.port, request).is_none());
    // Without tickets there are no sessions to resume; a reload does not invalidate sessions.
    let (server, _upstream) = hasty("0rtt on");
    let config = known_client(&server, b"http/1.1");
    let file = server.folder.read("Caddyfile");
    server.write(&format!("{file}\n# the same\n"));
    server.signal(sluice_net::sys::process::Signal::Hangup);
    server.wait_for_words("configuration loaded");
    let early = Hasty::begin(&config, server.port, request).expect("it may");
    drop(early.end());
}
