//! Checks that each directive exists, is allowed in its context, and has the right number and kind of arguments.
//! `lower` translates it.

use std::collections::HashMap;

use sluice_diag::{Diagnostic, Report, Span, closest};

use crate::hint::hint;
use crate::lower::values;
use crate::modules::proxy::misplaced_redirects;
use crate::registry::{self, Context, Definition, Entry, MANY, Repeats, Takes, Verdict};
use crate::tree::Directive;

/// Looks at all directives of `context` and at those inside of them. What cannot be used is reported and taken out.
pub fn check(directives: &mut Vec<Directive>, context: Context, report: &mut Report) {
    let mut first: HashMap<String, Span> = HashMap::new();
    directives.retain_mut(|directive| is_fit(directive, context, &mut first, report));
    for (directive, label, help) in misplaced_redirects(directives) {
        let title = format!("`{}` does not stand right", directive.name());
        report.push(
            Diagnostic::error("misplaced-directive", title)
                .at(directive.span(), label)
                .imported(directive.name.import)
                .help(help),
        );
    }
}

fn is_fit(
    directive: &mut Directive,
    context: Context,
    first: &mut HashMap<String, Span>,
    report: &mut Report,
) -> bool {
    let Some(entry) = find(directive, context, report) else {
        return false;
    };
    if !judge(directive, entry, report) {
        return false;
    }
    let Some(definition) = entry.definition else {
        return false;
    };
    if !takes(directive, definition, entry, report) || !values(directive, definition, report) {
        return false;
    }
    if let Some((at, wanted)) = definition.wrong(directive) {
        refuse(directive, at, wanted, report);
        // Who uses what is defined there has made no mistake.
        return definition.is_named;
    }
    let (key, is_once) = identity(directive, definition.repeats);
    let before = first.get(&key).copied();
    if let Some(before) = before.filter(|_| is_once) {
        let title = match key.split_once(' ') {
            Some(_) => format!("a second `{key}`"),
            None if key == "root" => "a second `root` or `alias` in one block".to_owned(),
            None => format!("`{key}` stands twice in one block"),
        };
        report.push(
            Diagnostic::error("duplicate-directive", title)
                .at(directive.span(), "it may stand there once")
                .imported(directive.name.import)
                .also(before, "the first one")
                .help("keep one of them"),
        );
        return false;
    }
    first.insert(key, directive.name.span);
    if let Some(holds) = definition.holds
        && let Some(block) = &mut directive.block
    {
        check(block, holds(context), report);
    }
    true
}

/// What may occur only once in a block, and whether this does: directives of the same name may define different things.
fn identity(directive: &Directive, repeats: Repeats) -> (String, bool) {
    let name = directive.name();
    let own = match repeats {
        Repeats::Yes => return (name.to_owned(), false),
        Repeats::No => return (name.to_owned(), true),
        Repeats::NotBeside(other) => return (other.to_owned(), true),
        Repeats::OncePerName => directive.arg(0),
        Repeats::OncePerZone => {
            let mut words = directive.args.iter();
            let text = words.find_map(|word| word.text.strip_prefix("zone="));
            text.and_then(|text| text.split(':').next())
        }
    };
    match own {
        Some(own) => (format!("{name} {own}"), true),
        None => (name.to_owned(), false),
    }
}

