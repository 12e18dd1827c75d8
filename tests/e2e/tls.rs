//! HTTPS with certificates of the local CA, through a client that trusts only its root.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use pki_types::pem::PemObject;
use pki_types::{CertificateDer, ServerName};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};

use crate::client::{Client, exchange};
use crate::harness::{Folder, Server, Setup, eventually, free_port, run_to_end, text};
use crate::wire::{Wire, field};

pub type Secure = StreamOwned<ClientConnection, TcpStream>;

/// A site with two names on one port, with plain HTTP beside it.
pub fn start() -> (Server, u16) {
    let plain = free_port();
    let site = "{\n\tadmin off\n\thttp_port {plain}\n\thttps_port {port}\n\tskip_install_trust\n}\n\
        localhost {\n\trespond \"at home, {http.request.scheme}\"\n}\n\
        a.localhost {\n\ttls internal\n\trespond a\n}\n";
    let server = Server::start(&site.replace("{plain}", &plain.to_string()));
    (server, plain)
}

/// The root of the CA in `folder`.
pub fn root(folder: &Folder) -> CertificateDer<'static> {
    let path = folder
        .path()
        .join("data/sluice/pki/authorities/local/root.crt");
    CertificateDer::from_pem_file(path).expect("the root is there")
}

/// A client that trusts the CA in `folder`.
pub fn client(
    folder: &Folder,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    trusting(root(folder), versions)
}

/// A client that trusts one root.
pub fn trusting(
    root: CertificateDer<'static>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    trusting_with(root, versions, default_provider())
}

