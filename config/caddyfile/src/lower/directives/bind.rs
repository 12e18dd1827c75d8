//! `bind`: the addresses a site listens on.

use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::lower::definition::Read::Choices;
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::{Bind, Outcome, Outcomes};
use crate::tree::Directive;

/// `bind`.
pub(super) static BIND: Definition = directive("bind", "bind <hosts...> [{ … }]", |cx, line| {
    cx.bind(line)
})
.with(&OPTIONS);

/// The options of `bind`; `default_bind` has the same.
pub(in crate::lower) static OPTIONS: Options<Bind> = Options::new(
    "bind",
    &[option::<Bind>(
        "protocols",
        "protocols [h1|h2|h2c|h3]",
        Choices(&PROTOCOLS, |bind| &mut bind.protocols),
    )],
);

/// The protocols a listener may speak.
pub(in crate::lower) const PROTOCOLS: [&str; 4] = ["h1", "h2", "h2c", "h3"];

impl Lowering<'_> {
    fn bind(&mut self, line: &Directive) -> Outcomes {
        self.read_bind(line).map(|bind| vec![Outcome::Bind(bind)])
    }

    /// Addresses with the protocols spoken there; `default_bind` has the same form.
    pub(in crate::lower) fn read_bind(&mut self, line: &Directive) -> Option<Bind> {
        self.between(line, &line.args, 1, usize::MAX)?;
        let mut bind = Bind {
            addresses: texts(&line.args),
            protocols: Vec::new(),
        };
        self.read_options(&OPTIONS, line.lines(), &mut bind)?;
        Some(bind)
    }
}
