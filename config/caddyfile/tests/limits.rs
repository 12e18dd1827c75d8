//! Input that is too large, too deeply nested or not text at all is rejected, and quickly.

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
fn arguments_that_double_in_length_end_at_the_limit() {
    let mut text = String::from("(s0) {\n\trespond {args[0]}\n}\n");
    for n in 1..30 {
        let inner = n - 1;
        text.push_str(&format!(
            "(s{n}) {{\n\timport s{inner} {{args[0]}}{{args[0]}}\n}}\n"
        ));
    }
    text.push_str(&format!(":80 {{\n\timport s29 {}\n}}\n", "x".repeat(100)));
    let parsed = parse("Caddyfile", &text, &MemoryLoader::default());
    assert_eq!(slugs(&parsed), ["too-many-words"]);
    let words = "{args[0]}".repeat(1_000);
    let text = format!(
        "(s) {{\n\trespond {words}\n}}\n:80 {{\n\timport s {}\n}}\n",
        "x".repeat(1 << 20)
    );
    assert_eq!(
        slugs(&parse("Caddyfile", &text, &MemoryLoader::default())),
        ["too-many-words"]
    );
}

#[test]
fn imports_nest_no_deeper_than_blocks() {
    let deep = |inner: &str| "a {\n".repeat(40) + inner + &"}\n".repeat(40);
    let by_block = format!(
        "(s) {{\n{}}}\n:80 {{\nimport s {{\n{}}}\n}}\n",
        deep("{block}\n"),
        deep("")
    );
    let by_import = format!(
        "(t) {{\n{}}}\n(s) {{\n{}}}\n:80 {{\nimport s\n}}\n",
        deep(""),
        deep("import t\n")
    );
    let by_chain = (1..30).fold(String::from("(s0) {\n{block}\n}\n"), |text, n| {
        let inner = deep("{block}\n");
        format!("{text}(s{n}) {{\nimport s{} {{\n{inner}}}\n}}\n", n - 1)
    }) + ":80 {\nimport s29 {\nx\n}\n}\n";
    for text in [by_block, by_import, by_chain] {
        assert_eq!(
            slugs(&parse("Caddyfile", &text, &MemoryLoader::default())),
            ["nesting-too-deep"]
        );
    }
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
