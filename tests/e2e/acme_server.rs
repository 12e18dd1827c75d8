//! `acme_server`: one server obtains its certificates from another, without a third party.

use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::harness::{Folder, Server, Setup, eventually, free_port, run_to_end, text};
use crate::support::program::Program;
use crate::support::servers;
use crate::support::wait::until;
use crate::tls::{client, connect, get};
use rustls::version::TLS13;

/// How long an order may take: a challenge is checked up to three times.
const TIMEOUT: Duration = Duration::from_secs(40);

/// The ports of an ACME client: for its challenges, and for its site.
struct Ports {
    http: u16,
    https: u16,
}

impl Ports {
    fn new() -> Ports {
        Ports {
            http: free_port(),
            https: free_port(),
        }
    }
}

/// A CA on `localhost` with these lines in its directive, which checks challenges at `ports`.
fn authority(lines: &str, ports: &Ports) -> Server {
    let setup = Setup::bare();
    let site = format!(
        "{{\n\tadmin off\n\thttp_port {}\n\thttps_port {{port}}\n\tauto_https disable_redirects\n}}\n\
         localhost {{\n\ttls internal\n\troute {{\n\t\tacme_server {{\n{lines}\n\t\t}}\n\t\trespond next\n\t}}\n}}\n",
        free_port()
    );
    let site = setup.fill(&site);
    setup.folder().write("Caddyfile", site);
    let adapted = run_to_end(setup.folder(), &["adapt"]);
    let handler = "\"handler\":\"acme_server\"";
    let config = text(&adapted.stdout).replace(
        handler,
        &format!(
            "{handler},\"validation_http_port\":{},\"validation_tls_port\":{}",
            ports.http, ports.https
        ),
    );
    assert!(config.contains("validation_tls_port"), "{config}");
    setup.folder().write("config.json", config);
    setup.args(&["run", "--config", "config.json"]).start()
}

fn root(authority: &Server) -> PathBuf {
    let folder = authority.folder.path();
    folder.join("data/sluice/pki/authorities/local/root.crt")
}

/// The Caddyfile of a client of the CA, with `lines` in its issuer.
fn caddyfile(authority: &Server, ports: &Ports, name: &str, lines: &str) -> String {
    format!(
        "{{\n\tadmin off\n\thttp_port {}\n\thttps_port {}\n\tauto_https disable_redirects\n\tskip_install_trust\n}}\n\
         {name} {{\n\ttls {{\n\t\tissuer acme {{\n\t\t\tdir https://localhost:{}/acme/local/directory\n\
         \t\t\ttrusted_roots {}\n{lines}\n\t\t}}\n\t}}\n\trespond \"hello {{host}}\"\n}}\n",
        ports.http,
        ports.https,
        authority.port,
        root(authority).display()
    )
}

/// Waits until `name` has a certificate of the CA, and requests `/`.
fn wait(authority: &Server, port: u16, name: &str, describe: impl Fn() -> String) -> String {
    let trusting = client(&authority.folder, &[&TLS13]);
    let look = || {
        let mut wire = connect(&trusting, port, name).ok()?;
        Some(get(&mut wire, name, "/").1)
    };
    let state = || format!("{}\nthe authority says: {}", describe(), authority.stderr());
    until(TIMEOUT, "a certificate", look, state)
}

#[test]
fn another_server_gets_its_certificate_by_http_and_by_handshake() {
    for kind in ["http-01", "tls-alpn-01"] {
        let ports = Ports::new();
        let authority = authority(&format!("challenges {kind}\nlifetime 1h"), &ports);
        let site = caddyfile(&authority, &ports, "localhost", "");
        let server = Setup::new(&site).start();
        let said = wait(&authority, ports.https, "localhost", || server.stderr());
        assert_eq!(said, "hello localhost", "{kind}");
        let folder = format!(
            "data/sluice/certificates/localhost-{}-acme-local-directory/localhost/localhost.crt",
            authority.port
        );
        let chain = server.folder.read(&folder);
        assert_eq!(chain.matches("BEGIN CERTIFICATE").count(), 2, "{kind}");
    }
}

