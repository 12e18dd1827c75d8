//! HTTP/3 with common programs: Chromium, forced to QUIC.

use std::process::Command;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::FromDer;

use super::serving::site;
use crate::harness::{Folder, Setup, finish, text};
use crate::support::abilities::{can_run, chromium};

/// A page that counts what it has loaded, and shows by which protocol.
const PAGE: &str = r#"<!DOCTYPE html><body><script>
const files = [...Array(100).keys()].map(n => fetch("/file-" + n).then(r => r.text()));
Promise.all(files).then(texts => {
	const all = texts.every(text => text === "content");
	const used = performance.getEntriesByType("resource").map(one => one.nextHopProtocol);
	const own = performance.getEntriesByType("navigation")[0].nextHopProtocol;
	document.body.textContent = [texts.length, all, own, ...new Set(used)].join(" ");
});
</script></body>
"#;

/// The hash of a certificate's key, as Chromium's option takes it: SHA-256 in Base64.
fn key_hash(folder: &Folder, cert: &CertificateDer<'_>) -> String {
    let (_, parsed) =
        x509_parser::certificate::X509Certificate::from_der(cert).expect("a certificate");
    let path = folder.write("key.der", parsed.public_key().raw);
    let command = format!("openssl dgst -sha256 -binary {} | base64", path.display());
    let output = finish(Command::new("sh").args(["-c", &command]));
    text(&output.stdout).trim().to_owned()
}

#[test]
fn chromium_loads_a_page_with_a_hundred_files_over_quic() {
    let Some(browser) = chromium() else { return };
    if !can_run("openssl", &["version"]) {
        return;
    }
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let text_of_site = site("", "root * {folder}/www\nfile_server")
        .replace("tls internal", "tls {folder}/site.pem {folder}/site.key");
    let setup = Setup::new(&text_of_site);
    let folder = setup.folder();
    folder.write("site.pem", made.cert.pem());
    folder.write("site.key", made.signing_key.serialize_pem());
    folder.write("www/index.html", PAGE);
    for number in 0..100 {
        folder.write(&format!("www/file-{number}"), "content");
    }
    let cert = CertificateDer::from_pem_slice(made.cert.pem().as_bytes()).expect("it is one");
    let hash = key_hash(folder, &cert);
    let profile = folder.path().join("profile");
    let server = setup.start();
    let output = finish(Command::new(browser).args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        &format!("--origin-to-force-quic-on=localhost:{}", server.port),
        &format!("--ignore-certificate-errors-spki-list={hash}"),
        "--virtual-time-budget=20000",
        &format!("--user-data-dir={}", profile.display()),
        "--dump-dom",
        &format!("https://localhost:{}/", server.port),
    ]));
    let shown = text(&output.stdout);
    assert!(
        shown.contains("100 true h3 h3<"),
        "{shown}{}",
        text(&output.stderr)
    );
}
