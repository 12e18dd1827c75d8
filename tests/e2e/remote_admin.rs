//! The admin API for other machines (`admin.remote`): certificates on both sides, and permissions.

use std::sync::Arc;

use pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use serde_json::{Value, json};
use sluice_net::sys::process::Signal;

use crate::handshakes::ClientCa;
use crate::harness::{Server, Setup, eventually, free_port, run_to_end, text};
use crate::nginx::prefix::is_alive;
use crate::tls::{connect, trusting_local};
use crate::upgrade::running::Running;

/// A self-signed certificate of a client, and its key.
struct Owner {
    pem: String,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Owner {
    fn new() -> Owner {
        let made =
            rcgen::generate_simple_self_signed(["me.test".to_owned()]).expect("a certificate");
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Owner {
            pem: made.cert.pem(),
            certificate: made.cert.der().clone(),
            key: key.into(),
        }
    }

    /// One whose certificate is of this CA.
    fn of(authority: &ClientCa) -> Owner {
        let (certificate, key) = authority.issue(|_| ());
        Owner {
            pem: String::new(),
            certificate,
            key,
        }
    }
}

/// The Base64 of a certificate, which is what stands between the first and last lines of PEM.
fn encoded(pem: &str) -> String {
    pem.lines().filter(|line| !line.starts_with('-')).collect()
}

/// The configuration with this `access_control`.
fn configuration(remote: u16, access: &Value) -> String {
    json!({
        "admin": {
            "listen": "localhost:{admin}",
            "identity": {"identifiers": ["localhost"], "issuers": [{"module": "internal"}]},
            "remote": {"listen": format!("127.0.0.1:{remote}"), "access_control": access},
        },
        "apps": {"http": {"servers": {"site": {
            "listen": ["127.0.0.1:{port}"],
            "routes": [{"handle": [{"handler": "static_response", "@id": "text", "body": "one"}]}],
        }}}},
    })
    .to_string()
}

fn start(remote: u16, access: &Value) -> Server {
    start_with(&configuration(remote, access))
}

fn start_with(config: &str) -> Server {
    let setup = Setup::bare();
    let config = setup.fill(config);
    setup.folder().write("sluice.json", config);
    let server = setup.args(&["run", "--config", "sluice.json"]).start();
    server.wait_for_words("remote admin endpoint started");
    server
}

/// A client with the certificate of an owner, or with none.
fn client(server: &Server, owner: Option<&Owner>) -> Arc<ClientConfig> {
    let plain = trusting_local(&server.folder);
    let Some(owner) = owner else { return plain };
    let key = default_provider()
        .key_provider
        .load_private_key(owner.key.clone_key())
        .expect("a key");
    let known = rustls::sign::CertifiedKey::new(vec![owner.certificate.clone()], key);
    let mut config = (*plain).clone();
    config.client_auth_cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(known));
    Arc::new(config)
}

/// The status and body of a response; `None` if the connection ends without one.
fn ask(
    server: &Server,
    remote: u16,
    owner: Option<&Owner>,
    request: (&str, &str, &str),
) -> Option<(u16, String)> {
    ask_with(server, remote, owner, "", request)
}

/// The same, with more headers.
fn ask_with(
    server: &Server,
    remote: u16,
    owner: Option<&Owner>,
    fields: &str,
    (method, path, body): (&str, &str, &str),
) -> Option<(u16, String)> {
    let mut wire = connect(&client(server, owner), remote, "localhost").ok()?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: any.test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         {fields}Connection: close\r\n\r\n{body}",
        body.len()
    );
    wire.try_send(request).ok()?;
    let head = wire.head()?;
    let status = head[0].split(' ').nth(1)?.parse().ok()?;
    let body = wire.body(&head)?;
    Some((status, text(&body)))
}

const READ: (&str, &str, &str) = ("GET", "/config/apps/http/servers/site/listen", "");
const CHANGE: (&str, &str, &str) = ("PATCH", "/id/text/body", "\"two\"");

#[test]
fn only_owners_of_listed_keys_are_let_in() {
    let (remote, owner, authority) = (free_port(), Owner::new(), ClientCa::new());
    let access = json!([
        {"public_keys": [encoded(&owner.pem)]},
        {"public_keys": [encoded(authority.pem())], "permissions": [{"methods": ["GET"]}]},
    ]);
    let server = start(remote, &access);
    let status = |owner: Option<&Owner>, request| {
        ask(&server, remote, owner, request).map(|(status, _)| status)
    };
    assert_eq!(status(None, READ), None);
    assert_eq!(status(Some(&Owner::new()), READ), None);
    assert_eq!(status(Some(&Owner::of(&ClientCa::new())), READ), None);
    assert_eq!(status(Some(&owner), READ), Some(200));
    assert_eq!(status(Some(&owner), CHANGE), Some(200));
    assert_eq!(server.ask("/").text(), "two");
    // Owners of certificates of the CA may read.
    let other = Owner::of(&authority);
    assert_eq!(status(Some(&other), READ), Some(200));
    assert_eq!(status(Some(&other), CHANGE), Some(403));
}

