//! Request matchers and response matchers in all their forms.

use std::collections::BTreeMap;

use sluice_model::matcher::{
    Expression, FileMatcher, IpRanges, Regexp, ResponseMatcher, TlsMatcher, UrlPattern,
};
use sluice_model::{Matcher, MatcherSet};

use super::args::texts;
use super::definition::Read::{Choice, Flag, MoreTexts, Text, Texts, With};
use super::definition::{Block, OptionTable, Options, option};
use super::{Lowering, WrittenExpression};
use crate::registry::plugins::plugin_word;
use crate::tree::{Directive, Quote, Token};

/// What `private_ranges` stands for: RFC 1918, RFC 4193 and the loopback networks.
pub(super) const PRIVATE_RANGES: [&str; 6] = [
    "192.168.0.0/16",
    "172.16.0.0/12",
    "10.0.0.0/8",
    "127.0.0.1/8",
    "fd00::/8",
    "::1",
];

/// The ways to choose among files that exist.
pub(super) const TRY_POLICIES: [&str; 5] = [
    "first_exist",
    "first_exist_fallback",
    "smallest_size",
    "largest_size",
    "most_recently_modified",
];

/// The matchers.
static MATCHERS: Options<Reading> = Options::new(
    "matcher",
    &[
        option(
            "client_ip",
            "client_ip <ranges...>",
            With(|cx, line, reading| {
                let earlier = reading.earlier(line);
                let matcher = Matcher::ClientIp(cx.ip_ranges(line, earlier)?);
                reading.found.push(matcher);
                Some(())
            }),
        ),
        option(
            "expression",
            "expression <cel...>",
            With(|cx, line, reading| {
                let earlier = reading.earlier(line);
                let matcher = Matcher::Expression(cx.expression(line, &reading.name, earlier)?);
                reading.found.push(matcher);
                Some(())
            }),
        ),
        option::<Reading>(
            "file",
            "file <files...> [{ … }]",
            With(|cx, line, reading| {
                let earlier = reading.earlier(line);
                let matcher = Matcher::File(cx.file_matcher(line, earlier)?);
                reading.found.push(matcher);
                Some(())
            }),
        )
        .holding(Block::Options(&FILE)),
        option(
            "header",
            "header <field> <value>",
            With(|cx, line, reading| {
                let earlier = reading.earlier(line);
                let matcher = Matcher::Header(cx.header_matcher(line, earlier)?);
                reading.found.push(matcher);
                Some(())
            }),
        ),
        option(
            "header_regexp",
            "header_regexp [<name>] <field> <regexp>",
            With(|cx, line, reading| {
                let earlier = reading.earlier(line);
                let matcher =
                    Matcher::HeaderRegexp(cx.named_regexps(line, &reading.name, earlier)?);
                reading.found.push(matcher);
                Some(())
            }),
        ),
        option(
            "host",
            "host <hosts...>",
            With(|cx, line, reading| {
                let earlier = reading.earlier(line);
                let matcher = Matcher::Host(cx.list(line, earlier)?);
                reading.found.push(matcher);
                Some(())
            }),
        ),
        option(
            "method",
            "method <verbs...>",
            With(|cx, line, reading| {
                let earlier = reading.earlier(line);
                let matcher = Matcher::Method(cx.list(line, earlier)?);
                reading.found.push(matcher);
                Some(())
            }),
        ),
        option(
            "not",
            "not <matcher>",
            With(|cx, line, reading| {
                let earlier = reading.earlier(line);
                let matcher = Matcher::Not(cx.not_matcher(line, earlier)?);
                reading.found.push(matcher);
                Some(())
            }),
        ),
        option(
            "path",
            "path <paths...>",
            With(|cx, line, reading| {
                let earlier = reading.earlier(line);
                let matcher = Matcher::Path(cx.list(line, earlier)?);
                reading.found.push(matcher);
                Some(())
            }),
        ),
        option(
            "path_regexp",
            "path_regexp [<name>] <regexp>",
            With(|cx, line, reading| {
                let earlier = reading.earlier(line);
                let matcher = Matcher::PathRegexp(cx.path_regexp(line, &reading.name, earlier)?);
                reading.found.push(matcher);
                Some(())
            }),
        ),
        option(
            "protocol",
            "protocol http|https|grpc|http/<version>[+]",
            With(|cx, line, reading| {
                reading.earlier(line);
                let matcher = Matcher::Protocol(cx.single_text(line)?);
                reading.found.push(matcher);
                Some(())
            }),
        ),
        option(
            "query",
            "query <key>=<val>...",
            With(|cx, line, reading| {
                let earlier = reading.earlier(line);
                let matcher = Matcher::Query(cx.query(line, earlier)?);
                reading.found.push(matcher);
                Some(())
            }),
        ),
        option(
            "remote_ip",
            "remote_ip <ranges...>",
            With(|cx, line, reading| {
                let earlier = reading.earlier(line);
                let matcher = Matcher::RemoteIp(cx.ip_ranges(line, earlier)?);
                reading.found.push(matcher);
                Some(())
            }),
        ),
        option(
            "tls",
            "tls [early_data]",
            With(|cx, line, reading| {
                reading.earlier(line);
                let matcher = Matcher::Tls(cx.tls_matcher(line)?);
                reading.found.push(matcher);
                Some(())
            }),
        ),
        option(
            "vars",
            "vars <variable> <values...>",
            With(|cx, line, reading| {
                let earlier = reading.earlier(line);
                let matcher = Matcher::Vars(cx.vars_matcher(line, earlier)?);
                reading.found.push(matcher);
                Some(())
            }),
        ),
        option(
            "vars_regexp",
            "vars_regexp [<name>] <variable> <regexp>",
            With(|cx, line, reading| {
                let earlier = reading.earlier(line);
                let matcher =
                    Matcher::VarsRegexp(cx.named_regexps(line, &reading.name, earlier)?);
                reading.found.push(matcher);
                Some(())
            }),
        ),
        option::<Reading>(
            "url_pattern",
            "url_pattern <pattern> [{ … }]",
            With(|cx, line, reading| {
                let earlier = reading.earlier(line);
                let matcher = Matcher::UrlPattern(cx.url_pattern(line, earlier)?);
                reading.found.push(matcher);
                Some(())
            }),
        )
        .holding(Block::Options(&URL_PATTERN)),
    ],
);

