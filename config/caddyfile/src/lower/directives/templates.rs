//! `templates`: executes response bodies as templates.

use sluice_model::Handler;
use sluice_model::handler::Templates;

use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::lower::definition::Read::{Text, Texts, With};
use crate::lower::definition::Verdict::Plugin;
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `templates`.
pub(super) static TEMPLATES: Definition = directive(
    "templates",
    "templates [<matcher>] [{ … }]",
    |cx, line| cx.templates(line),
)
.with(&OPTIONS);

static OPTIONS: Options<Templates> = Options::new(
    "templates",
    &[
        option(
            "mime",
            "mime <types...>",
            Texts(|templates| &mut templates.mime_types),
        ),
        option(
            "between",
            "between <open_delim> <close_delim>",
            With(|cx, line, templates| {
                cx.no_block(line)?;
                templates.delimiters = texts(cx.exact::<2>(line, &line.args)?);
                Some(())
            }),
        ),
        option(
            "root",
            "root <path>",
            Text(|templates| &mut templates.file_root),
        ),
        option::<Templates>(
            "extensions",
            "extensions { … }",
            With(
                |cx, line, _| match line.args.is_empty() && line.lines().is_empty() {
                    true => Some(()),
                    false => cx.unknown_option(line),
                },
            ),
        )
        .but(Plugin(
            "extensions are plugins, which sluice does not have; remove the lines inside",
        )),
    ],
);

impl Lowering<'_> {
    fn templates(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut templates = Templates::default();
            this.read_options(&OPTIONS, line.lines(), &mut templates)?;
            Some(Handler::Templates(templates))
        })
    }
}
