//! `in_flight`: a concurrency limit, sluice's own.

use std::num::NonZeroU32;

use sluice_model::Handler;
use sluice_model::handler::{InFlight, SharedFlight};

use crate::lower::Lowering;
use crate::lower::definition::Read::{Choice, Text, Time, With};
use crate::lower::definition::{Block, Definition, Options, directive, option};
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
        option::<InFlight>(
            "distributed",
            "distributed { … }",
            With(|cx, line, limit| cx.distributed_flight(line, limit)),
        )
        .holding(Block::Options(&DISTRIBUTED)),
    ],
)
.own();

static DISTRIBUTED: Options<SharedFlight> = Options::<SharedFlight>::new(
    "in_flight distributed",
    &[
        option("name", "name <name>", Text(|shared| &mut shared.name)),
        option("store", "store <url>", Text(|shared| &mut shared.store)),
        option("ca", "ca <file>", Text(|shared| &mut shared.ca)),
        option(
            "deadline",
            "deadline <duration>",
            Time(|shared| &mut shared.deadline),
        ),
        option(
            "on_error",
            "on_error local|closed",
            Choice(&["local", "closed"], |shared| &mut shared.on_error),
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

    fn distributed_flight(&mut self, line: &Directive, limit: &mut InFlight) -> Option<()> {
        self.exact::<0>(line, &line.args)?;
        let mut shared = SharedFlight::default();
        self.read_options(&DISTRIBUTED, line.lines(), &mut shared)?;
        if shared.name.is_empty() || shared.store.is_empty() {
            return self.missing(
                line,
                "`name` and `store`, such as `store redis://127.0.0.1`",
            );
        }
        limit.distributed = Some(shared);
        Some(())
    }
}
