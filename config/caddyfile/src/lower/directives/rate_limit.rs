//! `rate_limit`, in the syntax of the common Caddy plugin.

use std::num::NonZeroU32;

use sluice_model::Handler;
use sluice_model::handler::{RateLimit, RateZone, SharedLimit};

use crate::lower::Lowering;
use crate::lower::definition::Block;
use crate::lower::definition::Read::{Choice, Flag, Text, Time, With};
use crate::lower::definition::Verdict::{self, NoEffect, Unsupported};
use crate::lower::definition::{Definition, Options, directive, option, refused};
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `rate_limit`.
pub(super) static RATE_LIMIT: Definition = directive(
    "rate_limit",
    "rate_limit [<matcher>] { … }",
    |cx, line| cx.rate_limit(line),
)
.with(&OPTIONS)
.own();

static OPTIONS: Options<RateLimit> = Options::<RateLimit>::new(
    "rate_limit",
    &[
        option::<RateLimit>(
            "zone",
            "zone <name> { … }",
            With(|cx, line, limit| cx.rate_zone(line, limit)),
        )
        .holding(Block::Options(&ZONE)),
        option(
            "jitter",
            "jitter <share>",
            With(|cx, line, limit| {
                limit.jitter = cx.single_number(line, "a share, such as `0.2`")?;
                Some(())
            }),
        ),
        option::<RateLimit>(
            "sweep_interval",
            "sweep_interval <duration>",
            Time(|limit| &mut limit.sweep_interval),
        )
        .but(NoEffect(
            "expired keys are removed while later requests are processed",
        )),
        option("log_key", "log_key", Flag(|limit| &mut limit.log_key)),
        option::<RateLimit>(
            "distributed",
            "distributed { … }",
            With(|cx, line, limit| cx.distributed(line, limit)),
        )
        .holding(Block::Options(&DISTRIBUTED)),
        refused(
            "storage",
            "storage <module...>",
            Unsupported("write `distributed { store redis://HOST }` instead"),
        ),
    ],
)
.own();

/// What the plugin's intervals are replaced by.
const NO_INTERVALS: Verdict = NoEffect(
    "the servers of a limit count in the store at each request (`mode exact`) or in batches (`mode leased`)",
);

static DISTRIBUTED: Options<SharedLimit> = Options::<SharedLimit>::new(
    "distributed",
    &[
        option(
            "read_interval",
            "read_interval <duration>",
            Time(|shared: &mut SharedLimit| &mut shared.read_interval),
        )
        .but(NO_INTERVALS),
        option(
            "write_interval",
            "write_interval <duration>",
            Time(|shared: &mut SharedLimit| &mut shared.write_interval),
        )
        .but(NO_INTERVALS),
        option(
            "purge_age",
            "purge_age <duration>",
            Time(|shared: &mut SharedLimit| &mut shared.purge_age),
        )
        .but(NoEffect("the store forgets keys once they no longer count")),
        option("store", "store <url>", Text(|shared| &mut shared.store)),
        option("ca", "ca <file>", Text(|shared| &mut shared.ca)),
        option(
            "mode",
            "mode exact|leased",
            Choice(&["exact", "leased"], |shared| &mut shared.mode),
        ),
        option(
            "deadline",
            "deadline <duration>",
            Time(|shared| &mut shared.deadline),
        ),
        option(
            "on_error",
            "on_error open|closed|local",
            Choice(&["open", "closed", "local"], |shared| &mut shared.on_error),
        ),
    ],
)
.own();

static ZONE: Options<RateZone> = Options::<RateZone>::new(
    "zone",
    &[
        option(
            "match",
            "match { <matchers> }",
            With(|cx, line, zone| {
                cx.exact::<0>(line, &line.args)?;
                let set = cx.matcher_lines(line.lines(), "")?;
                zone.r#match.push(set);
                Some(())
            }),
        ),
        option("key", "key <text>", Text(|zone| &mut zone.key)),
        option("window", "window <duration>", Time(|zone| &mut zone.window)),
        option(
            "events",
            "events <n>",
            With(|cx, line, zone| {
                zone.max_events = cx.events(line)?;
                Some(())
            }),
        ),
        option(
            "burst",
            "burst <n>",
            With(|cx, line, zone| {
                zone.burst = cx.events(line)?;
                Some(())
            }),
        ),
        option(
            "ipv4_prefix",
            "ipv4_prefix <bits>",
            With(|cx, line, zone| {
                zone.ipv4_prefix = cx.single_number(line, "a number of bits")?;
                Some(())
            }),
        ),
        option(
            "ipv6_prefix",
            "ipv6_prefix <bits>",
            With(|cx, line, zone| {
                zone.ipv6_prefix = cx.single_number(line, "a number of bits")?;
                Some(())
            }),
        ),
    ],
)
.own();

impl Lowering<'_> {
    fn rate_limit(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut limit = RateLimit::default();
            this.read_options(&OPTIONS, line.lines(), &mut limit)?;
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
            return self.refuse(diagnostic.help("give each zone a unique name"));
        }
        let place = std::mem::replace(&mut self.place, &ZONE);
        let mut zone = RateZone::default();
        let mut seen: Vec<&str> = Vec::new();
        let read = self.each(line.lines(), |this, option| {
            let word = option.name.text.as_str();
            if word != "match" && seen.contains(&word) {
                return this.duplicate(option);
            }
            seen.push(word);
            this.read_option(&ZONE, option, &mut zone)
        });
        self.place = place;
        read?;
        if zone.window.0 == 0 || zone.max_events == 0 {
            return self.missing(line, "`events` and `window`");
        }
        limit.rate_limits.insert(name.text.clone(), zone);
        Some(())
    }

    fn distributed(&mut self, line: &Directive, limit: &mut RateLimit) -> Option<()> {
        self.exact::<0>(line, &line.args)?;
        let mut shared = SharedLimit::default();
        self.read_options(&DISTRIBUTED, line.lines(), &mut shared)?;
        if shared.store.is_empty() {
            return self.missing(line, "a `store`, such as `store redis://127.0.0.1`");
        }
        limit.distributed = Some(shared);
        Some(())
    }

    /// The number of events that is the one argument of a line: at least one.
    pub(in crate::lower) fn events(&mut self, line: &Directive) -> Option<i64> {
        let word = self.single(line)?;
        let count: NonZeroU32 = self.number(word, "a number of 1 or more")?;
        Some(i64::from(count.get()))
    }
}
