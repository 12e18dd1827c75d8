//! Properties of every Caddyfile: any text can be parsed and every mistake in it rendered; what is accepted becomes
//! JSON that reads back as the same model; and formatting changes neither a formatted text nor the meaning of a text.
//!
//! The fuzz target `caddyfile` checks the same properties on its own inputs.

use sluice_caddyfile::{MemoryLoader, adapt, adapt_v1, format, parse, translate};
use sluice_diag::{Colour, Report};
use sluice_model::Config;

/// Panics if something does not hold for the text.
pub fn check(text: &str) {
    let loader = loader();
    let parsed = parse("Caddyfile", text, &loader);
    check_report(&parsed.report);
    let adapted = adapt("Caddyfile", text, &loader);
    check_report(&adapted.report);
    assert_eq!(adapted.config.is_none(), adapted.report.has_errors());
    let model = adapted.config.as_ref().map(json);
    if let Some(text) = &model {
        let again: Config = serde_json::from_str(text).expect("our own JSON can be read");
        assert_eq!(
            json(&again),
            *text,
            "the model changed on its way through JSON"
        );
    }
    check_old(text, &loader);
    let Ok(formatted) = format("Caddyfile", text) else {
        return;
    };
    let again = format("Caddyfile", &formatted).expect("what was formatted can be formatted");
    assert_eq!(again, formatted, "formatting twice");
    if !parsed.report.has_errors() && has_plain_variables(text) {
        let reparsed = parse("Caddyfile", &formatted, &loader);
        assert!(!reparsed.report.has_errors(), "{}", reparsed.report.short());
        assert_eq!(
            reparsed.file.to_string(),
            parsed.file.to_string(),
            "formatting changed the tree"
        );
        let readapted = adapt("Caddyfile", &formatted, &loader);
        assert_eq!(
            readapted.config.as_ref().map(json),
            model,
            "formatting changed the model"
        );
    }
}

/// Takes the text for one of Caddy 1: a translation is formatted, and says what the text says.
fn check_old(text: &str, loader: &MemoryLoader) {
    let adapted = adapt_v1("Caddyfile", text, loader);
    check_report(&adapted.report);
    assert_eq!(adapted.config.is_none(), adapted.report.has_errors());
    let translated = translate("Caddyfile", text, loader);
    check_report(&translated.report);
    let Some(caddyfile) = translated.caddyfile else {
        assert!(translated.report.has_errors());
        return;
    };
    let formatted = format("Caddyfile", &caddyfile).map_err(|report| report.short());
    assert_eq!(formatted.as_ref(), Ok(&caddyfile));
    if let Some(config) = adapted.config
        && !text.contains(['$', '%'])
    {
        let new = adapt("Caddyfile", &caddyfile, loader);
        let new = new.config.as_ref().map(|config| names_aside(&json(config)));
        assert_eq!(new, Some(names_aside(&json(&config))), "{caddyfile}");
    }
}

/// Without the files that are hidden: those that were imported are part of the translation.
fn names_aside(config: &str) -> String {
    config
        .replace("\"./a\"", "")
        .replace("\"./c\"", "")
        .replace(",]", "]")
}

/// Whether no variable can move the borders of words. An empty one in front of a quote does, for
/// example, and `format` cannot know which are empty.
fn has_plain_variables(text: &str) -> bool {
    text.matches("{$").count() == text.matches("{$V}").count()
}

fn json(config: &Config) -> String {
    serde_json::to_string(config).expect("a model has no keys but strings")
}

/// Shows a report in each of its forms.
fn check_report(report: &Report) {
    let human = report.human(Colour::Always);
    assert_eq!(report.is_empty(), human.is_empty());
    assert_eq!(report.is_empty(), report.short().is_empty());
    for line in report.json().lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("each line is JSON");
    }
}

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
