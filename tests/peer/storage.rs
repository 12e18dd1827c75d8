//! One certificate storage for both programs: each serves the certificates of the other instead of creating its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::peer::peers;
use crate::support::servers;
use crate::support::wait::{TIMEOUT, until};

/// A site with the internal issuer, with its certificates in `storage`.
fn caddyfile(storage: &Path) -> String {
    format!(
        "{{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n\tstorage file_system {}\n}}\n\
         https://localhost:PORT, https://a.localhost:PORT {{\n\ttls internal\n\trespond hello\n}}\n",
        storage.display()
    )
}

/// The files below `folder`, with their contents, except locks and cleaning timestamps.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("locks") {
            found.extend(files(&path));
        } else if path
            .extension()
            .is_some_and(|kind| kind == "crt" || kind == "key")
        {
            let content = std::fs::read(&path).expect("it is readable");
            found.push((path, content));
        }
    }
    found.sort();
    found
}

/// The response of `name` to a client that trusts the root in `storage`, once it has a certificate.
fn asked(storage: &Path, port: u16, name: &str) -> String {
    let said = std::cell::RefCell::new(String::new());
    let look = || {
        let output = Command::new("curl")
            .args(["-sS", "--cacert"])
            .arg(storage.join("pki/authorities/local/root.crt"))
            .args(["--resolve", &format!("{name}:{port}:127.0.0.1")])
            .arg(format!("https://{name}:{port}/"))
            .output()
            .expect("curl is there");
        said.replace(String::from_utf8_lossy(&output.stderr).into_owned());
        let body = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(body)
    };
    until(TIMEOUT, name, look, || said.borrow().clone())
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn certificates_of_one_are_shown_by_the_other() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    let site = peers::Site::new();
    for (first, second) in [(caddy.clone(), peers::sluice()), (peers::sluice(), caddy)] {
        let storage = site
            .dir()
            .join(format!("shared-by-{}", second.ends_with("sluice")));
        let text = caddyfile(&storage);
        let mut before = Vec::new();
        for (program, name) in [(&first, "first"), (&second, "second")] {
            let running = site.start_text(program, "storage", &text, name);
            for host in ["localhost", "a.localhost"] {
                assert_eq!(asked(&storage, running.port(), host), "hello");
            }
            drop(running);
            let now = files(&storage);
            // Root and intermediate, two names, each with its key.
            assert_eq!(now.len(), 8, "{}: {now:?}", program.display());
            if before.is_empty() {
                before = now;
            } else {
                assert!(now == before, "{} made its own", program.display());
            }
        }
    }
}