#[test]
fn an_address_gets_a_certificate_signed_by_the_root() {
    let ports = Ports::new();
    let authority = authority("sign_with_root\nallow {\nip_ranges 127.0.0.0/8\n}", &ports);
    let site = caddyfile(&authority, &ports, "127.0.0.1", "");
    let server = Setup::new(&site).start();
    let said = wait(&authority, ports.https, "127.0.0.1", || server.stderr());
    assert_eq!(said, "hello 127.0.0.1");
    let folder = format!(
        "data/sluice/certificates/localhost-{}-acme-local-directory/127.0.0.1/127.0.0.1.crt",
        authority.port
    );
    let chain = server.folder.read(&folder);
    assert_eq!(chain.matches("BEGIN CERTIFICATE").count(), 1);
}

#[test]
fn a_lifetime_that_is_asked_for_is_given() {
    let ports = Ports::new();
    let authority = authority("lifetime 1h", &ports);
    let site = caddyfile(&authority, &ports, "localhost", "lifetime 2h");
    let server = Setup::new(&site).start();
    wait(&authority, ports.https, "localhost", || server.stderr());
    let trusting = client(&authority.folder, &[&TLS13]);
    let mut wire = connect(&trusting, ports.https, "localhost").expect("it is trusted");
    let shown = wire
        .stream()
        .conn
        .peer_certificates()
        .expect("a certificate")[0]
        .to_vec();
    let (_, cert) = x509_parser::parse_x509_certificate(&shown).expect("it can be read");
    let left = cert
        .validity()
        .time_to_expiration()
        .expect("it has not ended");
    assert!((6900..=7200).contains(&left.whole_seconds()), "{left}");
    // A lifetime that is too short is rejected by name.
    drop(server);
    let site = caddyfile(&authority, &ports, "localhost", "lifetime 1m");
    let server = Setup::new(&site).start();
    server.wait_for_words_within("a certificate lives between", TIMEOUT);
}

#[test]
fn a_name_that_is_denied_is_rejected() {
    let ports = Ports::new();
    let authority = authority("deny {\ndomains localhost\n}", &ports);
    let site = caddyfile(&authority, &ports, "localhost", "");
    let server = Setup::new(&site).start();
    server.wait_for_words_within("rejectedIdentifier", TIMEOUT);
}

#[test]
fn other_paths_go_on_and_the_directory_is_for_its_authority_only() {
    let authority = authority("", &Ports::new());
    let trusting = client(&authority.folder, &[&TLS13]);
    let ask = |path: &str| {
        let mut wire = connect(&trusting, authority.port, "localhost").expect("it is trusted");
        get(&mut wire, "localhost", path)
    };
    assert_eq!(ask("/").1, "next");
    assert_eq!(ask("/acmes").1, "next");
    let (head, body) = ask("/acme/local/directory");
    assert!(head[0].contains("200"), "{head:?}");
    assert!(
        body.contains("\"newOrder\":\"https://localhost/acme/local/new-order\""),
        "{body}"
    );
    let (head, _) = ask("/acme/local/new-nonce");
    assert!(head[0].contains("204"), "{head:?}");
    let has = |name: &str| {
        head.iter()
            .any(|line| line.to_ascii_lowercase().starts_with(name))
    };
    assert!(
        has("replay-nonce:") && has("cache-control: no-store"),
        "{head:?}"
    );
    for path in [
        "/acme/other/directory",
        "/acme/local/",
        "/acme/local/new-order",
    ] {
        let (head, body) = ask(path);
        assert!(head[0].contains(" 40"), "{path}: {head:?}");
        assert!(
            body.contains("urn:ietf:params:acme:error:malformed"),
            "{path}: {body}"
        );
    }
}

/// A DNS server that responds to every TXT query with the lines of `file`; returns its port.
fn dns(file: PathBuf) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = socket.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        let mut buf = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut buf) {
            let asked = &buf[..length];
            // The question ends after the empty label and two numbers.
            let Some(end) = asked[12..].iter().position(|b| *b == 0) else {
                continue;
            };
            let question = &asked[12..12 + end + 5];
            let texts = std::fs::read_to_string(&file).unwrap_or_default();
            let texts: Vec<&str> = texts.lines().collect();
            let mut response = asked[..2].to_vec();
            response.extend([0x84, 0, 0, 1, 0, texts.len() as u8, 0, 0, 0, 0]);
            response.extend(question);
            for text in texts {
                let length = text.len() as u8;
                response.extend([0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 1, 0, length + 1, length]);
                response.extend(text.as_bytes());
            }
            let _ = socket.send_to(&response, from);
        }
    });
    port
}