/// Like `trusting`, with these cipher suites and groups.
pub fn trusting_with(
    root: CertificateDer<'static>,
    versions: &[&'static SupportedProtocolVersion],
    provider: CryptoProvider,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(root).expect("a root certificate");
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .expect("the provider knows them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

/// A client that trusts the CA in `folder`, for other modules.
pub fn trusting_local(folder: &Folder) -> Arc<ClientConfig> {
    client(folder, &[&TLS13, &TLS12])
}

pub fn connect(config: &Arc<ClientConfig>, port: u16, name: &str) -> io::Result<Wire<Secure>> {
    connect_to(config, (Ipv4Addr::LOCALHOST, port).into(), name)
}

pub fn connect_to(
    config: &Arc<ClientConfig>,
    addr: SocketAddr,
    name: &str,
) -> io::Result<Wire<Secure>> {
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let connection = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
    let socket = TcpStream::connect(addr)?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut stream = StreamOwned::new(connection, socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(Wire::new(stream))
}

/// Sends one request and reads to the clean end of the connection.
pub fn get(wire: &mut Wire<Secure>, host: &str, path: &str) -> (Vec<String>, String) {
    wire.send(format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    ));
    let head = wire.head().expect("an answer");
    let body = wire.body(&head).expect("a whole body");
    let mut rest = Vec::new();
    io::Read::read_to_end(&mut wire.reader, &mut rest).expect("it ends with a close_notify");
    assert_eq!(rest, b"");
    (head, String::from_utf8_lossy(&body).into_owned())
}

#[test]
fn a_local_name_has_https_by_itself() {
    let (server, _) = start();
    for (version, expected) in [
        (&TLS13, ProtocolVersion::TLSv1_3),
        (&TLS12, ProtocolVersion::TLSv1_2),
    ] {
        let config = client(&server.folder, &[version]);
        let mut wire = connect(&config, server.port, "localhost").expect("a trusted connection");
        assert_eq!(wire.stream().conn.protocol_version(), Some(expected));
        assert_eq!(wire.stream().conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        let (head, body) = get(&mut wire, "localhost", "/");
        assert!(head[0].starts_with("HTTP/1.1 200 "), "{head:?}");
        assert_eq!(body, "at home, https");
    }
}

#[test]
fn each_name_gets_its_certificate() {
    let (server, _) = start();
    let config = client(&server.folder, &[&TLS13]);
    for (name, body) in [("a.localhost", "a"), ("localhost", "at home, https")] {
        // The client rejects certificates for other names.
        let mut wire = connect(&config, server.port, name).expect("a certificate for this name");
        assert_eq!(get(&mut wire, name, "/").1, body);
    }
    assert!(
        connect(&config, server.port, "b.localhost").is_err(),
        "nobody has this name"
    );
    assert!(
        connect(&config, server.port, "a.localhost").is_ok(),
        "others are served"
    );
}

#[test]
fn clients_that_do_not_trust_the_authority_refuse() {
    let (server, _) = start();
    let (other, _) = start();
    let stranger = client(&other.folder, &[&TLS13]);
    assert!(connect(&stranger, server.port, "localhost").is_err());
}

#[test]
fn sessions_are_resumed() {
    let (server, _) = start();
    for version in [&TLS13, &TLS12] {
        let config = client(&server.folder, &[version]);
        let kinds: Vec<_> = (0..3)
            .map(|_| {
                let mut wire = connect(&config, server.port, "localhost").expect("a connection");
                get(&mut wire, "localhost", "/");
                wire.stream().conn.handshake_kind()
            })
            .collect();
        let resumed = Some(HandshakeKind::Resumed);
        assert_eq!(
            kinds,
            [Some(HandshakeKind::Full), resumed, resumed],
            "{version:?}"
        );
    }
}

#[test]
fn plain_http_leads_to_https() {
    let (_server, plain) = start();
    let response = exchange(
        plain,
        "GET /a/b?c=d HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(response.status, 308);
    assert_eq!(
        response.field("Location"),
        Some("https://localhost/a/b?c=d")
    );
}

#[test]
fn plain_http_at_a_tls_port_gets_an_explanation() {
    let (server, _) = start();
    let mut client = Client::connect(server.port);
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = client.response();
    assert_eq!(response.status, 400);
    assert_eq!(
        response.text(),
        "Client sent an HTTP request to an HTTPS server.\n"
    );
}

#[test]
fn incomplete_handshakes_delay_nobody() {
    let (server, _) = start();
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let mut client = Client::connect(server.port);
            client.send(hello);
            client
        })
        .collect();
    let mut broken = Client::connect(server.port);
    broken.send(b"\x16\x03\x01\xff\xff\xff\xff\xff\xff");
    let config = client(&server.folder, &[&TLS13]);
    let mut wire = connect(&config, server.port, "localhost").expect("a connection");
    assert_eq!(get(&mut wire, "localhost", "/").1, "at home, https");
    drop(waiting);
}

#[test]
fn large_bodies_arrive_whole() {
    let setup = Setup::new(
        "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n}\nlocalhost:{port} {\n\
         \troot * {folder}/www\n\tfile_server\n}\n",
    );
    let content: Vec<u8> = (0..5_000_000_u32)
        .map(|n| (n / 3).to_le_bytes()[0])
        .collect();
    setup.folder().write("www/large.bin", &content);
    let server = setup.start();
    let config = client(&server.folder, &[&TLS13]);
    let mut wire = connect(&config, server.port, "localhost").expect("a connection");
    wire.send("GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = wire.head().expect("an answer");
    assert_eq!(field(&head, "Content-Length"), Some("5000000"));
    assert!(wire.body(&head).expect("a whole body") == content);
}

/// Certificate and key of `name` as issued by the CA.
pub fn pair(folder: &Folder, name: &str) -> (String, String) {
    let part = |kind| {
        folder.read(&format!(
            "data/sluice/certificates/local/{name}/{name}.{kind}"
        ))
    };
    (part("crt"), part("key"))
}

#[test]
fn certificates_from_files_are_used() {
    let (authority, _) = start();
    let setup = Setup::new(
        "{\n\tadmin off\n\tauto_https disable_redirects\n}\n\
         https://localhost:{port} {\n\ttls one.crt one.key\n\trespond one\n}\n\
         https://a.localhost:{port} {\n\ttls two.crt two.key\n\trespond two\n}\n",
    );
    for (name, file) in [("localhost", "one"), ("a.localhost", "two")] {
        let (certificate, key) = pair(&authority.folder, name);
        setup.folder().write(&format!("{file}.crt"), certificate);
        setup.folder().write(&format!("{file}.key"), key);
    }
    let server = setup.start();
    let config = client(&authority.folder, &[&TLS13]);
    for (name, body) in [("localhost", "one"), ("a.localhost", "two")] {
        let mut wire = connect(&config, server.port, name).expect("the certificate of the file");
        assert_eq!(get(&mut wire, name, "/").1, body);
    }
    assert!(
        !server.folder.path().join("data/sluice/pki").exists(),
        "no authority is needed"
    );
}

#[test]
fn files_that_hold_no_certificate_or_another_key_are_refused_by_name() {
    let (authority, _) = start();
    let setup = Setup::new(
        "{\n\tadmin off\n}\nhttps://localhost:{port} {\n\ttls one.crt one.key\n\trespond one\n}\n",
    );
    let folder = setup.folder();
    let (certificate, key) = pair(&authority.folder, "localhost");
    let (_, other) = pair(&authority.folder, "a.localhost");
    for (crt, key, named) in [
        (None, Some(&key), "one.crt"),
        (Some(&certificate), None, "one.key"),
        (Some(&"nonsense".to_owned()), Some(&key), "one.crt"),
        (Some(&certificate), Some(&"nonsense".to_owned()), "one.key"),
        (Some(&certificate), Some(&other), "one."),
    ] {
        for (name, content) in [("one.crt", crt), ("one.key", key)] {
            let _ = std::fs::remove_file(folder.path().join(name));
            content.map(|content| folder.write(name, content));
        }
        let output = run_to_end(folder, &["run"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{named}: {said}");
        assert!(said.contains(named), "{named}: {said}");
    }
}

#[test]
fn the_authority_outlives_the_process() {
    let (server, _) = start();
    let before = root(&server.folder);
    let (setup, plain) = (Setup::bare(), free_port());
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .arg(server.folder.path().join("data"))
        .arg(setup.folder().path())
        .status();
    assert!(copied.expect("cp is there").success());
    drop(server);
    let site = setup.fill(
        "{\n\tadmin off\n\thttp_port {plain}\n\thttps_port {port}\n\tskip_install_trust\n}\n\
         localhost {\n\trespond again\n}\n",
    );
    setup
        .folder()
        .write("Caddyfile", site.replace("{plain}", &plain.to_string()));
    let second = setup.start();
    assert_eq!(root(&second.folder), before);
    let config = client(&second.folder, &[&TLS13]);
    let mut wire = connect(&config, second.port, "localhost").expect("the old root is trusted");
    assert_eq!(get(&mut wire, "localhost", "/").1, "again");
    let key = second
        .folder
        .path()
        .join("data/sluice/pki/authorities/local/root.key");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(key).expect("it is there").permissions(),
    );
    assert_eq!(mode & 0o077, 0, "the key is its owner's alone");
}

#[test]
fn a_reload_brings_new_names() {
    let (server, plain) = start();
    let config = client(&server.folder, &[&TLS13]);
    assert!(connect(&config, server.port, "b.localhost").is_err());
    let site = "{\n\tadmin off\n\thttp_port {plain}\n\thttps_port {port}\n\tskip_install_trust\n}\n\
        b.localhost {\n\trespond b\n}\n";
    server.write(&site.replace("{plain}", &plain.to_string()));
    server.signal(sluice_net::sys::process::Signal::Hangup);
    let port = server.port;
    // Workers adopt the new configuration one after the other, and a handshake may still reach the last one: once there
    // is a response, the name is available.
    let responses = || {
        let mut wire = connect(&config, port, "b.localhost").ok()?;
        Some(get(&mut wire, "b.localhost", "/").1)
    };
    eventually(
        "the new name",
        || responses().as_deref() == Some("b"),
        || server.stderr(),
    );
}

#[test]
fn a_folder_of_bundles_is_loaded_and_renewed_files_are_shown_without_a_reload() {
    let (authority, _) = start();
    let setup = Setup::new(
        "{\n\tadmin off\n\tauto_https disable_redirects\n}\n\
         https://localhost:{port} {\n\ttls {\n\t\tload certs\n\t}\n\trespond one\n}\n",
    );
    let bundle = |name: &str| {
        let (certificate, key) = pair(&authority.folder, name);
        format!("{certificate}{key}")
    };
    setup.folder().write("certs/sub/a.pem", bundle("localhost"));
    let server = setup.start();
    let config = client(&authority.folder, &[&TLS13]);
    let mut wire = connect(&config, server.port, "localhost").expect("the certificate of the file");
    assert_eq!(get(&mut wire, "localhost", "/").1, "one");
    assert!(connect(&config, server.port, "a.localhost").is_err());
    server
        .folder
        .write("certs/sub/a.pem", bundle("a.localhost"));
    let port = server.port;
    eventually(
        "the new certificate",
        || connect(&config, port, "a.localhost").is_ok(),
        || server.stderr(),
    );
    assert!(
        !server.folder.path().join("data/sluice/pki").exists(),
        "no authority is needed"
    );
}
