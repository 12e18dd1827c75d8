//! Comparisons with a number, as checks of experiments state them.

/// A comparison with a number: `>= 0.95`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    pub(super) sign: &'static str,
    number: f64,
}

impl Comparison {
    /// Parses `>=`, `<=`, `==`, `>` or `<` and a number, or a sum of numbers such as `4 + 1`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let signs = [">=", "<=", "==", ">", "<"];
        let found = signs.into_iter().find_map(|sign| {
            let terms = text.trim().strip_prefix(sign)?.split('+');
            let terms: Option<Vec<f64>> = terms.map(|term| term.trim().parse().ok()).collect();
            let number = terms?.iter().sum();
            Some(Comparison { sign, number })
        });
        found.ok_or_else(|| format!("`{text}` is not a comparison: write >= 0.95, <= 2 or == 1"))
    }

    /// Whether it holds for a value.
    pub fn holds(self, value: f64) -> bool {
        match self.sign {
            ">=" => value >= self.number,
            "<=" => value <= self.number,
            ">" => value > self.number,
            "<" => value < self.number,
            _ => (value - self.number).abs() < 1e-9,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_with_numbers_and_sums() {
        let holds = |text: &str, value| Comparison::parse(text).map(|one| one.holds(value));
        assert_eq!(holds("== 4 + 1", 5.0), Ok(true));
        assert_eq!(holds("== 4+1", 4.0), Ok(false));
        assert_eq!(holds(">= 0.95", 0.96), Ok(true));
        for wrong in ["4", "== ", "== 4 +", "== a", "=> 4"] {
            assert!(Comparison::parse(wrong).is_err(), "{wrong}");
        }
    }
}
