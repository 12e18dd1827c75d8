//! `rate_limit`, in the syntax of the common Caddy plugin.

use sluice_model::Handler;
use sluice_model::handler::{RateLimit, RateZone};

use super::Outcomes;
use crate::lower::Lowering;
use crate::tree::Directive;

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

    pub(in crate::lower) fn events(&mut self, line: &Directive) -> Option<i64> {
        let word = self.single(line)?;
        let count: std::num::NonZeroU32 = self.number(word, "a number of 1 or more")?;
        Some(i64::from(count.get()))
    }
}
