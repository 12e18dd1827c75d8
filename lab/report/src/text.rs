//! Formatting and escaping shared by all reports.

use sluice_load::result::{Machine, MarkKind};

/// Escapes text for HTML and SVG, in elements and in attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters are not allowed in XML.
            c if (c as u32) < 0x20 && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The abbreviation of a mark, for tables.
pub fn mark_word(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Disturbed => "DISTURBED",
        MarkKind::GeneratorLimited => "GEN",
        MarkKind::Ended => "ENDED",
        MarkKind::Failures => "ERR",
        MarkKind::Unusable => "UNUSABLE",
        MarkKind::Unsteady => "UNSTEADY",
        MarkKind::Late => "LATE",
        MarkKind::Slow => "SLOW",
    }
}

/// Milliseconds in the most readable unit: `85 us`, `1.21 ms`, `2.4 s`.
pub fn duration(ms: f64) -> String {
    let (value, unit) = match ms {
        v if v.abs() >= 1000.0 => (v / 1000.0, "s"),
        v if v.abs() >= 1.0 || v == 0.0 => (v, "ms"),
        v => (v * 1000.0, "µs"),
    };
    format!("{} {unit}", short(value))
}

/// Bytes in the most readable unit.
pub fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut at = 0;
    while value.abs() >= 1024.0 && at + 1 < units.len() {
        value /= 1024.0;
        at += 1;
    }
    format!("{} {}", short(value), units[at])
}

/// A machine in a line: CPUs, memory and system.
pub fn machine_words(machine: &Machine) -> String {
    let model = match machine.cpu_model.as_str() {
        "" => "processor",
        model => model,
    };
    format!(
        "{} x {model}, {} memory, {}, kernel {}",
        machine.cpus,
        size(machine.memory_bytes as f64),
        machine.os,
        machine.kernel
    )
}

/// Three significant digits: `12,345`, `123`, `12.3`, `1.23`, `0.12`; whole numbers without a fraction.
pub fn short(value: f64) -> String {
    if value.fract() == 0.0 {
        return sluice_audit::finding::count(value);
    }
    sluice_audit::finding::number(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_escapes() {
        assert_eq!(duration(0.085), "85 µs");
        assert_eq!(duration(1.213), "1.21 ms");
        assert_eq!(duration(2400.0), "2.40 s");
        assert_eq!(size(512.0), "512 B");
        assert_eq!(size(1_048_576.0 * 1.5), "1.50 MiB");
        assert_eq!(
            escape("<a href='x'>&\u{1}"),
            "&lt;a href=&#39;x&#39;&gt;&amp;\u{fffd}"
        );
    }
}
