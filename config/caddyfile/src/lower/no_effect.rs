//! Warns about accepted lines that have no effect: one walk over the tree reports each such line.
//!
//! `registry::running` lists these words. Lines that the server rejects are reported by the server itself.

use sluice_diag::{Diagnostic, Report};

use super::args::GLOBAL;
use crate::registry::{Running, running};
use crate::tree::{Directive, File, Token};

/// The place of lines that are directives.
const DIRECTIVES: &str = "";

/// Warns of every line without effect. The tree has to be one that was lowered without errors.
pub(super) fn warn(file: &File, report: &mut Report) {
    if let Some(global) = &file.global {
        warn_lines(GLOBAL, &global.body, report);
    }
    for named in &file.named_routes {
        warn_lines(DIRECTIVES, &named.body, report);
    }
    for site in &file.sites {
        warn_lines(DIRECTIVES, &site.body, report);
    }
}

/// The parser limits how deep blocks are nested, and with it the depth of this.
fn warn_lines(place: &'static str, lines: &[Directive], report: &mut Report) {
    for line in lines {
        let name = line.name.text.as_str();
        match running(place, name) {
            Running::Idle(holds) => report.push(warning(&line.name, &title(place, name), holds)),
            Running::Whole | Running::Always(_) | Running::Partly(_) => {
                warn_words(place, line, report);
                warn_inside(place, line, report);
            }
        }
    }
}

/// Warns of single words without effect, on lines of which others have one.
fn warn_words(place: &'static str, line: &Directive, report: &mut Report) {
    let (what, works, holds) = match (place, line.name.text.as_str()) {
        ("bind" | "servers", "protocols") => (
            "protocol",
            &["h1", "h2", "h2c"][..],
            "clients that offer it speak HTTP/2 or HTTP/1.1 as well",
        ),
        ("tls", "alpn") => (
            "application protocol",
            &["h2", "http/1.1"][..],
            "it is not offered: `h2` and `http/1.1` are what is spoken",
        ),
        _ => return,
    };
    for word in &line.args {
        if !works.contains(&word.text.as_str()) {
            let what = format!("{what} `{}`", word.text);
            report.push(warning(word, &what, holds));
        }
    }
}

fn warn_inside(place: &'static str, line: &Directive, report: &mut Report) {
    let Some(inner) = inside(place, line) else {
        return;
    };
    match (running(inner, "*"), line.args.first()) {
        // No setting of the module has an effect, and so neither has naming it, with or without a block.
        (Running::Idle(holds), Some(module)) => {
            let title = format!("{} `{}`", inner_kind(inner), module.text);
            report.push(warning(module, &title, holds));
        }
        _ => warn_lines(inner, line.lines(), report),
    }
}

/// The place of the lines inside a line; `None` where none of them could be without effect.
fn inside(place: &str, line: &Directive) -> Option<&'static str> {
    let module = line.args.first().map_or("", |word| word.text.as_str());
    match (place, line.name.text.as_str(), module) {
        (DIRECTIVES, "handle" | "handle_errors" | "handle_path" | "route", _)
        | ("reverse_proxy", "handle_response", _) => Some(DIRECTIVES),
        (DIRECTIVES, "bind", _) | (GLOBAL, "default_bind", _) => Some("bind"),
        (DIRECTIVES | GLOBAL, "log", _) => Some("log"),
        // `forward_auth` takes the options of a proxy besides its own.
        (DIRECTIVES, "reverse_proxy" | "forward_auth", _) => Some("reverse_proxy"),
        (DIRECTIVES, "rate_limit", _) => Some("rate_limit"),
        (DIRECTIVES, "tls", _) => Some("tls"),
        (GLOBAL | "servers", "metrics", _) => Some("metrics option"),
        (GLOBAL, "pki", _) => Some("pki"),
        (GLOBAL, "servers", _) => Some("servers"),
        ("log", "format", _) => Some("format"),
        ("pki", "ca", _) => Some("ca"),
        ("reverse_proxy", "dynamic", "a" | "srv") => Some("dynamic"),
        ("reverse_proxy", "transport", "http") => Some("transport http"),
        _ => None,
    }
}

