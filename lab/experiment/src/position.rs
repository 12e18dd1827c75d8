//! Positions in files, as editors read them.

/// The position of a byte of a file, `name:line:column`.
pub(crate) fn position(name: &str, text: &str, at: usize) -> String {
    let before = &text[..at.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("{name}:{line}:{column}")
}
