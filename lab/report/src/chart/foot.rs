//! Words below a drawing that is a file: which machines the figures are from.

use std::fmt::Write;

use super::svg::LETTER;
use crate::text::escape;

/// Height of a line.
const LINE: f64 = 14.0;

/// Left end of the lines, below the numbers of the axis.
const LEFT: f64 = 6.0;

/// A drawing with these words below it, in as many lines as they need.
pub fn with_foot(drawing: String, words: &str) -> String {
    match added(&drawing, words) {
        Some(added) if !words.is_empty() => added,
        Some(_) | None => drawing,
    }
}

fn added(drawing: &str, words: &str) -> Option<String> {
    let (before, rest) = drawing.split_once("viewBox=\"0 0 ")?;
    let (size, rest) = rest.split_once('"')?;
    let (width, height) = size.split_once(' ')?;
    let (width, height): (f64, f64) = (width.parse().ok()?, height.parse().ok()?);
    let body = rest.strip_suffix("</svg>")?;
    let lines = lines(words, ((width - 2.0 * LEFT) / LETTER) as usize);
    let whole = height + LINE * lines.len() as f64;
    let mut out = format!("{before}viewBox=\"0 0 {width:.0} {whole:.0}\"{body}");
    for (at, line) in lines.iter().enumerate() {
        let y = height + LINE * (at as f64 + 0.6);
        let line = escape(line);
        let _ = write!(
            out,
            "<text class=\"tick\" x=\"{LEFT}\" y=\"{y:.1}\">{line}</text>"
        );
    }
    Some(out + "</svg>")
}

/// Words in lines of at most so many characters; a longer word has a line of its own.
fn lines(words: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        let length = |text: &str| text.chars().count();
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(word) <= most => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_string()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_below_a_drawing_and_make_it_higher() {
        let drawing = "<svg class=\"chart\" viewBox=\"0 0 100 50\"><g/></svg>";
        let drawn = with_foot(drawing.into(), "servers on a<b; load on c");
        let expected = "<svg class=\"chart\" viewBox=\"0 0 100 92\"><g/>\
            <text class=\"tick\" x=\"6\" y=\"58.4\">servers on</text>\
            <text class=\"tick\" x=\"6\" y=\"72.4\">a&lt;b; load on</text>\
            <text class=\"tick\" x=\"6\" y=\"86.4\">c</text></svg>";
        assert_eq!(drawn, expected);
        assert_eq!(with_foot(drawing.into(), ""), drawing);
    }

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(lines("a bc def", 4), ["a bc", "def"]);
        assert_eq!(lines("longer b", 4), ["longer", "b"]);
        assert!(lines(" ", 4).is_empty());
    }
}