/// The matchers of one set, as far as they were read.
pub(super) struct Reading {
    /// The name of the set, which expressions and patterns take over.
    name: String,
    found: Vec<Matcher>,
}

impl Reading {
    /// Takes out the matcher of the same kind as a line: lines of one kind add up.
    fn earlier(&mut self, line: &Directive) -> Option<Matcher> {
        let is_same = |matcher: &Matcher| matcher.module() == line.name.text;
        let at = self.found.iter().position(is_same)?;
        Some(self.found.remove(at))
    }
}

const TRY_POLICY: &str = "try_policy first_exist|first_exist_fallback|smallest_size|largest_size|\
    most_recently_modified";

/// The options of the matcher `file`.
static FILE: Options<FileMatcher> = Options::new(
    "file matcher",
    &[
        option("root", "root <path>", Text(|file| &mut file.root)),
        option(
            "try_files",
            "try_files <files...>",
            MoreTexts(|file| &mut file.try_files),
        ),
        option(
            "try_policy",
            TRY_POLICY,
            Choice(&TRY_POLICIES, |file| &mut file.try_policy),
        ),
        option(
            "split_path",
            "split_path <delims...>",
            Texts(|file| &mut file.split_path),
        ),
    ],
);

/// The options of the matcher `url_pattern`.
static URL_PATTERN: Options<UrlPattern> = Options::new(
    "url_pattern matcher",
    &[
        option(
            "base_url",
            "base_url <url>",
            Text(|pattern| &mut pattern.base_url),
        ),
        option(
            "ignore_case",
            "ignore_case",
            Flag(|pattern| &mut pattern.ignore_case),
        ),
    ],
);

/// The response matchers.
static RESPONSE: Options<ResponseMatcher> = Options::new(
    "response matcher",
    &[
        option(
            "status",
            "status <code...>",
            With(|cx, line, matcher| {
                let codes = cx.statuses(line)?;
                matcher.status_code.extend(codes);
                Some(())
            }),
        ),
        option(
            "header",
            "header <field> [<value>]",
            With(|cx, line, matcher| cx.header_condition(line, &line.args, &mut matcher.headers)),
        ),
    ],
);

/// The request matchers and the response matchers, for the registry.
pub(crate) static TABLES: [&dyn OptionTable; 2] = [&RESPONSE, &MATCHERS];

/// Addresses, with `private_ranges` written out.
pub(super) fn ranges(args: &[Token]) -> Vec<String> {
    let mut ranges = Vec::new();
    for word in args {
        if word.text == "private_ranges" {
            ranges.extend(PRIVATE_RANGES.map(str::to_string));
        } else {
            ranges.push(word.text.clone());
        }
    }
    ranges
}