#[test]
fn a_wildcard_is_proven_by_a_record_that_its_resolvers_have() {
    let folder = Folder::new();
    let file = folder.path().join("texts");
    let dns = dns(file.clone());
    let ports = Ports::new();
    let authority = authority(
        &format!("resolvers 127.0.0.1:{dns}\nallow_wildcard_names\nchallenges dns-01"),
        &ports,
    );
    let script = format!(
        "#!/bin/sh\n[ $1 = cleanup ] || echo $3 > {}\n",
        file.display()
    );
    let lines = format!("dns exec /bin/sh ./set\nresolvers 127.0.0.1:{dns}");
    let site = caddyfile(&authority, &ports, "*.example.test", &lines);
    let setup = Setup::new(&site);
    setup.folder().write("set", script);
    let server = setup.start();
    let name = "any.example.test";
    let said = wait(&authority, ports.https, name, || server.stderr());
    assert_eq!(said, format!("hello {name}"));
}

#[test]
fn a_restart_of_the_authority_keeps_accounts_and_orders() {
    let ports = Ports::new();
    let authority = authority("lifetime 1h", &ports);
    let site = caddyfile(&authority, &ports, "localhost", "");
    let server = Setup::new(&site).start();
    wait(&authority, ports.https, "localhost", || server.stderr());
    let count = |kind: &str| {
        let folder = authority
            .folder
            .path()
            .join("data/sluice/acme_server/local");
        std::fs::read_dir(folder.join(kind)).map_or(0, Iterator::count)
    };
    assert_eq!((count("accounts"), count("orders")), (1, 1));
    // Accounts and orders are loaded again: a reload creates the handler anew.
    authority.signal(sluice_net::sys::process::Signal::Hangup);
    authority.wait_for_words("configuration");
    let other = Setup::new(&site.replace("respond \"hello", "respond \"again"));
    let copied = Command::new("cp")
        .arg("-r")
        .arg(server.folder.path().join("data"))
        .arg(other.folder().path())
        .status();
    assert!(copied.expect("cp is there").success());
    let certificates = other.folder().path().join("data/sluice/certificates");
    std::fs::remove_dir_all(certificates).expect("they are there");
    drop(server);
    let server = other.start();
    let said = wait(&authority, ports.https, "localhost", || server.stderr());
    assert_eq!(said, "again localhost");
    assert_eq!((count("accounts"), count("orders")), (1, 2));
}

#[test]
fn two_processes_with_one_storage_order_once() {
    let ports = Ports::new();
    let authority = authority("challenges http-01", &ports);
    let shared = Folder::new();
    let storage = format!("\tstorage file_system {}\n", shared.path().display());
    let start = |https: u16| {
        let own = Ports {
            http: ports.http,
            https,
        };
        let site = caddyfile(&authority, &own, "localhost", "");
        let site = site.replacen("\tadmin off\n", &format!("\tadmin off\n{storage}"), 1);
        Setup::new(&site).start()
    };
    let other = free_port();
    let (first, second) = (start(ports.https), start(other));
    wait(&authority, ports.https, "localhost", || first.stderr());
    wait(&authority, other, "localhost", || second.stderr());
    let orders = authority
        .folder
        .path()
        .join("data/sluice/acme_server/local/orders");
    assert_eq!(std::fs::read_dir(orders).expect("it is there").count(), 1);
}

#[test]
#[ignore = "a slower kind: cargo xtask acme"]
fn caddy_gets_its_certificate_from_us() {
    let Some(program) = servers::caddy() else {
        return;
    };
    for kind in ["http-01", "tls-alpn-01"] {
        let ports = Ports::new();
        let authority = authority(&format!("challenges {kind}"), &ports);
        let folder = Folder::new();
        let site = caddyfile(&authority, &ports, "localhost", "");
        let file = folder.write("Caddyfile", site);
        let mut caddy = Command::new(&program);
        caddy
            .args(["run", "--adapter", "caddyfile", "--config"])
            .arg(&file)
            .env("HOME", folder.path())
            .env("XDG_DATA_HOME", folder.path());
        let caddy = Program::start(&mut caddy, folder.path().join("log"));
        let trusting = client(&authority.folder, &[&TLS13]);
        let is_there = || connect(&trusting, ports.https, "localhost").is_ok();
        eventually("a certificate for Caddy", is_there, || caddy.output());
    }
}
