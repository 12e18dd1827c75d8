//! `respond` and `abort`: responses that the configuration contains.

use sluice_model::Handler;
use sluice_model::handler::StaticResponse;

use super::Outcomes;
use crate::lower::Lowering;
use crate::tree::{Directive, Token};

impl Lowering<'_> {
    pub(super) fn respond(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.between(line, args, 1, 2)?;
            let mut response = StaticResponse::default();
            match args {
                [only] if is_status(only) => response.status_code = only.text.as_str().into(),
                [body] => response.body.clone_from(&body.text),
                [body, status] => {
                    response.body.clone_from(&body.text);
                    response.status_code = this.status(status)?;
                }
                _ => {}
            }
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "body" if !response.body.is_empty() => return this.duplicate(option),
                    "body" => response.body = this.single_text(option)?,
                    "close" if response.close => return this.duplicate(option),
                    "close" => {
                        this.flag(option)?;
                        response.close = true;
                    }
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            Some(Handler::StaticResponse(response))
        })
    }

    pub(super) fn abort(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            this.between(line, args, 0, 0)?;
            Some(Handler::StaticResponse(StaticResponse {
                abort: true,
                ..StaticResponse::default()
            }))
        })
    }
}

/// Three digits alone are a status and no text.
pub(super) fn is_status(word: &Token) -> bool {
    word.text.len() == 3 && word.text.parse::<u16>().is_ok_and(|code| code > 0)
}
