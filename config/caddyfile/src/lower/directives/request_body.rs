//! `request_body`: limits for request bodies, or another body.

use sluice_model::Handler;
use sluice_model::handler::RequestBody;

use super::Outcomes;
use crate::lower::Lowering;
use crate::tree::Directive;

impl Lowering<'_> {
    pub(super) fn request_body(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut body = RequestBody::default();
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "max_size" => body.max_size = this.single_size(option)?,
                    "read_timeout" => body.read_timeout = this.single_duration(option)?,
                    "write_timeout" => body.write_timeout = this.single_duration(option)?,
                    "set" => body.set = this.single_text(option)?,
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            Some(Handler::RequestBody(body))
        })
    }
}
