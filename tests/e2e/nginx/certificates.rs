//! Selection of certificates: variables in their paths, and several for one server.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;

use pki_types::CertificateDer;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

use crate::harness::{Folder, Server, eventually, text};
use crate::support::abilities::has_openssl;
use crate::tls;

/// Writes a certificate for names, with its key, as `file`, and returns it.
fn write(folder: &Folder, file: &str, names: &str, key: &KeyPair) -> CertificateDer<'static> {
    let names: Vec<String> = names.split(' ').map(str::to_owned).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, file);
    let made = params.self_signed(key).expect("a certificate");
    folder.write(&format!("{file}.crt"), made.pem());
    folder.write(&format!("{file}.key"), key.serialize_pem());
    made.der().clone()
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn client(
    roots: &[&CertificateDer<'static>],
    version: &'static SupportedProtocolVersion,
) -> Arc<ClientConfig> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add((*root).clone()).expect("a root");
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[version])
        .expect("it is known")
        .with_root_certificates(store)
        .with_no_client_auth();
    Arc::new(config)
}

/// The certificate that a client receives; `None` if the handshake fails.
fn shown(
    server: &Server,
    client: &Arc<ClientConfig>,
    name: &str,
) -> Option<CertificateDer<'static>> {
    let mut wire = tls::connect(client, server.port, name).ok()?;
    let shown = wire.stream().conn.peer_certificates()?.first()?.clone();
    Some(shown.into_owned())
}

const BY_NAME: &str = "events {}\nerror_log error.log;\nhttp {\n\
    map $ssl_server_name $file { a.test one/a; default $ssl_server_name; }\n\
    map $ssl_server_name $text { in.text.test \"{chain}\"; }\n\
    map $ssl_server_name $secret { in.text.test \"{key}\"; }\n\
    server {\nlisten 127.0.0.1:{port} ssl;\nserver_name _;\n\
    ssl_certificate $file.crt;\nssl_certificate_key $file.key;\n{lines}\nreturn 200 $ssl_server_name;\n}\n\
    server {\nlisten 127.0.0.1:{port} ssl;\nserver_name in.text.test;\n\
    ssl_certificate data:$text;\nssl_certificate_key data:$secret;\nreturn 204;\n}\n}\n";

