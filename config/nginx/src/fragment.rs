//! Site files on their own: those of `conf.d`, `sites-available` and `snippets`, which an nginx.conf includes inside of
//! its `http` or `server` block. They are completed to a whole file, and the report says so.

use sluice_diag::{Diagnostic, Span};

use crate::lex::{Lexer, Token};
use crate::parse::{parse_with, reparse};
use crate::registry::{self, Context};
use crate::tree::{Directive, Word};
use crate::{Loader, Parsed, builtin};

/// Reads a file, and completes it with a warning if it is a part of one.
pub fn parse_whole(name: &str, text: &str, loader: &dyn Loader) -> Parsed {
    let mut parsed = parse_with(name, text, "", loader);
    if let Some(around) = around(&parsed.directives) {
        warn(&mut parsed, around);
        complete(&mut parsed, around);
    }
    parsed
}

/// As [`parse_whole`], without the warning: for `lint`, which finds mistakes in parts as well.
pub fn parse_completed(name: &str, text: &str, loader: &dyn Loader) -> Parsed {
    let mut parsed = parse_with(name, text, "", loader);
    if let Some(around) = around(&parsed.directives) {
        complete(&mut parsed, around);
    }
    parsed
}

/// The block that a file has to be included in: nothing if it is a whole file, or if it is not clear.
fn around(directives: &[Directive]) -> Option<Context> {
    const OF_MAIN: [&str; 4] = ["events", "http", "mail", "stream"];
    if directives.iter().any(|one| OF_MAIN.contains(&one.name())) {
        return None;
    }
    let may = |one: &Directive, context| {
        let mut known = registry::entries(one.name()).peekable();
        known.peek().is_none() || known.any(|entry| entry.may_stand_in(context))
    };
    let is_part = directives.iter().any(|one| !may(one, Context::Main));
    let mut contexts = [Context::Http, Context::Server].into_iter();
    contexts
        .find(|context| directives.iter().all(|one| may(one, *context)))
        .filter(|_| is_part)
}

/// Says that the file is a part.
fn warn(parsed: &mut Parsed, around: Context) {
    let Some(first) = parsed.directives.first() else {
        return;
    };
    let title = match around {
        Context::Server => "a part of a `server` block is read inside a minimal one",
        _ => "a part of an `http` block is read inside a minimal one",
    };
    let found = Diagnostic::warning("site-fragment", title)
        .at(first.name.span, "not allowed outside of it")
        .imported(first.name.import)
        .note("nginx reads such a file only where an nginx.conf includes it")
        .note("the `http` block around it has the built-in `mime.types` and nothing else")
        .help("to check it with the settings of its server, name the nginx.conf that includes it");
    parsed.report.push(found);
}

/// Puts a minimal configuration around the directives.
fn complete(parsed: &mut Parsed, around: Context) {
    let Some(first) = parsed.directives.first() else {
        return;
    };
    let span = first.name.span;
    let mut inner = std::mem::take(&mut parsed.directives);
    if around == Context::Server {
        inner = vec![block("server", span, inner)];
    }
    let mut whole = reparse("minimal nginx.conf", MINIMAL, &mut parsed.report);
    let types = builtin::text("mime.types").unwrap_or_default();
    let mut http = reparse("mime.types (built-in)", types, &mut parsed.report);
    http.append(&mut inner);
    whole.push(block("http", span, http));
    parsed.directives = whole;
}

/// The settings of a process that serves many connections.
const MINIMAL: &str = "\
worker_processes auto;
worker_rlimit_nofile 20000;
events { worker_connections 10000; }
";

fn block(name: &str, span: Span, inner: Vec<Directive>) -> Directive {
    Directive {
        name: Word {
            text: name.to_owned(),
            span,
            import: None,
        },
        args: Vec::new(),
        block: Some(inner),
    }
}

/// Whether a text begins like an nginx.conf or a file that one includes: with a directive that a semicolon ends, or
/// with the block of one. No other format has lines that end with semicolons.
pub fn looks_like_nginx(text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut report = sluice_diag::Report::new();
    let source = report.sources.add("", "");
    let mut lexer = Lexer::new(text, source);
    let mut words: Vec<String> = Vec::new();
    let mut outer = String::new();
    while let Some((Ok(token), span)) = lexer.next() {
        match token {
            Token::Word(_) if words.len() >= WORDS_LOOKED_AT => return false,
            Token::Word(text) => words.push(text),
            Token::Semicolon => {
                let rest = text.get(span.end as usize..).unwrap_or_default();
                let line = rest.lines().next().unwrap_or_default().trim();
                // Rows of `types` and `map` are not directives.
                let is_row = matches!(outer.as_str(), "types" | "map" | "geo" | "split_clients");
                return words
                    .first()
                    .is_some_and(|name| is_row || registry::is_known(name))
                    && (line.is_empty() || line.starts_with(['#', '}']) || begins_known(line));
            }
            Token::Open if words.first().is_some_and(|name| registry::is_known(name)) => {
                outer = words.swap_remove(0);
                words.clear();
            }
            Token::Open => return false,
            Token::Close => return words.is_empty() && BLOCKS.contains(&outer.as_str()),
        }
    }
    false
}

/// Blocks that may be empty; a Caddyfile has no directives of these names.
const BLOCKS: [&str; 3] = ["events", "http", "server"];

/// A statement with more words does not begin a file.
const WORDS_LOOKED_AT: usize = 1000;

fn begins_known(line: &str) -> bool {
    let name = line.split([' ', '\t', '{', ';']).next().unwrap_or_default();
    registry::is_known(name)
}

/// Whether a text begins with an `events` block, as only an nginx.conf does.
pub fn begins_with_events(text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    let rest = first.and_then(|line| line.strip_prefix("events"));
    rest.is_some_and(|rest| rest.is_empty() || rest.trim_start().starts_with('{'))
        && looks_like_nginx(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_shows_in_the_first_directive() {
        for text in [
            "events {}",
            "# a\nevents\n{\n}\nhttp {}",
            "events { worker_connections 5; }",
            "user www-data; # b\n",
            "server {\n\tlisten 80;\n}",
            "server { listen 80; root /a; }",
            "upstream a {\n  server b:80;\n}",
            "map $a $b {\n\tdefault 1;\n}",
            "log_format a\n '$b;'\n '$c';\n",
            "http {\n  server {\n    location / { return 204; }\n  }\n}",
            "\u{feff}location / {\n return 204;\n}",
        ] {
            assert!(looks_like_nginx(text), "{text}");
        }
        for text in [
            "",
            "a.example {\n\trespond x\n}",
            "server {\n\trespond x\n}",
            "root /a\nfile_server",
            "server {\n\theader A \"b; c\"\n}",
            "events {\n\treverse_proxy {\n\t\tto a:1\n\t}\n}",
            "server {\n\trespond `a; b`\n}",
            "{\n\tdebug\n}",
            ":80\nrespond a;",
        ] {
            assert!(!looks_like_nginx(text), "{text}");
        }
        assert!(begins_with_events("# a\nevents {\n}\n"));
        assert!(begins_with_events("events { worker_connections 5; }"));
        assert!(!begins_with_events("events {\n\trespond x\n}\n"));
        assert!(!begins_with_events("server { listen 80; }"));
    }
}