/// What a module that stands in a place of its own is called.
fn inner_kind(inner: &str) -> &str {
    inner.split_once(' ').map_or(inner, |(kind, _)| kind)
}

fn title(place: &str, name: &str) -> String {
    match place {
        DIRECTIVES => format!("directive `{name}`"),
        GLOBAL => format!("global option `{name}`"),
        place => format!("option `{name}` of `{place}`"),
    }
}

fn warning(word: &Token, what: &str, holds: &str) -> Diagnostic {
    let title = format!("{what} has no effect yet");
    word.warning("no-effect", title, "is read and changes nothing")
        .help(holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::GAPS;
    use crate::{MemoryLoader, adapt};

    /// How each line without effect is written in a Caddyfile; `$` stands for it.
    const AROUND: &[(&str, &str)] = &[
        ("", ":80 {\n$\n}"),
        ("bind", ":80 {\nbind 127.0.0.1 {\n$\n}\n}"),
        ("format", ":80 {\nlog {\nformat json {\n$\n}\n}\n}"),
        ("rate_limit", ":80 {\nrate_limit {\n$\n}\n}"),
        ("dynamic", ":80 {\nreverse_proxy {\ndynamic a {\n$\n}\n}\n}"),
        (
            "transport http",
            ":80 {\nreverse_proxy a:1 {\ntransport http {\n$\n}\n}\n}",
        ),
        ("tls", "a.example {\ntls {\n$\n}\n}"),
        (GLOBAL, "{\n$\n}"),
        ("metrics option", "{\nmetrics {\n$\n}\n}"),
        ("servers", "{\nservers {\n$\n}\n}"),
    ];

    fn warnings(text: &str) -> Vec<String> {
        let parsed = crate::parse("Caddyfile", text, &MemoryLoader::default());
        assert!(
            parsed.report.is_empty(),
            "{text}: {}",
            parsed.report.short()
        );
        let mut report = Report::new();
        report.sources = parsed.report.sources;
        warn(&parsed.file, &mut report);
        let sorted = report.sorted();
        sorted.iter().map(|found| found.title.clone()).collect()
    }

    /// The walk reads no words behind a name, so every gap can be tried by its name alone.
    #[test]
    fn every_word_without_effect_is_found_once() {
        let idle = GAPS
            .iter()
            .filter(|gap| matches!(gap.running, Running::Idle(_)));
        for gap in idle {
            let around = AROUND.iter().find(|(place, _)| *place == gap.place);
            let (_, around) = around.unwrap_or_else(|| panic!("{gap:?} is not tried"));
            let text = around.replace('$', gap.name);
            let said = warnings(&text);
            let named = |title: &String| gap.name == "*" || title.contains(gap.name);
            assert!(
                matches!(said.as_slice(), [only] if named(only)),
                "{gap:?}: {said:?}"
            );
        }
    }

    #[test]
    fn what_works_or_is_refused_is_left_alone() {
        let text = "{\ndebug\n}\n:80 {\ntemplates\nlog {\noutput stdout\n}\n\
            tls {\nprotocols tls1.3\nissuer internal\n}\n\
            reverse_proxy a:1 {\ntransport fastcgi {\nread_timeout 1s\n}\n}\n}";
        assert_eq!(warnings(text), Vec::<String>::new());
    }

    #[test]
    fn protocols_that_are_not_spoken_are_named() {
        let text = "{\nservers {\nprotocols h1 h2 h2c h3\n}\n}\n\
            a.example {\nbind 127.0.0.1 {\nprotocols h3\n}\ntls {\nalpn h2 spdy/3 http/1.1\n}\n}";
        let h3 = "protocol `h3` has no effect yet";
        let spdy = "application protocol `spdy/3` has no effect yet";
        assert_eq!(warnings(text), [h3, h3, spdy]);
    }

    /// A list of mistakes is not lengthened by what is merely without effect.
    #[test]
    fn mistakes_come_first() {
        let adapted = adapt(
            "Caddyfile",
            ":80 {\npush /a\nnonsense\n}",
            &MemoryLoader::default(),
        );
        let sorted = adapted.report.sorted();
        let slugs: Vec<_> = sorted.iter().map(|found| found.slug).collect();
        assert_eq!(slugs, ["unknown-directive"]);
    }
}