impl Lowering<'_> {
    /// Reads `@name { … }`, `@name matcher …` or ``@name `expression` ``.
    pub(super) fn matcher_definition(&mut self, line: &Directive) -> Option<MatcherSet> {
        let name = line.name.text.strip_prefix('@').unwrap_or_default();
        match line.args.as_slice() {
            [only] if only.quote != Quote::None && line.block.is_none() => {
                let expr = self.quoted_expression(only, name);
                Some(MatcherSet::of(Matcher::Expression(expr)))
            }
            [] => {
                if line.lines().is_empty() {
                    let diagnostic = line.name.error(
                        "missing-argument",
                        format!("matcher `{}` has no condition", line.name.text),
                        "nothing follows",
                    );
                    return self.refuse(
                        diagnostic.help(format!("write `{} path /example*`", line.name.text)),
                    );
                }
                self.matcher_lines(line.lines(), name)
            }
            _ => self.matcher_lines(&[inner_line(line)?], name),
        }
    }

    /// Reads the lines of a matcher block. Lines of one kind add up.
    pub(super) fn matcher_lines(&mut self, lines: &[Directive], name: &str) -> Option<MatcherSet> {
        let mut reading = Reading {
            name: name.to_owned(),
            found: Vec::new(),
        };
        let mut whole = true;
        for line in lines {
            let place = std::mem::replace(&mut self.place, &MATCHERS);
            self.subject.clone_from(&line.name.text);
            let known = self.place.find(&line.name.text);
            let read = match known.is_some_and(|entry| entry.verdict.is_lowered()) {
                true => self.read_option(&MATCHERS, line, &mut reading),
                false => self.unknown_matcher(line),
            };
            self.place = place;
            whole &= read.is_some();
        }
        let mut set = MatcherSet::default();
        for matcher in reading.found {
            set.insert(matcher);
        }
        whole.then_some(set)
    }

    fn unknown_matcher<T>(&mut self, line: &Directive) -> Option<T> {
        let word = &line.name.text;
        let known = self.place.find(word);
        if let Some(refused) = known.and_then(|entry| entry.verdict.refused()) {
            let diagnostic = line.name.error(
                "unsupported-matcher",
                format!("matcher `{word}` is not supported"),
                refused.why,
            );
            return self.refuse(diagnostic.help(refused.instead));
        }
        if let Some(defined) = plugin_word(word) {
            let title = format!("matcher `{word}` is not built in");
            return self.refuse_plugin_word(&line.name, "unsupported-matcher", title, defined);
        }
        let guess = sluice_diag::closest(word, self.place.lowered_names());
        let mut diagnostic = line
            .name
            .error(
                "unknown-matcher",
                format!("unknown matcher `{word}`"),
                "not a matcher",
            )
            .did_you_mean(guess);
        if word.starts_with('@') {
            diagnostic = diagnostic.help("a matcher cannot refer to another; repeat its condition");
        }
        self.refuse(diagnostic)
    }

    fn list(&mut self, line: &Directive, earlier: Option<Matcher>) -> Option<Vec<String>> {
        let mut list = match earlier {
            Some(Matcher::Host(list) | Matcher::Path(list) | Matcher::Method(list)) => list,
            _ => Vec::new(),
        };
        list.extend(self.texts(line)?);
        Some(list)
    }

    fn ip_ranges(&mut self, line: &Directive, earlier: Option<Matcher>) -> Option<IpRanges> {
        let mut found = match earlier {
            Some(Matcher::ClientIp(found) | Matcher::RemoteIp(found)) => found,
            _ => IpRanges::default(),
        };
        self.texts(line)?;
        if let Some(word) = line.args.iter().find(|word| word.is_bare("forwarded")) {
            let title = "`forwarded` is no longer an option of `remote_ip`";
            let diagnostic = word.error("invalid-value", title, "was removed");
            return self.refuse(
                diagnostic.help("use the matcher `client_ip` and the option `trusted_proxies`"),
            );
        }
        found.ranges.extend(ranges(&line.args));
        Some(found)
    }

    fn tls_matcher(&mut self, line: &Directive) -> Option<TlsMatcher> {
        self.no_block(line)?;
        self.between(line, &line.args, 0, 1)?;
        let handshake_complete = match line.args.first() {
            Some(word) => {
                self.one_of(word, &["early_data"])?;
                Some(false)
            }
            None => None,
        };
        Some(TlsMatcher { handshake_complete })
    }

    fn query(
        &mut self,
        line: &Directive,
        earlier: Option<Matcher>,
    ) -> Option<BTreeMap<String, Vec<String>>> {
        let mut map = match earlier {
            Some(Matcher::Query(map)) => map,
            _ => BTreeMap::new(),
        };
        self.texts(line)?;
        for word in &line.args {
            if word.text.is_empty() {
                continue;
            }
            let Some((key, value)) = word.text.split_once('=') else {
                let title = format!("query condition `{}` has no value", word.text);
                let diagnostic = word.error("invalid-value", title, "expected `key=value`");
                return self.refuse(diagnostic.help(format!(
                    "write `{0}=value`, or `{0}=*` for any value",
                    word.text
                )));
            };
            map.entry(key.to_string())
                .or_default()
                .push(value.to_string());
        }
        Some(map)
    }

    fn header_matcher(
        &mut self,
        line: &Directive,
        earlier: Option<Matcher>,
    ) -> Option<BTreeMap<String, Option<Vec<String>>>> {
        let mut map = match earlier {
            Some(Matcher::Header(map)) => map,
            _ => BTreeMap::new(),
        };
        self.header_condition(line, &line.args, &mut map)?;
        Some(map)
    }

    /// `Field value` or `!Field`.
    fn header_condition(
        &mut self,
        line: &Directive,
        args: &[Token],
        map: &mut BTreeMap<String, Option<Vec<String>>>,
    ) -> Option<()> {
        self.no_block(line)?;
        self.between(line, args, 1, 2)?;
        if let Some(field) = args[0].text.strip_prefix('!') {
            if let Some(word) = args.get(1) {
                return self.surplus(line, word);
            }
            map.insert(field.to_string(), None);
            return Some(());
        }
        let Some(value) = args.get(1) else {
            let field = &args[0];
            let title = format!("header condition `{}` has no value", field.text);
            let diagnostic = field.error("missing-argument", title, "no value follows");
            let help = format!(
                "write `{0} *` for any value, `!{0}` for a missing header",
                field.text
            );
            return self.refuse(diagnostic.help(help));
        };
        let values = map.entry(args[0].text.clone()).or_default();
        values.get_or_insert_default().push(value.text.clone());
        Some(())
    }

    fn vars_matcher(
        &mut self,
        line: &Directive,
        earlier: Option<Matcher>,
    ) -> Option<BTreeMap<String, Vec<String>>> {
        let mut map = match earlier {
            Some(Matcher::Vars(map)) => map,
            _ => BTreeMap::new(),
        };
        self.no_block(line)?;
        self.between(line, &line.args, 2, usize::MAX)?;
        let values = map.entry(line.args[0].text.clone()).or_default();
        values.extend(texts(&line.args[1..]));
        Some(map)
    }

    fn url_pattern(&mut self, line: &Directive, earlier: Option<Matcher>) -> Option<UrlPattern> {
        self.between(line, &line.args, 1, 1)?;
        if earlier.is_some() {
            return self.duplicate(line);
        }
        let mut pattern = UrlPattern {
            pattern: line.args[0].text.clone(),
            ..UrlPattern::default()
        };
        self.read_options(&URL_PATTERN, line.lines(), &mut pattern)?;
        Some(pattern)
    }

    fn path_regexp(
        &mut self,
        line: &Directive,
        name: &str,
        earlier: Option<Matcher>,
    ) -> Option<Regexp> {
        self.no_block(line)?;
        self.between(line, &line.args, 1, 2)?;
        if earlier.is_some() {
            return self.duplicate(line);
        }
        Some(regexp(&line.args, name))
    }

    fn named_regexps(
        &mut self,
        line: &Directive,
        name: &str,
        earlier: Option<Matcher>,
    ) -> Option<BTreeMap<String, Regexp>> {
        let mut map = match earlier {
            Some(Matcher::HeaderRegexp(map) | Matcher::VarsRegexp(map)) => map,
            _ => BTreeMap::new(),
        };
        self.no_block(line)?;
        self.between(line, &line.args, 2, 3)?;
        let (field, pattern) = match line.args.as_slice() {
            [own, field, pattern] => {
                let regexp = Regexp {
                    name: own.text.clone(),
                    pattern: pattern.text.clone(),
                };
                (field, regexp)
            }
            args => (&args[0], regexp(&args[1..], name)),
        };
        if map.insert(field.text.clone(), pattern).is_some() {
            return self.duplicate(line);
        }
        Some(map)
    }

    /// An expression of several words keeps its quotes; a single word loses them.
    fn expression(
        &mut self,
        line: &Directive,
        name: &str,
        earlier: Option<Matcher>,
    ) -> Option<Expression> {
        self.no_block(line)?;
        if earlier.is_some() {
            return self.duplicate(line);
        }
        match line.args.as_slice() {
            [] => self.missing(line, "an expression"),
            [only] => Some(self.quoted_expression(only, name)),
            args => {
                let words: Vec<String> = args.iter().map(quoted).collect();
                let expr = words.join(" ");
                self.expressions.push(WrittenExpression {
                    text: expr.clone(),
                    span: args
                        .iter()
                        .fold(args[0].span, |span, arg| span.to(arg.span)),
                    import: args[0].import,
                });
                Some(Expression {
                    expr,
                    name: String::new(),
                })
            }
        }
    }

    /// An expression that is one word.
    pub(super) fn quoted_expression(&mut self, word: &Token, name: &str) -> Expression {
        self.expressions.push(WrittenExpression {
            text: word.text.clone(),
            span: word.span,
            import: word.import,
        });
        Expression {
            expr: word.text.clone(),
            name: name.to_string(),
        }
    }

    fn file_matcher(&mut self, line: &Directive, earlier: Option<Matcher>) -> Option<FileMatcher> {
        let mut file = match earlier {
            Some(Matcher::File(file)) => file,
            _ => FileMatcher::default(),
        };
        file.try_files.extend(texts(&line.args));
        self.read_options(&FILE, line.lines(), &mut file)?;
        Some(file)
    }

    /// In Caddy the name of the set does not reach the matchers inside of `not`.
    fn not_matcher(
        &mut self,
        line: &Directive,
        earlier: Option<Matcher>,
    ) -> Option<Vec<MatcherSet>> {
        let mut sets = match earlier {
            Some(Matcher::Not(sets)) => sets,
            _ => Vec::new(),
        };
        let set = match line.args.is_empty() {
            true if line.lines().is_empty() => return self.missing(line, "a matcher"),
            true => self.matcher_lines(line.lines(), "")?,
            false => self.matcher_lines(&[inner_line(line)?], "")?,
        };
        sets.push(set);
        Some(sets)
    }

    /// `match status 2xx`, `match header Field value` or `match { … }`, and the same behind a name.
    pub(super) fn response_matcher(&mut self, line: &Directive) -> Option<ResponseMatcher> {
        let mut matcher = ResponseMatcher::default();
        if !line.args.is_empty() {
            self.response_condition(&inner_line(line)?, &mut matcher)?;
            return Some(matcher);
        }
        if line.lines().is_empty() {
            return self.missing(line, "`status` or `header`");
        }
        self.each(line.lines(), |this, condition| {
            this.response_condition(condition, &mut matcher)?;
            Some(())
        })?;
        Some(matcher)
    }

    fn response_condition(
        &mut self,
        line: &Directive,
        matcher: &mut ResponseMatcher,
    ) -> Option<()> {
        let place = std::mem::replace(&mut self.place, &RESPONSE);
        let read = self.read_option(&RESPONSE, line, matcher);
        self.place = place;
        read
    }

    fn statuses(&mut self, line: &Directive) -> Option<Vec<u16>> {
        self.texts(line)?;
        line.args
            .iter()
            .map(|word| self.status_or_class(word))
            .collect()
    }

    /// `404`, or `4xx` as the number 4.
    pub(super) fn status_or_class(&mut self, word: &Token) -> Option<u16> {
        let digits = match word.text.strip_suffix("xx") {
            Some(class) if class.len() == 1 => class,
            _ => word.text.as_str(),
        };
        match digits.parse() {
            Ok(number) => Some(number),
            Err(_) => {
                let title = format!("invalid status `{}`{}", word.text, self.about());
                let diagnostic =
                    word.error("invalid-status", title, "neither a status code nor a class");
                self.refuse(diagnostic.help("write a code such as `404`, or a class such as `4xx`"))
            }
        }
    }
}

/// A regular expression from `[name] pattern`.
fn regexp(args: &[Token], name: &str) -> Regexp {
    let (name, pattern) = match args {
        [own, pattern] => (own.text.clone(), pattern.text.clone()),
        [pattern] => (name.to_string(), pattern.text.clone()),
        _ => (name.to_string(), String::new()),
    };
    Regexp { name, pattern }
}

/// The line that begins with the first argument of another: `path /a` in `@x path /a`.
pub(super) fn inner_line(line: &Directive) -> Option<Directive> {
    let (name, args) = line.args.split_first()?;
    Some(Directive {
        name: name.clone(),
        args: args.to_vec(),
        block: line.block.clone(),
        span: name.span.to(line.span),
    })
}

/// A word as it was written, quotes included.
fn quoted(word: &Token) -> String {
    match word.quote {
        Quote::None | Quote::Heredoc => word.text.clone(),
        Quote::Double => format!("\"{}\"", word.text),
        Quote::Backtick => format!("`{}`", word.text),
    }
}
