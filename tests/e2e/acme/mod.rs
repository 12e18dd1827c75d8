//! Certificates from a real ACME server. These tests are slower than the others, and need pebble: `cargo xtask acme`.

mod certbot;
mod events;
mod fleet;
mod pebble;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use sluice_net::sys::process::Signal;

use crate::client::exchange;
use crate::harness::{Server, Setup};
use crate::support::program::Program;
use crate::support::servers;
use crate::support::wait::{eventually, until};
use crate::tls::{Secure, connect, get};
use crate::wire::Wire;
use pebble::{Pebble, Settings, is_private_key};

/// How long an order may take, retries included.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Starts a server whose global options configure the CA; they replace `{options}` in `caddyfile`.
fn start(settings: &Settings, caddyfile: &str) -> Server {
    Setup::new(&caddyfile.replace("{options}", &settings.options())).start()
}

/// A client that visits sites and trusts a single CA.
struct Visitor {
    client: Arc<ClientConfig>,
    port: u16,
}

impl Visitor {
    /// Trusts certificates issued by `pebble`.
    fn new(pebble: &Pebble) -> Visitor {
        Visitor {
            client: pebble.client(),
            port: pebble.settings().alpn,
        }
    }

    fn connect(&self, name: &str) -> std::io::Result<Wire<Secure>> {
        connect(&self.client, self.port, name)
    }

    /// Waits until `name` has a trusted certificate, and requests `/`.
    fn wait(&self, server: &mut Server, name: &str) -> String {
        let folder = server.folder.path().to_owned();
        let log = || std::fs::read_to_string(folder.join("stderr")).unwrap_or_default();
        let look = || {
            assert!(!server.has_ended(), "the server has ended: {}", log());
            let mut wire = self.connect(name).ok()?;
            Some(get(&mut wire, name, "/").1)
        };
        until(TIMEOUT, "a certificate", look, log)
    }

