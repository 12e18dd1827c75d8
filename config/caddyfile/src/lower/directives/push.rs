//! `push`: HTTP/2 server push.

use sluice_model::Handler;
use sluice_model::handler::{HeaderOps, Push, PushResource};

use super::Outcomes;
use crate::lower::Lowering;
use crate::tree::Directive;

impl Lowering<'_> {
    pub(super) fn push(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.between(line, args, 0, 1)?;
            let resource = |method: &str, target: &str| PushResource {
                method: method.to_string(),
                target: target.to_string(),
            };
            let mut push = Push::default();
            push.resources
                .extend(args.iter().map(|word| resource("", &word.text)));
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "headers" => {
                        this.between(option, &option.args, 0, 0)?;
                        let ops = push.headers.get_or_insert_with(HeaderOps::default);
                        this.each(option.lines(), |this, change| {
                            this.request_change(change, &change.name, &change.args, ops)?;
                            Some(())
                        })?;
                    }
                    method @ ("GET" | "HEAD") => {
                        let target = this.single_text(option)?;
                        push.resources.push(resource(method, &target));
                    }
                    target => {
                        this.flag(option)?;
                        push.resources.push(resource("", target));
                    }
                }
                Some(())
            })?;
            Some(Handler::Push(push))
        })
    }
}
