//! `metrics`: serves the metrics.

use sluice_model::Handler;
use sluice_model::handler::MetricsHandler;

use super::Outcomes;
use crate::lower::Lowering;
use crate::tree::Directive;

impl Lowering<'_> {
    pub(super) fn metrics(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut metrics = MetricsHandler::default();
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "disable_openmetrics" => {
                        this.flag(option)?;
                        metrics.disable_openmetrics = true;
                    }
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            Some(Handler::Metrics(metrics))
        })
    }
}
