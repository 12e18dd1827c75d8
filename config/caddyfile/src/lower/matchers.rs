//! Request matchers and response matchers in all their forms.

use std::collections::BTreeMap;

use sluice_model::matcher::{
    Expression, FileMatcher, IpRanges, Regexp, ResponseMatcher, TlsMatcher,
};
use sluice_model::{Matcher, MatcherSet};

use super::args::texts;
use super::{Lowering, WrittenExpression};
use crate::registry;
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
        let mut found: Vec<Matcher> = Vec::new();
        let mut whole = true;
        for line in lines {
            let place = std::mem::replace(&mut self.place, "matcher");
            self.subject.clone_from(&line.name.text);
            let read = self.matcher_line(line, name, &mut found);
            self.place = place;
            whole &= read.is_some();
        }
        let mut set = MatcherSet::default();
        for matcher in found {
            set.insert(matcher);
        }
        whole.then_some(set)
    }

    fn matcher_line(
        &mut self,
        line: &Directive,
        name: &str,
        found: &mut Vec<Matcher>,
    ) -> Option<()> {
        let at = found
            .iter()
            .position(|matcher| matcher.module() == line.name.text);
        let earlier = at.map(|at| found.remove(at));
        let matcher = self.matcher(line, name, earlier)?;
        found.push(matcher);
        Some(())
    }

    fn matcher(
        &mut self,
        line: &Directive,
        name: &str,
        earlier: Option<Matcher>,
    ) -> Option<Matcher> {
        Some(match line.name.text.as_str() {
            "host" => Matcher::Host(self.list(line, earlier)?),
            "path" => Matcher::Path(self.list(line, earlier)?),
            "method" => Matcher::Method(self.list(line, earlier)?),
            "client_ip" => Matcher::ClientIp(self.ip_ranges(line, earlier)?),
            "remote_ip" => Matcher::RemoteIp(self.ip_ranges(line, earlier)?),
            "protocol" => Matcher::Protocol(self.single_text(line)?),
            "tls" => Matcher::Tls(self.tls_matcher(line)?),
            "query" => Matcher::Query(self.query(line, earlier)?),
            "header" => Matcher::Header(self.header_matcher(line, earlier)?),
            "vars" => Matcher::Vars(self.vars_matcher(line, earlier)?),
            "path_regexp" => Matcher::PathRegexp(self.path_regexp(line, name, earlier)?),
            "header_regexp" => Matcher::HeaderRegexp(self.named_regexps(line, name, earlier)?),
            "vars_regexp" => Matcher::VarsRegexp(self.named_regexps(line, name, earlier)?),
            "expression" => Matcher::Expression(self.expression(line, name, earlier)?),
            "file" => Matcher::File(self.file_matcher(line, earlier)?),
            "not" => Matcher::Not(self.not_matcher(line, name, earlier)?),
            _ => return self.unknown_matcher(line),
        })
    }

    fn unknown_matcher<T>(&mut self, line: &Directive) -> Option<T> {
        let word = &line.name.text;
        let verdict = registry::option("matcher", word);
        if let Some(refused) = verdict.and_then(registry::Verdict::refused) {
            let diagnostic = line.name.error(
                "unsupported-matcher",
                format!("matcher `{word}` is not supported"),
                refused.why,
            );
            return self.refuse(diagnostic.help(refused.instead));
        }
        let names = registry::option_names("matcher");
        let guess = sluice_diag::closest(word, names.iter().copied());
        let mut diagnostic = line
            .name
            .error(
                "unknown-matcher",
                format!("unknown matcher `{word}`"),
                "not a matcher",
            )
            .did_you_mean(guess);
        if word.starts_with('@') {
            diagnostic = diagnostic.help("a matcher cannot name another; repeat its condition");
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
                "write `{0} *` for any value, `!{0}` for a missing field",
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
        self.place = "file matcher";
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "root" => file.root = this.single_text(option)?,
                "try_files" => file.try_files.extend(this.texts(option)?),
                "try_policy" => file.try_policy = this.try_policy(option)?,
                "split_path" => file.split_path = this.texts(option)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(file)
    }

    /// The one word of a line that names how to choose among files.
    pub(super) fn try_policy(&mut self, line: &Directive) -> Option<String> {
        let word = self.single(line)?;
        self.one_of(word, &TRY_POLICIES)
    }

    fn not_matcher(
        &mut self,
        line: &Directive,
        name: &str,
        earlier: Option<Matcher>,
    ) -> Option<Vec<MatcherSet>> {
        let mut sets = match earlier {
            Some(Matcher::Not(sets)) => sets,
            _ => Vec::new(),
        };
        let set = match line.args.is_empty() {
            true if line.lines().is_empty() => return self.missing(line, "a matcher"),
            true => self.matcher_lines(line.lines(), name)?,
            false => self.matcher_lines(&[inner_line(line)?], name)?,
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
        let place = std::mem::replace(&mut self.place, "response matcher");
        let read = match line.name.text.as_str() {
            "status" => self
                .statuses(line)
                .map(|codes| matcher.status_code.extend(codes)),
            "header" => self.header_condition(line, &line.args, &mut matcher.headers),
            _ => self.unknown_option(line),
        };
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
                let diagnostic = word.error("invalid-status", title, "neither code nor class");
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
