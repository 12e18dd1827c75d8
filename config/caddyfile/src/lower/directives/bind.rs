//! `bind`: the addresses a site listens on.

use super::Outcomes;
use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::lower::outcome::{Bind, Outcome};
use crate::tree::Directive;

/// The protocols a listener may speak.
pub(in crate::lower) const PROTOCOLS: [&str; 4] = ["h1", "h2", "h2c", "h3"];

impl Lowering<'_> {
    pub(super) fn bind(&mut self, line: &Directive) -> Outcomes {
        self.read_bind(line).map(|bind| vec![Outcome::Bind(bind)])
    }

    /// Addresses with the protocols spoken there; `default_bind` has the same form.
    pub(in crate::lower) fn read_bind(&mut self, line: &Directive) -> Option<Bind> {
        self.between(line, &line.args, 1, usize::MAX)?;
        let mut bind = Bind {
            addresses: texts(&line.args),
            protocols: Vec::new(),
        };
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "protocols" => {
                    this.texts(option)?;
                    for word in &option.args {
                        bind.protocols.push(this.one_of(word, &PROTOCOLS)?);
                    }
                }
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(bind)
    }
}
