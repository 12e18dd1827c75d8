//! Password-protected keys, as OpenSSL writes them.

use std::process::{Command, Stdio};

use pki_types::CertificateDer;
use pki_types::pem::PemObject;
use rustls::version::TLS13;

use crate::client::exchange;
use crate::harness::{Folder, free_port, run_to_end, text};
use crate::support::abilities::has_openssl;
use crate::tls;

/// Three certificates for `localhost`, their keys encrypted in the newer format, in the older one, and with triple DES.
fn write_keys(folder: &Folder) {
    let script = "set -e\n\
        openssl req -x509 -newkey rsa:2048 -nodes -keyout rsa.key -out rsa.pem -subj /CN=localhost -days 2\n\
        printf 'wrong\\nright\\n' > words; printf 'wrong\\n' > wrong; printf 'right' > word\n\
        openssl pkey -in ec.key -aes256 -passout file:word -out new.key\n\
        openssl rsa -in rsa.key -aes128 -traditional -passout file:word -out old.key\n\
        openssl pkey -in ec.key -des3 -passout file:word -out des.key\n\
        rm ec.key rsa.key\n";
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    folder.write("ec.pem", made.cert.pem());
    folder.write("ec.key", made.signing_key.serialize_pem());
    folder.write("make", script);
    let made = Command::new("sh")
        .arg("make")
        .current_dir(folder.path())
        .stderr(Stdio::null())
        .status();
    assert!(made.expect("OpenSSL is installed").success());
}

#[test]
fn keys_are_opened_by_the_password_that_fits() {
    if !has_openssl() {
        return;
    }
    let (old, own) = (free_port(), free_port());
    let setup = super::setup(&format!(
        "events {{}}\nhttp {{\nssl_password_file words;\n\
         server {{ listen 127.0.0.1:{{port}} ssl; ssl_certificate ec.pem; ssl_certificate_key new.key; return 200 new; }}\n\
         server {{ listen 127.0.0.1:{old} ssl; ssl_certificate rsa.pem; ssl_certificate_key old.key; \
         ssl_verify_client on; ssl_client_certificate ec.pem; return 200 $ssl_client_s_dn; }}\n\
         server {{ listen 127.0.0.1:{own}; proxy_ssl_certificate ec.pem; proxy_ssl_certificate_key des.key; \
         proxy_ssl_password_file word; location / {{ proxy_pass https://127.0.0.1:{old}; }} }}\n}}\n"
    ));
    write_keys(setup.folder());
    let pem = setup.folder().read("ec.pem");
    let server = setup.start();
    let root = CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
    let client = tls::trusting(root, &[&TLS13]);
    let mut wire = tls::connect(&client, server.port, "localhost").expect("a handshake");
    let (_, body) = tls::get(&mut wire, "localhost", "/");
    assert_eq!(body, "new");
    // Our client key, decrypted too, is presented to the server with the older format.
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let response = exchange(own, request);
    assert_eq!(
        (response.status, response.text().as_str()),
        (200, "CN=rcgen self signed cert")
    );
}

#[test]
fn a_wrong_password_is_reported_with_its_line() {
    let folder = Folder::new();
    write_keys(&folder);
    let refused = |words: &str| {
        let conf = format!(
            "events {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{} ssl;\nssl_certificate ec.pem;\n\
             ssl_certificate_key new.key;\n{words}\n}}\n}}\n",
            free_port()
        );
        folder.write("nginx.conf", conf);
        let path = folder.path().join("nginx.conf");
        let path = path.to_str().expect("a path of letters");
        let checked = run_to_end(&folder, &["nginx", "-t", "-c", path]);
        assert_eq!(checked.status.code(), Some(1), "{words}");
        text(&checked.stderr)
    };
    for (words, why) in [
        ("ssl_password_file wrong;", "no password in"),
        ("", "is protected by a password"),
        ("ssl_password_file nowhere;", "cannot read"),
    ] {
        let said = refused(words);
        assert!(said.contains(why), "{said}");
        let line = if words.contains("nowhere") { 7 } else { 6 };
        assert!(said.contains(&format!("nginx.conf:{line}:1")), "{said}");
        assert!(said.contains("nginx: [emerg] "), "{said}");
    }
    assert!(
        refused("").contains("ssl_password_file"),
        "the help names it"
    );
}