/// A server with certificates by name, and those of `a.test` and `in.text.test`.
fn by_name(lines: &str) -> (Server, Folder, [CertificateDer<'static>; 2]) {
    let folder = Folder::new();
    let text = write(&folder, "text", "in.text.test", &new_key());
    let conf = BY_NAME
        .replace("{lines}", lines)
        .replace("{chain}", &folder.read("text.crt"))
        .replace("{key}", &folder.read("text.key"));
    let setup = super::setup(&conf);
    fs::create_dir_all(setup.folder().path().join("one")).expect("a folder");
    let own = write(setup.folder(), "one/a", "a.test", &new_key());
    (setup.start(), folder, [own, text])
}

#[test]
fn certificates_are_found_by_the_name_that_is_asked_for() {
    let (server, _folder, [own, text]) = by_name("");
    let both = client(&[&own, &text], &TLS13);
    assert_eq!(shown(&server, &both, "a.test").as_ref(), Some(&own));
    assert_eq!(shown(&server, &both, "in.text.test").as_ref(), Some(&text));
    assert_eq!(shown(&server, &both, "b.test"), None);
    let log = || server.folder.read("error.log");
    let wanted =
        "b.test.crt\": BIO_new_file() failed (2: No such file or directory) while SSL handshaking";
    eventually("a line", || log().contains(wanted), log);
    assert!(log().contains("cannot load certificate \""), "{}", log());
    // It exists from now on.
    let late = write(&server.folder, "b.test", "b.test", &new_key());
    let third = client(&[&late], &TLS13);
    assert_eq!(shown(&server, &third, "b.test").as_ref(), Some(&late));
    let next = write(&server.folder, "b.test", "b.test", &new_key());
    let third = client(&[&next], &TLS12);
    assert_eq!(shown(&server, &third, "b.test").as_ref(), Some(&next));
    let mut wire = tls::connect(&both, server.port, "a.test").expect("a handshake");
    assert_eq!(tls::get(&mut wire, "a.test", "/").1, "a.test");
}

#[test]
fn certificates_by_name_are_kept_for_as_long_as_the_file_says() {
    let (server, _folder, [own, _]) = by_name("ssl_certificate_cache max=10 inactive=1h valid=1h;");
    let old = client(&[&own], &TLS13);
    assert_eq!(shown(&server, &old, "a.test").as_ref(), Some(&own));
    write(&server.folder, "one/a", "a.test", &new_key());
    assert_eq!(shown(&server, &old, "a.test").as_ref(), Some(&own));
}

/// As for requests: the exact name, the longest wildcard at the beginning, the longest at the end, the first regular
/// expression, the default server, wherever they are in the file.
#[test]
fn handshakes_find_their_server_by_all_kinds_of_names() {
    const CASES: [(&str, &str); 10] = [
        ("default.test", "default"),
        ("nobody.test", "default"),
        ("a.wild.test", "wide"),
        ("a.b.c.wild.test", "wide"),
        ("a.near.wild.test", "near"),
        ("one.near.wild.test", "exact"),
        ("dot.test", "dot"),
        ("a.b.dot.test", "dot"),
        ("mail.any.where.test", "behind"),
        ("shop.pattern.test", "pattern"),
    ];
    let site = |file: &str, names: &str| {
        format!(
            "server {{\nlisten 127.0.0.1:{{port}} ssl;\nserver_name {names};\nssl_certificate {file}.crt;\n\
             ssl_certificate_key {file}.key;\nreturn 200 {file};\n}}\n"
        )
    };
    let sites = [
        ("default", "default.test"),
        ("pattern", r"~^(?!mail)\w+\.(pattern|wild)\.test$"),
        ("behind", "mail.any.* mail.*"),
        ("wide", "*.wild.test"),
        ("near", "*.near.wild.test"),
        ("dot", ".dot.test"),
        ("exact", "one.near.wild.test"),
    ];
    let lines: String = sites
        .iter()
        .map(|(file, names)| site(file, names))
        .collect();
    let setup = super::setup(&format!("events {{}}\nhttp {{\n{lines}}}\n"));
    // All of them are valid for all names, so only the selection distinguishes them.
    let names = CASES.map(|(name, _)| name).join(" ");
    let made = sites.map(|(file, _)| write(setup.folder(), file, &names, &new_key()));
    let client = client(&made.each_ref(), &TLS13);
    let server = setup.start();
    for (name, file) in CASES {
        let found = shown(&server, &client, name).expect("a handshake");
        let place = made.iter().position(|made| *made == found);
        assert_eq!(place.map(|at| sites[at].0), Some(file), "{name}");
        // A client that completed the handshake with a server gets its response.
        let mut wire = tls::connect(&client, server.port, name).expect("a handshake");
        assert_eq!(tls::get(&mut wire, name, "/").1, file, "{name}");
    }
}

#[test]
fn of_two_certificates_the_client_gets_the_one_that_it_can_use() {
    if !has_openssl() {
        return;
    }
    let setup = super::setup(
        "events {}\nhttp {\nserver {\nlisten 127.0.0.1:{port} ssl;\n\
         ssl_certificate rsa.crt;\nssl_certificate_key rsa.key;\n\
         ssl_certificate ec.crt;\nssl_certificate_key ec.key;\nreturn 204;\n}\n}\n",
    );
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key");
    write(setup.folder(), "rsa", "localhost", &key);
    write(setup.folder(), "ec", "other.test", &new_key());
    let server = setup.start();
    // OpenSSL accepts any certificate, and prints it.
    let subject = |words: &str| {
        let output = Command::new("openssl")
            .args([
                "s_client",
                "-connect",
                &format!("127.0.0.1:{}", server.port),
            ])
            .args(words.split_whitespace())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .expect("OpenSSL is installed");
        let said = text(&output.stdout);
        let subject = said.lines().find_map(|line| line.strip_prefix("subject="));
        subject.map(str::to_owned)
    };
    for name in ["localhost", "other.test", "nobody.test"] {
        // Whatever the certificates are called, and as nginx with OpenSSL selects them.
        for (words, wanted) in [
            ("", "CN = ec"),
            (
                "-sigalgs rsa_pss_rsae_sha256:ecdsa_secp256r1_sha256",
                "CN = rsa",
            ),
            (
                "-sigalgs ecdsa_secp256r1_sha256:rsa_pss_rsae_sha256",
                "CN = ec",
            ),
            (
                "-tls1_2 -sigalgs rsa_pss_rsae_sha256:ecdsa_secp256r1_sha256",
                "CN = ec",
            ),
            ("-tls1_2 -sigalgs rsa_pss_rsae_sha256", "CN = rsa"),
            (
                "-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256",
                "CN = rsa",
            ),
            ("-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256", "CN = rsa"),
            ("-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256", "CN = ec"),
        ] {
            let said = subject(&format!("-servername {name} {words}"));
            assert_eq!(said.as_deref(), Some(wanted), "{name} {words}");
        }
    }
}

/// A file of `openssl x509 -trustout`: the certificate is followed by data about purposes.
#[test]
fn certificates_with_other_labels_are_served() {
    if !has_openssl() {
        return;
    }
    let (server, folder, [own, _]) = by_name("");
    let made = write(&folder, "b", "b.test", &new_key());
    let path = |name: &str| folder.path().join(name);
    let output = Command::new("openssl")
        .args(["x509", "-trustout", "-addtrust", "serverAuth", "-in"])
        .arg(path("b.crt"))
        .output()
        .expect("it starts");
    let pem = text(&output.stdout);
    assert!(pem.contains("BEGIN TRUSTED CERTIFICATE"), "{pem}");
    server.folder.write("b.test.crt", pem);
    server.folder.write("b.test.key", folder.read("b.key"));
    let client = client(&[&own, &made], &TLS13);
    assert_eq!(shown(&server, &client, "b.test"), Some(made));
}
