//! Source excerpts as shown below a message.
//!
//! `render` and the command line print the text around them.

use alloc::string::String;
use alloc::vec::Vec;

use crate::limits::LINE_COLUMNS_MAX;
use crate::shown::visible;

/// A source line as it is shown: tabs are four columns, and long lines are cut around the span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The line, or the part of it around the span.
    pub text: String,
    /// Columns before the underline.
    pub before: usize,
    /// Columns of the underline, at least one so that the end of a line can be pointed at.
    pub width: usize,
    /// Whether the line was too long to be shown whole.
    pub cut: bool,
}

impl Excerpt {
    /// `start` and `end` are offsets into `line`; both may lie behind its end.
    pub fn new(line: &str, start: u32, end: u32) -> Self {
        Excerpt::within(line, start, end, LINE_COLUMNS_MAX)
    }

    /// As `new`, for a place that is `room` columns wide.
    pub fn within(line: &str, start: u32, end: u32, room: usize) -> Self {
        let cells: Vec<(usize, char)> = line.char_indices().collect();
        let index = |at: u32| cells.partition_point(|(offset, _)| *offset < at as usize);
        let (first, last) = (index(start), index(end).max(index(start)));
        let total: usize = cells.iter().map(|(_, c)| columns(*c)).sum();
        let (from, to) = if total <= room {
            (0, cells.len())
        } else {
            // Two thirds of the room go behind the start of the span, where the rest of it stands.
            let from = first.saturating_sub(room / 3);
            (from, fitting(&cells, from, room))
        };
        let mut text = String::new();
        let mut before = 0;
        let mut width = 0;
        if from > 0 {
            text.push('…');
            before += 1;
        }
        for (at, (_, c)) in cells.iter().enumerate().take(to).skip(from) {
            if at < first {
                before += columns(*c);
            } else if at < last {
                width += columns(*c);
            }
            match c {
                '\t' => text.push_str("    "),
                c => text.push(visible(*c)),
            }
        }
        if to < cells.len() {
            text.push('…');
        }
        Excerpt {
            text,
            before,
            width: width.max(1),
            cut: total > room,
        }
    }
}

/// The index behind the last character that still fits when showing starts at `from`.
fn fitting(cells: &[(usize, char)], from: usize, mut room: usize) -> usize {
    let mut to = from;
    while let Some((_, c)) = cells.get(to) {
        match room.checked_sub(columns(*c)) {
            Some(left) => room = left,
            None => break,
        }
        to += 1;
    }
    to
}

/// Columns a terminal gives a character: none to combining marks, two to East Asian wide ones.
///
/// The blocks stand for the Unicode tables: exact widths differ between terminals anyway, and an
/// underline one column off still points at the right word.
pub fn columns(c: char) -> usize {
    match u32::from(c) {
        0x09 => 4,
        0x0300..=0x036f | 0x1ab0..=0x1aff | 0x20d0..=0x20ff | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff => 2,
        0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff => 2,
        0x20000..=0x3fffd => 2,
        _ => 1,
    }
}
