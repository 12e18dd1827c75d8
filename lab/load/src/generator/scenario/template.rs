//! Texts with variables, `/user/${user}`, and the values that they take. Values are bounded and follow from the seed, so a
//! load can be repeated.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// A text with variables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Template(Vec<Part>);

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Part {
    /// Literal text.
    Text(String),
    /// The value of the variable with this index.
    Variable(usize),
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Values,
    /// When it takes the next one.
    pub scope: VariableScope,
}

/// When a variable takes its next value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VariableScope {
    /// At the beginning of a session: all its steps have the same.
    #[default]
    Session,
    /// With each request.
    Request,
}

/// The values of a variable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Values {
    /// Numbers in turn, from the first to the last and over again. Threads take different ones.
    Counter {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
    },
    /// A random number.
    Random {
        /// The smallest.
        from: u64,
        /// The largest.
        to: u64,
    },
    /// Texts in turn, from the first to the last and over again.
    Turns(Vec<String>),
    /// A random one of several texts.
    Pick(Vec<String>),
}

impl Template {
    /// Parses a text; `index` finds a variable by its name. `$$` stands for a dollar sign. The error names the mistake.
    pub fn parse(text: &str, index: impl Fn(&str) -> Option<usize>) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            literal.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(after) = after.strip_prefix('$') {
                literal.push('$');
                rest = after;
                continue;
            }
            let Some(after) = after.strip_prefix('{') else {
                literal.push('$');
                rest = after;
                continue;
            };
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| "`${` without `}`; write `$$` for a dollar sign".to_string())?;
            let variable =
                index(name).ok_or_else(|| format!("there is no variable `{name}` in [vars]"))?;
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            parts.push(Part::Variable(variable));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Template(parts))
    }

    /// A text without variables.
    pub fn literal(text: String) -> Self {
        Template(vec![Part::Text(text)])
    }

    /// The variables in it.
    pub fn variables(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Variable(at) => Some(*at),
        })
    }

    /// Its literal parts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Variable(_) => None,
        })
    }

    /// The text with these values.
    pub fn fill(&self, values: &[String]) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Variable(at) => values.get(*at).cloned().unwrap_or_default(),
        };
        self.0.iter().map(part).collect()
    }

    /// The text with these values, percent-encoded for a path or query.
    pub fn fill_path(&self, values: &[String]) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Variable(at) => encoded(values.get(*at).map_or("", String::as_str)),
        };
        self.0.iter().map(part).collect()
    }
}

/// Everything but unreserved characters (RFC 3986, section 2.3) is percent-encoded.
fn encoded(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            // Writing to a string does not fail.
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

impl Variable {
    /// The first value.
    pub fn example(&self) -> String {
        match &self.values {
            Values::Counter { from, .. } | Values::Random { from, .. } => from.to_string(),
            Values::Turns(list) | Values::Pick(list) => list.first().cloned().unwrap_or_default(),
        }
    }

    /// The value number `count`, from 0.
    pub(super) fn value(&self, count: u64, chance: &mut Random) -> String {
        let size = |from: u64, to: u64| to.saturating_sub(from).saturating_add(1);
        match &self.values {
            Values::Counter { from, to } => (from + count % size(*from, *to)).to_string(),
            Values::Random { from, to } => {
                let size = usize::try_from(size(*from, *to)).unwrap_or(usize::MAX);
                (from + chance.below(size) as u64).to_string()
            }
            Values::Turns(list) => {
                let at = count % list.len().max(1) as u64;
                list.get(at as usize).cloned().unwrap_or_default()
            }
            Values::Pick(list) => list
                .get(chance.below(list.len()))
                .cloned()
                .unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Template, String> {
        Template::parse(text, |name| {
            ["user", "word"].iter().position(|v| *v == name)
        })
    }

    #[test]
    fn variables_are_filled_in_and_encoded_in_paths() {
        let template = parse("/u/${user}?q=${word}&price=$$5$").unwrap();
        let values = ["7".to_string(), "a b&c/é".to_string()];
        assert_eq!(template.fill(&values), "/u/7?q=a b&c/é&price=$5$");
        assert_eq!(
            template.fill_path(&values),
            "/u/7?q=a%20b%26c%2F%C3%A9&price=$5$"
        );
        assert_eq!(template.variables().collect::<Vec<_>>(), [0, 1]);
        for (text, part) in [("${user", "without `}`"), ("${usr}", "no variable `usr`")] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn values_are_bounded_and_repeat() {
        let values = |values: Values| {
            let variable = Variable {
                name: String::new(),
                values,
                scope: VariableScope::Session,
            };
            let mut chance = Random::new(7);
            (0..6)
                .map(|count| variable.value(count, &mut chance))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(values(Values::Counter { from: 8, to: 10 }), "8 9 10 8 9 10");
        let list = ["a".to_string(), "b".to_string()];
        assert_eq!(values(Values::Turns(list.to_vec())), "a b a b a b");
        let random = values(Values::Random { from: 3, to: 5 });
        assert_eq!(random, values(Values::Random { from: 3, to: 5 }));
        assert!(
            random
                .split(' ')
                .all(|number| ["3", "4", "5"].contains(&number)),
            "{random}"
        );
        let picked = values(Values::Pick(list.to_vec()));
        assert!(picked.contains('a') && picked.contains('b'), "{picked}");
        let all = u64::MAX;
        assert!(!values(Values::Random { from: 0, to: all }).is_empty());
        assert_eq!(
            values(Values::Counter { from: all, to: all }),
            vec![all.to_string(); 6].join(" ")
        );
    }
}
