//! What is too large, too deep or no text at all is refused, and quickly.

use std::io;
use std::time::{Duration, Instant};

use sluice_caddyfile::limits::{BLOCK_DEPTH_MAX, FILE_BYTES_MAX, WORDS_MAX};
use sluice_caddyfile::{DiskLoader, Loader, MemoryLoader, Parsed, format, parse};

fn slugs(parsed: &Parsed) -> Vec<&'static str> {
    parsed
        .report
        .sorted()
        .iter()
        .map(|found| found.slug)
        .collect()
}

fn with_file(name: &str, bytes: Vec<u8>) -> MemoryLoader {
    let mut loader = MemoryLoader::default();
    loader.files.insert(name.into(), bytes);
    loader
}

#[test]
fn files_above_the_limit_are_refused() {
    let large = "#".repeat(FILE_BYTES_MAX + 1);
    let none = MemoryLoader::default();
    assert_eq!(
        slugs(&parse("Caddyfile", &large, &none)),
        ["file-too-large"]
    );
    assert!(format("Caddyfile", &large).is_err());
    let parsed = parse("Caddyfile", "import f", &with_file("f", large.into_bytes()));
    assert_eq!(slugs(&parsed), ["file-too-large"]);
}

#[test]
fn a_device_without_end_is_not_read_to_its_end() {
    let error = DiskLoader.read("/dev/zero").expect_err("it has no end");
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
}

#[test]
fn bytes_that_are_no_text_are_reported_where_they_are() {
    let parsed = parse(
        "Caddyfile",
        "import f",
        &with_file("f", b":80 {\n\trespond \xff\n}\n".into()),
    );
    let expected = "f:2:10: error[invalid-utf8]: `f` is not UTF-8 text\n";
    assert_eq!(parsed.report.short(), expected);
}

#[test]
fn snippets_that_double_each_other_end_at_the_limit() {
    let mut text = String::from("(s0) {\n\trespond x\n}\n");
    for n in 1..30 {
        text.push_str(&format!(
            "(s{n}) {{\n\timport s{0}\n\timport s{0}\n}}\n",
            n - 1
        ));
    }
    text.push_str(":80 {\n\timport s29\n}\n");
    let started = Instant::now();
    let parsed = parse("Caddyfile", &text, &MemoryLoader::default());
    assert_eq!(slugs(&parsed), ["too-many-words"]);
    assert!(parsed.file.sites[0].body.len() <= WORDS_MAX);
    assert!(
        started.elapsed() < Duration::from_secs(60),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn nesting_to_the_limit_is_fine_and_far_beyond_is_refused() {
    let nested =
        |depth: usize| ":80 {\n".to_owned() + &"a {\n".repeat(depth) + &"}\n".repeat(depth + 1);
    let none = MemoryLoader::default();
    assert_eq!(
        slugs(&parse("Caddyfile", &nested(BLOCK_DEPTH_MAX - 1), &none)),
        [""; 0]
    );
    assert_eq!(
        slugs(&parse("Caddyfile", &nested(100_000), &none)),
        ["nesting-too-deep"]
    );
}

#[test]
fn ten_thousand_sites_are_read_in_no_time() {
    let site = |n| format!("site{n}.example {{\n\troot * /srv/{n}\n\tfile_server\n\tlog\n}}\n");
    let text: String = (0..10_000).map(site).collect();
    let started = Instant::now();
    let parsed = parse("Caddyfile", &text, &MemoryLoader::default());
    assert_eq!(parsed.file.sites.len(), 10_000);
    assert!(parsed.report.is_empty());
    // A second would already be slow without optimisation; more means that a cost is not linear.
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
}
