//! Separates the code of a Rust file from its comments and literals, line by line. It knows no grammar beyond that.

/// A line split into its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The code, with the contents of literals blanked.
    pub code: String,
    /// The comment with its slashes; empty if there is none.
    pub comment: String,
    /// The contents of text literals, with a space for each escape and between two literals.
    pub literals: String,
    /// Whether the line belongs to tests.
    pub is_test: bool,
}

/// State of the scanner between two characters.
enum State {
    Code,
    LineComment,
    BlockComment { depth: u32 },
    Text,
    RawText { hashes: usize },
}

/// Splits a file. Everything from a `#[cfg(test)]` before a module to the end of that module belongs to tests.
pub fn scan(text: &str) -> Vec<Line> {
    let mut lines = split(text);
    mark_tests(&mut lines);
    lines
}

fn split(text: &str) -> Vec<Line> {
    let chars: Vec<char> = text.chars().collect();
    let mut lines = Vec::new();
    let mut line = Line::default();
    let mut state = State::Code;
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        if rest[0] == '\n' {
            lines.push(std::mem::take(&mut line));
            if matches!(state, State::LineComment) {
                state = State::Code;
            }
            at += 1;
            continue;
        }
        let (taken, next) = step(rest, &state, at > 0 && is_word(chars[at - 1]), &mut line);
        at += taken;
        if let Some(next) = next {
            state = next;
        }
    }
    lines.push(line);
    lines
}

/// Consumes the first characters of `rest`. Returns how many, and the next state if it changes.
fn step(rest: &[char], state: &State, in_word: bool, line: &mut Line) -> (usize, Option<State>) {
    let starts = |text: &str| {
        text.chars()
            .enumerate()
            .all(|(at, c)| rest.get(at) == Some(&c))
    };
    match state {
        State::Code if starts("//") => {
            line.comment.push_str("//");
            (2, Some(State::LineComment))
        }
        State::Code if starts("/*") => (2, Some(State::BlockComment { depth: 1 })),
        State::Code if rest[0] == '"' => {
            line.code.push('"');
            (1, Some(State::Text))
        }
        State::Code if !in_word && raw_hashes(rest).is_some() => {
            let (taken, hashes) = raw_hashes(rest).expect("the guard has just seen it");
            line.code.push('"');
            (taken, Some(State::RawText { hashes }))
        }
        State::Code if rest[0] == '\'' => (character(rest, line), None),
        State::Code => {
            line.code.push(rest[0]);
            (1, None)
        }
        State::LineComment => {
            line.comment.push(rest[0]);
            (1, None)
        }
        State::BlockComment { depth } if starts("/*") => {
            (2, Some(State::BlockComment { depth: depth + 1 }))
        }
        State::BlockComment { depth: 1 } if starts("*/") => (2, Some(State::Code)),
        State::BlockComment { depth } if starts("*/") => {
            (2, Some(State::BlockComment { depth: depth - 1 }))
        }
        State::BlockComment { .. } => {
            line.comment.push(rest[0]);
            (1, None)
        }
        // For a backslash at the end of a line the newline is left to the caller, which counts lines.
        State::Text if rest[0] == '\\' => {
            line.literals.push(' ');
            (if rest.get(1) == Some(&'\n') { 1 } else { 2 }, None)
        }
        State::Text if rest[0] == '"' => {
            line.code.push('"');
            line.literals.push_str(" | ");
            (1, Some(State::Code))
        }
        State::RawText { hashes } if rest[0] == '"' && closes(rest, *hashes) => {
            line.code.push('"');
            line.literals.push_str(" | ");
            (1 + hashes, Some(State::Code))
        }
        State::Text | State::RawText { .. } => {
            line.literals.push(rest[0]);
            (1, None)
        }
    }
}

/// `r"`, `r#"`, `br"`, `cr##"`: how many characters open the literal and how many hashes close it.
fn raw_hashes(rest: &[char]) -> Option<(usize, usize)> {
    let prefix = match rest {
        ['r', ..] => 1,
        ['b' | 'c', 'r', ..] => 2,
        _ => return None,
    };
    let hashes = rest[prefix..].iter().take_while(|c| **c == '#').count();
    (rest.get(prefix + hashes) == Some(&'"')).then_some((prefix + hashes + 1, hashes))
}

fn closes(rest: &[char], hashes: usize) -> bool {
    rest.len() > hashes && rest[1..=hashes].iter().all(|c| *c == '#')
}

/// A character literal or the tick of a lifetime: how many characters it has.
fn character(rest: &[char], line: &mut Line) -> usize {
    if rest.get(1) == Some(&'\\') {
        line.code.push_str("' '");
        let end = rest.iter().skip(3).position(|c| *c == '\'').unwrap_or(0);
        return end + 4;
    }
    if rest.get(2) == Some(&'\'') {
        line.code.push_str("' '");
        return 3;
    }
    line.code.push('\'');
    1
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn mark_tests(lines: &mut [Line]) {
    let mut at = 0;
    while at < lines.len() {
        let opens = lines[at].code.trim() == "#[cfg(test)]";
        let module = (at + 1..lines.len())
            .find(|next| !lines[*next].code.trim().starts_with("#["))
            .filter(|next| lines[*next].code.contains("mod "));
        match module.filter(|_| opens) {
            Some(module) => {
                let end = block_end(lines, module);
                lines[at..=end]
                    .iter_mut()
                    .for_each(|line| line.is_test = true);
                at = end + 1;
            }
            None => at += 1,
        }
    }
}

/// The line on which the block that opens at or after line `at` closes; `at` itself for `mod tests;`.
pub fn block_end(lines: &[Line], at: usize) -> usize {
    let mut depth = 0usize;
    for (index, line) in lines.iter().enumerate().skip(at) {
        for c in line.code.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth <= 1 => return index,
                '}' => depth -= 1,
                ';' if depth == 0 => return index,
                _ => {}
            }
        }
    }
    lines.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_not_code() {
        let text = "let a = \"// no { comment\"; // yes {\nlet b = r#\"\"x\" {\"#;\n/* a\n/* b */ } */ c\n\
                    let d = ('{', '\\'', '\\u{7d}', b'}'); fn e<'a>() {}\nlet f = \"a \\\n   b\";";
        let lines = scan(text);
        assert_eq!(lines[0].code, "let a = \"\"; ");
        assert_eq!(lines[0].comment, "// yes {");
        assert_eq!(lines[0].literals, "// no { comment | ");
        assert_eq!(lines[1].code, "let b = \"\";");
        assert_eq!(lines[1].literals, "\"x\" { | ");
        assert_eq!(lines[2].code, "");
        assert_eq!(lines[3].code, " c");
        assert_eq!(
            lines[4].code,
            "let d = (' ', ' ', ' ', b' '); fn e<'a>() {}"
        );
        assert_eq!(lines[6].code, "\";");
    }

    #[test]
    fn test_modules_are_marked_to_their_end() {
        let lines = scan(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { }\n}\nfn c() {}\n\
             #[cfg(test)]\n#[path = \"x\"]\nmod more;\nfn d() {}\n#[cfg(test)]\nfn e() {}",
        );
        let marked: Vec<usize> = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.is_test)
            .map(|(at, _)| at)
            .collect();
        assert_eq!(marked, [1, 2, 3, 4, 6, 7, 8]);
    }
}
