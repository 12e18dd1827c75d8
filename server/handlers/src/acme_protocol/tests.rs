use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use super::jws::tests::Key;
use super::*;
use crate::temp_folder::TempFolder;
use crate::wait::{TIMEOUT, until};
use pki_types::CertificateDer;
use pki_types::pem::PemObject;
use sluice_certs::LocalCaOptions;

const BASE: &str = "https://ca.test/acme/local";

/// A client with its key and, once registered, its account.
struct Client<'a> {
    server: &'a AcmeServer,
    rules: Arc<AcmeRules>,
    key: Key,
    account: Option<String>,
    now: SystemTime,
}

impl<'a> Client<'a> {
    fn new(server: &'a AcmeServer, rules: AcmeRules) -> Client<'a> {
        let mut client = Client {
            server,
            rules: Arc::new(rules),
            key: Key::Ed(Ed25519KeyPair::generate().unwrap()),
            account: None,
            now: SystemTime::now(),
        };
        let made = client.post("new-account", r#"{"contact":["mailto:a@b.test"]}"#);
        assert_eq!(made.status, 201, "{}", text(&made));
        client.account = made.location;
        client
    }

    fn send(&self, resource: &str, body: Vec<u8>) -> AcmeResponse {
        let request = AcmeRequest {
            method: AcmeMethod::Post,
            base: BASE.to_owned(),
            resource: resource.to_owned(),
            is_jose: true,
            body: Some(body),
        };
        self.server.response(&self.rules, &request, self.now)
    }

    fn nonce(&self) -> String {
        let request = AcmeRequest {
            method: AcmeMethod::Head,
            base: BASE.to_owned(),
            resource: "new-nonce".to_owned(),
            is_jose: false,
            body: None,
        };
        let response = self.server.response(&self.rules, &request, self.now);
        response.nonce.unwrap()
    }

    fn head(&self, resource: &str) -> Value {
        let mut head = json!({"nonce": self.nonce(), "url": format!("{BASE}/{resource}")});
        match &self.account {
            Some(account) => head["kid"] = account.as_str().into(),
            None => head["jwk"] = self.key.jwk().to_json(),
        }
        head
    }

    fn post(&self, resource: &str, payload: &str) -> AcmeResponse {
        let resource = resource
            .strip_prefix(&format!("{BASE}/"))
            .unwrap_or(resource);
        let signed = self.key.sign(self.head(resource), payload);
        self.send(resource, signed.to_string().into_bytes())
    }

    /// Orders a certificate for `identifiers`; returns the order.
    fn order(&self, identifiers: Value) -> AcmeResponse {
        self.post(
            "new-order",
            &json!({ "identifiers": identifiers }).to_string(),
        )
    }

    /// Starts validation of an order's first authorization by http-01 and waits for the result.
    fn prove(&self, order: &Value) -> Value {
        let authorization = order["authorizations"][0].as_str().unwrap();
        let shown = body(&self.post(authorization, ""));
        let challenges = shown["challenges"].as_array().unwrap();
        let http = challenges
            .iter()
            .find(|one| one["type"] == "http-01")
            .unwrap();
        let started = self.post(http["url"].as_str().unwrap(), "{}");
        assert_eq!(started.status, 200);
        assert!(
            started.links[0].ends_with("rel=\"up\""),
            "{:?}",
            started.links
        );
        let look = || {
            let shown = body(&self.post(authorization, ""));
            (shown["status"] != "pending").then_some(shown)
        };
        until(TIMEOUT, "a validation", look, String::new)
    }
}

fn body(response: &AcmeResponse) -> Value {
    serde_json::from_slice(&response.body).unwrap_or_default()
}

fn text(response: &AcmeResponse) -> String {
    format!(
        "{} {}",
        response.status,
        String::from_utf8_lossy(&response.body)
    )
}

fn kind(response: &AcmeResponse) -> String {
    let body = body(response);
    let kind = body["type"].as_str().unwrap_or_default();
    kind.trim_start_matches("urn:ietf:params:acme:error:")
        .to_owned()
}

fn start(folder: &TempFolder) -> AcmeServer {
    let storage = Storage::new(folder.path());
    let ca = LocalCa::open(
        storage.clone(),
        LocalCaOptions::default(),
        SystemTime::now(),
    )
    .unwrap();
    let desk = AcmeDesk::new(storage, "local");
    AcmeServer::new(Arc::new(ca), Arc::new(desk))
}

fn dns(name: &str) -> Value {
    json!([{"type": "dns", "value": name}])
}

/// Serves the key authorization for every token, with this thumbprint; returns its port.
fn prover(thumbprint: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut asked = [0; 2048];
            let length = client.read(&mut asked).unwrap();
            let asked = String::from_utf8_lossy(&asked[..length]).into_owned();
            let token = asked.split(' ').nth(1).unwrap().rsplit('/').next().unwrap();
            let text = format!("{token}.{thumbprint}\n");
            let length = text.len();
            let _ = write!(
                client,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
            );
        }
    });
    port
}

