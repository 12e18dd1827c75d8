//! The committed figures: a table for each kind of request.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::callgrind::Counts;

/// Figures by the name of the kind.
pub struct Figures {
    kinds: BTreeMap<String, Counts>,
}

const HEADER: &str = "\
# What a request of each kind costs: counts of `cargo xtask cost`, written by `BLESS=1 cargo xtask cost`.
";

impl Figures {
    /// Reads the file at `path`; there are no figures if it does not exist.
    pub fn read(path: &Path) -> Result<Figures, String> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let table: toml::Table = text
            .parse()
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let number = |kind: &toml::Value, name: &str| {
            let value = kind.get(name)?;
            value
                .as_float()
                .or_else(|| value.as_integer().map(|value| value as f64))
        };
        let kinds = table.iter().filter_map(|(name, kind)| {
            let counts = Counts {
                instructions: number(kind, "instructions")?,
                allocations: number(kind, "allocations")?,
                system_calls: number(kind, "system_calls")?,
            };
            Some((name.clone(), counts))
        });
        Ok(Figures {
            kinds: kinds.collect(),
        })
    }

    /// The figures of a kind.
    pub fn of(&self, name: &str) -> Option<Counts> {
        self.kinds.get(name).copied()
    }

    /// Replaces the figures of a kind.
    pub fn set(&mut self, name: &str, counts: Counts) {
        self.kinds.insert(name.to_owned(), counts);
    }

    /// Writes all figures to `path`.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        fs::write(path, self.text()).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn text(&self) -> String {
        let mut text = HEADER.to_owned();
        for (name, counts) in &self.kinds {
            let Counts {
                instructions,
                allocations,
                system_calls,
            } = counts;
            let written = writeln!(
                text,
                "\n[{name}]\ninstructions = {instructions:.0}\nallocations = {allocations:.1}\n\
                 system_calls = {system_calls:.1}"
            );
            written.expect("writing to a string cannot fail");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut figures = Figures {
            kinds: BTreeMap::new(),
        };
        let counts = Counts {
            instructions: 7899.0,
            allocations: 0.5,
            system_calls: 3.0,
        };
        figures.set("fixed", counts);
        let path = std::env::temp_dir().join(format!("sluice-costs-{}", std::process::id()));
        figures.write(&path).unwrap();
        let read = Figures::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.of("fixed"), Some(counts));
        assert_eq!(read.of("other"), None);
        assert!(Figures::read(&path).unwrap().kinds.is_empty());
    }
}
