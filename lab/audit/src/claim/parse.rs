//! Parses statements. Nothing is evaluated here.

use std::collections::BTreeMap;

use super::{Comparison, Figure, Fold, Statement, Value};
use crate::evidence::{FIGURES, is_figure};
use crate::limits::CLAIM_DEPTH_MAX;

impl Statement {
    /// Parses a statement. The error names the position and what was expected there.
    pub fn parse(text: &str) -> Result<Statement, String> {
        let mut reader = Reader {
            text,
            at: 0,
            depth: 0,
        };
        let first = reader.sum()?;
        let mut rest = Vec::new();
        while let Some(mut comparison) = reader.comparison() {
            let value = reader.sum()?;
            if let Comparison::Equal(tolerance) = &mut comparison
                && reader.take("+-")
            {
                *tolerance = reader.share()?;
            }
            rest.push((comparison, value));
        }
        reader.blanks();
        if reader.at < text.len() {
            return Err(reader.error("the end or a comparison"));
        }
        if rest.is_empty() {
            return Err(reader.error("a comparison: <, <=, >, >= or =="));
        }
        Ok(Statement { first, rest })
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn error(&self, expected: &str) -> String {
        let found: String = self.text[self.at..].chars().take(12).collect();
        let found = if found.is_empty() {
            "the end".to_string()
        } else {
            format!("`{found}`")
        };
        format!("column {}: expected {expected}, found {found}", self.at + 1)
    }

    fn blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        self.blanks();
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn while_in(&mut self, allowed: fn(char) -> bool) -> &'a str {
        self.blanks();
        let rest = &self.text[self.at..];
        let end = rest.find(|c| !allowed(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let known = [
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("==", Comparison::Equal(EXACT)),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let found = known.into_iter().find(|(token, _)| self.take(token));
        found.map(|(_, comparison)| comparison)
    }

    fn sum(&mut self) -> Result<Value, String> {
        self.operators(&['+', '-'], Reader::product)
    }

    fn product(&mut self) -> Result<Value, String> {
        self.operators(&['*', '/'], Reader::factor)
    }

    fn operators(
        &mut self,
        operators: &[char],
        next: fn(&mut Self) -> Result<Value, String>,
    ) -> Result<Value, String> {
        let mut value = next(self)?;
        loop {
            self.blanks();
            let rest = &self.text[self.at..];
            // `+-` belongs to a comparison.
            let operator = rest.chars().next().filter(|c| operators.contains(c));
            let Some(operator) = operator.filter(|_| !rest.starts_with("+-")) else {
                return Ok(value);
            };
            self.at += 1;
            value = Value::Pair(operator, Box::new(value), Box::new(next(self)?));
        }
    }

    fn factor(&mut self) -> Result<Value, String> {
        if self.take("(") {
            self.depth += 1;
            if self.depth > CLAIM_DEPTH_MAX {
                return Err(format!(
                    "more than {CLAIM_DEPTH_MAX} brackets within each other"
                ));
            }
            let value = self.sum()?;
            self.depth -= 1;
            return self.close(value);
        }
        self.blanks();
        match self.text[self.at..].chars().next() {
            Some(c) if c.is_ascii_digit() => self.share().map(Value::Number),
            Some(c) if c.is_ascii_alphabetic() => self.named(),
            _ => Err(self.error("a number, a figure or `(`")),
        }
    }

    fn close(&mut self, value: Value) -> Result<Value, String> {
        if self.take(")") {
            Ok(value)
        } else {
            Err(self.error("`)`"))
        }
    }

    /// A number; with `%` a hundredth of it.
    fn share(&mut self) -> Result<f64, String> {
        let digits = self
            .while_in(|c| c.is_ascii_digit() || c == '.' || c == '_')
            .replace('_', "");
        let number: f64 = digits.parse().map_err(|_| self.error("a number"))?;
        Ok(if self.take("%") {
            number / 100.0
        } else {
            number
        })
    }

    fn named(&mut self) -> Result<Value, String> {
        let start = self.at;
        let name = self.while_in(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        let fold = [
            ("max", Fold::Max),
            ("min", Fold::Min),
            ("sum", Fold::Sum),
            ("mean", Fold::Mean),
        ]
        .into_iter()
        .find(|(known, _)| *known == name);
        if let Some((_, fold)) = fold
            && self.folds()
        {
            self.take("(");
            let inner = self
                .while_in(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
                .to_string();
            let figure = self.figure(inner, self.at)?;
            return self.close(Value::Fold(fold, figure));
        }
        Ok(Value::Figure(self.figure(name.to_string(), start)?))
    }

    /// Whether `max(` is followed by a figure, not by `dimension=`.
    fn folds(&self) -> bool {
        let rest = self.text[self.at..].trim_start();
        let Some(inside) = rest.strip_prefix('(') else {
            return false;
        };
        let word = inside
            .trim_start()
            .trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        word.trim_start().starts_with('(')
    }

    fn figure(&mut self, name: String, start: usize) -> Result<Figure, String> {
        if !is_figure(&name) {
            return Err(format!(
                "column {}: unknown figure `{name}` (known: {FIGURES})",
                start + 1
            ));
        }
        let (mut rows, mut bare) = (BTreeMap::new(), Vec::new());
        if !self.take("(") {
            return Err(self.error("`(`"));
        }
        while !self.take(")") {
            let start = self.at;
            let word = self
                .while_in(|c| !",()=<>".contains(c))
                .trim_end()
                .to_string();
            if self.take("=") && !word.is_empty() {
                let value = self
                    .while_in(|c| !",()=<>".contains(c))
                    .trim_end()
                    .to_string();
                rows.insert(word, value);
            } else if word.is_empty() || self.at >= self.text.len() {
                self.at = start;
                return Err(self.error("`dimension=value`, a value or `)`"));
            } else if word != "*" {
                bare.push(word);
            }
            self.take(",");
        }
        Ok(Figure { name, rows, bare })
    }
}

/// Tolerance below which two numbers are equal except for floating-point rounding.
const EXACT: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_read() {
        let statement = Statement::parse(
            "rate(subject=caddy, test=html-small) / rate(subject=nginx, test=html-small) == 3.5 +- 1%",
        )
        .unwrap();
        assert!(matches!(&statement.first, Value::Pair('/', _, _)));
        assert_eq!(
            statement.rest,
            [(Comparison::Equal(0.01), Value::Number(3.5))]
        );
        let folded =
            Statement::parse("sum(requests()) > max(p95(clients=10)) + max(subject=a)").unwrap();
        assert!(matches!(&folded.first, Value::Fold(Fold::Sum, _)));
        let (_, right) = &folded.rest[0];
        assert!(
            matches!(right, Value::Pair('+', a, b) if matches!(**a, Value::Fold(..)) && matches!(**b, Value::Figure(_)))
        );
        assert_eq!(
            Statement::parse("p95() < p99() < max()")
                .unwrap()
                .rest
                .len(),
            2
        );
    }

    #[test]
    fn mistakes_are_reported_with_their_column() {
        for (text, message) in [
            (
                "rate()",
                "column 7: expected a comparison: <, <=, >, >= or ==, found the end",
            ),
            (
                "speed() > 1",
                "column 1: unknown figure `speed` (known: rate, ",
            ),
            (
                "rate(=a) > 1",
                "column 6: expected `dimension=value`, a value or `)`, found `=a) > 1`",
            ),
            (
                "rate() > ",
                "column 10: expected a number, a figure or `(`, found the end",
            ),
            ("(rate() > 1", "column 9: expected `)`, found `> 1`"),
            (
                "rate() > 1 2",
                "column 12: expected the end or a comparison, found `2`",
            ),
        ] {
            let error = Statement::parse(text).unwrap_err();
            assert!(error.starts_with(message), "{text}: {error}");
        }
        let deep = format!("{}1{} > 0", "(".repeat(100), ")".repeat(100));
        assert!(
            Statement::parse(&deep)
                .unwrap_err()
                .contains("brackets within each other")
        );
    }
}
