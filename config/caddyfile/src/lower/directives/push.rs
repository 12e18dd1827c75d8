//! `push`: HTTP/2 server push.

use sluice_model::Handler;
use sluice_model::handler::{HeaderOps, Push, PushResource};

use crate::lower::Lowering;
use crate::lower::definition::Read::With;
use crate::lower::definition::Verdict::NoEffect;
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `push`.
pub(super) static PUSH: Definition = directive(
    "push",
    "push [<matcher>] [<resource>] [{ … }]",
    |cx, line| cx.push(line),
)
.with(&OPTIONS)
.but(NoEffect(
    "browsers no longer support HTTP/2 server push; send a `Link` header with `rel=preload` instead",
));

/// The options; any other line is a resource.
static OPTIONS: Options<Push> = Options::new(
    "push",
    &[
        option(
            "headers",
            "headers { … }",
            With(|cx, line, push| {
                cx.between(line, &line.args, 0, 0)?;
                let ops = push.headers.get_or_insert_with(HeaderOps::default);
                cx.each(line.lines(), |this, change| {
                    this.request_change(change, &change.name, &change.args, ops)
                })
            }),
        ),
        option(
            "GET",
            "GET <resource>",
            With(|cx, line, push| cx.pushed(line, push)),
        ),
        option(
            "HEAD",
            "HEAD <resource>",
            With(|cx, line, push| cx.pushed(line, push)),
        ),
    ],
);

impl Lowering<'_> {
    fn push(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.between(line, args, 0, 1)?;
            let mut push = Push::default();
            push.resources
                .extend(args.iter().map(|word| resource("", &word.text)));
            this.each(line.lines(), |this, option| {
                if OPTIONS.has(&option.name.text) {
                    return this.read_option(&OPTIONS, option, &mut push);
                }
                this.flag(option)?;
                push.resources.push(resource("", &option.name.text));
                Some(())
            })?;
            Some(Handler::Push(push))
        })
    }

    /// A resource behind its method.
    fn pushed(&mut self, line: &Directive, push: &mut Push) -> Option<()> {
        let target = self.single_text(line)?;
        push.resources.push(resource(&line.name.text, &target));
        Some(())
    }
}

fn resource(method: &str, target: &str) -> PushResource {
    PushResource {
        method: method.to_string(),
        target: target.to_string(),
    }
}
