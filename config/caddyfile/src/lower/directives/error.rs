//! `error`: makes a request fail, so that `handle_errors` processes it.

use sluice_model::Handler;
use sluice_model::handler::StaticError;

use super::respond::is_status;
use crate::lower::Lowering;
use crate::lower::definition::Read::With;
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `error`.
pub(super) static ERROR: Definition = directive(
    "error",
    "error [<matcher>] <status>|<message> [<status>] [{ … }]",
    |cx, line| cx.error(line),
)
.with(&OPTIONS);

static OPTIONS: Options<StaticError> = Options::new(
    "error",
    &[option(
        "message",
        "message <text>",
        With(|cx, line, error| {
            if !error.error.is_empty() {
                return cx.duplicate(line);
            }
            error.error = cx.single_text(line)?;
            Some(())
        }),
    )],
);

impl Lowering<'_> {
    fn error(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.between(line, args, 1, 2)?;
            let mut error = StaticError::default();
            match args {
                [only] if is_status(only) => error.status_code = only.text.as_str().into(),
                [message] => error.error.clone_from(&message.text),
                [message, status] => {
                    error.error.clone_from(&message.text);
                    error.status_code = this.status(status)?;
                }
                _ => {}
            }
            this.read_options(&OPTIONS, line.lines(), &mut error)?;
            Some(Handler::Error(error))
        })
    }
}
