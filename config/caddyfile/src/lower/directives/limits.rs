//! Directives that limit requests: `rate_limit` (in the syntax of the common Caddy plugin) and `in_flight` (sluice's
//! own).

use sluice_model::handler::{InFlight, RateLimit, RateZone};
use sluice_model::{Handler, RawModule};

use super::Outcomes;
use crate::lower::Lowering;
use crate::tree::{Directive, Token};

impl Lowering<'_> {
    pub(super) fn rate_limit(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut limit = RateLimit::default();
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "zone" => this.rate_zone(option, &mut limit)?,
                    "jitter" => {
                        limit.jitter = this.single_number(option, "a share, such as `0.2`")?;
                    }
                    "sweep_interval" => limit.sweep_interval = this.single_duration(option)?,
                    "log_key" => {
                        this.flag(option)?;
                        limit.log_key = true;
                    }
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            if limit.rate_limits.is_empty() {
                return this.missing(line, "a `zone`");
            }
            Some(Handler::RateLimit(Box::new(limit)))
        })
    }

    fn rate_zone(&mut self, line: &Directive, limit: &mut RateLimit) -> Option<()> {
        let [name] = self.exact::<1>(line, &line.args)?;
        if limit.rate_limits.contains_key(&name.text) {
            let title = format!("zone `{}` is given twice", name.text);
            let diagnostic = name.error("duplicate-option", title, "was set before");
            return self.refuse(diagnostic.help("give each zone a name of its own"));
        }
        let place = std::mem::replace(&mut self.place, "zone");
        let mut zone = RateZone::default();
        let mut seen: Vec<&str> = Vec::new();
        let read = self.each(line.lines(), |this, option| {
            let word = option.name.text.as_str();
            if word != "match" && seen.contains(&word) {
                return this.duplicate(option);
            }
            seen.push(word);
            const BITS: &str = "a number of bits";
            match word {
                "match" => {
                    this.exact::<0>(option, &option.args)?;
                    let set = this.matcher_lines(option.lines(), "")?;
                    zone.r#match.push(set);
                }
                "key" => zone.key = this.single_text(option)?,
                "window" => zone.window = this.single_duration(option)?,
                "events" => zone.max_events = this.events(option)?,
                "burst" => zone.burst = this.events(option)?,
                "ipv4_prefix" => zone.ipv4_prefix = this.single_number(option, BITS)?,
                "ipv6_prefix" => zone.ipv6_prefix = this.single_number(option, BITS)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        });
        self.place = place;
        read?;
        if zone.window.0 == 0 || zone.max_events == 0 {
            return self.missing(line, "`events` and `window`");
        }
        limit.rate_limits.insert(name.text.clone(), zone);
        Some(())
    }

    fn events(&mut self, line: &Directive) -> Option<i64> {
        let word = self.single(line)?;
        let count: std::num::NonZeroU32 = self.number(word, "a number of 1 or more")?;
        Some(i64::from(count.get()))
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

    pub(super) fn in_flight(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            let [max] = this.exact::<1>(line, args)?;
            let count: std::num::NonZeroU32 = this.number(max, "a number of 1 or more")?;
            let mut limit = InFlight {
                max: i64::from(count.get()),
                ..InFlight::default()
            };
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "key" => limit.key = this.single_text(option)?,
                    "queue" => {
                        let word = this.single(option)?;
                        let count: u32 = this.number(word, "a number of requests")?;
                        limit.queue = i64::from(count);
                    }
                    "timeout" => limit.timeout = this.single_duration(option)?,
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            Some(Handler::InFlight(limit))
        })
    }
}
