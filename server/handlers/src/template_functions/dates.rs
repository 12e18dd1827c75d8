//! Dates in the front matter of templates.

use sluice_template::time::{self, Time, Zone};

/// Parses a date in one of the formats of YAML and TOML.
pub(super) fn read_date(text: &str) -> Option<Time> {
    const LAYOUTS: [&str; 5] = [
        "2006-01-02",
        "2006-01-02T15:04:05Z07:00",
        "2006-01-02T15:04:05",
        "2006-01-02 15:04:05Z07:00",
        "2006-01-02 15:04:05",
    ];
    if !text.starts_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    LAYOUTS
        .into_iter()
        .find_map(|layout| time::parse(layout, text, Zone::UTC))
}