fn csr(key: &KeyPair, names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = DistinguishedName::new();
    let csr = params.serialize_request(key).unwrap();
    json!({"csr": URL_SAFE_NO_PAD.encode(csr.der())}).to_string()
}

#[test]
fn a_name_is_proven_signed_and_revoked_and_a_restart_forgets_nothing() {
    let folder = TempFolder::new();
    let server = start(&folder);
    let mut client = Client::new(&server, AcmeRules::default());
    let port = prover(client.key.jwk().thumbprint());
    client.rules = Arc::new(AcmeRules {
        http_port: port,
        ..AcmeRules::default()
    });
    let made = client.order(dns("LocalHost"));
    assert_eq!(made.status, 201, "{}", text(&made));
    let order = body(&made);
    assert_eq!(order["identifiers"], dns("localhost"));
    let finalize = order["finalize"].as_str().unwrap().to_owned();
    let key = sluice_certs::KeyType::P384.generate().unwrap();
    let early = client.post(&finalize, &csr(&key, &["localhost"]));
    assert_eq!(kind(&early), "orderNotReady");
    let proven = client.prove(&order);
    assert_eq!(proven["status"], "valid", "{proven}");
    // Another process continues with the stored state.
    let again = start(&folder);
    client.server = &again;
    for (names, why) in [
        (vec!["other.test"], "other"),
        (vec!["localhost", "b.test"], "more"),
    ] {
        let refused = client.post(&finalize, &csr(&key, &names));
        assert_eq!(kind(&refused), "badCSR", "{why}");
    }
    let done = client.post(&finalize, &csr(&key, &["localhost"]));
    assert_eq!(done.status, 200, "{}", text(&done));
    assert_eq!(body(&done)["status"], "valid");
    let url = body(&done)["certificate"].as_str().unwrap().to_owned();
    let got = client.post(&url, "");
    assert_eq!(got.media_type, "application/pem-certificate-chain");
    let chain = CertificateDer::pem_slice_iter(&got.body);
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(chain.len(), 2, "with the intermediate");
    let (_, leaf) = x509_parser::parse_x509_certificate(&chain[0]).unwrap();
    let until =
        SystemTime::UNIX_EPOCH + Duration::from_secs(leaf.validity().not_after.timestamp() as u64);
    assert!(until <= SystemTime::now() + Duration::from_secs(12 * 3600));
    let at = client.post(made.location.as_deref().unwrap(), "");
    assert_eq!(body(&at)["certificate"], url);
    let orders = client.post(
        &format!("{}/orders", client.account.as_deref().unwrap()),
        "",
    );
    assert_eq!(body(&orders)["orders"][0], made.location.unwrap());
    revocation(&again, &client, &chain[0]);
}

fn revocation(server: &AcmeServer, owner: &Client<'_>, leaf: &[u8]) {
    let wish = json!({"certificate": URL_SAFE_NO_PAD.encode(leaf), "reason": 4}).to_string();
    let stranger = Client::new(server, AcmeRules::default());
    assert_eq!(kind(&stranger.post("revoke-cert", &wish)), "unauthorized");
    let mut odd: Value = serde_json::from_str(&wish).unwrap();
    odd["reason"] = 7.into();
    assert_eq!(
        kind(&owner.post("revoke-cert", &odd.to_string())),
        "badRevocationReason"
    );
    let done = owner.post("revoke-cert", &wish);
    assert_eq!(done.status, 200, "{}", text(&done));
    assert_eq!(kind(&owner.post("revoke-cert", &wish)), "alreadyRevoked");
}

