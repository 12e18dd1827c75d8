//! `copy_response` and `copy_response_headers`: the response that `handle_response` replaces, or parts of it.

use sluice_model::Handler;
use sluice_model::handler::{CopyResponse, CopyResponseHeaders};

use crate::lower::Lowering;
use crate::lower::definition::Read::{MoreTexts, With};
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `copy_response`.
pub(super) static COPY_RESPONSE: Definition = directive(
    "copy_response",
    "copy_response [<matcher>] [<status>] [{ … }]",
    |cx, line| cx.copy_response(line),
)
.with(&OPTIONS);

static OPTIONS: Options<CopyResponse> = Options::new(
    "copy_response",
    &[option(
        "status",
        "status <status>",
        With(|cx, line, copy| {
            if !copy.status_code.0.is_empty() {
                return cx.duplicate(line);
            }
            let word = cx.single(line)?;
            copy.status_code = cx.status(word)?;
            Some(())
        }),
    )],
);

/// `copy_response_headers`.
pub(super) static COPY_RESPONSE_HEADERS: Definition = directive(
    "copy_response_headers",
    "copy_response_headers [<matcher>] { … }",
    |cx, line| cx.copy_response_headers(line),
)
.with(&HEADER_OPTIONS);

static HEADER_OPTIONS: Options<CopyResponseHeaders> = Options::new(
    "copy_response_headers",
    &[
        option(
            "include",
            "include <fields...>",
            MoreTexts(|copy| &mut copy.include),
        ),
        option(
            "exclude",
            "exclude <fields...>",
            MoreTexts(|copy| &mut copy.exclude),
        ),
    ],
);

impl Lowering<'_> {
    fn copy_response(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.between(line, args, 0, 1)?;
            let mut copy = CopyResponse::default();
            if let Some(word) = args.first() {
                copy.status_code = this.status(word)?;
            }
            this.read_options(&OPTIONS, line.lines(), &mut copy)?;
            Some(Handler::CopyResponse(copy))
        })
    }

    fn copy_response_headers(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut copy = CopyResponseHeaders::default();
            this.read_options(&HEADER_OPTIONS, line.lines(), &mut copy)?;
            Some(Handler::CopyResponseHeaders(copy))
        })
    }
}
