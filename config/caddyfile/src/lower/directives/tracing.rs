//! `tracing`: a span for each request.

use sluice_model::Handler;
use sluice_model::handler::Tracing;

use super::Outcomes;
use crate::lower::Lowering;
use crate::tree::Directive;

impl Lowering<'_> {
    pub(super) fn tracing(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut tracing = Tracing::default();
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "span" => tracing.span = this.single_text(option)?,
                    "span_attributes" => {
                        this.between(option, &option.args, 0, 0)?;
                        this.each(option.lines(), |this, attribute| {
                            let value = this.single_text(attribute)?;
                            tracing
                                .span_attributes
                                .insert(attribute.name.text.clone(), value);
                            Some(())
                        })?;
                    }
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            Some(Handler::Tracing(tracing))
        })
    }
}
