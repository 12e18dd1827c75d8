//! `in_flight`: a concurrency limit, sluice's own.

use std::num::NonZeroU32;

use sluice_model::Handler;
use sluice_model::handler::InFlight;

use crate::lower::Lowering;
use crate::lower::definition::Read::{Text, Time, With};
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `in_flight`.
pub(super) static IN_FLIGHT: Definition = directive(
    "in_flight",
    "in_flight [<matcher>] <max> [{ … }]",
    |cx, line| cx.in_flight(line),
)
.with(&OPTIONS)
.own();

static OPTIONS: Options<InFlight> = Options::<InFlight>::new(
    "in_flight",
    &[
        option("key", "key <text>", Text(|limit| &mut limit.key)),
        option(
            "queue",
            "queue <n>",
            With(|cx, line, limit| {
                let word = cx.single(line)?;
                let count: u32 = cx.number(word, "a number of requests")?;
                limit.queue = i64::from(count);
                Some(())
            }),
        ),
        option(
            "timeout",
            "timeout <duration>",
            Time(|limit| &mut limit.timeout),
        ),
    ],
)
.own();

impl Lowering<'_> {
    fn in_flight(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            let [max] = this.exact::<1>(line, args)?;
            let count: NonZeroU32 = this.number(max, "a number of 1 or more")?;
            let mut limit = InFlight {
                max: i64::from(count.get()),
                ..InFlight::default()
            };
            this.read_options(&OPTIONS, line.lines(), &mut limit)?;
            Some(Handler::InFlight(limit))
        })
    }
}
