//! `root` and `fs`: where files are looked for.

use super::vars::variable;
use crate::lower::Lowering;
use crate::lower::definition::{Definition, directive};
use crate::lower::outcome::{Outcome, Outcomes};
use crate::lower::routes::route;
use crate::tree::Directive;

/// `root`.
pub(super) static ROOT: Definition =
    directive("root", "root [<matcher>] <path>", |cx, line| cx.root(line));

/// `fs`.
pub(super) static FS: Definition =
    directive("fs", "fs [<matcher>] <filesystem>", |cx, line| cx.fs(line));

impl Lowering<'_> {
    fn root(&mut self, line: &Directive) -> Outcomes {
        self.no_block(line)?;
        let (matcher, args) = self.lone_or_matched(line)?;
        let [path] = self.exact::<1>(line, args)?;
        Some(vec![Outcome::Route(route(
            matcher,
            variable("root", path.text.as_str().into()),
        ))])
    }

    fn fs(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            let [name] = this.exact::<1>(line, args)?;
            Some(variable("fs", name.text.as_str().into()))
        })
    }
}
