//! `copy_response` and `copy_response_headers`: the response that `handle_response` replaces, or parts of it.

use sluice_model::Handler;
use sluice_model::handler::{CopyResponse, CopyResponseHeaders};

use super::Outcomes;
use crate::lower::Lowering;
use crate::tree::Directive;

impl Lowering<'_> {
    pub(super) fn copy_response(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.between(line, args, 0, 1)?;
            let mut copy = CopyResponse::default();
            if let Some(word) = args.first() {
                copy.status_code = this.status(word)?;
            }
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "status" if !copy.status_code.0.is_empty() => return this.duplicate(option),
                    "status" => {
                        let word = this.single(option)?;
                        copy.status_code = this.status(word)?;
                    }
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            Some(Handler::CopyResponse(copy))
        })
    }

    pub(super) fn copy_response_headers(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut copy = CopyResponseHeaders::default();
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "include" => copy.include.extend(this.texts(option)?),
                    "exclude" => copy.exclude.extend(this.texts(option)?),
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            Some(Handler::CopyResponseHeaders(copy))
        })
    }
}
