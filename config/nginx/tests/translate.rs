//! Tests of `sluice adapt --to caddyfile`: `tests/translate/<topic>/*.txt` contain an nginx.conf, a line `----`, and
//! the Caddyfile. `BLESS=1` rewrites what differs; review the diff. A case that begins with `=== site` is put into a
//! `server` on port 80.

use std::fs;
use std::path::Path;

use sluice_nginx::{MemoryLoader, translate};

use crate::support;

fn whole(input: &str) -> String {
    match input.strip_prefix("=== site\n") {
        Some(lines) => format!(
            "events {{ worker_connections 100; }} http {{ server {{ listen 80; server_name a.test; root /srv;\n{lines}}} }}\n"
        ),
        None => input.to_owned(),
    }
}

/// What is translated is a Caddyfile, and in its customary layout.
fn translated(text: &str, loader: &MemoryLoader) -> String {
    let translated = translate("nginx.conf", text, loader);
    let Some(caddyfile) = translated.caddyfile else {
        return translated.report.short();
    };
    let adapted = sluice_caddyfile::adapt("Caddyfile", &caddyfile, loader);
    assert!(
        !adapted.report.has_errors(),
        "{caddyfile}\n{}",
        adapted.report.short()
    );
    let formatted = sluice_caddyfile::format("Caddyfile", &caddyfile);
    assert_eq!(formatted.as_deref().ok(), Some(&*caddyfile));
    caddyfile
}

#[test]
fn golden_cases() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/translate");
    let loader = MemoryLoader::default();
    support::check(&root, |_, input| translated(&whole(input), &loader));
}

/// Whole sites become Caddyfiles that are accepted, whatever is missing from them.
#[test]
fn whole_sites_are_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/nginx");
    let mut loader = MemoryLoader::default();
    for name in ["mime.types", "fastcgi_params"] {
        let text = fs::read(folder.join(name)).expect("it is there");
        loader.files.insert(name.to_owned(), text);
    }
    let mut count = 0;
    for entry in fs::read_dir(&folder)
        .expect("the folder is there")
        .flatten()
    {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "conf") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("it is UTF-8");
        let text = text
            .replace("ROOT", "/srv")
            .replace("PORT", "8080")
            .replace("OTHER", "8081")
            .replace("DIR", "/tmp")
            .replace("UPSTREAM", "127.0.0.1:9000")
            .replace("FASTCGI", "127.0.0.1:9001")
            .replace("DEAD", "127.0.0.1:9002");
        println!("{}", path.display());
        let came = translated(&text, &loader);
        assert!(came.starts_with("# Translated from"), "{came}");
        count += 1;
    }
    assert!(count >= 55, "only {count} sites were found");
}