#[test]
fn a_wrong_proof_makes_an_order_invalid() {
    let folder = TempFolder::new();
    let server = start(&folder);
    let port = prover("nobody".to_owned());
    let rules = AcmeRules {
        http_port: port,
        ..AcmeRules::default()
    };
    let client = Client::new(&server, rules);
    let order = body(&client.order(json!([{"type": "ip", "value": "127.0.0.1"}])));
    let refused = client.prove(&order);
    assert_eq!(refused["status"], "invalid", "{refused}");
    let challenges = refused["challenges"].as_array().unwrap();
    assert!(
        challenges.iter().all(|one| one["type"] != "dns-01"),
        "{refused}"
    );
    let url = order["finalize"]
        .as_str()
        .unwrap()
        .trim_end_matches("/finalize");
    let shown = body(&client.post(url, ""));
    assert_eq!(shown["status"], "invalid");
    assert!(
        shown["error"]["type"]
            .as_str()
            .unwrap()
            .ends_with("incorrectResponse")
    );
}

#[test]
fn names_that_are_not_allowed_are_rejected_by_name() {
    let folder = TempFolder::new();
    let server = start(&folder);
    let rules = AcmeRules {
        deny: Some(Names::parse(&["bad.test".to_owned()], &[]).unwrap()),
        ..AcmeRules::default()
    };
    let client = Client::new(&server, rules);
    let refused = client.order(dns("bad.test"));
    assert_eq!(kind(&refused), "rejectedIdentifier");
    assert_eq!(body(&refused)["identifier"]["value"], "bad.test");
    assert_eq!(
        kind(&client.order(dns("*.good.test"))),
        "rejectedIdentifier"
    );
    for (identifiers, wanted) in [
        (
            json!([{"type": "email", "value": "a@b"}]),
            "unsupportedIdentifier",
        ),
        (json!([{"type": "dns", "value": "10.0.0.1"}]), "malformed"),
        (json!([{"type": "dns", "value": "a b"}]), "malformed"),
        (json!([]), "malformed"),
        (Value::Null, "malformed"),
    ] {
        assert_eq!(
            kind(&client.order(identifiers.clone())),
            wanted,
            "{identifiers}"
        );
    }
    let many: Vec<Value> = (0..101)
        .map(|n| json!({"type": "dns", "value": format!("a{n}.test")}))
        .collect();
    assert_eq!(kind(&client.order(many.into())), "malformed");
    let span = json!({"identifiers": dns("a.test"), "notAfter": "2020-01-01T00:00:00Z"});
    assert_eq!(
        kind(&client.post("new-order", &span.to_string())),
        "malformed"
    );
}

#[test]
fn requests_are_taken_once_and_only_where_they_were_signed_for() {
    let folder = TempFolder::new();
    let server = start(&folder);
    let client = Client::new(&server, AcmeRules::default());
    let wish = json!({"identifiers": dns("a.test")}).to_string();
    let signed = client.key.sign(client.head("new-order"), &wish).to_string();
    assert_eq!(client.send("new-order", signed.clone().into()).status, 201);
    let again = client.send("new-order", signed.clone().into());
    assert_eq!(kind(&again), "badNonce");
    assert!(again.nonce.is_some(), "with another to go on with");
    assert_eq!(
        kind(&client.send("key-change", signed.into())),
        "unauthorized"
    );
    let other = Client::new(&server, AcmeRules::default());
    let order = client.order(dns("a.test")).location.unwrap();
    assert_eq!(other.post(&order, "").status, 404, "another's order");
    assert_eq!(
        other.post(client.account.as_deref().unwrap(), "").status,
        401
    );
    let forged = client.key.sign(other.head("new-order"), &wish);
    assert_eq!(
        kind(&client.send("new-order", forged.to_string().into())),
        "malformed"
    );
    for (method, jose, body, wanted) in [
        (AcmeMethod::Get, true, Some(Vec::new()), 405),
        (AcmeMethod::Post, false, Some(Vec::new()), 415),
        (AcmeMethod::Post, true, None, 413),
        (AcmeMethod::Post, true, Some(b"{}".to_vec()), 400),
    ] {
        let request = AcmeRequest {
            method,
            base: BASE.to_owned(),
            resource: "new-order".to_owned(),
            is_jose: jose,
            body,
        };
        let response = server.response(&client.rules, &request, client.now);
        assert_eq!(response.status, wanted);
        assert_eq!(response.media_type, "application/problem+json");
    }
}

