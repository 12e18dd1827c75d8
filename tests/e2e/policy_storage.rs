//! `storage` of a single automation policy, and of a local CA.

use pki_types::CertificateDer;
use pki_types::pem::PemObject;
use rustls::version::TLS13;

use crate::harness::{Folder, Server, Setup, free_port};
use crate::stores::{Kind, SharedStore};
use crate::tls::{connect, get, trusting};

/// A server of `a.localhost`, whose policy keeps certificates in `own`, and of `b.localhost`; its other data is in `data`.
fn start(own: &Folder, data: &Folder) -> Server {
    let setup = Setup::bare();
    let (plain, own) = (free_port(), own.path().display());
    let site = |name: &str| {
        format!(
            r#"{{"match":[{{"host":["{name}.localhost"]}}],"handle":[{{"handler":"static_response","body":"{name}"}}]}}"#
        )
    };
    let config = format!(
        r#"{{"admin":{{"disabled":true}},"storage":{{"module":"file_system","root":"{data}"}},
            "apps":{{"http":{{"http_port":{plain},"https_port":{{port}},"servers":{{"s":{{"listen":["127.0.0.1:{{port}}"],
            "routes":[{},{}]}}}}}},
            "pki":{{"certificate_authorities":{{"local":{{"install_trust":false}}}}}},
            "tls":{{"automation":{{"policies":[
              {{"subjects":["a.localhost"],"issuers":[{{"module":"internal"}}],
                "storage":{{"module":"file_system","root":"{own}"}}}},
              {{"issuers":[{{"module":"internal"}}]}}]}}}}}}}}"#,
        site("a"),
        site("b"),
        data = data.path().display(),
    );
    let config = setup.fill(&config);
    setup.folder().write("config.json", config);
    setup.args(&["--config", "{folder}/config.json"]).start()
}

#[test]
fn the_certificates_of_a_policy_are_in_its_storage_and_are_found_there() {
    let (own, data) = (Folder::new(), Folder::new());
    let server = start(&own, &data);
    let of = |folder: &Folder, name: &str| {
        let file = format!("certificates/local/{name}.localhost/{name}.localhost.crt");
        std::fs::read(folder.path().join(file)).ok()
    };
    let (a, b) = (of(&own, "a"), of(&data, "b"));
    assert!(a.is_some() && b.is_some(), "{}", server.stderr());
    assert_eq!((of(&own, "b"), of(&data, "a")), (None, None));
    drop(server);
    // Another start finds them.
    let server = start(&own, &data);
    assert_eq!((of(&own, "a"), of(&data, "b")), (a, b));
    let root = data.path().join("pki/authorities/local/root.crt");
    let root = CertificateDer::from_pem_file(root).expect("the root is there");
    let client = trusting(root, &[&TLS13]);
    for name in ["a", "b"] {
        let host = format!("{name}.localhost");
        let mut wire = connect(&client, server.port, &host).expect("a trusted connection");
        assert_eq!(get(&mut wire, &host, "/").1, name);
    }
}

/// A node of `a.localhost`. Its policy and its CA keep their values in etcd, and all else is in `data`.
fn node(etcd: &SharedStore, data: &Folder) -> Server {
    let setup = Setup::bare();
    let storage = format!(
        r#"{{"module":"etcd","endpoints":["127.0.0.1:{}"],"prefix":"/web"}}"#,
        etcd.port()
    );
    let config = format!(
        r#"{{"admin":{{"disabled":true}},"storage":{{"module":"file_system","root":"{data}"}},
            "apps":{{"http":{{"http_port":{plain},"https_port":{{port}},"servers":{{"s":{{"listen":["127.0.0.1:{{port}}"],
            "routes":[{{"match":[{{"host":["a.localhost"]}}],"handle":[{{"handler":"static_response","body":"a"}}]}}]}}}}}},
            "pki":{{"certificate_authorities":{{"local":{{"install_trust":false,"storage":{storage}}}}}}},
            "tls":{{"automation":{{"policies":[
              {{"issuers":[{{"module":"internal"}}],"storage":{storage}}}]}}}}}}}}"#,
        plain = free_port(),
        data = data.path().display(),
    );
    let config = setup.fill(&config);
    setup.folder().write("config.json", config);
    let copies = data.path().display().to_string();
    let setup = setup.env("XDG_DATA_HOME", &copies);
    setup.args(&["--config", "{folder}/config.json"]).start()
}

#[test]
fn nodes_with_one_storage_for_a_policy_and_its_ca_serve_one_certificate() {
    let Some(etcd) = SharedStore::start(Kind::Etcd) else {
        return;
    };
    let folders = [Folder::new(), Folder::new()];
    let servers = folders.each_ref().map(|data| node(&etcd, data));
    let root = etcd.value("pki/authorities/local/root.crt");
    let root = CertificateDer::from_pem_slice(&root).expect("the root is there");
    let client = trusting(root, &[&TLS13]);
    let shown = servers.each_ref().map(|server| {
        let mut wire = connect(&client, server.port, "a.localhost").expect("one CA for both");
        let certs = wire.stream().conn.peer_certificates();
        let leaf = certs.expect("a certificate")[0].to_vec();
        assert_eq!(get(&mut wire, "a.localhost", "/").1, "a");
        leaf
    });
    assert_eq!(shown[0], shown[1], "{}", servers[1].stderr());
    let leaf = "certificates/local/a.localhost/a.localhost.crt";
    assert!(etcd.keys("certificates").contains(&leaf.to_owned()));
    for data in &folders {
        for folder in ["certificates", "pki"] {
            assert!(!data.path().join(folder).exists(), "{folder}");
        }
    }
}
