//! The choice among the cells of an experiment.

use std::collections::BTreeMap;

/// A cell filter: `axis=value`, several values separated by `,`, a trailing `*` as wildcard; `clients<=N`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Only(Vec<(String, Test)>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    OneOf(Vec<String>),
    AtMost(u64),
}

impl Only {
    /// Parses conditions separated by `;`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut tests = Vec::new();
        for part in text
            .split(';')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            if let Some((axis, most)) = part.split_once("<=") {
                let most = most.trim().parse();
                let most = most.map_err(|_| format!("`{part}`: expected a number after <="))?;
                tests.push((axis.trim().to_string(), Test::AtMost(most)));
            } else if let Some((axis, values)) = part.split_once('=') {
                let values = values.split(',').map(|value| value.trim().to_string());
                tests.push((axis.trim().to_string(), Test::OneOf(values.collect())));
            } else {
                return Err(format!(
                    "`{part}` is not a condition: write subject=nginx,caddy or clients<=1000"
                ));
            }
        }
        Ok(Only(tests))
    }

    /// An axis that none of these cells has: a typo would otherwise exclude all cells, or none.
    pub fn unknown_axis(&self, cells: &[&BTreeMap<String, String>]) -> Option<String> {
        let first = cells.first()?;
        let known = |axis: &str| cells.iter().any(|cell| cell.contains_key(axis));
        let (axis, _) = self.0.iter().find(|(axis, _)| !known(axis))?;
        let names: Vec<&str> = first.keys().map(String::as_str).collect();
        Some(format!(
            "this experiment has no axis `{axis}`; it has {}",
            names.join(", ")
        ))
    }

    /// Whether a cell with these axes is wanted.
    pub fn takes(&self, axes: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|(axis, test)| {
            let value = axes.get(axis).map_or("", String::as_str);
            match test {
                Test::OneOf(values) => values.iter().any(|wanted| match wanted.strip_suffix('*') {
                    Some(beginning) => value.starts_with(beginning),
                    None => value == wanted,
                }),
                Test::AtMost(most) => value.parse::<u64>().is_ok_and(|value| value <= *most),
            }
        })
    }
}
