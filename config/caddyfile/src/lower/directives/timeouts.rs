//! `timeouts`: timeouts for the transfer of bodies, for some requests.

use sluice_model::Handler;
use sluice_model::handler::Timeouts;

use crate::lower::Lowering;
use crate::lower::definition::Read::{Size, With};
use crate::lower::definition::Verdict::Always;
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::options::servers::BYTES_COUNT;
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `timeouts`.
pub(super) static TIMEOUTS: Definition =
    directive("timeouts", "timeouts [<matcher>] { … }", |cx, line| {
        cx.timeouts(line)
    })
    .with(&OPTIONS);

static OPTIONS: Options<Timeouts> = Options::new(
    "timeouts",
    &[
        option(
            "read_timeout",
            "read_timeout <duration> [<min_rate>]",
            With(|cx, line, timeouts| {
                let idle = cx.idle_timeout(line)?;
                (timeouts.read_timeout, timeouts.read_min_rate) = (idle.time, idle.min_rate);
                Some(())
            }),
        ),
        option(
            "write_timeout",
            "write_timeout <duration> [<min_rate>]",
            With(|cx, line, timeouts| {
                let idle = cx.idle_timeout(line)?;
                (timeouts.write_timeout, timeouts.write_min_rate) = (idle.time, idle.min_rate);
                Some(())
            }),
        ),
        option::<Timeouts>(
            "max_write_chunk",
            "max_write_chunk <size>",
            Size(|timeouts| &mut timeouts.max_write_chunk),
        )
        .but(Always(BYTES_COUNT)),
    ],
);

impl Lowering<'_> {
    fn timeouts(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut timeouts = Timeouts::default();
            this.read_options(&OPTIONS, line.lines(), &mut timeouts)?;
            Some(Handler::Timeouts(timeouts))
        })
    }
}
