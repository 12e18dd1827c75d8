//! Directives that contain others: `handle`, `handle_path`, `route`, `handle_errors`, `invoke`.

use sluice_model::handler::{Invoke, Rewrite};
use sluice_model::matcher::Expression;
use sluice_model::{Handler, Matcher, MatcherSet, Route};

use super::Outcomes;
use super::rewriting::rewrite_handler;
use crate::lower::Lowering;
use crate::lower::listen::source_names;
use crate::lower::outcome::Outcome;
use crate::lower::routes::{Sorting, route, subroute};
use crate::tree::{Directive, NamedRoute, Token};

impl Lowering<'_> {
    pub(super) fn handle(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            Some(subroute(this.block_routes(line.lines(), Sorting::ByOrder)))
        })
    }

    pub(super) fn route(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            Some(subroute(
                this.block_routes(line.lines(), Sorting::AsWritten),
            ))
        })
    }

    pub(super) fn handle_path(&mut self, line: &Directive) -> Outcomes {
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

    pub(super) fn handle_errors(&mut self, line: &Directive) -> Outcomes {
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
        let diagnostic = word.error("invalid-status", title, "neither code nor class");
        self.refuse(diagnostic.help("write a code such as `404`, or a class such as `4xx`"))
    }

    pub(super) fn invoke(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            let [name] = this.exact::<1>(line, args)?;
            if !this.named_routes.contains_key(&name.text) {
                let known = this.named_routes.keys().map(String::as_str);
                let guess = sluice_diag::closest(&name.text, known).map(str::to_string);
                let title = format!("undefined named route `{}`", name.text);
                let diagnostic = name.error("undefined-route", title, "no such named route");
                let help = format!(
                    "define it at the top of the file: `&({}) {{ … }}`",
                    name.text
                );
                return this.refuse(diagnostic.did_you_mean(guess.as_deref()).help(help));
            }
            this.invoked.push(name.text.clone());
            Some(Handler::Invoke(Invoke {
                name: name.text.clone(),
            }))
        })
    }

    /// Notes which named routes exist, so that each may be invoked before it is lowered.
    pub(in crate::lower) fn declare_named_routes(&mut self, routes: &[NamedRoute]) {
        for named in routes {
            self.named_routes.insert(named.name.text.clone(), None);
        }
    }

    /// Lowers the named routes.
    pub(in crate::lower) fn lower_named_routes(&mut self, routes: &[NamedRoute]) {
        // Their groups have numbers of their own.
        let drawn = self.next_group;
        for named in routes {
            let mut body = named.body.clone();
            crate::lower::shorthand::expand_lines(&mut body);
            self.site_files = source_names(&body, &self.report.sources);
            let mut inner = self.block_routes(&body, Sorting::ByOrder);
            let route = match inner.as_slice() {
                [only] if only.r#match.is_empty() => inner.remove(0),
                _ => Route {
                    handle: vec![subroute(inner)],
                    ..Route::default()
                },
            };
            self.named_routes
                .insert(named.name.text.clone(), Some(route));
        }
        self.next_group = drawn;
    }
}