#[test]
fn the_dashboard_may_act_from_its_own_origin() {
    let (remote, owner) = (free_port(), Owner::new());
    let access = json!([{"public_keys": [encoded(&owner.pem)]}]);
    let config = configuration(remote, &access);
    let mut config: Value = serde_json::from_str(&config).expect("JSON");
    config["admin"]["dashboard"] = json!({"actions": ["reload"]});
    let server = start_with(&config.to_string());
    for (fields, action, expected) in [
        ("Origin: https://any.test\r\n", "reload", 200),
        // A page of another site that a browser with the certificate shows.
        ("Origin: https://other.test\r\n", "reload", 403),
        ("Origin: http://any.test\r\n", "reload", 403),
        ("", "reload", 403),
        ("Origin: https://any.test\r\n", "drain", 403),
    ] {
        let request = ("POST", &*format!("/dashboard/actions/{action}"), "{}");
        let found = ask_with(&server, remote, Some(&owner), fields, request);
        let (status, said) = found.expect("a response");
        assert_eq!(status, expected, "{fields}{said}");
    }
}

#[test]
fn permissions_limit_methods_and_paths() {
    let (remote, owner) = (free_port(), Owner::new());
    let access = json!([{
        "public_keys": [encoded(&owner.pem)],
        "permissions": [{"methods": ["GET", "PATCH"], "paths": ["/id/text", "/config/apps/http"]}],
    }]);
    let server = start(remote, &access);
    for (request, status) in [
        (READ, 200),
        (CHANGE, 200),
        (("GET", "/config/admin", ""), 403),
        (("GET", "/config/", ""), 403),
        (("GET", "/config//apps/http", ""), 403),
        (("GET", "/config/apps/http/../../admin", ""), 400),
        (("DELETE", "/id/text", ""), 403),
        (("POST", "/stop", ""), 403),
    ] {
        let found = ask(&server, remote, Some(&owner), request).expect("a response");
        assert_eq!(found.0, status, "{request:?} {}", found.1);
    }
    assert_eq!(server.ask("/").text(), "two");
}

#[test]
fn a_reload_changes_who_is_let_in() {
    let (remote, first, second) = (free_port(), Owner::new(), Owner::new());
    let access = |owner: &Owner| json!([{"public_keys": [encoded(&owner.pem)]}]);
    let server = start(remote, &access(&first));
    let is_let_in = |owner: &Owner| ask(&server, remote, Some(owner), READ).is_some();
    assert!(is_let_in(&first) && !is_let_in(&second));
    let fill = |text: String| {
        text.replace("{port}", &server.port.to_string())
            .replace("{admin}", &server.admin.to_string())
    };
    let next = fill(configuration(remote, &access(&second)));
    server.folder.write("sluice.json", next);
    server.signal(Signal::Hangup);
    eventually("the second", || is_let_in(&second), || server.stderr());
    assert!(!is_let_in(&first));
    // Without the setting the endpoint is closed.
    let mut plain: Value = serde_json::from_str(&server.folder.read("sluice.json")).expect("JSON");
    plain["admin"]["remote"] = Value::Null;
    server.folder.write("sluice.json", plain.to_string());
    server.signal(Signal::Hangup);
    let closed = || std::net::TcpStream::connect(("127.0.0.1", remote)).is_err();
    eventually("its end", closed, || server.stderr());
    assert_eq!(server.ask("/").text(), "one");
}

#[test]
fn mistakes_are_refused_at_their_places() {
    let owner = Owner::new();
    let good = json!([{"public_keys": [encoded(&owner.pem)]}]);
    let identity = json!({"identifiers": ["localhost"]});
    for (identity, remote, words) in [
        (
            &Value::Null,
            json!({"access_control": good}),
            "admin.identity",
        ),
        (&identity, json!({}), "lets nobody in"),
        (
            &identity,
            json!({"access_control": [{}]}),
            "admin.remote.access_control[0].public_keys",
        ),
        (
            &identity,
            json!({"access_control": [{"public_keys": ["?"]}]}),
            "base64",
        ),
        (
            &identity,
            json!({"access_control": [{"public_keys": ["AAAA"]}]}),
            "public_keys",
        ),
        (
            &identity,
            json!({"listen": "nowhere", "access_control": good}),
            "nowhere",
        ),
    ] {
        let setup = Setup::bare();
        let config = json!({"admin": {"identity": identity, "remote": remote}});
        setup.folder().write("sluice.json", config.to_string());
        let output = run_to_end(setup.folder(), &["validate", "--config", "sluice.json"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// The new process takes over the socket of the endpoint, the certificates and who is let in; a configuration that was changed
/// from another machine is in effect there.
#[test]
fn an_upgrade_takes_the_endpoint_over() {
    let (remote, owner) = (free_port(), Owner::new());
    let access = json!([{"public_keys": [encoded(&owner.pem)]}]);
    let setup = Setup::bare();
    let config = setup.fill(&configuration(remote, &access));
    setup.folder().write("sluice.json", config);
    let running = Running::of(setup.args(&["run", "--config", "sluice.json"]));
    let server = &running.server;
    server.wait_for_words("remote admin endpoint started");
    let before = ask(server, remote, Some(&owner), READ);
    assert_eq!(
        before.as_ref().map(|(status, _)| *status),
        Some(200),
        "{before:?}"
    );
    assert_eq!(
        ask(server, remote, Some(&owner), CHANGE).map(|(status, _)| status),
        Some(200)
    );
    for _ in 0..2 {
        let old = running.pid().expect("it runs");
        running.upgrade();
        assert_eq!(ask(server, remote, Some(&owner), READ), before);
        assert_eq!(ask(server, remote, Some(&Owner::new()), READ), None);
        eventually("the end", || !is_alive(old), || server.stderr());
        assert_eq!(ask(server, remote, Some(&owner), READ), before);
        assert_eq!(ask(server, remote, None, READ), None);
        assert_eq!(server.ask("/").text(), "two");
    }
    let refused = "remote admin endpoint is not available";
    assert!(!server.stderr().contains(refused), "{}", server.stderr());
}
