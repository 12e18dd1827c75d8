//! `handle`, `handle_path` and `route`: directives in a block.

use sluice_model::handler::Rewrite;
use sluice_model::{Matcher, MatcherSet};

use super::rewrite::rewrite_handler;
use crate::lower::Lowering;
use crate::lower::definition::{Definition, directive};
use crate::lower::outcome::{Outcome, Outcomes};
use crate::lower::routes::{Sorting, route, subroute};
use crate::tree::Directive;

/// `handle`.
pub(super) static HANDLE: Definition = directive(
    "handle",
    "handle [<matcher>] { <directives...> }",
    |cx, line| cx.handle(line),
)
.holding_directives();

/// `handle_path`.
pub(super) static HANDLE_PATH: Definition = directive(
    "handle_path",
    "handle_path <path_matcher> { <directives...> }",
    |cx, line| cx.handle_path(line),
)
.holding_directives()
.sorted_as("handle");

/// `route`.
pub(super) static ROUTE: Definition = directive(
    "route",
    "route [<matcher>] { <directives...> }",
    |cx, line| cx.route(line),
)
.holding_directives();

impl Lowering<'_> {
    fn handle(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            Some(subroute(this.block_routes(line.lines(), Sorting::ByOrder)))
        })
    }

    fn route(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            Some(subroute(
                this.block_routes(line.lines(), Sorting::AsWritten),
            ))
        })
    }

    fn handle_path(&mut self, line: &Directive) -> Outcomes {
        let [path] = self.exact::<1>(line, &line.args)?;
        if !path.text.starts_with('/') {
            let title = format!("`handle_path` needs a path, found `{}`", path.text);
            let diagnostic = path.error("invalid-value", title, "does not begin with `/`");
            return self.refuse(
                diagnostic.help("use `handle` and `uri strip_prefix` with other matchers"),
            );
        }
        let inner = self.block_routes(line.lines(), Sorting::ByOrder);
        let text = path.text.as_str();
        let prefix = text
            .strip_suffix("/*")
            .or(text.strip_suffix('*'))
            .unwrap_or(text);
        let strip = Rewrite {
            strip_path_prefix: prefix.to_string(),
            ..Rewrite::default()
        };
        let mut routes = vec![route(Vec::new(), rewrite_handler(strip))];
        routes.extend(inner);
        let matcher = MatcherSet::of(Matcher::Path(vec![path.text.clone()]));
        Some(vec![Outcome::Route(route(vec![matcher], subroute(routes)))])
    }
}
