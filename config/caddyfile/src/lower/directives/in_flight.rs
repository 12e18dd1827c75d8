//! `in_flight`: a concurrency limit, sluice's own.

use sluice_model::Handler;
use sluice_model::handler::InFlight;

use super::Outcomes;
use crate::lower::Lowering;
use crate::tree::Directive;

impl Lowering<'_> {
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
