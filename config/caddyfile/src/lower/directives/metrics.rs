//! `metrics`: serves the metrics.

use sluice_model::Handler;
use sluice_model::handler::MetricsHandler;

use crate::lower::Lowering;
use crate::lower::definition::Read::Flag;
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `metrics`.
pub(super) static METRICS: Definition =
    directive("metrics", "metrics [<matcher>] [{ … }]", |cx, line| {
        cx.metrics(line)
    })
    .with(&OPTIONS);

static OPTIONS: Options<MetricsHandler> = Options::new(
    "metrics",
    &[option(
        "disable_openmetrics",
        "disable_openmetrics",
        Flag(|metrics| &mut metrics.disable_openmetrics),
    )],
);

impl Lowering<'_> {
    fn metrics(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut metrics = MetricsHandler::default();
            this.read_options(&OPTIONS, line.lines(), &mut metrics)?;
            Some(Handler::Metrics(metrics))
        })
    }
}
