//! `error`: makes a request fail, so that `handle_errors` processes it.

use sluice_model::Handler;
use sluice_model::handler::StaticError;

use super::Outcomes;
use super::respond::is_status;
use crate::lower::Lowering;
use crate::tree::Directive;

impl Lowering<'_> {
    pub(super) fn error(&mut self, line: &Directive) -> Outcomes {
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
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "message" if !error.error.is_empty() => return this.duplicate(option),
                    "message" => error.error = this.single_text(option)?,
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            Some(Handler::Error(error))
        })
    }
}
