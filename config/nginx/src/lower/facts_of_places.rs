//! Variables that follow from a place, such as `$document_root`, in texts that are used wherever a request arrives: those
//! of `map`, `geo`, `split_clients` and `upstream`. Each such variable is a table with a row for each kind of place.

use sluice_model::nginx::{TableRow, VariableTable};

use super::text::{Facts, Piece, pieces, place_table};
use crate::registry::variables::{OfPlace, Variable, variable};
use crate::tree::Directive;

/// The variables that are asked for, and their values in each place.
#[derive(Clone, Debug, Default)]
pub(super) struct FactsOfPlaces {
    asked: Vec<(String, OfPlace)>,
    /// The values in the order of `asked`.
    rows: Vec<Vec<String>>,
}

impl FactsOfPlaces {
    /// Those that blocks of `http` ask for, other than servers.
    pub(super) fn of(http: &[Directive]) -> FactsOfPlaces {
        let mut found = FactsOfPlaces::default();
        for directive in http {
            if matches!(
                directive.name(),
                "map" | "geo" | "split_clients" | "upstream"
            ) {
                found.look(directive);
            }
        }
        found
    }

    fn look(&mut self, directive: &Directive) {
        let words = std::iter::once(&directive.name).chain(&directive.args);
        for piece in words.flat_map(|word| pieces(&word.text).unwrap_or_default()) {
            let Piece::Variable(name) = piece else {
                continue;
            };
            let name = name.to_ascii_lowercase();
            let known = self.asked.iter().any(|(known, _)| *known == name);
            if let Some(Variable::OfPlace(which)) = variable(&name).filter(|_| !known)
                && !matches!(which, OfPlace::Connections(_))
            {
                self.asked.push((name, which));
            }
        }
        directive.body().iter().for_each(|line| self.look(line));
    }

    /// The row of a place, and its texts.
    pub(super) fn row(&mut self, facts: &Facts) -> (u32, Vec<String>) {
        let asked = self.asked.iter();
        let texts: Vec<String> = asked
            .map(|(_, which)| facts.placeholder(*which).unwrap_or_default())
            .collect();
        let known = self.rows.iter().position(|known| *known == texts);
        let row = known.unwrap_or_else(|| {
            self.rows.push(texts.clone());
            self.rows.len() - 1
        });
        (u32::try_from(row).unwrap_or(u32::MAX), texts)
    }

    /// A table for each variable.
    pub(super) fn tables(&self) -> impl Iterator<Item = VariableTable> {
        let asked = self.asked.iter().enumerate();
        asked.map(|(at, (name, _))| VariableTable {
            variable: place_table(name),
            kind: "place".to_owned(),
            rows: self
                .rows
                .iter()
                .map(|row| TableRow {
                    key: String::new(),
                    value: row[at].clone(),
                })
                .collect(),
            ..VariableTable::default()
        })
    }
}
