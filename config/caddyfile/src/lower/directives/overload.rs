//! `overload`: sheds requests that an upstream cannot serve in time, sluice's own.

use std::num::NonZeroU32;

use sluice_model::Handler;
use sluice_model::handler::{Overload, Priority};

use crate::lower::Lowering;
use crate::lower::definition::Read::{Number, Text, Time, With};
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `overload`.
pub(super) static OVERLOAD: Definition = directive(
    "overload",
    "overload [<matcher>] fail_fast <max> | queue <max> | adaptive [{ … }]",
    |cx, line| cx.overload(line),
)
.with(&OPTIONS)
.own();

const MODES: &[&str] = &["fail_fast", "queue", "adaptive"];

static OPTIONS: Options<Overload> = Options::<Overload>::new(
    "overload",
    &[
        option(
            "target_latency",
            "target_latency <duration>",
            Time(|overload| &mut overload.target_latency),
        ),
        option(
            "min",
            "min <n>",
            With(|cx, line, overload| {
                overload.min = cx.events(line)?;
                Some(())
            }),
        ),
        option(
            "max",
            "max <n>",
            With(|cx, line, overload| {
                overload.max = cx.events(line)?;
                Some(())
            }),
        ),
        option(
            "queue",
            "queue <n>",
            With(|cx, line, overload| {
                overload.queue = cx.events(line)?;
                Some(())
            }),
        ),
        option(
            "timeout",
            "timeout <duration>",
            Time(|overload| &mut overload.timeout),
        ),
        option("name", "name <name>", Text(|overload| &mut overload.name)),
        option("key", "key <text>", Text(|overload| &mut overload.key)),
        option(
            "ipv4_prefix",
            "ipv4_prefix <bits>",
            Number("a number of bits", |overload| &mut overload.ipv4_prefix),
        ),
        option(
            "ipv6_prefix",
            "ipv6_prefix <bits>",
            Number("a number of bits", |overload| &mut overload.ipv6_prefix),
        ),
        option(
            "priority",
            "priority <text> | high|normal|low { <matchers> }",
            With(|cx, line, overload| cx.overload_priority(line, overload)),
        ),
    ],
)
.own();

/// The options that each mode has no use for.
const USELESS: [(&str, &[&str]); 3] = [
    (
        "fail_fast",
        &["target_latency", "min", "max", "queue", "timeout"],
    ),
    ("queue", &["target_latency", "min", "max"]),
    ("adaptive", &[]),
];

impl Lowering<'_> {
    fn overload(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            let Some(mode) = args.first() else {
                return this.missing(line, "`fail_fast`, `queue` or `adaptive`");
            };
            let mut overload = Overload {
                mode: this.one_of(mode, MODES)?,
                ..Overload::default()
            };
            if overload.mode == "adaptive" {
                this.exact::<1>(line, args)?;
            } else {
                let [_, max] = this.exact::<2>(line, args)?;
                let count: NonZeroU32 = this.number(max, "a number of 1 or more")?;
                overload.max = i64::from(count.get());
            }
            let useless = USELESS.iter().find(|(mode, _)| *mode == overload.mode);
            let useless = useless.map_or(&[][..], |(_, names)| names);
            let mut found = line.lines().iter();
            if let Some(option) = found.find(|line| useless.contains(&line.name.text.as_str())) {
                let (name, mode) = (&option.name.text, &overload.mode);
                let title = format!("`{name}` has no effect with `overload {mode}`");
                let diagnostic =
                    option
                        .name
                        .error("unknown-option", title, "not an option of this mode");
                let help = format!("remove it, or use another mode than `{mode}`");
                return this.refuse(diagnostic.help(help));
            }
            this.read_options(&OPTIONS, line.lines(), &mut overload)?;
            Some(Handler::Overload(Box::new(overload)))
        })
    }

    fn overload_priority(&mut self, line: &Directive, overload: &mut Overload) -> Option<()> {
        let [word] = self.exact::<1>(line, &line.args)?;
        if line.lines().is_empty() {
            overload.priority.clone_from(&word.text);
            return Some(());
        }
        let class = self.one_of(word, &["high", "normal", "low"])?;
        let set = self.matcher_lines(line.lines(), "")?;
        overload.priorities.push(Priority {
            class,
            r#match: vec![set],
        });
        Some(())
    }
}
