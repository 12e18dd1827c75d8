//! A shared storage as operators see it: `sluice storage reseal`, and the metrics of the copy on a node.

use crate::harness::{Folder, Server, eventually, run_to_end, text};
use crate::push::engines::Etcd;

/// A Caddyfile with a storage in etcd that has these keys.
fn caddyfile(etcd: &Etcd, folder: &Folder, keys: Option<&[&str]>) -> String {
    let mut lines = String::new();
    if let Some(keys) = keys {
        folder.write("keys", keys.join("\n"));
        let path = folder.path().join("keys");
        lines = format!("\t\tencryption_key_file {}\n", path.display());
    }
    format!(
        "{{\n\tstorage etcd 127.0.0.1:{} {{\n\t\tprefix /web\n{lines}\t}}\n}}\n",
        etcd.port
    )
}

#[test]
fn values_are_encrypted_anew_and_those_without_a_key_are_named() {
    let Some(etcd) = Etcd::start() else {
        return;
    };
    let folder = Folder::new();
    let keys = ["01", "02", "03"].map(|byte| byte.repeat(32));
    let [old, new, other] = keys.each_ref().map(String::as_str);
    let key = "certificates/local/a.test/a.test.key";
    etcd.control(&["put", &format!("/web/{key}"), "a private key"]);
    etcd.control(&["put", "/web/certificates/local/a.test/a.test.crt", "public"]);
    let reseal = |keys: Option<&[&str]>| {
        folder.write("Caddyfile", caddyfile(&etcd, &folder, keys));
        let output = run_to_end(&folder, &["storage", "reseal", "-c", "Caddyfile"]);
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        (output.status.code(), said)
    };
    let (code, said) = reseal(None);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no encryption key is configured"), "{said}");
    let expected = |keys: &[&str], line: &str| {
        let (code, said) = reseal(Some(keys));
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(line), "{said}");
    };
    expected(&[old], "encrypted 1 values; 0 had");
    let stored = || etcd.get(&format!("/web/{key}"));
    let first = stored();
    assert!(!first.contains("a private key") && first.contains("sluice sealed"));
    expected(&[new, old], "encrypted 1 values; 0 had");
    assert_ne!(stored(), first);
    expected(&[new], "encrypted 0 values; 1 had");
    let before = stored();
    let (code, said) = reseal(Some(&[other]));
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains(key) && said.contains("1 values cannot be decrypted"),
        "{said}"
    );
    assert_eq!(stored(), before);
    let crt = etcd.get("/web/certificates/local/a.test/a.test.crt");
    assert_eq!(crt.trim_end(), "public", "certificates are not secret");
}

#[test]
fn the_metrics_show_the_copy_of_a_storage_and_whether_it_is_in_use() {
    let Some(mut etcd) = Etcd::start() else {
        return;
    };
    let port = etcd.port;
    let server = Server::start(&format!(
        "{{\n\tadmin localhost:{{admin}}\n\tmetrics\n\tskip_install_trust\n\tauto_https disable_redirects\n\
         \tstorage etcd 127.0.0.1:{port} {{\n\t\tprefix /web\n\t}}\n}}\nhttps://localhost:{{port}} {{\n\ttls internal\n\trespond ok\n}}\n"
    ));
    let sample = |name: &str| {
        let start = format!("sluice_storage_{name}{{storage=\"etcd://127.0.0.1:{port}/web\"}} ");
        let page = server.metrics();
        let value = page.lines().find_map(|line| line.strip_prefix(&start));
        value.and_then(|value| value.parse::<f64>().ok())
    };
    let described = || server.metrics();
    let at_least = |name: &str, least: f64| {
        let is_so = || sample(name).is_some_and(|value| value >= least);
        eventually(name, is_so, described);
    };
    // The local CA has at least a root and an intermediate, and the site a certificate.
    at_least("copy_entries", 6.0);
    at_least("calls_total", 1.0);
    assert_eq!(sample("copy_in_use"), Some(0.0));
    assert!(sample("copy_age_seconds").is_some());
    etcd.stop();
    at_least("copy_in_use", 1.0);
    at_least("failures_total", 1.0);
    at_least("copy_age_seconds", 0.001);
    etcd.resume();
    let is_back = || sample("copy_in_use") == Some(0.0);
    eventually("the storage is back", is_back, described);
}
