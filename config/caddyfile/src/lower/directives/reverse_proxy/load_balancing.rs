//! How `reverse_proxy` chooses among its upstreams: the options `lb_*` and `circuit_breaker`.

use sluice_model::RawModule;
use sluice_model::proxy::{
    CookieHash, HeaderHash, LoadBalancing, NoPolicySettings, QueryHash, RandomChoose,
    SelectionPolicy, Weighted,
};

use crate::lower::Lowering;
use crate::lower::matchers::inner_line;
use crate::tree::{Directive, Quote, Token};

/// The policies there are.
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
    pub(super) fn balancing_option(
        &mut self,
        line: &Directive,
        lb: &mut LoadBalancing,
    ) -> Option<()> {
        match line.name.text.as_str() {
            "lb_policy" if lb.selection_policy.is_some() => return self.duplicate(line),
            "lb_policy" => lb.selection_policy = Some(self.selection_policy(line)?),
            "lb_retries" => lb.retries = self.single_number(line, "a number of retries")?,
            "lb_try_duration" => lb.try_duration = self.single_duration(line)?,
            "lb_try_interval" => lb.try_interval = self.single_duration(line)?,
            "lb_retry_match" => lb.retry_match.push(self.inline_matcher(line)?),
            "lb_slow_start" => lb.slow_start = self.single_duration(line)?,
            "lb_bounded_load" => lb.bounded_load = self.percent_from_100(line)?,
            _ => return self.unknown_option(line),
        }
        Some(())
    }

    /// A matcher set written behind an option: a block, a line, or a quoted expression.
    fn inline_matcher(&mut self, line: &Directive) -> Option<sluice_model::MatcherSet> {
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

    fn selection_policy(&mut self, line: &Directive) -> Option<SelectionPolicy> {
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
                let choose = self.number(choose, "how many to draw")?;
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
        let mut fallback = None;
        let mut max_age = sluice_model::Duration::default();
        let place = std::mem::replace(&mut self.place, "lb_policy");
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "fallback" if fallback.is_some() => return this.duplicate(option),
                "fallback" => fallback = Some(Box::new(this.selection_policy(option)?)),
                "max_age" if name == "cookie" => max_age = this.single_duration(option)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        self.place = place;
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
        let factor = self.one_of(factor, &["error_ratio", "status_ratio", "latency"])?;
        let threshold = match factor.as_str() {
            "latency" => self.duration(threshold)?.0 as f64 / 1e6,
            _ => self.share(threshold)?,
        };
        let mut module = RawModule::new();
        module.insert("type".to_owned(), "internal".into());
        module.insert("factor".to_owned(), factor.into());
        module.insert("threshold".to_owned(), threshold.into());
        let place = std::mem::replace(&mut self.place, "circuit_breaker");
        self.each(line.lines(), |this, option| {
            let word = option.name.text.clone();
            let value: serde_json::Value = match word.as_str() {
                "trip_duration" | "window" => this.single_duration(option)?.0.into(),
                "min_requests" => this.events(option)?.into(),
                _ => return this.unknown_option(option),
            };
            module.insert(word, value);
            Some(())
        })?;
        self.place = place;
        Some(module)
    }

    /// A whole number of percent that is at least 100, with or without the sign.
    pub(super) fn percent_from_100(&mut self, line: &Directive) -> Option<i64> {
        let word = self.single(line)?;
        let digits = word.text.strip_suffix('%').unwrap_or(&word.text);
        match digits.parse::<u32>() {
            Ok(percent @ 100..) => Some(i64::from(percent)),
            Ok(_) | Err(_) => {
                let title = format!("invalid number `{}` for `{}`", word.text, line.name.text);
                let label = "expected percent of an even share, 100 or more";
                let diagnostic = word.error("invalid-number", title, label);
                self.refuse(diagnostic.help("125 is usual"))
            }
        }
    }

    /// A whole number of percent from 1 to 100, with or without the sign.
    pub(super) fn percent_to_100(&mut self, line: &Directive) -> Option<i64> {
        let word = self.single(line)?;
        let digits = word.text.strip_suffix('%').unwrap_or(&word.text);
        match digits.parse::<u32>() {
            Ok(percent @ 1..=100) => Some(i64::from(percent)),
            Ok(_) | Err(_) => {
                let title = format!("invalid number `{}` for `{}`", word.text, line.name.text);
                let label = "expected percent of all upstreams, 1 to 100";
                let diagnostic = word.error("invalid-number", title, label);
                self.refuse(diagnostic.help("`max_ejected 50` leaves every second one in"))
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