#[test]
fn accounts_are_found_by_their_key_changed_and_ended() {
    let folder = TempFolder::new();
    let server = start(&folder);
    let mut client = Client::new(&server, AcmeRules::default());
    let account = client.account.take().unwrap();
    let found = client.post("new-account", r#"{"onlyReturnExisting":true}"#);
    assert_eq!(
        (found.status, found.location.as_deref()),
        (200, Some(account.as_str()))
    );
    client.account = Some(account.clone());
    let contact = client.post(&account, r#"{"contact":["mailto:c@d.test"]}"#);
    assert_eq!(body(&contact)["contact"], json!(["mailto:c@d.test"]));
    assert_eq!(
        kind(&client.post(&account, r#"{"contact":["tel:1"]}"#)),
        "unsupportedContact"
    );
    let next = Key::ec(super::jws::Curve::P256);
    let said = json!({"account": account, "oldKey": client.key.jwk().to_json()});
    let head = json!({"jwk": next.jwk().to_json(), "url": format!("{BASE}/key-change")});
    let inner = next.sign(head, &said.to_string());
    let changed = client.post("key-change", &inner.to_string());
    assert_eq!(changed.status, 200, "{}", text(&changed));
    assert_eq!(
        kind(&client.post(&account, "")),
        "malformed",
        "the old key signs no more"
    );
    let old = std::mem::replace(&mut client.key, next);
    assert_eq!(client.post(&account, "").status, 200);
    // A key that belongs to an account cannot be used for another.
    let other = Client::new(&server, AcmeRules::default());
    let said = json!({"account": other.account, "oldKey": other.key.jwk().to_json()});
    let head = json!({"jwk": client.key.jwk().to_json(), "url": format!("{BASE}/key-change")});
    let inner = client.key.sign(head, &said.to_string());
    let conflict = other.post("key-change", &inner.to_string());
    assert_eq!(
        (conflict.status, conflict.location),
        (409, Some(account.clone()))
    );
    assert_eq!(
        client.post(&account, r#"{"status":"deactivated"}"#).status,
        200
    );
    assert_eq!(kind(&client.post(&account, "")), "unauthorized");
    client.account = None;
    assert_eq!(kind(&client.post("new-account", "{}")), "unauthorized");
    client.key = old;
    let gone = client.post("new-account", r#"{"onlyReturnExisting":true}"#);
    assert_eq!(kind(&gone), "accountDoesNotExist");
}

#[test]
fn an_order_that_waits_too_long_or_is_given_up_is_invalid() {
    let folder = TempFolder::new();
    let server = start(&folder);
    let mut client = Client::new(&server, AcmeRules::default());
    let order = client.order(dns("a.test"));
    let authorization = body(&order)["authorizations"][0]
        .as_str()
        .unwrap()
        .to_owned();
    let given_up = client.post(&authorization, r#"{"status":"deactivated"}"#);
    assert_eq!(body(&given_up)["status"], "deactivated");
    let shown = client.post(order.location.as_deref().unwrap(), "");
    assert_eq!(body(&shown)["status"], "invalid");
    let order = client.order(dns("b.test"));
    client.now += Duration::from_secs(25 * 3600);
    let shown = client.post(order.location.as_deref().unwrap(), "");
    assert_eq!(body(&shown)["status"], "invalid");
    let authorization = body(&order)["authorizations"][0]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(body(&client.post(&authorization, ""))["status"], "expired");
}

#[test]
fn concurrent_requests_are_limited() {
    let folder = TempFolder::new();
    let server = Arc::new(start(&folder));
    let places: Vec<_> = (0..ACME_RESPONSES_MAX)
        .map(|_| Place::take(&server.desk).unwrap())
        .collect();
    let request = AcmeRequest {
        method: AcmeMethod::Get,
        base: BASE.to_owned(),
        resource: "directory".to_owned(),
        is_jose: false,
        body: None,
    };
    let rules = Arc::new(AcmeRules::default());
    assert!(server.response_aside(&rules, request.clone()).is_err());
    drop(places);
    let responding = server.response_aside(&rules, request).unwrap();
    let response = sluice_certs::acme::run(responding).unwrap();
    assert_eq!(body(&response)["newOrder"], format!("{BASE}/new-order"));
    assert_eq!(AcmeResponse::busy().status, 503);
}
