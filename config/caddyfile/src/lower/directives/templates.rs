//! `templates`: executes response bodies as templates.

use sluice_model::Handler;
use sluice_model::handler::Templates;

use super::Outcomes;
use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::tree::Directive;

impl Lowering<'_> {
    pub(super) fn templates(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut templates = Templates::default();
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "mime" => templates.mime_types = this.texts(option)?,
                    "root" => templates.file_root = this.single_text(option)?,
                    "between" => {
                        this.no_block(option)?;
                        templates.delimiters = texts(this.exact::<2>(option, &option.args)?);
                    }
                    // As in Caddy, a block that names no module is none.
                    "extensions" if option.args.is_empty() && option.lines().is_empty() => {}
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            Some(Handler::Templates(templates))
        })
    }
}
