//! How `reverse_proxy` chooses among its upstreams: the options `lb_*` and `circuit_breaker`.

use sluice_model::proxy::{
    CookieHash, HeaderHash, NoPolicySettings, QueryHash, RandomChoose, SelectionPolicy, Weighted,
};
use sluice_model::{Duration, RawModule};

use crate::lower::Lowering;
use crate::lower::definition::Read::With;
use crate::lower::definition::{Options, option};
use crate::lower::matchers::inner_line;
use crate::tree::{Directive, Quote, Token};

/// The options of policies that choose by a key.
pub(super) static LB_POLICY: Options<Keyed> = Options::new(
    "lb_policy",
    &[
        option(
            "fallback",
            "fallback <policy>",
            With(|cx, line, keyed| {
                if keyed.fallback.is_some() {
                    return cx.duplicate(line);
                }
                keyed.fallback = Some(Box::new(cx.selection_policy(line)?));
                Some(())
            }),
        ),
        option(
            "max_age",
            "max_age <duration>",
            With(|cx, line, keyed| {
                if !keyed.is_cookie {
                    return cx.unknown_option(line);
                }
                keyed.max_age = cx.single_duration(line)?;
                Some(())
            }),
        ),
    ],
);

/// What the options of a policy that chooses by a key amount to.
#[derive(Default)]
pub(super) struct Keyed {
    is_cookie: bool,
    fallback: Option<Box<SelectionPolicy>>,
    /// How long the cookie lives.
    max_age: Duration,
}

/// The options of `circuit_breaker`.
pub(super) static CIRCUIT_BREAKER: Options<RawModule> = Options::<RawModule>::new(
    "circuit_breaker",
    &[
        option(
            "trip_duration",
            "trip_duration <duration>",
            With(|cx, line, module| {
                let duration = cx.single_duration(line)?;
                module.insert(line.name.text.clone(), duration.0.into());
                Some(())
            }),
        ),
        option(
            "window",
            "window <duration>",
            With(|cx, line, module| {
                let duration = cx.single_duration(line)?;
                module.insert(line.name.text.clone(), duration.0.into());
                Some(())
            }),
        ),
        option(
            "min_requests",
            "min_requests <n>",
            With(|cx, line, module| {
                let count = cx.events(line)?;
                module.insert(line.name.text.clone(), count.into());
                Some(())
            }),
        ),
    ],
)
.own();

/// The supported policies.
const POLICIES: [&str; 12] = [
    "random",
    "random_choose",
    "first",
    "round_robin",
    "weighted_round_robin",
    "least_conn",
    "ip_hash",
    "client_ip_hash",
    "uri_hash",
    "query",
    "header",
    "cookie",
];

