//! Caddyfiles: any text is read and every mistake in it can be shown; formatting twice changes nothing more than
//! formatting once, and never what the file says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_caddyfile::{MemoryLoader, format, parse};
use sluice_diag::Colour;

fuzz_target!(|text: &str| {
    let loader = loader();
    let parsed = parse("Caddyfile", text, &loader);
    let shown = [
        parsed.report.human(Colour::Never),
        parsed.report.short(),
        parsed.report.json(),
    ];
    assert_eq!(parsed.report.is_empty(), shown[0].is_empty());
    let Ok(formatted) = format("Caddyfile", text) else {
        return;
    };
    let again = format("Caddyfile", &formatted).expect("what was formatted can be formatted");
    assert_eq!(again, formatted, "formatting twice");
    if parsed.report.has_errors() {
        return;
    }
    let reparsed = parse("Caddyfile", &formatted, &loader);
    assert!(!reparsed.report.has_errors(), "{}", reparsed.report.short());
    assert_eq!(
        reparsed.file.to_string(),
        parsed.file.to_string(),
        "formatting changed the tree"
    );
});

/// Files to import, one of them in a circle, and variables to substitute.
fn loader() -> MemoryLoader {
    let mut loader = MemoryLoader::default();
    for (path, text) in [
        ("a", "header X {args[0]}\nrespond {args[:]}"),
        ("b", "import b"),
        ("c", "(s) {\n\t{block}\n}"),
    ] {
        loader.files.insert(path.into(), text.into());
    }
    loader
        .variables
        .insert("V".into(), "value { with } braces".into());
    loader
}
