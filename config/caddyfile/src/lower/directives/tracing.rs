//! `tracing`: a span for each request.

use sluice_model::Handler;
use sluice_model::handler::Tracing;

use crate::lower::Lowering;
use crate::lower::definition::Read::{Text, With};
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `tracing`.
pub(super) static TRACING: Definition =
    directive("tracing", "tracing [<matcher>] { … }", |cx, line| {
        cx.tracing(line)
    })
    .with(&OPTIONS);

static OPTIONS: Options<Tracing> = Options::new(
    "tracing",
    &[
        option(
            "span",
            "span <span_name>",
            Text(|tracing| &mut tracing.span),
        ),
        option(
            "span_attributes",
            "span_attributes { … }",
            With(|cx, line, tracing| {
                cx.between(line, &line.args, 0, 0)?;
                cx.each(line.lines(), |this, attribute| {
                    let value = this.single_text(attribute)?;
                    let name = attribute.name.text.clone();
                    tracing.span_attributes.insert(name, value);
                    Some(())
                })
            }),
        ),
    ],
);

impl Lowering<'_> {
    fn tracing(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut tracing = Tracing::default();
            this.read_options(&OPTIONS, line.lines(), &mut tracing)?;
            Some(Handler::Tracing(tracing))
        })
    }
}
