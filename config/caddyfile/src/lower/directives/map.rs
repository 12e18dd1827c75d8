//! `map`: variables from a table.

use serde_json::Value;
use sluice_model::Handler;
use sluice_model::handler::{Map, Mapping};
use sluice_model::placeholder_name;

use super::scalar;
use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::lower::definition::Read::With;
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::Outcomes;
use crate::registry::placeholders::EXACT;
use crate::tree::Directive;

/// `map`.
pub(super) static MAP: Definition = directive(
    "map",
    "map [<matcher>] <source> <destinations...> { … }",
    |cx, line| cx.map(line),
)
.with(&OPTIONS);

/// The options; any other line is a row.
static OPTIONS: Options<Map> = Options::new(
    "map",
    &[option(
        "default",
        "default <defaults...>",
        With(|cx, line, map| {
            cx.no_block(line)?;
            if !map.defaults.is_empty() {
                return cx.duplicate(line);
            }
            cx.between(line, &line.args, map.destinations.len(), usize::MAX)?;
            map.defaults = texts(&line.args);
            Some(())
        }),
    )],
);

impl Lowering<'_> {
    fn map(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.between(line, args, 2, usize::MAX)?;
            let (source, destinations) = (&args[0], &args[1..]);
            for word in destinations {
                if placeholder_name(&word.text).is_none() {
                    let title = format!("`map` cannot set `{}`", word.text);
                    let label = "not a placeholder";
                    let help = "a destination is one placeholder and nothing else: `{name}`";
                    return this.refuse(word.error("invalid-value", title, label).help(help));
                }
                let name = word.text.trim_start_matches('{').trim_end_matches('}');
                if let Some((short, _)) = EXACT.iter().find(|(_, long)| *long == name) {
                    let title = format!("`map` cannot set `{{{short}}}`");
                    let label = "a predefined placeholder";
                    return this.refuse(word.error("invalid-value", title, label));
                }
            }
            let mut map = Map {
                source: source.text.clone(),
                destinations: texts(destinations),
                ..Map::default()
            };
            this.each(line.lines(), |this, option| {
                match OPTIONS.has(&option.name.text) {
                    true => this.read_option(&OPTIONS, option, &mut map),
                    false => this.map_row(option, &mut map),
                }
            })?;
            Some(Handler::Map(map))
        })
    }

    fn map_row(&mut self, line: &Directive, map: &mut Map) -> Option<()> {
        self.no_block(line)?;
        if let Some(word) = line.args.get(map.destinations.len()) {
            return self.surplus(line, word);
        }
        let mut outputs: Vec<Value> = Vec::new();
        for at in 0..map.destinations.len() {
            outputs.push(match line.args.get(at) {
                None => Value::Null,
                Some(word) if word.text == "-" => Value::Null,
                Some(word) => scalar(word),
            });
        }
        let mut mapping = Mapping {
            outputs,
            ..Mapping::default()
        };
        match line.name.text.strip_prefix('~') {
            Some(pattern) => mapping.input_regexp = pattern.to_string(),
            None => mapping.input.clone_from(&line.name.text),
        }
        map.mappings.push(mapping);
        Some(())
    }
}