impl Lowering<'_> {
    /// A matcher set written behind an option: a block, a line, or a quoted expression.
    pub(super) fn inline_matcher(&mut self, line: &Directive) -> Option<sluice_model::MatcherSet> {
        match line.args.as_slice() {
            [] if line.lines().is_empty() => self.missing(line, "a matcher"),
            [] => self.matcher_lines(line.lines(), ""),
            [only] if only.quote != Quote::None => {
                let expression = self.quoted_expression(only, "");
                Some(sluice_model::MatcherSet::of(
                    sluice_model::Matcher::Expression(expression),
                ))
            }
            _ => self.matcher_lines(&[inner_line(line)?], ""),
        }
    }

    pub(super) fn selection_policy(&mut self, line: &Directive) -> Option<SelectionPolicy> {
        let Some((policy, args)) = line.args.split_first() else {
            return self.missing(line, "a policy");
        };
        let name = policy.text.as_str();
        if !matches!(name, "query" | "header" | "cookie") {
            self.no_block(line)?;
        }
        if !matches!(
            name,
            "random_choose" | "weighted_round_robin" | "query" | "header" | "cookie"
        ) && POLICIES.contains(&name)
        {
            self.exact::<0>(line, args)?;
        }
        let none = NoPolicySettings::default();
        Some(match name {
            "random" => SelectionPolicy::Random(none),
            "first" => SelectionPolicy::First(none),
            "round_robin" => SelectionPolicy::RoundRobin(none),
            "least_conn" => SelectionPolicy::LeastConn(none),
            "ip_hash" => SelectionPolicy::IpHash(none),
            "client_ip_hash" => SelectionPolicy::ClientIpHash(none),
            "uri_hash" => SelectionPolicy::UriHash(none),
            "random_choose" => {
                let [choose] = self.exact::<1>(line, args)?;
                let choose = self.number(choose, "a number of upstreams")?;
                SelectionPolicy::RandomChoose(RandomChoose { choose })
            }
            "weighted_round_robin" => {
                self.between(line, args, 1, usize::MAX)?;
                let weights: Option<Vec<i64>> = args.iter().map(|word| self.weight(word)).collect();
                SelectionPolicy::WeightedRoundRobin(Weighted { weights: weights? })
            }
            "query" | "header" | "cookie" => self.keyed_policy(line, name, args)?,
            _ => return self.unknown_module(policy, "policy", &POLICIES),
        })
    }

    fn weight(&mut self, word: &Token) -> Option<i64> {
        self.number::<u32>(word, "a weight of 0 or more")
            .map(i64::from)
    }

    fn keyed_policy(
        &mut self,
        line: &Directive,
        name: &str,
        args: &[Token],
    ) -> Option<SelectionPolicy> {
        let (min, max) = if name == "cookie" { (0, 2) } else { (1, 1) };
        self.between(line, args, min, max)?;
        let mut keyed = Keyed {
            is_cookie: name == "cookie",
            ..Keyed::default()
        };
        self.read_options(&LB_POLICY, line.lines(), &mut keyed)?;
        let Keyed {
            fallback, max_age, ..
        } = keyed;
        let text = |at: usize| {
            args.get(at)
                .map(|word| word.text.clone())
                .unwrap_or_default()
        };
        Some(match name {
            "query" => SelectionPolicy::Query(QueryHash {
                key: text(0),
                fallback,
            }),
            "header" => SelectionPolicy::Header(HeaderHash {
                field: text(0),
                fallback,
            }),
            _ => SelectionPolicy::Cookie(CookieHash {
                name: text(0),
                secret: text(1),
                max_age,
                fallback,
            }),
        })
    }

    /// `circuit_breaker` of `reverse_proxy`. Its JSON is that of Caddy's module of this name, which left the stock build.
    pub(super) fn circuit_breaker(&mut self, line: &Directive) -> Option<RawModule> {
        self.subject.clone_from(&line.name.text);
        let [factor, threshold] = self.exact::<2>(line, &line.args)?;
        let factor = self.one_of(
            factor,
            &["error_ratio", "status_ratio", "latency", "outlier"],
        )?;
        let threshold = match factor.as_str() {
            "latency" => self.duration(threshold)?.0 as f64 / 1e6,
            "outlier" => self.times(threshold)?,
            _ => self.share(threshold)?,
        };
        let mut module = RawModule::new();
        module.insert("type".to_owned(), "internal".into());
        module.insert("factor".to_owned(), factor.into());
        module.insert("threshold".to_owned(), threshold.into());
        self.read_options(&CIRCUIT_BREAKER, line.lines(), &mut module)?;
        Some(module)
    }

    /// How many times something: a number above 1.
    fn times(&mut self, word: &Token) -> Option<f64> {
        match word.text.parse::<f64>() {
            Ok(times) if times > 1.0 && times <= 1_000.0 => Some(times),
            _ => {
                let title = format!("invalid number `{}`{}", word.text, self.about());
                let label = "expected a number above 1, such as `3`";
                self.refuse(word.error("invalid-number", title, label))
            }
        }
    }

    /// A whole number of percent from 1 to 100, with or without the sign; `of` and `help` are for the message.
    pub(super) fn percent(&mut self, line: &Directive, of: &str, help: &str) -> Option<i64> {
        let word = self.single(line)?;
        let digits = word.text.strip_suffix('%').unwrap_or(&word.text);
        match digits.parse::<u32>() {
            Ok(percent @ 1..=100) => Some(i64::from(percent)),
            Ok(_) | Err(_) => {
                let title = format!("invalid number `{}` for `{}`", word.text, line.name.text);
                let label = format!("expected a percentage of all {of}, 1 to 100");
                let diagnostic = word.error("invalid-number", title, label);
                self.refuse(diagnostic.help(help))
            }
        }
    }

    /// A whole number of percent that is at least 100, with or without the sign.
    pub(super) fn percent_from_100(&mut self, line: &Directive) -> Option<i64> {
        let word = self.single(line)?;
        let digits = word.text.strip_suffix('%').unwrap_or(&word.text);
        match digits.parse::<u32>() {
            Ok(percent @ 100..) => Some(i64::from(percent)),
            Ok(_) | Err(_) => {
                let title = format!("invalid number `{}` for `{}`", word.text, line.name.text);
                let label = "expected a percentage of an even share, 100 or more";
                let diagnostic = word.error("invalid-number", title, label);
                self.refuse(diagnostic.help("`125` is a common value"))
            }
        }
    }

    /// A share: `0.5` or `50%`.
    fn share(&mut self, word: &Token) -> Option<f64> {
        let (text, whole) = match word.text.strip_suffix('%') {
            Some(percent) => (percent, 100.0),
            None => (word.text.as_str(), 1.0),
        };
        match text.parse::<f64>() {
            Ok(number) if (0.0..whole).contains(&number) => Some(number / whole),
            _ => {
                let title = format!("invalid share `{}`{}", word.text, self.about());
                let label = "expected a share below 1, such as `0.5` or `50%`";
                self.refuse(word.error("invalid-number", title, label))
            }
        }
    }
}
