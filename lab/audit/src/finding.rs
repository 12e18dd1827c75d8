//! Findings of an audit, and their wording: the figures, the conclusion, and what would settle the question. Authors of
//! measurements read this. The wording states arithmetic, never intent.

/// How much a finding changes the possible conclusions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// Two printed figures cannot both be true.
    Contradiction,
    /// The figures are right but measure something other than the subjects.
    Limit,
    /// Something needed for a conclusion was not measured or not printed.
    Gap,
    /// Worth knowing.
    Note,
    /// Checked and consistent.
    Sound,
}

impl Weight {
    /// The heading for findings of this weight.
    pub fn heading(self) -> &'static str {
        match self {
            Weight::Contradiction => "Figures that cannot both be true",
            Weight::Limit => "Figures that measure something else than the servers",
            Weight::Gap => "What was not measured or not shown",
            Weight::Note => "Worth knowing",
            Weight::Sound => "What was checked and adds up",
        }
    }

    /// All weights in the order of a report.
    pub const ALL: [Weight; 5] = [
        Weight::Contradiction,
        Weight::Limit,
        Weight::Gap,
        Weight::Note,
        Weight::Sound,
    ];
}

/// One finding.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Finding {
    /// `A1` to `A12`.
    pub rule: &'static str,
    /// How much it changes.
    pub weight: Weight,
    /// The title, one sentence.
    pub title: String,
    /// The arithmetic: figures and result.
    pub arithmetic: Vec<String>,
    /// What it means for a reader of the report.
    pub meaning: String,
    /// What would settle it; empty if nothing is open.
    pub advice: String,
    /// The rows it refers to, by index.
    pub rows: Vec<usize>,
}

impl Finding {
    /// Creates a finding without arithmetic.
    pub fn new(rule: &'static str, weight: Weight, title: impl Into<String>) -> Self {
        Finding {
            rule,
            weight,
            title: title.into(),
            arithmetic: Vec::new(),
            meaning: String::new(),
            advice: String::new(),
            rows: Vec::new(),
        }
    }

    /// Adds a line of arithmetic.
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.arithmetic.push(line.into());
        self
    }

    /// Sets the meaning.
    pub fn means(mut self, words: impl Into<String>) -> Self {
        self.meaning = words.into();
        self
    }

    /// Sets the advice.
    pub fn advise(mut self, words: impl Into<String>) -> Self {
        self.advice = words.into();
        self
    }

    /// Sets the rows.
    pub fn about(mut self, rows: impl IntoIterator<Item = usize>) -> Self {
        self.rows = rows.into_iter().collect();
        self
    }
}

/// A number with thousands separators, rounded to its significant digits: `127,304`, `35.6`, `0.18`, `0.0042`.
pub fn number(value: f64) -> String {
    numbered(value, 0)
}

/// Two numbers that differ as texts that differ, with as many digits as that needs.
pub fn two_numbers(one: f64, other: f64) -> (String, String) {
    let texts = |more| (numbered(one, more), numbered(other, more));
    let differ = |(a, b): &(String, String)| a != b;
    let found = (0..=DIGITS_MORE_MAX).map(texts).find(differ);
    found.unwrap_or_else(|| texts(0))
}

/// Digits beyond the usual ones that two numbers may need to differ.
const DIGITS_MORE_MAX: usize = 6;

fn numbered(value: f64, more: usize) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        0.0 => 0,
        v if v >= 0.1 => 2,
        // Two significant digits, as far as that is readable.
        v => (1.0 - v.log10().floor()).min(9.0) as usize,
    };
    let digits = digits + more;
    grouped(&format!("{value:.digits$}"))
}

/// A number without digits finer than `step`, the resolution of its measurement: 6.734 with a step of 0.05 is `6.7`, and
/// what is below the step is at most the step.
pub fn resolved(value: f64, step: Option<f64>) -> String {
    let Some(step) = step.filter(|step| *step > 0.0 && step.is_finite()) else {
        return number(value);
    };
    if value.abs() < step {
        return format!("≤{}", number(step));
    }
    let usual = match value.abs() {
        v if v >= 100.0 => 1.0,
        v if v >= 10.0 => 0.1,
        _ => 0.01,
    };
    let unit = 10_f64.powf(step.log10().ceil()).max(usual);
    let digits = (-unit.log10().round()).max(0.0) as usize;
    grouped(&format!("{:.digits$}", (value / unit).round() * unit))
}

/// A whole number with thousands separators.
pub fn count(value: f64) -> String {
    grouped(&format!("{value:.0}"))
}

fn grouped(text: &str) -> String {
    let (sign, rest) = text
        .strip_prefix('-')
        .map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = rest.split_once('.').map_or((rest, ""), |(w, f)| (w, f));
    let mut out = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A share as percent: `97.38 %`, `8 %`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    let text = match value.abs() {
        v if (99.0..100.0).contains(&v) => format!("{value:.2}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    let short = text.trim_end_matches('0').trim_end_matches('.');
    let short = if text.contains('.') { short } else { &text };
    format!("{} %", grouped(short))
}

/// A range of values in one unit: `4,230 to 4,243`, or one number if they are equal as printed.
pub fn span(values: &[f64], show: fn(f64) -> String) -> String {
    let Some((low, high)) = crate::statistics::order::range(values) else {
        return "nothing".to_string();
    };
    match (show(low), show(high)) {
        (low, high) if low == high => low,
        (low, high) => format!("{low} to {high}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(number(127_304.4), "127,304");
        assert_eq!(number(35.56), "35.6");
        assert_eq!(number(0.183), "0.18");
        assert_eq!(number(-1234.0), "-1,234");
        assert_eq!(count(999.6), "1,000");
        assert_eq!(percent(0.9738), "97.4 %");
        assert_eq!(percent(0.9989), "99.89 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(250.7), "25,070 %");
        assert_eq!(percent(0.0167), "1.67 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(span(&[3.0, 1.0], number), "1.00 to 3.00");
    }

    #[test]
    fn small_numbers_keep_digits_and_different_ones_differ() {
        assert_eq!(number(0.0), "0");
        assert_eq!(number(0.18), "0.18");
        assert_eq!(number(0.0042), "0.0042");
        assert_eq!(number(-0.000_051_7), "-0.000052");
        let pair = |one, other| {
            let (one, other) = two_numbers(one, other);
            format!("{one} against {other}")
        };
        assert_eq!(pair(0.001, 0.004), "0.0010 against 0.0040");
        assert_eq!(pair(1_234.2, 1_234.4), "1,234.2 against 1,234.4");
        assert_eq!(pair(5.0, 5.0), "5.00 against 5.00");
    }

    #[test]
    fn digits_that_a_clock_does_not_resolve_are_not_shown() {
        assert_eq!(resolved(6.734, None), "6.73");
        assert_eq!(resolved(6.734, Some(0.004)), "6.73");
        assert_eq!(resolved(6.734, Some(0.05)), "6.7");
        assert_eq!(resolved(6.734, Some(0.5)), "7");
        assert_eq!(resolved(0.0, Some(55.6)), "≤55.6");
        assert_eq!(resolved(168.4, Some(1.3)), "170");
        assert_eq!(resolved(1_684.4, Some(0.5)), "1,684");
    }
}
