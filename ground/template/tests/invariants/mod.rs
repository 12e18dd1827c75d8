//! Properties of every source: it is rejected or runs to an end within its limits, and does so the same way each time.

use sluice_template::{Text, Value};

use crate::support;

/// Parses and runs `source` twice.
pub fn check(source: &[u8]) {
    let dot = || {
        Value::map([
            (Text::new("a"), Value::text("text")),
            (Text::new("b"), Value::list(vec![Value::int(1), Value::Nil])),
            (
                Text::new("c"),
                Value::map([(Text::new("d"), Value::Float(1.5))]),
            ),
        ])
    };
    let first = support::write(source, dot());
    assert_eq!(first, support::write(source, dot()));
    if let Ok(written) = &first
        && memchr::memmem::find(source, b"{{").is_none()
    {
        assert_eq!(written, source, "text without actions stays as it is");
    }
}
