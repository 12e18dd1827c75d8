//! Line-by-line comparisons of two texts.

/// Lines of both texts that are shown before and after a change.
const CONTEXT: usize = 3;

/// A line of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line<'a> {
    Old(&'a str),
    New(&'a str),
    Both(&'a str),
}

/// All lines of both texts: `-` and `+` mark lines of one text only, two spaces the others.
pub fn differences(old: &str, new: &str) -> String {
    compare(old, new).iter().map(Line::shown).collect()
}

/// Like [`differences`], without lines that are far from a change. Empty if the texts have the same lines.
pub fn changes(old: &str, new: &str) -> String {
    let lines = compare(old, new);
    let is_change = |line: &Line<'_>| !matches!(line, Line::Both(_));
    let mut out = String::new();
    let mut is_omitted = false;
    for (at, line) in lines.iter().enumerate() {
        let near = at.saturating_sub(CONTEXT)..lines.len().min(at + CONTEXT + 1);
        if !lines[near].iter().any(is_change) {
            is_omitted = true;
            continue;
        }
        if std::mem::take(&mut is_omitted) {
            out.push_str("  ...\n");
        }
        out.push_str(&line.shown());
    }
    if out.is_empty() || !is_omitted {
        return out;
    }
    out + "  ...\n"
}

impl Line<'_> {
    fn shown(&self) -> String {
        match self {
            Line::Old(text) => format!("- {text}\n"),
            Line::New(text) => format!("+ {text}\n"),
            Line::Both(text) => format!("  {text}\n"),
        }
    }
}

fn compare<'a>(old: &'a str, new: &'a str) -> Vec<Line<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    // Most changes are in one place.
    let equal = |(a, b): &(&&str, &&str)| a == b;
    let head = old.iter().zip(&new).take_while(equal).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest
        .iter()
        .rev()
        .zip(new_rest.iter().rev())
        .take_while(equal)
        .count();
    let old_middle = &old_rest[..old_rest.len() - tail];
    let new_middle = &new_rest[..new_rest.len() - tail];
    let mut lines: Vec<Line<'a>> = old[..head].iter().map(|line| Line::Both(line)).collect();
    let (mut a, mut b) = (0, 0);
    let same = common(old_middle, new_middle);
    for (in_old, in_new) in same
        .into_iter()
        .chain([(old_middle.len(), new_middle.len())])
    {
        lines.extend(old_middle[a..in_old].iter().map(|line| Line::Old(line)));
        lines.extend(new_middle[b..in_new].iter().map(|line| Line::New(line)));
        lines.extend(old_middle.get(in_old).map(|line| Line::Both(line)));
        (a, b) = (
            (in_old + 1).min(old_middle.len()),
            (in_new + 1).min(new_middle.len()),
        );
    }
    let end = &old_rest[old_rest.len() - tail..];
    lines.extend(end.iter().map(|line| Line::Both(line)));
    lines
}

/// Pairs of equal lines in order. Looks only a few lines ahead on both sides, so that large texts take no longer.
fn common(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    const AHEAD: usize = 64;
    let mut pairs = Vec::new();
    let (mut a, mut b) = (0, 0);
    while a < old.len() && b < new.len() {
        let near = (0..AHEAD).flat_map(|sum| (0..=sum).map(move |i| (i, sum - i)));
        let found = near
            .map(|(i, j)| (a + i, b + j))
            .find(|(i, j)| old.get(*i).is_some_and(|line| new.get(*j) == Some(line)));
        match found {
            Some((i, j)) => {
                pairs.push((i, j));
                (a, b) = (i + 1, j + 1);
            }
            None => (a, b) = (a + 1, b + 1),
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_show_both_texts() {
        assert_eq!(
            differences("a {\n b\nc\n}\n", "a {\n\tb\n\tc\n}\n\n"),
            "  a {\n-  b\n- c\n+ \tb\n+ \tc\n  }\n+ \n"
        );
        assert_eq!(differences("a\n", "a\n"), "  a\n");
        assert_eq!(differences("", "a\n"), "+ a\n");
        assert_eq!(
            differences("x\na\ny\n", "x\na\na\ny\n"),
            "  x\n  a\n+ a\n  y\n"
        );
    }

    #[test]
    fn changes_leave_out_what_is_far_from_them() {
        let old: String = (0..1000).map(|number| format!("{number}\n")).collect();
        assert_eq!(changes(&old, &old), "");
        let many: String = (0..200).map(|number| format!("x{number}\n")).collect();
        let new = old.replace("\n500\n", &format!("\n{many}500\n"));
        let shown = changes(&old, &new);
        assert!(
            shown.starts_with("  ...\n  497\n  498\n  499\n+ x0\n"),
            "{shown}"
        );
        assert!(
            shown.ends_with("+ x199\n  500\n  501\n  502\n  ...\n"),
            "{shown}"
        );
        assert_eq!(changes("", "a\n"), "+ a\n");
    }
}
