//! Automation policies with a storage of their own, and what stays in the storage of the server.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::nodes::Node;
use super::scene::Scene;
use crate::acme::pebble::{Pebble, Settings};
use crate::harness::{Folder, Setup, eventually, free_port, run_to_end, text};
use crate::stores::Kind;
use crate::support::abilities::has_openssl;
use crate::support::program::Program;

const NAME: &str = "a.example.test";

/// A node whose policies keep their certificates in `storage`.
fn with_storage(node: &Node, storage: &Value) -> Setup {
    let data = node.data.path().display().to_string();
    let setup = Setup::new(&node.caddyfile).env("XDG_DATA_HOME", &data);
    let output = run_to_end(setup.folder(), &["adapt", "--config", "Caddyfile"]);
    let mut config: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let policies = &mut config["apps"]["tls"]["automation"]["policies"];
    for policy in policies.as_array_mut().expect("the CA is in a policy") {
        policy["storage"] = storage.clone();
    }
    setup.folder().write("config.json", config.to_string());
    setup.args(&["--config", "config.json"])
}

/// Starts an OCSP responder of the CA, which knows one certificate.
fn responder(folder: &Folder, pebble: &Pebble, port: u16, certificate: &[u8]) -> Program {
    folder.write("ca.pem", pebble.management("/intermediates/0"));
    folder.write("ca.key", pebble.management("/intermediate-keys/0"));
    let leaf = folder.write("leaf.der", certificate);
    let mut openssl = Command::new("openssl");
    openssl
        .args(["x509", "-inform", "DER", "-noout", "-serial", "-in"])
        .arg(leaf);
    let serial = text(&openssl.output().expect("OpenSSL is installed").stdout);
    let serial = serial.trim().trim_start_matches("serial=");
    let known = format!("V\t350101000000Z\t\t{serial}\tunknown\t/CN=leaf\n");
    folder.write("index.txt", known);
    let mut openssl = Command::new("openssl");
    openssl
        .args(["ocsp", "-port", &port.to_string(), "-index", "index.txt"])
        .args(["-ndays", "1", "-CA", "ca.pem"])
        .args(["-rkey", "ca.key", "-rsigner", "ca.pem"])
        .current_dir(folder.path());
    let log = folder.path().join("responder.log");
    // It serves one connection after the other, so none is made to see whether it listens.
    let is_ready = || folder.read("responder.log").contains("ACCEPT");
    Program::start(&mut openssl, log).waiting(is_ready)
}

/// What OpenSSL says about the certificate of a node.
fn status_text(node: &Node) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &node.https().to_string()])
        .args(["-servername", NAME, "-status"])
        .stdin(Stdio::null())
        .output()
        .expect("OpenSSL is installed");
    text(&output.stdout)
}

/// The OCSP responses in the storage of a node.
fn responses(node: &Node) -> Vec<PathBuf> {
    let folder = node.data.path().join("sluice/ocsp");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn the_ocsp_responses_of_a_policy_with_its_own_storage_are_in_that_of_the_server() {
    if !has_openssl() {
        return;
    }
    let port = free_port();
    let mut settings = Settings::calm();
    settings.more = format!(r#","ocspResponderURL":"http://127.0.0.1:{port}/""#);
    let Some(scene) = Scene::with(Kind::Etcd, settings) else {
        return;
    };
    let (settings, client) = (scene.pebble.settings(), scene.pebble.client());
    let etcd = format!("127.0.0.1:{}", scene.store.port());
    let storage = json!({"module": "etcd", "endpoints": [etcd], "prefix": "/web"});
    let ordering = Node::responding(settings, "", &[NAME]);
    let server = with_storage(&ordering, &storage).start();
    let shown = ordering.wait(&client, NAME, &server);
    scene.store.wait_until_tidy();
    assert_eq!(scene.certificates(), 1);
    drop(server);
    // Another node has the certificate from the storage of the policy, and asks for a response by itself.
    let folder = Folder::new();
    let responder = responder(&folder, &scene.pebble, port, &shown);
    let node = Node::elsewhere(settings, "", &[NAME]);
    let server = with_storage(&node, &storage).start();
    assert_eq!(node.wait(&client, NAME, &server), shown);
    let is_good = || status_text(&node).contains("Cert Status: good");
    eventually("a response", is_good, || {
        format!("{}\n{}", status_text(&node), server.stderr())
    });
    assert_eq!(scene.store.keys("ocsp"), [""; 0]);
    assert_eq!(responses(&node).len(), 1);
    assert!(!node.data.path().join("sluice/certificates").exists());
    // Without the responder, another start finds the response.
    drop((server, responder));
    let server = with_storage(&node, &storage).start();
    eventually("the stored response", is_good, || {
        format!("{}\n{}", status_text(&node), server.stderr())
    });
    assert_eq!(scene.pebble.orders(), 1);
}
