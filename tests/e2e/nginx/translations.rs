//! `sluice adapt --to caddyfile`: what it writes for each nginx.conf of the tests and of the documentation is a
//! configuration that `sluice validate` accepts.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{Folder, run_to_end, text};

/// Fills in what the files of `tests/data/nginx` leave open.
fn filled(text: &str, folder: &Folder) -> String {
    let dir = folder.path().display().to_string();
    [
        ("ROOT", "/srv"),
        ("PORT", "8080"),
        ("OTHER", "8081"),
        ("DIR", &*dir),
        ("UPSTREAM", "127.0.0.1:9000"),
        ("FASTCGI", "127.0.0.1:9001"),
        ("DEAD", "127.0.0.1:9002"),
    ]
    .into_iter()
    .fold(text.to_owned(), |text, (name, value)| {
        text.replace(name, value)
    })
}

/// The files below `folder` with this ending, in the order of their names.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path
            .extension()
            .is_some_and(|extension| extension == ending)
        {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The nginx.conf examples of a page.
fn blocks(page: &str) -> Vec<&str> {
    let parts = page.split("```nginx").skip(1);
    let texts = parts.filter_map(|part| part.split_once('\n')?.1.split_once("```"));
    texts.map(|(text, _)| text).collect()
}

/// The text with certificates that exist: `ssl_certificate both.pem;` in place of any other file.
fn with_certificates(text: &str) -> String {
    let mut parts = text.split("ssl_certificate");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (end, rest) = part.split_once(';').expect("a directive ends");
        let suffix = if end.starts_with("_key") { "_key" } else { "" };
        out.push_str(&format!("ssl_certificate{suffix} both.pem;{rest}"));
    }
    out
}

#[test]
fn translations_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = Folder::new();
    let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).expect("a certificate");
    let key = made.signing_key.serialize_pem();
    folder.write("both.pem", format!("{}{key}", made.cert.pem()));
    for name in ["mime.types", "fastcgi_params"] {
        let shared = fs::read(root.join("tests/data/nginx").join(name));
        folder.write(name, shared.expect("it is there"));
    }
    let mut texts = Vec::new();
    for path in files(&root.join("tests/data/nginx"), "conf") {
        let text = fs::read_to_string(&path).expect("it is UTF-8");
        texts.push((path.display().to_string(), filled(&text, &folder)));
    }
    for path in files(&root.join("docs"), "md") {
        let page = fs::read_to_string(&path).expect("it is UTF-8");
        for text in blocks(&page) {
            texts.push((path.display().to_string(), with_certificates(text)));
        }
    }
    let (mut count, mut failures) = (0, Vec::new());
    for (name, nginx_conf) in texts {
        folder.write("nginx.conf", &nginx_conf);
        let args = ["adapt", "--config", "nginx.conf", "--adapter", "nginx"];
        let adapted = run_to_end(&folder, &[&args[..], &["--to", "caddyfile"]].concat());
        // Pages about mistakes show files that are refused.
        if !adapted.status.success() {
            assert!(name.ends_with(".md"), "{name}: {}", text(&adapted.stderr));
            continue;
        }
        folder.write("Caddyfile", &adapted.stdout);
        let valid = run_to_end(&folder, &["validate", "--config", "Caddyfile"]);
        count += 1;
        if !valid.status.success() {
            failures.push(format!("{name}: {}", text(&valid.stderr)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count >= 85, "only {count} files were translated");
}
