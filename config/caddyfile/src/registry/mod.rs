//! All definitions of the Caddyfile: directives, options and matchers with syntax and verdict, and the short placeholders.
//! `lower` has each definition beside the code that lowers it; the reference table is generated from here.

pub mod old_names;
pub mod placeholders;
pub mod plugins;

pub use crate::lower::definition::{
    Block, Definition, Entry, IdleArguments, OptionTable, Refused, Verdict,
};

use crate::lower::{directives, matchers, options};

/// A table of options.
pub type Table = &'static dyn OptionTable;

/// All directives, sorted by name.
pub fn directives() -> impl Iterator<Item = &'static Definition> {
    directives::by_name()
}

/// Finds a directive.
pub fn directive(name: &str) -> Option<&'static Definition> {
    directives::find(name)
}

/// The place of a directive in the order in which directives run; `None` if it has none.
pub fn position(name: &str) -> Option<usize> {
    let mut order = directives::IN_ORDER.iter();
    order.position(|known| known.entry.name == name)
}

/// The options of directives, each table followed by those of the blocks inside it, and the matchers.
pub fn site_tables() -> Vec<Table> {
    let mut found = Vec::new();
    for directive in directives() {
        collect(directive.entry.block, &mut found);
    }
    for table in matchers::TABLES {
        collect(Block::Options(table), &mut found);
    }
    found
}

/// The global options and those inside their blocks, except for what directives have as well.
pub fn global_tables() -> Vec<Table> {
    let mut found = site_tables();
    let known = found.len();
    collect(Block::Options(options::TABLE), &mut found);
    found.split_off(known)
}

/// Adds the tables of a block that are not there yet. Tables nest no deeper than they are written.
fn collect(block: Block, found: &mut Vec<Table>) {
    let tables: Vec<Table> = match block {
        Block::Free | Block::Directives => Vec::new(),
        Block::Options(table) => vec![table],
        Block::Modules(modules) | Block::ModuleLines(modules) => {
            modules.iter().map(|(_, table)| *table).collect()
        }
    };
    for table in tables {
        if found.iter().any(|known| known.name() == table.name()) {
            continue;
        }
        found.push(table);
        for entry in table.entries() {
            collect(entry.block, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_in_their_place() {
        let names: Vec<_> = directives().map(|known| known.entry.name).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
        for table in site_tables().into_iter().chain(global_tables()) {
            let names: Vec<_> = table.entries().map(|entry| entry.name).collect();
            for (at, name) in names.iter().enumerate() {
                assert!(!names[..at].contains(name), "{name} of {}", table.name());
            }
        }
    }

    /// The directive table and the option table have one name, which messages give.
    #[test]
    fn options_of_a_directive_have_its_name() {
        for known in directives() {
            if let Block::Options(table) = known.entry.block {
                assert_eq!(table.name(), known.entry.name);
                assert_eq!(table.is_own(), known.entry.is_own);
            }
        }
    }

    #[test]
    fn syntax_begins_with_the_name() {
        let tables = site_tables().into_iter().chain(global_tables());
        let options = tables.flat_map(|table| table.entries());
        for entry in directives().map(|known| &known.entry).chain(options) {
            let name = match entry.verdict {
                Verdict::Renamed(new) => new,
                _ => entry.name,
            };
            assert_eq!(entry.syntax.split(' ').next(), Some(name));
        }
    }
}
