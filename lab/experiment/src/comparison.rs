//! Comparisons with a number, as checks of experiments state them.

/// A comparison with a number: `>= 0.95`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    pub(super) sign: &'static str,
    number: f64,
}

impl Comparison {
    /// Parses `>=`, `<=`, `==`, `>` or `<` and a number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let signs = [">=", "<=", "==", ">", "<"];
        let found = signs.into_iter().find_map(|sign| {
            let number = text.trim().strip_prefix(sign)?.trim().parse().ok()?;
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
