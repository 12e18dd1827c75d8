//! Suggests the candidate that a misspelt word most likely stands for. The callers provide the candidates.

use alloc::vec::Vec;

/// The candidate closest to `word`, if any is close: at most a third of the word's characters are
/// inserted, deleted, replaced or swapped with their neighbour. Case is not counted. Of equally
/// close ones the first wins.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().flat_map(char::to_lowercase).collect();
    let distance_max = word.len() / 3;
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates {
        let chars: Vec<char> = candidate.chars().flat_map(char::to_lowercase).collect();
        if chars.len().abs_diff(word.len()) > distance_max {
            continue;
        }
        let found = distance(&word, &chars);
        if found <= distance_max && best.is_none_or(|(least, _)| found < least) {
            best = Some((found, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Damerau and Levenshtein's distance in its restricted form: no part is edited twice.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = Vec::with_capacity(to.len() + 1);
        row.push(i + 1);
        for (j, b) in to.iter().enumerate() {
            let replaced = last[j] + usize::from(a != b);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                least = least.min(before_last[j - 1] + 1);
            }
            row.push(least);
        }
        before_last = core::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 5] = ["reverse_proxy", "respond", "root", "route", "log"];

    #[test]
    fn close_words_are_found() {
        assert_eq!(closest("reverse_prxy", WORDS), Some("reverse_proxy"));
        assert_eq!(closest("repsond", WORDS), Some("respond"));
        assert_eq!(closest("ROOT", WORDS), Some("root"));
        assert_eq!(closest("lgo", WORDS), Some("log"));
    }

    #[test]
    fn distant_words_are_not_guessed() {
        assert_eq!(closest("proxy", WORDS), None);
        assert_eq!(closest("", WORDS), None);
        assert_eq!(closest("xy", WORDS), None);
    }

    #[test]
    fn a_swap_counts_once() {
        assert_eq!(distance(&['a', 'b'], &['b', 'a']), 1);
        assert_eq!(distance(&[], &['b', 'a']), 2);
    }
}
