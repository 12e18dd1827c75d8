//! `vars`: variables of a request.

use std::collections::BTreeMap;

use serde_json::Value;
use sluice_model::Handler;

use super::scalar;
use crate::lower::Lowering;
use crate::lower::definition::{Definition, directive};
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `vars`.
pub(super) static VARS: Definition = directive(
    "vars",
    "vars [<matcher>] [<name> <value>] [{ … }]",
    |cx, line| cx.vars(line),
);

impl Lowering<'_> {
    fn vars(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            let mut vars = BTreeMap::new();
            if !args.is_empty() {
                let [name, value] = this.exact::<2>(line, args)?;
                vars.insert(name.text.clone(), scalar(value));
            }
            this.each(line.lines(), |this, option| {
                let value = this.single(option)?;
                if vars
                    .insert(option.name.text.clone(), scalar(value))
                    .is_some()
                {
                    return this.duplicate(option);
                }
                Some(())
            })?;
            Some(Handler::Vars(vars))
        })
    }
}

/// A handler that sets one variable.
pub(super) fn variable(name: &str, value: Value) -> Handler {
    Handler::Vars(BTreeMap::from([(name.to_string(), value)]))
}
