//! Properties of every nginx.conf: any text can be parsed and every mistake in it rendered; what is accepted becomes
//! JSON that reads back as the same model, and a Caddyfile that is accepted as well; lint rules handle any input; and
//! words that are written out are parsed as the same words again.
//!
//! The fuzz target `nginx` checks the same properties on its own inputs.

use sluice_diag::{Colour, Report};
use sluice_model::Config;
use sluice_nginx::lint::lint;
use sluice_nginx::tree::Directive;
use sluice_nginx::{MemoryLoader, adapt, parse, translate};

/// Panics if something does not hold for the text.
pub fn check(text: &str) {
    let mut loader = MemoryLoader::default();
    loader
        .files
        .insert("more.conf".to_owned(), b"server { listen 81; }".to_vec());
    let parsed = parse("nginx.conf", text, &loader);
    check_report(&parsed.report);
    if !parsed.report.has_errors() {
        check_words(&parsed.directives);
    }
    check_report(&lint("nginx.conf", text, &loader));
    let adapted = adapt("nginx.conf", text, &loader);
    check_report(&adapted.report);
    assert_eq!(adapted.config.is_none(), adapted.report.has_errors());
    let Some(config) = &adapted.config else {
        return;
    };
    let model = json(config);
    let again: Config = serde_json::from_str(&model).expect("our own JSON can be read");
    assert_eq!(
        json(&again),
        model,
        "the model changed on its way through JSON"
    );
    let caddyfile = translate("nginx.conf", text, &loader).caddyfile;
    assert!(caddyfile.is_some(), "what is accepted is translated");
}

fn json(config: &Config) -> String {
    serde_json::to_string(config).expect("keys are text")
}

/// Everything that is said of a text can be shown, in each form.
fn check_report(report: &Report) {
    report.human(Colour::Never);
    report.short();
    report.json();
}

/// Writes the directives out, each word in quotes, and reads them again.
fn check_words(directives: &[Directive]) {
    let mut written = String::new();
    write(directives, &mut written);
    let again = parse("again.conf", &written, &MemoryLoader::default());
    assert!(
        !again.report.has_errors(),
        "{written}\n{}",
        again.report.short()
    );
    let mut twice = String::new();
    write(&again.directives, &mut twice);
    assert_eq!(twice, written, "words changed");
}

fn write(directives: &[Directive], out: &mut String) {
    for directive in directives {
        for word in std::iter::once(&directive.name).chain(&directive.args) {
            // Only quotes and backslashes have to be escaped: all else stands for itself between quotes.
            out.push('"');
            out.push_str(&word.text.replace('\\', "\\\\").replace('"', "\\\""));
            out.push_str("\" ");
        }
        match &directive.block {
            None => out.push_str(";\n"),
            Some(block) => {
                out.push_str("{\n");
                write(block, out);
                out.push_str("}\n");
            }
        }
    }
}