fn find(directive: &Directive, context: Context, report: &mut Report) -> Option<&'static Entry> {
    let name = directive.name();
    let mut known = registry::entries(name).peekable();
    if known.peek().is_none() {
        let found = Diagnostic::error("unknown-directive", format!("unknown directive `{name}`"))
            .at(directive.name.span, "not a directive")
            .imported(directive.name.import);
        report.push(match hint(name) {
            Some(hint) => found.help(hint),
            None => found.did_you_mean(closest(name, registry::names_in(context))),
        });
        return None;
    }
    let entries: Vec<&Entry> = known.collect();
    if let Some(entry) = entries.iter().find(|entry| entry.may_stand_in(context)) {
        return Some(entry);
    }
    // Where other servers of nginx's take it (mail, stream) helps nobody who has it in an `http` block.
    let of_http = entries.iter().filter(|entry| entry.is_of_http());
    let mut places: Vec<&str> = Vec::new();
    for entry in match of_http.clone().next() {
        Some(_) => of_http.collect::<Vec<_>>(),
        None => entries.iter().collect(),
    } {
        for place in entry.contexts.split(',') {
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    let title = format!("`{name}` is not allowed in {}", context.name());
    report.push(
        Diagnostic::error("misplaced-directive", title)
            .at(directive.name.span, "it does not belong here")
            .imported(directive.name.import)
            .help(format!("it may stand in: {}", places.join(", "))),
    );
    None
}

/// Whether the directive is to be looked at any further.
fn judge(directive: &Directive, entry: &Entry, report: &mut Report) -> bool {
    let name = directive.name();
    let place = directive.span();
    let found = match entry.verdict() {
        Verdict::Works | Verdict::Partly(_) | Verdict::Always(_) => return true,
        Verdict::OnlyAs(built) if directive.arg(0).is_some_and(|word| built.contains(&word)) => {
            return true;
        }
        Verdict::OnlyAs(built) => {
            let built: Vec<String> = built
                .iter()
                .map(|word| format!("`{name} {word}`"))
                .collect();
            Diagnostic::error(
                "unsupported-directive",
                format!("`{name}` is not supported yet"),
            )
            .at(place, format!("of {}", entry.module))
            .help(format!("supported: {}", built.join(" and ")))
        }
        Verdict::Idle(holds) => Diagnostic::warning("no-effect", format!("`{name}` has no effect"))
            .at(place, "read and ignored")
            .note(holds),
        Verdict::NotYet => Diagnostic::error(
            "unsupported-directive",
            format!("`{name}` is not supported yet"),
        )
        .at(place, format!("of {}", entry.module))
        .help("remove it, or keep serving this with nginx for now"),
        Verdict::Refused(reason) => Diagnostic::error(
            "unsupported-directive",
            format!("`{name}` is not supported"),
        )
        .at(place, format!("of {}", entry.module))
        .note(reason),
    };
    let goes_on = matches!(entry.verdict(), Verdict::Idle(_));
    report.push(found.imported(directive.name.import));
    goes_on
}

/// Whether number of words and block fit.
fn takes(
    directive: &Directive,
    definition: &Definition,
    entry: &Entry,
    report: &mut Report,
) -> bool {
    let (min, max, wants_block) = match definition.takes {
        Takes::Nothing => (0, 0, false),
        Takes::Flag | Takes::Choice(_) | Takes::Number | Takes::Size | Takes::Time => (1, 1, false),
        Takes::Words(min, max) => (min, max, false),
        Takes::Block(min, max) => (min, max, true),
    };
    let name = directive.name();
    if directive.block.is_some() != wants_block {
        let found = match wants_block {
            true => Diagnostic::error("missing-block", format!("`{name}` has no block"))
                .at(directive.span(), "`{` should follow"),
            false => Diagnostic::error(
                "unexpected-block",
                format!("`{name}` does not accept a block"),
            )
            .at(directive.span(), "`;` should follow"),
        };
        report.push(found.imported(directive.name.import).help(usage(entry)));
        return false;
    }
    let count = directive.args.len();
    if (min..=max).contains(&count) {
        return true;
    }
    let wanted = match (min, max) {
        (0, 0) => "nothing".to_owned(),
        (min, MANY) => format!("at least {}", words(min)),
        (min, max) if min == max => words(min),
        (min, max) => format!("{min} to {}", words(max)),
    };
    report.push(
        Diagnostic::error("argument-count", format!("`{name}` takes {wanted}"))
            .at(directive.span(), format!("{count} given"))
            .imported(directive.name.import)
            .help(usage(entry)),
    );
    false
}

fn words(count: usize) -> String {
    match count {
        1 => "1 word".to_owned(),
        count => format!("{count} words"),
    }
}

fn usage(entry: &Entry) -> String {
    format!(
        "write `{}`",
        format!("{} {}", entry.name, entry.syntax).trim()
    )
}

/// Whether the words are of the kind that is wanted.
fn values(directive: &Directive, definition: &Definition, report: &mut Report) -> bool {
    let Some(arg) = directive.args.first() else {
        return true;
    };
    let text = arg.text.as_str();
    let wanted = match definition.takes {
        Takes::Flag if !matches!(text, "on" | "off") => "`on` or `off`".to_owned(),
        Takes::Choice(choices) if !choices.contains(&text) => {
            let named: Vec<String> = choices.iter().map(|choice| format!("`{choice}`")).collect();
            named.join(", ")
        }
        Takes::Number if text.parse::<u64>().is_err() => "a number".to_owned(),
        Takes::Size if values::size(text).is_none() => "a size such as `8k` or `1m`".to_owned(),
        Takes::Time if values::time(text).is_none() => {
            "a length of time such as `30s` or `1h 30m`".to_owned()
        }
        _ => return true,
    };
    refuse(directive, 0, &wanted, report);
    false
}

/// Refuses one of the words.
fn refuse(directive: &Directive, at: usize, wanted: &str, report: &mut Report) {
    let name = directive.name();
    let word = &directive.args[at];
    report.push(
        Diagnostic::error(
            "invalid-value",
            format!("`{}` is not a valid value for `{name}`", word.text),
        )
        .at(word.span, "not understood")
        .imported(word.import)
        .help(format!("it takes {wanted}")),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryLoader;
    use crate::parse::parse_with;

    #[test]
    fn words_are_looked_at() {
        for (text, at) in [
            ("gzip_comp_level 10;", Some(0)),
            ("gzip_comp_level 9;", None),
            ("open_file_cache max=0;", Some(0)),
            ("open_file_cache inactive=1s;", Some(0)),
            ("open_file_cache max=10 inactive=20s;", None),
            ("open_file_cache off;", None),
            ("resolver ::1;", Some(0)),
            ("resolver [::1]:53 10.0.0.1:53 valid=5m ipv6=off;", None),
            ("resolver 10.0.0.1 valid=x;", Some(1)),
            ("access_log off combined;", Some(1)),
            ("access_log a combined flush=1s;", Some(2)),
            ("access_log a combined flush=1s buffer=32k;", None),
            ("access_log a combined flush=0 gzip;", Some(2)),
            ("access_log a combined flush=1h gzip if=;", None),
            ("access_log a combined gzip=10;", Some(2)),
            ("access_log a combined more;", Some(2)),
            ("access_log a/$host combined buffer=1k;", Some(0)),
            ("access_log syslog:server=a combined gzip;", Some(0)),
            ("open_log_file_cache max=0;", Some(0)),
            (
                "open_log_file_cache max=1 inactive=1s min_uses=0 valid=1m;",
                None,
            ),
            ("open_log_file_cache max=1 valid=x;", Some(1)),
            ("open_log_file_cache inactive=1s;", Some(0)),
            ("open_log_file_cache max=1 off;", None),
            ("listen 80 backlog=x;", Some(1)),
            ("listen 80 so_keepalive=30m::10 ipv6only=on;", None),
            ("listen 80 so_keepalive=x;", Some(1)),
            ("server_name a *.b .c ~^d;", None),
            ("server_name a *;", Some(1)),
            ("server_name *b.example;", Some(0)),
            ("limit_req_zone $a zone=b:1 rate=1r/s;", Some(1)),
            ("limit_req_zone $a zone=b:32k rate=1r/s;", None),
            ("proxy_buffers 0 4k;", Some(0)),
            ("proxy_buffers 8 4k;", None),
            ("fastcgi_pass /run/php.sock;", Some(0)),
            ("location ~ /(?<scheme>a) {}", Some(1)),
            ("location ~ /(?<own>a)(?<=b)(?<!c) {}", None),
            ("server_name ~^(?P<host>a);", Some(0)),
            ("keepalive_timeout 65s 60;", None),
            ("keepalive_timeout -1;", Some(0)),
        ] {
            let parsed = parse_with("nginx.conf", text, "", &MemoryLoader::default());
            let directive = &parsed.directives[0];
            let mut known =
                registry::entries(directive.name()).filter_map(|entry| entry.definition);
            let definition = known.next().expect("it is built");
            let found = definition.wrong(directive).map(|(at, _)| at);
            assert_eq!(found, at, "{text}");
        }
    }
}
