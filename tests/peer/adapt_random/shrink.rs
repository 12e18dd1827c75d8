//! Shrinks a file that shows a difference.

/// Removes lines and blocks as long as `shows` says that the rest still shows the difference.
pub fn shrink(text: &str, shows: impl Fn(&str) -> bool) -> String {
    let mut lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    loop {
        let before = lines.len();
        let mut at = 0;
        while at < lines.len() {
            let dropped = ways(&lines, at)
                .into_iter()
                .find(|left| shows(&joined(left)));
            match dropped {
                Some(left) => lines = left,
                None => at += 1,
            }
        }
        if lines.len() == before {
            return joined(&lines);
        }
    }
}

fn joined(lines: &[&str]) -> String {
    lines.join("\n") + "\n"
}

/// What is left without the line, without its block, or without the braces around its block.
fn ways<'a>(lines: &[&'a str], at: usize) -> Vec<Vec<&'a str>> {
    let without = |from: usize, to: usize| {
        let kept = lines
            .iter()
            .enumerate()
            .filter(|(index, _)| !(from..=to).contains(index));
        kept.map(|(_, line)| *line).collect::<Vec<_>>()
    };
    match (lines[at].ends_with('{'), closing(lines, at)) {
        (true, Some(end)) => {
            let mut inside = without(at, at);
            inside.remove(end - 1);
            vec![without(at, end), inside]
        }
        _ if lines[at] == "}" => Vec::new(),
        _ => vec![without(at, at)],
    }
}

fn closing(lines: &[&str], at: usize) -> Option<usize> {
    let mut depth = 0;
    for (index, line) in lines.iter().enumerate().skip(at) {
        depth += i32::from(line.ends_with('{'));
        depth -= i32::from(*line == "}");
        if depth == 0 {
            return Some(index);
        }
    }
    None
}
