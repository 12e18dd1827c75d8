//! `invoke`, and the named routes that it runs.

use sluice_model::handler::Invoke;
use sluice_model::{Handler, Route};

use crate::lower::definition::{Definition, directive};
use crate::lower::listen::source_names;
use crate::lower::outcome::Outcomes;
use crate::lower::routes::{Sorting, subroute};
use crate::lower::{Lowering, Named};
use crate::tree::{Directive, NamedRoute};

/// `invoke`.
pub(super) static INVOKE: Definition =
    directive("invoke", "invoke [<matcher>] <route-name>", |cx, line| {
        cx.invoke(line)
    });

impl Lowering<'_> {
    fn invoke(&mut self, line: &Directive) -> Outcomes {
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
            self.invoked.clear();
            let mut inner = self.block_routes(&body, Sorting::ByOrder);
            let route = match inner.as_slice() {
                [only] if only.r#match.is_empty() => inner.remove(0),
                _ => Route {
                    handle: vec![subroute(inner)],
                    ..Route::default()
                },
            };
            let invoked = std::mem::take(&mut self.invoked);
            self.named_routes
                .insert(named.name.text.clone(), Some(Named { route, invoked }));
        }
        self.next_group = drawn;
    }
}
