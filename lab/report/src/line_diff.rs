//! The lines in which two configurations differ.

/// Longest texts that are compared: the comparison takes memory and time with the product of their lengths.
const LINES_MAX: usize = 2_000;

/// The lines of `before` that `after` does not have, with `- `, and those that it has instead, with `+ `. Lines that are equal in
/// both are omitted. `None` if a text is too long to compare.
pub fn line_diff(before: &str, after: &str) -> Option<Vec<String>> {
    let (one, two): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    if one.len() > LINES_MAX || two.len() > LINES_MAX {
        return None;
    }
    // Length of the longest common subsequence of the rests that begin at each pair of lines.
    let width = two.len() + 1;
    let mut common = vec![0_u16; (one.len() + 1) * width];
    for i in (0..one.len()).rev() {
        for j in (0..two.len()).rev() {
            common[i * width + j] = match one[i] == two[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while i < one.len() || j < two.len() {
        let removed = i < one.len()
            && (j == two.len() || common[(i + 1) * width + j] >= common[i * width + j + 1]);
        if i < one.len() && j < two.len() && one[i] == two[j] {
            (i, j) = (i + 1, j + 1);
        } else if removed {
            out.push(format!("- {}", one[i].trim()));
            i += 1;
        } else {
            out.push(format!("+ {}", two[j].trim()));
            j += 1;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_differ_are_listed() {
        let diff = |one: &str, two: &str| line_diff(one, two).unwrap();
        assert_eq!(diff("a\nb\nc", "a\nb\nc"), [""; 0]);
        assert_eq!(diff("a\nb\nc", "a\nx\nc\nd"), ["- b", "+ x", "+ d"]);
        assert_eq!(diff("", "a"), ["+ a"]);
        assert_eq!(diff("\ta on;\n}", "}"), ["- a on;"]);
        assert_eq!(diff("a\na\nb", "a\nb\na"), ["- a", "+ a"]);
        assert_eq!(line_diff(&"x\n".repeat(LINES_MAX + 1), "x"), None);
    }
}