    /// The certificate that `name` presents.
    fn certificate(&self, name: &str) -> Vec<u8> {
        let mut wire = self.connect(name).expect("a trusted connection");
        let certs = wire.stream().conn.peer_certificates();
        certs.expect("a certificate")[0].to_vec()
    }
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn http_01_challenges_are_served_before_redirects_and_logins() {
    let pebble = Pebble::new();
    let settings = pebble.settings();
    let mut server = start(
        settings,
        "{\n\t{options}\n\tcert_issuer acme {\n\t\tdisable_tlsalpn_challenge\n\t}\n}\n\
         a.example.test {\n\trespond a\n}\n\
         b.example.test {\n\tbasic_auth {\n\t\tx $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n\t}\n}\n\
         http://b.example.test {\n\tabort\n}\n",
    );
    let visitor = Visitor::new(&pebble);
    assert_eq!(visitor.wait(&mut server, "a.example.test"), "a");
    visitor.wait(&mut server, "b.example.test");
    // Afterwards the challenge file is gone, and the redirect is back.
    let response = exchange(
        settings.http,
        "GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: a.example.test\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(response.status, 308);
    let ca = settings
        .directory_url()
        .replace("https://", "")
        .replace([':', '/'], "-");
    let folder = format!("data/sluice/certificates/{ca}/a.example.test");
    let about = server.folder.read(&format!("{folder}/a.example.test.json"));
    assert!(
        about.contains("certZ") && about.contains("\"a.example.test\""),
        "{about}"
    );
    let key = server
        .folder
        .path()
        .join(format!("{folder}/a.example.test.key"));
    let mode = std::fs::metadata(key)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0);
    let account = format!("data/sluice/acme/{ca}/users/me@example.com/me");
    assert!(
        server
            .folder
            .read(&format!("{account}.json"))
            .contains("my-account")
    );
    assert!(is_private_key(
        &server.folder.read(&format!("{account}.key"))
    ));
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn tls_alpn_01_is_served_in_the_handshake_and_grants_no_access() {
    let pebble = Pebble::new();
    let settings = pebble.settings();
    let mut server = start(
        settings,
        "{\n\t{options}\n\tauto_https disable_redirects\n\tcert_issuer acme {\n\t\tdisable_http_challenge\n\t}\n}\n\
         a.example.test {\n\trespond a\n}\n",
    );
    let visitor = Visitor::new(&pebble);
    assert_eq!(visitor.wait(&mut server, "a.example.test"), "a");
    // A client that negotiates `acme-tls/1` gets nothing unless a challenge is pending.
    let mut probe = (*visitor.client).clone();
    probe.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    assert!(connect(&Arc::new(probe), settings.alpn, "a.example.test").is_err());
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn challenges_are_served_on_ports_without_a_server() {
    let pebble = Pebble::new();
    let settings = pebble.settings();
    for disabled in ["disable_http_challenge", "disable_tlsalpn_challenge"] {
        let mut server = start(
            settings,
            &format!(
                "{{\n\t{{options}}\n\tauto_https disable_redirects\n\tcert_issuer acme {{\n\t\t{disabled}\n\t}}\n}}\n\
                 a.example.test:{{port}} {{\n\trespond {disabled}\n}}\n"
            ),
        );
        let visitor = Visitor {
            client: pebble.client(),
            port: server.port,
        };
        assert_eq!(visitor.wait(&mut server, "a.example.test"), disabled);
    }
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn a_restart_orders_nothing_and_so_does_a_reload_in_the_middle() {
    let mut settings = Settings::new();
    settings.variables = vec![("PEBBLE_VA_SLEEPTIME", "3".to_owned())];
    let pebble = settings.start();
    let settings = pebble.settings();
    let site = "{\n\t{options}\n}\na.example.test {\n\trespond {response}\n}\n";
    let storage = settings.folder.path().join("shared").display().to_string();
    let site = site.replace(
        "{options}",
        &format!("{{options}}\n\tstorage file_system {storage}"),
    );
    let mut server = start(settings, &site.replace("{response}", "one"));
    eventually("the order", || pebble.orders() > 0, || server.stderr());
    let again = site
        .replace("{response}", "two")
        .replace("{options}", &settings.options());
    server.write(&again);
    server.signal(Signal::Hangup);
    let visitor = Visitor::new(&pebble);
    visitor.wait(&mut server, "a.example.test");
    let is_new = || (visitor.wait(&mut server, "a.example.test") == "two").then_some(());
    until(TIMEOUT, "the reload", is_new, String::new);
    assert_eq!(pebble.orders(), 1, "{}", server.stderr());
    let shown = visitor.certificate("a.example.test");
    drop(server);
    let mut server = start(settings, &site.replace("{response}", "three"));
    assert_eq!(visitor.wait(&mut server, "a.example.test"), "three");
    assert_eq!(visitor.certificate("a.example.test"), shown);
    assert_eq!(pebble.orders(), 1);
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn a_process_killed_while_it_orders_leaves_nothing_in_the_way() {
    let mut settings = Settings::new();
    settings.variables = vec![("PEBBLE_VA_SLEEPTIME", "2".to_owned())];
    let pebble = settings.start();
    let settings = pebble.settings();
    let storage = settings.folder.path().join("shared").display().to_string();
    let site = format!(
        "{{\n\t{{options}}\n\tstorage file_system {storage}\n}}\na.example.test {{\n\trespond a\n}}\n"
    );
    for pause in [50, 400, 1500] {
        let server = start(settings, &site);
        // Three arbitrary moments, with the challenge before, in and after its validation: none may matter.
        std::thread::sleep(Duration::from_millis(pause));
        // Drop sends SIGKILL.
        drop(server);
    }
    let mut server = start(settings, &site);
    assert_eq!(
        Visitor::new(&pebble).wait(&mut server, "a.example.test"),
        "a"
    );
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn a_dead_authority_holds_nothing_up_and_is_asked_again() {
    let settings = Settings::new();
    let mut server = start(
        &settings,
        "{\n\t{options}\n}\na.example.test {\n\trespond a\n}\nlocalhost {\n\trespond home\n}\n",
    );
    server.wait_for_words("cannot reach CA");
    let own = server
        .folder
        .path()
        .join("data/sluice/pki/authorities/local/root.crt");
    let own = pki_types::pem::PemObject::from_pem_file(own).expect("a root");
    let own = crate::tls::trusting(own, &[&rustls::version::TLS13]);
    let visitor = Visitor {
        client: own,
        port: settings.alpn,
    };
    assert_eq!(visitor.wait(&mut server, "localhost"), "home");
    // Meanwhile no client gets a certificate for another name.
    let error = visitor.connect("a.example.test").err().expect("none");
    assert!(error.to_string().contains("alert"), "{error}");
    let pebble = settings.start();
    assert_eq!(
        Visitor::new(&pebble).wait(&mut server, "a.example.test"),
        "a"
    );
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn certificates_are_renewed_and_a_dead_authority_leaves_the_old_one() {
    let mut settings = Settings::new();
    settings.more = r#","profiles":{"short":{"description":"x","validityPeriod":60}}"#.to_owned();
    let pebble = settings.start();
    let mut server = start(
        pebble.settings(),
        "{\n\t{options}\n\tcert_issuer acme {\n\t\tprofile short\n\t}\n}\na.example.test {\n\trespond a\n}\n",
    );
    let visitor = Visitor::new(&pebble);
    visitor.wait(&mut server, "a.example.test");
    let first = visitor.certificate("a.example.test");
    let renewed = || (visitor.certificate("a.example.test") != first).then_some(());
    until(TIMEOUT, "a renewal", renewed, || server.stderr());
    let second = visitor.certificate("a.example.test");
    let settings = pebble.end();
    server.wait_for_words_within("cannot reach CA", TIMEOUT);
    assert_eq!(visitor.certificate("a.example.test"), second);
    // It is restarted with another root and without our account.
    let pebble = settings.start();
    Visitor::new(&pebble).wait(&mut server, "a.example.test");
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn an_address_has_a_certificate_of_its_own() {
    for disabled in ["disable_http_challenge", "disable_tlsalpn_challenge"] {
        let pebble = Pebble::new();
        let settings = pebble.settings();
        let site = format!(
            "{{\n\t{{options}}\n}}\n127.0.0.1 {{\n\ttls {{\n\t\tissuer acme {{\n\t\t\tdir {}\n\
             \t\t\ttrusted_roots {}\n\t\t\t{disabled}\n\t\t}}\n\t}}\n\trespond {disabled}\n}}\n",
            settings.directory_url(),
            settings.folder.path().join("root.pem").display()
        );
        let mut server = start(settings, &site);
        let visitor = Visitor::new(&pebble);
        assert_eq!(visitor.wait(&mut server, "127.0.0.1"), disabled);
    }
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn an_account_is_bound_if_the_ca_requires_it() {
    const KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let mut settings = Settings::new();
    settings.more = format!(
        r#","externalAccountBindingRequired":true,"externalAccountMACKeys":{{"kid-1":"{KEY}"}}"#
    );
    let pebble = settings.start();
    let settings = pebble.settings();
    let site = "a.example.test {\n\trespond a\n}\n";
    let server = start(settings, &format!("{{\n\t{{options}}\n}}\n{site}"));
    server.wait_for_words_within("externalAccountRequired", TIMEOUT);
    drop(server);
    let mut server = start(
        settings,
        &format!(
            "{{\n\t{{options}}\n\tacme_eab {{\n\t\tkey_id kid-1\n\t\tmac_key {KEY}\n\t}}\n}}\n{site}"
        ),
    );
    assert_eq!(
        Visitor::new(&pebble).wait(&mut server, "a.example.test"),
        "a"
    );
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn a_folder_that_caddy_has_written_is_taken_over_as_it_is() {
    let Some(program) = servers::caddy() else {
        return;
    };
    let pebble = Pebble::new();
    let settings = pebble.settings();
    let storage = settings.folder.path().join("caddy").display().to_string();
    let site = format!(
        "{{\n\t{}\n\tstorage file_system {storage}\n}}\na.example.test {{\n\trespond hello\n}}\n",
        settings.options()
    );
    let file = settings.folder.write("Caddyfile", &site);
    let mut caddy = Command::new(program);
    caddy
        .args(["run", "--adapter", "caddyfile", "--config"])
        .arg(&file)
        .env("HOME", settings.folder.path());
    let caddy = Program::start(&mut caddy, settings.folder.path().join("caddy.log"));
    let visitor = Visitor::new(&pebble);
    let is_there = || visitor.connect("a.example.test").ok();
    until(TIMEOUT, "a certificate for Caddy", is_there, || {
        caddy.output()
    });
    let shown = visitor.certificate("a.example.test");
    drop(caddy);
    let orders = pebble.orders();
    let more = site.replace("a.example.test {", "a.example.test, b.example.test {");
    let mut server = Setup::new(&more).start();
    assert_eq!(visitor.wait(&mut server, "a.example.test"), "hello");
    assert_eq!(visitor.certificate("a.example.test"), shown);
    // Another name is ordered with Caddy's account.
    visitor.wait(&mut server, "b.example.test");
    assert_eq!(pebble.orders(), orders + 1);
    assert_eq!(pebble.accounts(), 1);
}

/// An `ask` endpoint that allows `yes.*` at once, `slow.*` after a while, and nothing else.
fn who_is_asked() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/ask", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(client) = client else { return };
            std::thread::spawn(move || {
                let mut wire = Wire::with_timeout(client);
                let head = wire.head().unwrap_or_default();
                let line = head.first().cloned().unwrap_or_default();
                let status = if line.contains("?domain=yes.") || line.contains("?domain=slow.") {
                    200
                } else {
                    403
                };
                if line.contains("slow") {
                    // Longer than the handshakes that do not wait for it.
                    std::thread::sleep(Duration::from_secs(2));
                }
                let _ = wire.try_send(format!(
                    "HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                ));
            });
        }
    });
    url
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn a_handshake_waits_for_a_certificate_that_is_made_on_demand() {
    let pebble = Pebble::new();
    let settings = pebble.settings();
    let site = format!(
        "{{\n\t{{options}}\n\ton_demand_tls {{\n\t\task {}\n\t}}\n}}\n\
         https:// {{\n\ttls {{\n\t\ton_demand\n\t}}\n\trespond \"for {{host}}\"\n}}\n",
        who_is_asked()
    );
    let server = start(settings, &site);
    let visitor = Visitor::new(&pebble);
    for name in ["yes.example.test", "slow.example.test"] {
        let mut wire = visitor.connect(name).expect("the first handshake waits");
        assert_eq!(get(&mut wire, name, "/").1, format!("for {name}"));
    }
    let begun = Instant::now();
    for _ in 0..5 {
        assert!(visitor.connect("no.example.test").is_err());
    }
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "refusals are quick"
    );
    assert_eq!(pebble.orders(), 2);
    // Other clients are served while one waits, and a hundred at once cause one order.
    let waiting: Vec<_> = (0..30)
        .map(|_| {
            let (client, port) = (visitor.client.clone(), visitor.port);
            std::thread::spawn(move || connect(&client, port, "yes.many.test").is_ok())
        })
        .collect();
    assert!(visitor.connect("yes.example.test").is_ok());
    assert!(waiting.into_iter().all(|one| one.join().expect("it ends")));
    assert_eq!(pebble.orders(), 3);
    // After a restart it is loaded from storage, without the CA.
    let storage = server.folder.path().join("data");
    let setup = Setup::new(&site.replace("{options}", &settings.options()));
    let copied = Command::new("cp")
        .arg("-r")
        .arg(&storage)
        .arg(setup.folder().path())
        .status();
    assert!(copied.expect("cp is there").success());
    drop(server);
    let _server = setup.start();
    let mut wire = visitor.connect("yes.example.test").expect("from storage");
    assert_eq!(
        get(&mut wire, "yes.example.test", "/").1,
        "for yes.example.test"
    );
    assert_eq!(pebble.orders(), 3);
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn a_wildcard_is_proven_by_records_that_a_command_sets() {
    let pebble = Pebble::new();
    let settings = pebble.settings();
    let script = format!(
        "#!/bin/sh\ncase $1 in\n\
         present) curl -sf -d \"{{\\\"host\\\":\\\"$2.\\\",\\\"value\\\":\\\"$3\\\"}}\" http://127.0.0.1:{0}/set-txt;;\n\
         cleanup) curl -sf -d \"{{\\\"host\\\":\\\"$2.\\\"}}\" http://127.0.0.1:{0}/clear-txt; echo $2 >> cleaned;;\n\
         esac\n",
        settings.dns_management
    );
    let site = format!(
        "{{\n\t{{options}}\n\tauto_https disable_redirects\n\tacme_dns exec /bin/sh ./set\n}}\n\
         *.example.test {{\n\ttls {{\n\t\tresolvers 127.0.0.1:{}\n\t}}\n\trespond {{host}}\n}}\n",
        settings.dns
    );
    let setup = Setup::new(&site.replace("{options}", &settings.options()));
    setup.folder().write("set", script);
    let mut server = setup.start();
    let visitor = Visitor::new(&pebble);
    let name = "any.example.test";
    assert_eq!(visitor.wait(&mut server, name), name);
    crate::harness::eventually(
        "the record's end",
        || server.folder.read("cleaned") == "_acme-challenge.example.test\n",
        || server.folder.read("cleaned"),
    );
}

/// nginx's ACME module, as configured in an nginx.conf.
#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn an_nginx_conf_has_its_certificates_ordered() {
    let pebble = Pebble::new();
    let settings = pebble.settings();
    for (challenge, name) in [("http-01", "one.test"), ("tls-alpn-01", "two.test")] {
        let conf = format!(
            "events {{ worker_connections 100; }}\nhttp {{\nacme_issuer ours {{ uri {}; challenge {challenge};\n\
             contact mailto:me@example.com; ssl_trusted_certificate {}; state_path state; accept_terms_of_service; }}\n\
             server {{ listen 127.0.0.1:{}; listen 127.0.0.1:{} ssl; server_name {name}; acme_certificate ours;\n\
             ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; return 200 $scheme; }}\n}}\n",
            settings.directory_url(),
            settings.folder.path().join("root.pem").display(),
            settings.http,
            settings.alpn,
        );
        let setup = Setup::bare().args(&["--config", "nginx.conf"]);
        setup.folder().write("nginx.conf", conf);
        let mut server = setup.start();
        let visitor = Visitor::new(&pebble);
        assert_eq!(visitor.wait(&mut server, name), "https");
        assert!(server.folder.path().join("state").is_dir());
    }
}
