//! `request_body`: limits for request bodies, or another body.

use sluice_model::Handler;
use sluice_model::handler::RequestBody;

use crate::lower::Lowering;
use crate::lower::definition::Read::{Size, Text, Time};
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `request_body`.
pub(super) static REQUEST_BODY: Definition = directive(
    "request_body",
    "request_body [<matcher>] { … }",
    |cx, line| cx.request_body(line),
)
.with(&OPTIONS);

static OPTIONS: Options<RequestBody> = Options::new(
    "request_body",
    &[
        option(
            "max_size",
            "max_size <value>",
            Size(|body| &mut body.max_size),
        ),
        option("set", "set <body_content>", Text(|body| &mut body.set)),
        // Of earlier versions of Caddy; 2.11.9 has `timeouts` in their place.
        option::<RequestBody>(
            "read_timeout",
            "read_timeout <duration>",
            Time(|body| &mut body.read_timeout),
        )
        .own(),
        option::<RequestBody>(
            "write_timeout",
            "write_timeout <duration>",
            Time(|body| &mut body.write_timeout),
        )
        .own(),
    ],
);

impl Lowering<'_> {
    fn request_body(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut body = RequestBody::default();
            this.read_options(&OPTIONS, line.lines(), &mut body)?;
            Some(Handler::RequestBody(body))
        })
    }
}
