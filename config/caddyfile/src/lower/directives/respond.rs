//! `respond` and `abort`: responses that the configuration contains.

use sluice_model::Handler;
use sluice_model::handler::StaticResponse;

use crate::lower::Lowering;
use crate::lower::definition::Read::With;
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::Outcomes;
use crate::tree::{Directive, Token};

/// `respond`.
pub(super) static RESPOND: Definition = directive(
    "respond",
    "respond [<matcher>] <status>|<body> [<status>] [{ … }]",
    |cx, line| cx.respond(line),
)
.with(&OPTIONS);

static OPTIONS: Options<StaticResponse> = Options::new(
    "respond",
    &[
        option(
            "body",
            "body <text>",
            With(|cx, line, response| {
                if !response.body.is_empty() {
                    return cx.duplicate(line);
                }
                response.body = cx.single_text(line)?;
                Some(())
            }),
        ),
        option(
            "close",
            "close",
            With(|cx, line, response| {
                if response.close {
                    return cx.duplicate(line);
                }
                cx.flag(line)?;
                response.close = true;
                Some(())
            }),
        ),
    ],
);

/// `abort`.
pub(super) static ABORT: Definition =
    directive("abort", "abort [<matcher>]", |cx, line| cx.abort(line));

impl Lowering<'_> {
    fn respond(&mut self, line: &Directive) -> Outcomes {
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
            this.read_options(&OPTIONS, line.lines(), &mut response)?;
            Some(Handler::StaticResponse(response))
        })
    }

    fn abort(&mut self, line: &Directive) -> Outcomes {
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

/// Whether a single argument is a status rather than a text: three digits are.
pub(super) fn is_status(word: &Token) -> bool {
    word.text.len() == 3 && word.text.parse::<u16>().is_ok_and(|code| code > 0)
}
