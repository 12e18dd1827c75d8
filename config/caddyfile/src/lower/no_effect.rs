//! Warns about accepted lines that have no effect: one walk over the tree reports each such line.
//!
//! Definitions say which lines these are. Lines that the server rejects are reported by the server itself.

use sluice_diag::{Diagnostic, Report};

use super::args::GLOBAL;
use super::definition::{Block, Entry, OptionTable, Verdict};
use super::directives;
use super::options::GLOBAL_OPTIONS;
use crate::tree::{Directive, File, Token};

/// What the first words of lines are: options of a table, or directives.
type Names = Option<&'static dyn OptionTable>;

/// Warns of every line without effect. The tree has to be one that was lowered without errors.
pub(super) fn warn(file: &File, report: &mut Report) {
    if let Some(global) = &file.global {
        warn_lines(Some(&GLOBAL_OPTIONS), &global.body, report);
    }
    for named in &file.named_routes {
        warn_lines(None, &named.body, report);
    }
    for site in &file.sites {
        warn_lines(None, &site.body, report);
    }
}

/// The parser limits how deep blocks are nested, and with it the depth of this.
fn warn_lines(names: Names, lines: &[Directive], report: &mut Report) {
    for line in lines {
        let Some(entry) = find(names, &line.name.text) else {
            continue;
        };
        if let Verdict::NoEffect(instead) = entry.verdict {
            report.push(warning(&line.name, &title(names, entry), instead));
            continue;
        }
        if let Some(idle) = entry.idle_arguments {
            let has_effect = |word: &Token| idle.working.contains(&word.text.as_str());
            for word in line.args.iter().filter(|word| !has_effect(word)) {
                let what = format!("{} `{}`", idle.kind, word.text);
                report.push(warning(word, &what, idle.instead));
            }
        }
        warn_block(entry, line, report);
    }
}

fn find(names: Names, name: &str) -> Option<&'static Entry> {
    let Some(table) = names else {
        return directives::find(name).map(|known| &known.entry);
    };
    let others = || table.others().and_then(|others| others.find(name));
    table.find(name).or_else(others)
}

fn warn_block(entry: &Entry, line: &Directive, report: &mut Report) {
    let of = |modules: &[(&str, &'static dyn OptionTable)], name: &str| {
        let module = modules.iter().find(|(module, _)| *module == name);
        module.map(|(_, table)| *table)
    };
    match entry.block {
        Block::Free => {}
        Block::Directives => warn_lines(None, line.lines(), report),
        Block::Options(table) => warn_lines(Some(table), line.lines(), report),
        Block::Modules(modules) => {
            let module = line.args.first().map_or("", |word| word.text.as_str());
            if let Some(table) = of(modules, module) {
                warn_lines(Some(table), line.lines(), report);
            }
        }
        Block::ModuleLines(modules) => {
            for inner in line.lines() {
                if let Some(table) = of(modules, &inner.name.text) {
                    warn_lines(Some(table), inner.lines(), report);
                }
            }
        }
    }
}

fn title(names: Names, entry: &Entry) -> String {
    let name = entry.name;
    match names.map(|table| table.name()) {
        None => format!("directive `{name}`"),
        Some(GLOBAL) => format!("global option `{name}`"),
        Some(place) => format!("option `{name}` of `{place}`"),
    }
}

fn warning(word: &Token, what: &str, holds: &str) -> Diagnostic {
    let title = format!("{what} has no effect");
    word.warning("no-effect", title, "accepted, but ignored")
        .help(holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{directives, global_tables, site_tables};
    use crate::{MemoryLoader, adapt};

    /// How each line without effect is written in a Caddyfile; `$` stands for it.
    const AROUND: &[(&str, &str)] = &[
        ("", ":80 {\n$\n}"),
        ("rate_limit", ":80 {\nrate_limit {\n$\n}\n}"),
        (
            "distributed",
            ":80 {\nrate_limit {\ndistributed {\n$\n}\n}\n}",
        ),
        ("dynamic", ":80 {\nreverse_proxy {\ndynamic a {\n$\n}\n}\n}"),
        (
            "transport http",
            ":80 {\nreverse_proxy a:1 {\ntransport http {\n$\n}\n}\n}",
        ),
        ("cache", ":80 {\ncache {\n$\n}\n}"),
        ("api", ":80 {\ncache {\napi {\n$\n}\n}\n}"),
        ("timeout", ":80 {\ncache {\ntimeout {\n$\n}\n}\n}"),
        (GLOBAL, "{\n$\n}"),
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

    /// The walk reads no words behind a name, so every line can be tried by its name alone.
    #[test]
    fn every_line_without_effect_is_found_once() {
        let directives = directives().map(|known| ("", &known.entry));
        let tables = site_tables().into_iter().chain(global_tables());
        let options = tables.flat_map(|table| table.entries().map(|entry| (table.name(), entry)));
        let is_idle = |entry: &Entry| matches!(entry.verdict, Verdict::NoEffect(_));
        for (place, entry) in directives
            .chain(options)
            .filter(|(_, entry)| is_idle(entry))
        {
            let name = entry.name;
            let around = AROUND.iter().find(|(known, _)| *known == place);
            let (_, around) =
                around.unwrap_or_else(|| panic!("`{name}` of `{place}` is not tried"));
            let titles = warnings(&around.replace('$', name));
            assert!(
                matches!(titles.as_slice(), [only] if only.contains(name)),
                "{place} {name}: {titles:?}"
            );
        }
    }

    /// Blocks that contain directives, and directives that take the options of `reverse_proxy` besides their own.
    #[test]
    fn lines_without_effect_are_found_in_every_block() {
        for around in [
            ":80 {\nintercept {\nhandle_response {\n$\n}\n}\n}",
            ":80 {\nreverse_proxy a:1 {\nhandle_response {\n$\n}\n}\n}",
            ":80 {\nhandle_errors {\nroute {\n$\n}\n}\n}",
            "&(named) {\n$\n}",
        ] {
            let titles = warnings(&around.replace('$', "push /a"));
            assert_eq!(titles, ["directive `push` has no effect"], "{around}");
        }
        for around in [
            ":80 {\nphp_fastcgi {\n$\n}\n}",
            ":80 {\nforward_auth {\n$\n}\n}",
            ":80 {\nreverse_proxy {\n$\n}\n}",
        ] {
            let titles = warnings(&around.replace('$', "dynamic a b {\ndial_fallback_delay 1s\n}"));
            let title = "option `dial_fallback_delay` of `dynamic` has no effect";
            assert_eq!(titles, [title], "{around}");
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
        let spdy = "application protocol `spdy/3` has no effect";
        assert_eq!(warnings(text), [spdy]);
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
