//! `handle_errors`: directives for requests that failed.

use sluice_model::matcher::Expression;
use sluice_model::{Matcher, MatcherSet};

use crate::lower::Lowering;
use crate::lower::definition::{Definition, directive};
use crate::lower::outcome::{Outcome, Outcomes};
use crate::lower::routes::{Sorting, route, subroute};
use crate::tree::{Directive, Token};

/// `handle_errors`.
pub(super) static HANDLE_ERRORS: Definition = directive(
    "handle_errors",
    "handle_errors [<status_codes...>] { <directives...> }",
    |cx, line| cx.handle_errors(line),
)
.holding_directives();

impl Lowering<'_> {
    fn handle_errors(&mut self, line: &Directive) -> Outcomes {
        let mut classes = Vec::new();
        let mut codes = Vec::new();
        for word in &line.args {
            match self.error_status(word)? {
                class @ 1..=9 => classes.push(format!(
                    "{{http.error.status_code}} >= {class}00 && {{http.error.status_code}} <= {class}99"
                )),
                code => codes.push(code.to_string()),
            }
        }
        if !codes.is_empty() {
            classes.push(format!(
                "{{http.error.status_code}} in [{}]",
                codes.join(", ")
            ));
        }
        let routes = self.block_routes(line.lines(), Sorting::ByOrder);
        let mut wrapping = route(Vec::new(), subroute(routes));
        if !classes.is_empty() {
            let expr = Expression {
                expr: classes.join(" || "),
                name: String::new(),
            };
            wrapping.r#match = vec![MatcherSet::of(Matcher::Expression(expr))];
        }
        Some(vec![Outcome::ErrorRoutes(vec![wrapping])])
    }

    fn error_status(&mut self, word: &Token) -> Option<u16> {
        if word.text.len() == 3 {
            return self.status_or_class(word);
        }
        let title = format!("invalid status `{}`", word.text);
        let diagnostic = word.error("invalid-status", title, "neither a status code nor a class");
        self.refuse(diagnostic.help("write a code such as `404`, or a class such as `4xx`"))
    }
}
