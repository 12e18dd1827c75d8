//! `rewrite` and `method`: another URI or method for the request.

use sluice_model::Handler;
use sluice_model::handler::Rewrite;

use crate::lower::Lowering;
use crate::lower::definition::{Definition, directive};
use crate::lower::outcome::{Outcome, Outcomes};
use crate::lower::routes::route;
use crate::tree::Directive;

/// `rewrite`.
pub(super) static REWRITE: Definition =
    directive("rewrite", "rewrite [<matcher>] <to>", |cx, line| {
        cx.rewrite(line)
    });

/// `method`.
pub(super) static METHOD: Definition =
    directive("method", "method [<matcher>] <method>", |cx, line| {
        cx.method(line)
    });

impl Lowering<'_> {
    fn rewrite(&mut self, line: &Directive) -> Outcomes {
        self.no_block(line)?;
        let (matcher, args) = self.lone_or_matched(line)?;
        let [uri] = self.exact::<1>(line, args)?;
        let rewrite = Rewrite {
            uri: uri.text.clone(),
            ..Rewrite::default()
        };
        Some(vec![Outcome::Route(route(
            matcher,
            rewrite_handler(rewrite),
        ))])
    }

    fn method(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            let [method] = this.exact::<1>(line, args)?;
            let rewrite = Rewrite {
                method: method.text.clone(),
                ..Rewrite::default()
            };
            Some(rewrite_handler(rewrite))
        })
    }
}

/// A handler that rewrites.
pub(super) fn rewrite_handler(rewrite: Rewrite) -> Handler {
    Handler::Rewrite(Box::new(rewrite))
}
